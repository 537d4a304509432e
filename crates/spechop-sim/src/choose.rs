//! Which setting would have been the best one for the last questions: they are played by each.
//!
//! No closed form tells. What a width is worth depends on the salvage, what planning ahead is worth on
//! which sub-questions name the answer of an earlier one, and what gating is worth on both.

use std::num::NonZeroUsize;

use spechop_window::{Policy, Weighing, Width};

use crate::{History, Rules, WhatIf, what_if};

/// What a target call that was begun for nothing may be taken to cost, as shares of the time that a
/// right guess hides.
const PRICES: [f64; 7] = [0.0, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0];

/// Hops that must have been seen before anything is chosen.
const HOPS_MIN: u64 = 24;
/// Most hops between two choices. In between there are as many as a quarter of those that were seen.
const HOPS_MAX: u64 = 240;

/// Which parts of a setting somebody has fixed. The others are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// The width.
    pub k: Option<NonZeroUsize>,
    /// The largest width that may be chosen of those that were played.
    pub k_max: Option<NonZeroUsize>,
    /// Whether planning goes ahead without a guess.
    pub plan_ahead: Option<bool>,
    /// Nothing is weighed: the gate of the policy decides alone.
    pub gate: bool,
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// Share of the cost up to which a setting is as good as the best one, if it makes fewer target calls.
    pub tolerance: f64,
    /// What an additional target call of a question must save, as a share of its latency at k = 1.
    pub worth: f64,
    /// Most target calls of a question, for each one at k = 1. If every setting makes more, the one with the
    /// fewest is taken.
    pub calls_max: f64,
    /// Share of time, from 0 to 1, in which there is no room for speculation.
    pub load: f64,
}

/// The last questions by every setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    settings: Vec<Played>,
    /// Target calls of a question at k = 1.
    standard: f64,
}

/// The last questions by one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// Its width.
    pub k: NonZeroUsize,
    /// Whether planning went ahead without a guess.
    pub plan_ahead: bool,
    /// What guesses were weighed by.
    pub weighing: Weighing,
    /// What came of it.
    pub means: WhatIf,
}

impl Choices {
    /// Whether it is time to play the last questions, if so many hops were seen, and so many when it was done
    /// last.
    pub fn are_due(hops: u64, last: u64) -> bool {
        hops >= last + (last / 4).clamp(HOPS_MIN, HOPS_MAX)
    }

    /// Plays the last questions by every width from 2 to `k_max`, with planning ahead and without, for
    /// every price; nothing of it that is fixed in `rules.policy`: with its gate as it is, and without
    /// salvage there is no planning ahead. Widths beyond the longest question are left out.
    /// **Computes** for milliseconds.
    pub fn of(history: &History, rules: Rules, k_max: NonZeroUsize, fixed: Fixed) -> Self {
        let longest = history.questions().map(|past| past.hops.len()).max();
        let Some(longest) = longest.filter(|hops| *hops > 0) else {
            return Self::default();
        };
        let widest = k_max.get().min(longest + 1);
        let none = Weighing {
            calibration: history.calibration(),
            hidden: history.hidden(),
            ..Weighing::NONE
        };
        let ahead = match fixed.plan_ahead {
            Some(ahead) => vec![ahead],
            None => vec![false, true],
        };
        let prices = if fixed.gate { &PRICES[..1] } else { &PRICES };
        let mut settings = Vec::new();
        for k in (2..=widest).filter_map(NonZeroUsize::new) {
            if fixed.k.is_some_and(|only| only != k) {
                continue;
            }
            let ahead = ahead.iter().copied();
            for plan_ahead in ahead.filter(|ahead| !ahead || rules.policy.salvages()) {
                for share in prices {
                    let price = share * f64::from(none.hidden.after(0.0));
                    let weighing = Weighing {
                        price_ms: price.round() as u32,
                        ..none
                    };
                    settings.push((k, plan_ahead, weighing));
                }
            }
        }
        let standard = Rules::paper(Width::STANDARD);
        let all = settings.iter().map(|(k, plan_ahead, weighing)| Rules {
            width: Width::bounded(*k),
            policy: Policy {
                plan_ahead: *plan_ahead,
                weighing: *weighing,
                ..rules.policy
            },
            ..rules
        });
        let recorded = history.recorded();
        let mut played = what_if(&recorded.traces, [standard].into_iter().chain(all)).into_iter();
        let standard = played.next().map_or(0.0, |standard| standard.targets);
        let played = settings.into_iter().zip(played);
        Self {
            standard,
            settings: played
                .map(|((k, plan_ahead, weighing), means)| Played {
                    k,
                    plan_ahead,
                    weighing,
                    means,
                })
                .collect(),
        }
    }

