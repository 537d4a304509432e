//! Whether planning ahead pays: the last questions are played with it and without it.
//!
//! No closed form tells. It depends on which sub-questions name the answer of an earlier one, and on how
//! often there is no guess; the simulator plays both over the questions as they were.

use spechop_agent::{Policy, Width};
use spechop_sim::{Rules, WhatIf, what_if};
use spechop_theory::TunerOptions;
use spechop_types::Owned;

use super::{TuningOf, Tunings};

/// Hops that must have been seen before anything is decided, and between two decisions.
const HOPS_MIN: u64 = 24;

/// Planning ahead may make so many target calls for each one that is made without it.
const TARGETS_MAX: f64 = 1.25;

/// What planning ahead would have done to the last questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ahead {
    /// Whether it is done, if nobody says otherwise.
    pub(crate) pays: bool,
    /// RelLat of the last questions without it.
    pub(crate) without: f64,
    /// RelLat of the last questions with it.
    pub(crate) with: f64,
}

impl Ahead {
    /// Whoever has begun it goes on for as long as it saves anything at all: so it does not come and go.
    fn decide(self, [without, with]: [&WhatIf; 2], options: &TunerOptions) -> Self {
        let least = if self.pays { 0.0 } else { options.min_gain };
        let further = (with.targets - without.targets).max(0.0);
        let saved = without.rel_lat - with.rel_lat;
        Self {
            pays: saved > least.max(further * options.worth)
                && with.targets <= TARGETS_MAX * without.targets,
            without: without.rel_lat,
            with: with.rel_lat,
        }
    }
}

impl Tunings {
    /// Whether planning ahead pays, as far as is known.
    pub(crate) fn ahead(&self, of: &TuningOf) -> Ahead {
        let known = self.lock().seen.peek(of).map(|seen| seen.ahead);
        known.unwrap_or_default()
    }

    /// Whether it is time to [decide](Self::weigh_ahead) anew.
    pub(crate) fn is_ahead_due(&self, of: &TuningOf) -> bool {
        let tunings = self.lock();
        let seen = tunings.seen.peek(of);
        seen.is_some_and(|seen| seen.hops >= seen.ahead_at + HOPS_MIN)
    }

    /// Plays the last questions with planning ahead and without it. **Computes** for milliseconds.
    pub(crate) fn weigh_ahead(&self, of: &TuningOf, policy: Policy, orphan_ms: f64) {
        let width = Width::bounded(self.choice(of).k);
        let guess_chance = self.guess_chance(of);
        let recorded = self.history(of).recorded();
        let rules = [false, true].map(|plan_ahead| Rules {
            orphan_ms,
            guess_chance,
            ..Rules::new(
                width,
                Policy {
                    plan_ahead,
                    ..policy
                },
            )
        });
        let played = what_if(&recorded.traces, rules);
        let [without, with] = &played[..] else {
            return;
        };
        let Owned { tenant, item } = of;
        let mut tunings = self.lock();
        let Some(seen) = tunings.seen.get(of) else {
            return;
        };
        let before = seen.ahead;
        seen.ahead = before.decide([without, with], &self.options);
        seen.ahead_at = seen.hops;
        let now = seen.ahead;
        drop(tunings);
        if now.pays != before.pays {
            tracing::info!(
                %tenant,
                speculator = item.as_str(),
                pays = now.pays,
                rel_lat_without = now.without,
                rel_lat_with = now.with,
                "planning ahead weighed"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use spechop_sim::{Past, PastGuess, PastHop};
    use spechop_theory::Stages;
    use spechop_types::Tenant;

    use super::*;
    use crate::config::SpeculatorKind;

    /// Questions of two hops that nobody could guess; the second names the answer of the first, or not.
    fn taught(depends: bool) -> (Tunings, TuningOf) {
        let most = NonZeroUsize::new(100).unwrap();
        let tunings = Tunings::new(TunerOptions::default(), most);
        let of = Owned::new(&Tenant::default(), SpeculatorKind::Hot);
        let stages = Stages {
            segment: Some(0.2),
            target: Some(2.0),
            speculation: Some(0.1),
            accepted: Some(false),
        };
        let hop = |depends_on: &[u32]| PastHop {
            draft_held: None,
            segment_ms: 200.0,
            target_ms: 2000.0,
            guess: PastGuess::NoIdea { ms: 100.0 },
            depends_on: Some(depends_on.into()),
        };
        for _ in 0..12 {
            let past = Past {
                hops: vec![hop(&[]), hop(if depends { &[1] } else { &[] })],
                final_ms: 200.0,
            };
            tunings.learn(of.clone(), most, &[stages, stages], past, []);
        }
        (tunings, of)
    }

    #[test]
    fn it_pays_where_sub_questions_do_not_wait_for_answers() {
        let policy = Policy {
            orphans_max: 8,
            ..Policy::PAPER
        };
        for (depends, pays) in [(false, true), (true, false)] {
            let (tunings, of) = taught(depends);
            assert_eq!(tunings.ahead(&of), Ahead::default());
            assert!(tunings.is_ahead_due(&of));
            tunings.weigh_ahead(&of, policy, 10_000.0);
            let ahead = tunings.ahead(&of);
            assert_eq!(ahead.pays, pays, "{ahead:?}");
            assert!(!tunings.is_ahead_due(&of));
        }
    }

    fn played(rel_lat: f64, targets: f64) -> WhatIf {
        WhatIf {
            width: Width::STANDARD,
            rel_lat,
            latency_ms: 1000.0 * rel_lat,
            segments: 0.0,
            targets,
            speculations: 0.0,
            salvaged: 0.0,
        }
    }

    #[test]
    fn it_must_save_something_to_begin_and_may_then_go_on() {
        let options = TunerOptions {
            min_gain: 0.02,
            worth: 0.0,
            ..TunerOptions::default()
        };
        let without = played(0.80, 2.0);
        for (with, targets, begins, goes_on) in [
            (0.70, 2.0, true, true),
            (0.79, 2.0, false, true),
            (0.81, 2.0, false, false),
            (0.40, 2.6, false, false),
        ] {
            for (pays, expected) in [(false, begins), (true, goes_on)] {
                let before = Ahead {
                    pays,
                    ..Ahead::default()
                };
                let now = before.decide([&without, &played(with, targets)], &options);
                assert_eq!(now.pays, expected, "{with} {targets} {pays}");
            }
        }
    }

    #[test]
    fn what_calls_are_worth_is_paid_for() {
        let options = TunerOptions {
            min_gain: 0.02,
            worth: 0.5,
            ..TunerOptions::default()
        };
        let ahead = Ahead::default();
        let decide = |targets| ahead.decide([&played(0.8, 2.0), &played(0.7, targets)], &options);
        assert!(decide(2.1).pays);
        assert!(!decide(2.3).pays);
    }
}
