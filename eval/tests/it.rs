//! The harness.

mod brought;
mod bundles;
mod choice;
mod choosing;
mod datasets;
mod live;
mod load;
mod recorded;
mod recorder;
mod recording;
mod report;
mod retrieval;
mod score;
mod support;
