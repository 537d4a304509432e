//! The speculation window: which branches may run ahead, and which are final.
//!
//! Pure: no I/O, no clock, no tasks. A driver feeds in [`Event`]s and carries out the [`Effect`]s
//! in their order, so a test can replay any interleaving, and whatever is simulated is what runs.
//!
//! The window of one question is a chain of branches, head first. The head's prefix is committed;
//! every later branch stands on what its predecessor *took for granted*: a guess, or an
//! observation that arrived before its guess. [`laws`] says what always holds.
//!
//! Source: SpecHop (arXiv 2605.21965), algorithm 2. Line 13 is read as "does *not* contain a final
//! answer".

mod branch;
mod event;
pub mod laws;
mod settle;
mod width;
mod window;

pub use event::{Effect, Event, Stop};
pub use width::Width;
pub use window::{Limits, Window};