    /// The last questions by this setting, without drafts and with one for each hop, which is as likely as
    /// `rules` say. `None` without a question.
    pub fn drafted(history: &History, rules: Rules, at: &Played) -> Option<[WhatIf; 2]> {
        let recorded = history.recorded();
        let rules = [0, 1].map(|drafts_max| Rules {
            width: Width::bounded(at.k),
            policy: Policy {
                plan_ahead: at.plan_ahead,
                weighing: at.weighing,
                drafts_max,
                ..rules.policy
            },
            ..rules
        });
        let played = what_if(&recorded.traces, rules);
        played.try_into().ok()
    }

    /// All of them.
    pub fn settings(&self) -> &[Played] {
        &self.settings
    }

    /// The setting with the fewest target calls among those that are as good as the best one, by
    /// what is fixed and with no more calls than may be. `None` if none was played by that.
    pub fn best(&self, fixed: Fixed, wanted: Wanted) -> Option<&Played> {
        let allowed = || {
            let all = self.settings.iter();
            all.filter(|at| {
                fixed.k.is_none_or(|k| k == at.k)
                    && fixed.k_max.is_none_or(|most| at.k <= most)
                    && fixed.plan_ahead.is_none_or(|ahead| ahead == at.plan_ahead)
                    && (!fixed.gate || at.weighing.price_ms == 0)
            })
        };
        let targets = |at: &Played| at.means.targets;
        let fewest = allowed().map(targets).min_by(f64::total_cmp)?;
        let most = fewest.max(wanted.calls_max * self.standard);
        let allowed = || allowed().filter(|at| targets(at) <= most);
        let cost = |at: &Played| self.cost(at, wanted);
        let best = allowed().map(cost).min_by(f64::total_cmp)?;
        let good = allowed().filter(|at| cost(at) <= best * (1.0 + wanted.tolerance));
        // Of as many calls, the dearest: on the next questions it makes the fewest.
        good.min_by(|a, b| {
            let targets = a.means.targets.total_cmp(&b.means.targets);
            let price = b.weighing.price_ms.cmp(&a.weighing.price_ms);
            targets.then(price).then(cost(a).total_cmp(&cost(b)))
        })
    }

    /// Whether a setting makes no more target calls than may be.
    pub fn fits(&self, at: &Played, wanted: Wanted) -> bool {
        at.means.targets <= wanted.calls_max * self.standard
    }

    /// Whether a setting saves at least so much of the latency at k = 1, after the price of the calls.
    pub fn is_worth_it(&self, at: &Played, wanted: Wanted, min_gain: f64) -> bool {
        1.0 - self.cost(at, wanted) >= min_gain
    }

    /// Latency and the price of the calls, as a share of the latency at k = 1.
    pub fn cost(&self, at: &Played, wanted: Wanted) -> f64 {
        let further = (at.means.targets - self.standard).max(0.0);
        let saved = 1.0 - (at.means.rel_lat + wanted.worth * further);
        1.0 - (1.0 - wanted.load) * saved
    }

    /// Target calls of a question at k = 1.
    pub fn standard_targets(&self) -> f64 {
        self.standard
    }
}
