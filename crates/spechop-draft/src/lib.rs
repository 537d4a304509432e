//! A drafter ([`spechop_ports::Drafter`]): guesses the next sub-question while the planner writes it.
//!
//! A *form* is a text with its names taken out: `When did the director of film {q1} die?`. A *pattern* says
//! what is asked after what: the form of the question, the forms of the hops so far and whether each
//! found something, then the form of the next sub-question, with counts. Slots say where its names
//! come from. This is PASTE's tuple of context, next call, mapping and chance (arXiv 2603.18897, section
//! 4), with one kind of call.
//!
//! Patterns are mined offline ([`mine`]). The shipped ones ([`Patterns::shipped`]) are of the planner's
//! training questions. [`PatternDrafter`] also learns from the hops that it is told of, for each
//! tenant alone.
//!
//! Pure: no I/O, no clock. Only drafts in the planner's very words are of use, so everything is compared
//! byte for byte.

mod after;
mod check;
mod drafter;
mod form;
mod mine;
mod outline;
mod own;
mod patterns;
mod read;
mod sealed;
mod step;

pub use check::{Score, Segment, check, segments, trajectories};
pub use drafter::{PatternDrafter, Taught};
pub use form::{Form, InvalidForm};
pub use mine::{MineError, MineOptions, Mined, Report, mine};
pub use own::{LearntPatterns, Lesson};
pub use patterns::{PatternRow, Patterns};
pub use read::{ReadError, Traces, read_bundle, read_trajectories};
pub use sealed::{FORMAT, PatternError};

/// A question that has been taken apart: what `spechop patterns mine` reads, one a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trajectory {
    /// The question as asked.
    pub question: String,
    /// Its look-ups in order.
    pub hops: Vec<Lookup>,
}

/// One look-up of a [`Trajectory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What was asked.
    pub sub_question: String,
    /// What later hops build on.
    pub answer: String,
    /// False if nothing was found.
    pub found: bool,
}

/// Most hops that are looked at. No budget of the server is larger by default.
pub(crate) const HOPS_MAX: usize = 8;
/// Longest draft, in bytes: the planner's sub-questions have 64 tokens at most.
pub const DRAFT_BYTES_MAX: usize = 400;
