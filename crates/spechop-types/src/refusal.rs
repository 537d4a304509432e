//! Why work was not done ahead of need.

use std::fmt;
use std::ops::{Index, IndexMut};

/// Why work ahead of need was not begun, or not done to its end. It costs time and never an answer:
/// what turns out to be needed is done then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The eligibility policy does not let the tool be called ahead of need.
    Denied,
    /// It waited for a place until it was of no use any more.
    NoPlace,
    /// It had a turn, and made room for a call that an answer needed: its place, or its cores.
    Preempted,
    /// It had a place, and the backend asked for less.
    PushedBack,
    /// The rest of the question's budget is kept for what the answer needs.
    Budget,
    /// The branch was less likely to be needed than the gate (`chance_min`) or what its guess was weighed
    /// by demands.
    Unlikely,
    /// There was a place for it, but no idle core of this machine until it was of no use any more.
    NoCore,
}

impl Refusal {
    /// Every reason, for tables.
    pub const ALL: [Self; 7] = [
        Self::Denied,
        Self::NoPlace,
        Self::Preempted,
        Self::PushedBack,
        Self::Budget,
        Self::Unlikely,
        Self::NoCore,
    ];

    /// The reason's name in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::NoPlace => "no_place",
            Self::Preempted => "preempted",
            Self::PushedBack => "pushed_back",
            Self::Budget => "budget",
            Self::Unlikely => "unlikely",
            Self::NoCore => "no_core",
        }
    }
}

impl fmt::Display for Refusal {
    /// A few words for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied => "the policy denies it",
            Self::NoPlace => "no place was free",
            Self::Preempted => "its turn was needed",
            Self::PushedBack => "the backend asked for less",
            Self::Budget => "the budget is kept for what is needed",
            Self::Unlikely => "too unlikely to be needed",
            Self::NoCore => "no core was idle",
        })
    }
}

/// How often work was refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// Every reason with its number, zeros included.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        Refusal::ALL.into_iter().map(|why| (why, self[why]))
    }

    /// For all reasons together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<Refusal> for Refusals {
    type Output = u64;

    fn index(&self, why: Refusal) -> &u64 {
        &self.0[why as usize]
    }
}

impl IndexMut<Refusal> for Refusals {
    fn index_mut(&mut self, why: Refusal) -> &mut u64 {
        &mut self.0[why as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_number_and_a_name_of_its_own() {
        let mut refusals = Refusals::default();
        for (n, why) in (1..).zip(Refusal::ALL) {
            refusals[why] += n;
        }
        let listed: Vec<_> = refusals.iter().collect();
        let expected: Vec<_> = Refusal::ALL.into_iter().zip(1..).collect();
        assert_eq!(listed, expected);
        assert_eq!(refusals.total(), 28);
        let names: std::collections::BTreeSet<_> = Refusal::ALL.map(Refusal::as_str).into();
        assert_eq!(names.len(), Refusal::ALL.len());
    }
}
