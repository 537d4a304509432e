//! The window on a virtual clock: the paper's discrete-event simulator, over recorded or drawn
//! stage times.
//!
//! It is a driver of [`spechop_window::Window`] like the agent, and nothing else: whatever is
//! simulated is what runs.

mod draw;
mod run;
mod trace;

pub use draw::Draw;
pub use run::{CallCounts, Outcome, Simulator};
pub use trace::{Hop, InvalidTrace, Trace, read_traces};
