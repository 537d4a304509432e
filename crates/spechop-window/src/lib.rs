//! The speculation window: which branches may run ahead, and which are final.
//!
//! Pure: no I/O, no clock, no tasks. A driver feeds in [`Event`]s and carries out the [`Effect`]s
//! in their order, so a test can replay any interleaving, and whatever is simulated is what runs.
//!
//! The window of one question is a tree of branches rooted in the head, and a chain where a hop has
//! one guess at most. The head's prefix is committed; every later branch stands on what it takes
//! its parent's answer to be: a guess, an observation that arrived before its guess, or an answer
//! that is left open. What a branch looks up is apart from it, so that the look-up of an aborted
//! branch can be taken over by another one that asks the same. [`laws`] says what always holds.
//!
//! Source: SpecHop (arXiv 2605.21965), algorithm 2, which [`Policy::PAPER`] is. Line 13 is read as
//! "does *not* contain a final answer".

mod branch;
mod event;
mod extend;
pub mod laws;
mod limits;
mod lookup;
mod reuse;
mod settle;
mod width;
mod window;

pub use event::{Effect, Event, Guess, Stop};
pub use extend::OPEN_ANSWER;
pub use limits::{Limits, Policy};
pub use width::Width;
pub use window::Window;
