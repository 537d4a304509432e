//! Who goes first: one rule for every queue behind the ports.

use std::cmp::Reverse;

use spechop_types::Chance;

use crate::Lane;

/// How urgent a call is beside others that wait for the same thing. The greater goes first: needed
/// calls before speculative ones, then the likelier to be used, then the earlier arrival.
///
/// It holds for the moment it was [asked for](crate::Call::urgency): a waiting call can be promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency {
    // The order of the fields is the order of the comparison.
    lane: Lane,
    chance: Chance,
    arrival: Reverse<u64>,
}

impl Urgency {
    /// `arrival` numbers the calls of one queue in the order in which they came.
    pub(crate) fn new(lane: Lane, chance: Chance, arrival: u64) -> Self {
        let chance = match lane {
            // What its chance was while it was speculative is history.
            Lane::Authoritative => Chance::CERTAIN,
            Lane::Speculative => chance,
        };
        Self {
            lane,
            chance,
            arrival: Reverse(arrival),
        }
    }

    /// The call's lane at that moment.
    pub fn lane(self) -> Lane {
        self.lane
    }
}

#[cfg(test)]
mod tests {
    use crate::Call;

    use super::*;

    #[test]
    fn needed_before_likely_before_early() {
        let call = |lane, share| Call::new(lane, Chance::of(share));
        let promoted = call(Lane::Speculative, 0.1);
        let calls = [
            call(Lane::Speculative, 0.2),
            call(Lane::Speculative, 0.9),
            promoted.clone(),
            call(Lane::Speculative, 0.9),
            call(Lane::Authoritative, 0.0),
        ];
        let order = || {
            let mut waiting: Vec<u64> = (0..5).collect();
            waiting.sort_by_key(|at| Reverse(calls[*at as usize].urgency(*at)));
            waiting
        };
        assert_eq!(order(), [4, 1, 3, 0, 2]);
        promoted.promote();
        // By arrival among the needed: it came before the other one.
        assert_eq!(order(), [2, 4, 1, 3, 0]);
    }
}
