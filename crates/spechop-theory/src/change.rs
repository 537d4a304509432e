//! Whether guesses have become better or worse.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Comparisons that are looked back upon.
const LOOK_BACK: usize = 512;
/// Fewest comparisons on either side of a change.
const SIDE_MIN: usize = 8;
/// Twice the log likelihood ratio from which a change is believed. χ² with one degree of freedom passes it
/// once in 40,000 times; every split is tried after every question, so a steady speculator is
/// suspected more often than that, and what it costs is a few comparisons that are learnt again.
const BELIEVED: f64 = 18.0;

/// The last comparisons, oldest first, all of them of one quality.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Verdicts(VecDeque<bool>);

impl Verdicts {
    pub(crate) fn push(&mut self, accepted: bool) {
        if self.0.len() == LOOK_BACK {
            self.0.pop_front();
        }
        self.0.push_back(accepted);
    }

    /// Whether so many can have been kept.
    pub(crate) fn is_sensible(&self) -> bool {
        self.0.len() <= LOOK_BACK
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        self.0.iter().copied()
    }

    /// Looks for the moment at which the share of right guesses changed, and forgets what was before
    /// it. Returns how many comparisons are left, if there was one.
    pub(crate) fn forget_what_changed(&mut self) -> Option<usize> {
        let count = self.0.len();
        let hits = self.iter().filter(|hit| *hit).count();
        let steady = log_likelihood(hits, count);
        let mut best = (BELIEVED, 0);
        let mut before = 0;
        for (at, hit) in (1..).zip(self.iter()) {
            before += usize::from(hit);
            if at < SIDE_MIN || at + SIDE_MIN > count {
                continue;
            }
            let changed = log_likelihood(before, at) + log_likelihood(hits - before, count - at);
            let ratio = 2.0 * (changed - steady);
            if ratio > best.0 {
                best = (ratio, at);
            }
        }
        self.0.drain(..best.1);
        (best.1 > 0).then_some(self.0.len())
    }
}

/// Of so many hits, at the share that makes them likeliest.
fn log_likelihood(hits: usize, of: usize) -> f64 {
    let term = |n: usize| {
        if n == 0 {
            return 0.0;
        }
        n as f64 * (n as f64 / of as f64).ln()
    };
    term(hits) + term(of - hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::spread;

    /// `count` comparisons of which about p are hits.
    fn feed(verdicts: &mut Verdicts, p: f64, count: u64, seed: u64) -> usize {
        let unit = |at: u64| spread(seed * 100_000 + at) as f64 / u64::MAX as f64;
        let hits = (0..count).map(|at| unit(at) < p);
        hits.filter(|hit| {
            verdicts.push(*hit);
            verdicts.forget_what_changed().is_some()
        })
        .count()
    }

    #[test]
    fn a_change_is_seen_soon_and_steadiness_is_believed() {
        let mut alarms = 0;
        for seed in 1..=20 {
            let mut verdicts = Verdicts::default();
            alarms += feed(&mut verdicts, 0.6, 300, seed);
            feed(&mut verdicts, 0.1, 40, seed + 100);
            let share = verdicts.iter().filter(|hit| *hit).count() as f64;
            let share = share / verdicts.0.len() as f64;
            assert!(share < 0.3, "seed {seed}: still {share} after 40 at 0.1");
        }
        assert!(alarms <= 2, "{alarms} false alarms in 20 × 300 comparisons");
    }

    #[test]
    fn what_is_left_is_what_came_since_the_change() {
        let mut verdicts = Verdicts::default();
        (0..200).for_each(|_| verdicts.push(true));
        assert_eq!(verdicts.forget_what_changed(), None);
        (0..9).for_each(|_| verdicts.push(false));
        assert_eq!(verdicts.forget_what_changed(), Some(9));
        assert!(verdicts.iter().all(|hit| !hit));
        assert_eq!(verdicts.forget_what_changed(), None);
    }

    #[test]
    fn likelihood_of_the_sure_is_one() {
        assert_eq!(log_likelihood(0, 0), 0.0);
        assert_eq!(log_likelihood(0, 9), 0.0);
        assert_eq!(log_likelihood(9, 9), 0.0);
        assert!((log_likelihood(1, 2) - 2.0 * 0.5_f64.ln()).abs() < 1e-12);
    }
}
