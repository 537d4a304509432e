//! The words of callers and lanes: what a call is, where it stands, and what is decided about it.

use std::num::NonZeroUsize;

use smallvec::SmallVec;

use crate::bucket::Rate;

/// What a backend can take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls at once.
    pub capacity: NonZeroUsize,
    /// Calls in time.
    pub rate: Option<Rate>,
    /// Speculative calls at once; zero for none.
    pub speculative_max: usize,
}

/// How urgent a call is when it arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rank {
    /// The answer needs it: in the order in which that became so.
    Authoritative,
    /// The answer may need it: the highest utility first, then in order of arrival.
    Speculative {
        /// What is to be gained from it for its price. Negative and undefined ones count as zero.
        utility: f32,
    },
}

/// One call, from arrival to end. Never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(crate) arrival: u64,
    pub(crate) slot: u32,
    /// Of a [`crate::Group`]: the member whose call it is. Zero for lanes on their own.
    pub(crate) member: u32,
}

impl Ticket {
    /// A small number that no other living call has.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// What a caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is the call's turn; it runs from now on.
    Start(Ticket),
    /// The call has to make room: drop it, then let it [`crate::Lanes::leave`]. Ask for its
    /// [`crate::Lanes::phase`] before: a promotion may have come between.
    Preempt(Ticket),
}

/// The decisions of one step: hardly ever more than a call that starts and one that ends.
pub type Decisions = SmallVec<[Decision; 4]>;

/// How a call ended that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer: its time says how fast the backend is.
    Answered,
    /// Without: its time says nothing.
    Failed,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// For its turn.
    Waiting,
    /// It has its turn.
    Running,
    /// It is to be dropped, and still holds its place.
    Ending,
    /// It has ended or left.
    Gone,
}
