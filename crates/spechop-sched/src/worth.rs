//! What a call ahead of need is worth: PASTE's utility, from measured times.
//!
//! U = p·T / (c·d) (PASTE, arXiv 2603.18897, equation 2). p is the chance that the result is used, T
//! the time that its use then saves, c the price of the call, d the time for which it holds a place.
//! T and d follow from the kind of call:
//!
//! | call ahead of need | T: what its use saves | d: what it takes | T/d |
//! |---|---|---|---|
//! | segment, retrieval, reading | itself: the answer would have waited for this call | itself | 1 |
//! | draft | the rest of the segment: the look-up begins with the draft, not with the sub-question | the draft | (segment − draft) / draft |
//! | guess | the rest of the target call: the branch goes on from the guess, not from the observation | the guess | (target − guess) / guess |
//!
//! For a guess, T is what SpecHop (arXiv 2605.21965) says a right one saves, (1 − α) · E\[target\]. A target call
//! is a retrieval and a reading; a guess may be made of several calls, too. Every time is a running
//! mean over the calls of its kind that were answered. Before all of them have been measured, T = d.
//!
//! The means are of all tenants together: they are load and say nothing of any question
//! ([`spechop_types::Owned`] has the rule).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use spechop_ports::Call;

/// What a call costs at least, so that no utility is without bound.
const COST_MIN: f32 = 1e-6;

/// How much of a new duration goes into the running mean.
const MEAN_STEP: f32 = 1.0 / 16.0;

/// Calls that do the same work, and so take about the same time. Clones are handles to one kind.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    time: MeanTime,
    saves: Saves,
}

/// What is saved when a call that was made ahead of need is used.
#[derive(Clone, Debug, Default)]
enum Saves {
    /// The call itself.
    #[default]
    Itself,
    /// The rest of a target call once the guess is there. Both are made of calls, one after the other.
    Rest {
        target: Arc<[MeanTime]>,
        guess: Arc<[MeanTime]>,
    },
}

impl Kind {
    /// The kinds of the `N` calls that a guess is made of, one after the other. `target` are those
    /// that a target call is made of; for a draft, which guesses what a segment brings, that segment.
    pub fn guess<const N: usize>(target: &[Self]) -> [Self; N] {
        let times: [MeanTime; N] = std::array::from_fn(|_| MeanTime::default());
        let target: Arc<[MeanTime]> = target.iter().map(|kind| kind.time.clone()).collect();
        let guess: Arc<[MeanTime]> = times.clone().into();
        times.map(|time| Self {
            time,
            saves: Saves::Rest {
                target: Arc::clone(&target),
                guess: Arc::clone(&guess),
            },
        })
    }

    /// A call of this kind was answered after `took`.
    pub(crate) fn took(&self, took: Duration) {
        self.time.add(took);
    }

    /// U = p·T / (c·d).
    pub(crate) fn utility(&self, call: &Call, cost: f32) -> f32 {
        call.chance().share_f32() * self.saved_per_second() / cost.max(COST_MIN)
    }

    /// T/d.
    fn saved_per_second(&self) -> f32 {
        let Saves::Rest { target, guess } = &self.saves else {
            return 1.0;
        };
        match (sum(target), sum(guess)) {
            // A guess that is no faster than what it stands in for saves nothing.
            (Some(target), Some(guess)) => ((target - guess) / guess).max(0.0),
            _ => 1.0,
        }
    }
}

/// Seconds of all together; `None` until each has been measured.
fn sum(times: &[MeanTime]) -> Option<f32> {
    times.iter().map(MeanTime::seconds).sum()
}

/// A running mean of durations. A lost update does no harm.
#[derive(Clone, Debug, Default)]
struct MeanTime(Arc<AtomicU32>);

impl MeanTime {
    fn seconds(&self) -> Option<f32> {
        let seconds = f32::from_bits(self.0.load(Relaxed));
        (seconds > 0.0).then_some(seconds)
    }

    fn add(&self, took: Duration) {
        let took = took.as_secs_f32().max(1e-9);
        let mean = match self.seconds() {
            Some(mean) => mean + (took - mean) * MEAN_STEP,
            None => took,
        };
        self.0.store(mean.to_bits(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use spechop_ports::Lane;
    use spechop_types::Chance;

    use super::*;

    fn utility(kind: &Kind, chance: f64, cost: f32) -> f32 {
        kind.utility(&Call::new(Lane::Speculative, Chance::of(chance)), cost)
    }

    fn check(kind: &Kind, chance: f64, cost: f32, expected: f32) {
        let utility = utility(kind, chance, cost);
        assert!(
            (utility - expected).abs() < 1e-4,
            "{utility}, not {expected}"
        );
    }

    #[test]
    fn what_saves_itself_is_worth_its_chance_for_its_price_however_long_it_takes() {
        for seconds in [None, Some(1), Some(60)] {
            let kind = Kind::default();
            if let Some(seconds) = seconds {
                kind.took(Duration::from_secs(seconds));
            }
            check(&kind, 0.6, 1.0, 0.6);
            check(&kind, 0.6, 4.0, 0.15);
        }
    }

    #[test]
    fn a_guess_is_worth_the_rest_of_the_target_call() {
        let (retrieval, reading) = (Kind::default(), Kind::default());
        let [search, read] = Kind::guess(&[retrieval.clone(), reading.clone()]);
        retrieval.took(Duration::from_secs(3));
        search.took(Duration::from_millis(400));
        read.took(Duration::from_millis(100));
        // The target's reading was never seen: nobody knows what a guess saves.
        check(&search, 0.5, 1.0, 0.5);
        reading.took(Duration::from_secs(1));
        // (4 s - 0.5 s) / 0.5 s, for each call of the guess.
        check(&search, 0.5, 1.0, 3.5);
        check(&read, 0.5, 0.2, 17.5);
        // As slow as the target call, it saves nothing.
        for _ in 0..200 {
            search.took(Duration::from_secs(10));
        }
        check(&search, 0.5, 1.0, 0.0);
    }
}
