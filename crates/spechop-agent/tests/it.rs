//! What a driver of the window does, against scripted ports.

mod answer;
mod asking;
mod budget;
mod draft_writer;
mod drafts;
mod early;
mod estimates;
mod fates;
mod live_equals_simulated;
mod network;
mod profile;
mod providers;
mod refusals;
mod refused_drafts;
mod salvage;
mod traces;
mod wasted;
mod wire;
