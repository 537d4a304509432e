//! The circumstances of a call: is it needed, or might it be?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Who needs the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The answer may need it, if the guesses before it hold.
    Speculative,
    /// The answer needs it.
    Authoritative,
}

/// Passed along with every call, by reference; clones share the lane.
///
/// A call that waits for a turn asks [`Call::lane`] each time a turn is given away, so that a
/// promotion takes effect while it waits.
#[derive(Clone, Debug)]
pub struct Call {
    authoritative: Arc<AtomicBool>,
    depth: u32,
}

impl Call {
    /// A call in the given lane. `depth` is the number of unverified guesses it stands on.
    pub fn new(lane: Lane, depth: u32) -> Self {
        Self {
            authoritative: Arc::new(AtomicBool::new(lane == Lane::Authoritative)),
            depth,
        }
    }

    /// A call that the answer needs.
    pub fn authoritative() -> Self {
        Self::new(Lane::Authoritative, 0)
    }

    /// The lane, as of now.
    pub fn lane(&self) -> Lane {
        if self.authoritative.load(Relaxed) {
            Lane::Authoritative
        } else {
            Lane::Speculative
        }
    }

    /// Number of unverified guesses this call stood on when it was made. Among speculative calls
    /// the smaller depth goes first: it is the likelier to be used.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// What it stands on has been verified. There is no way back.
    pub fn promote(&self) {
        self.authoritative.store(true, Relaxed);
    }
}
