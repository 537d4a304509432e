//! The window: its laws under random schedules, and its decisions as stories.

mod beyond;
mod drafts;
mod properties;
mod siblings;
mod story;
mod table;
mod world;
