//! The call of a slot, and a speculative call's place in the order of turns.

use std::time::Duration;

use spechop_types::Refusal;

use crate::ticket::Phase;

/// A speculative call in the order of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Speculating {
    /// The utility, turned round: the smallest is the best.
    pub(crate) worth: u32,
    pub(crate) arrival: u64,
    pub(crate) slot: u32,
}

/// Where a call is kept from its arrival to its end.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) arrival: u64,
    pub(crate) phase: Phase,
    pub(crate) authoritative: bool,
    /// Its place in [`crate::Lanes`]'s queue of needed calls, while it is there.
    pub(crate) queued: u64,
    /// See [`Speculating::worth`].
    pub(crate) worth: u32,
    /// Place in `speculating`, while it is there.
    pub(crate) at: u32,
    /// Why it is ending, while it is.
    pub(crate) lost_to: Refusal,
    pub(crate) started: Duration,
}

impl Slot {
    pub(crate) fn guess(&self, slot: u32) -> Speculating {
        Speculating {
            worth: self.worth,
            arrival: self.arrival,
            slot,
        }
    }
}

/// Numbers from zero up have the order of their bits; the complement turns it round.
pub(crate) fn worth(utility: f32) -> u32 {
    // `max` takes the number where the other one is none.
    !(utility.max(0.0) + 0.0).to_bits()
}
