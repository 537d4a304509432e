//! The window on a virtual clock: the paper's discrete-event simulator, over recorded or drawn
//! stage times.
//!
//! It is a driver of [`spechop_window::Window`] like the agent, and nothing else: whatever is
//! simulated is what runs.

mod choose;
mod draw;
mod drive;
mod history;
mod inject;
mod moments;
mod run;
mod texts;
mod trace;
mod weigh;

pub use choose::{Choices, Fixed, Played, Wanted};
pub use draw::{Chances, Draw, Shape};
pub use drive::{Clock, Stages};
pub use history::{
    History, Past, PastGuess, PastHop, Recorded, WhatIf, mentioned, what_if, what_if_while,
};
pub use inject::InjectedLatency;
pub use moments::{Moment, What};
pub use run::{CallCounts, Outcome, Rules, Simulator};
pub use trace::{Hop, InvalidTrace, Trace, read_shapes, read_traces};
pub use weigh::draft_chance;
