//! Which k a question should get, from how the questions before it went.
//!
//! The paper's part is the risk-adjusted bound: no window wider than [`k_epsilon`], which stands in for its
//! Corollary 5. What is ours: the expected saving of each k on questions as short as they are here
//! ([`Point`]), the stop at the window beyond which too little is left to save, the switching off and the probes, and
//! the forgetting when the speculator changes.
//!
//! Pure: no clock, no randomness. The same calls give the same choices.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::change::Verdicts;
use crate::curve::{HOPS_MAX, Point, Times, curve};
use crate::estimate::Seen;
use crate::reason::{Bound, Reason};
use crate::{Estimator, Interval, Setting, Stages, k_epsilon};

/// Hops whose times are remembered one by one.
const TIMES_MAX: usize = 64;
/// Questions whose lengths are remembered.
const LENGTHS_MAX: usize = 64;
/// Guesses after which the first choice is made.
const WARM_UP: u32 = 8;
/// Speculation is off only where not even the upper bound of p would save so many times what is
/// worth it. To rule out once would take 300 comparisons without a hit, all of them paid for.
const DOUBT: f64 = 3.0;
/// The share of time without room for speculation at which nothing is guessed, whatever it might save.
const FULL: f64 = 0.95;
/// The narrowest window that guesses.
pub const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// How a [`Tuner`] chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TunerOptions {
    /// k until enough is known.
    pub k_default: NonZeroUsize,
    /// Widest window. 1 switches speculation off for good.
    pub k_max: NonZeroUsize,
    /// Accepted chance that a full window waits, strictly between 0 and 1; with any other there is no such bound.
    pub epsilon: f64,
    /// What is not worth a wider window: all of them together must save more than this share of
    /// the latency. Speculation itself, too.
    pub min_gain: f64,
    /// What an additional target call of a question must save, as a share of its latency at
    /// k = 1. 0: calls cost nothing.
    pub worth: f64,
    /// Most target calls of a question, for each one at k = 1.
    pub calls_max: f64,
    /// Hops after which what was seen counts half.
    pub half_life: f64,
    /// While speculation is off, every so many-th question has it on.
    pub probe_every: u32,
}

/// What was chosen, and all that it was chosen by.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The window.
    pub k: NonZeroUsize,
    /// Why.
    pub reason: Reason,
    /// Share of guesses accepted, of those compared.
    pub p: Option<Interval>,
    /// E\[speculation\] / E\[target\]. A guess that came after the observation counts as having taken as long.
    pub alpha: Option<Interval>,
    /// E\[segment\] / E\[target\].
    pub beta: Option<Interval>,
    /// The estimates as a setting; `None` while one is missing.
    pub setting: Option<Setting>,
    /// The risk-adjusted bound; `None` without a setting.
    pub k_epsilon: Option<NonZeroUsize>,
    /// Share of the latency at k = 1 that is expected to be saved at this k, after the price of its calls
    /// and under the load of now.
    pub gain: f64,
    /// What every k up to `k_max` is expected to give. Wider ones than the longest of the last
    /// questions could use are left out.
    pub marginal: Vec<Point>,
}

/// Chooses k for one combination of generator, speculator and target.
#[derive(Clone, Debug)]
pub struct Tuner {
    options: TunerOptions,
    estimator: Estimator,
    lately: Lately,
}

/// What a [`Tuner`] has learnt: enough for another one, of a later process, to choose as it would.
///
/// Opaque; it is written and read by `serde`. Its numbers are to be kept to the last bit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Learnt {
    seen: Seen,
    lately: Lately,
}

/// The last of everything, one by one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Lately {
    verdicts: Verdicts,
    /// Of the last hops that were guessed.
    times: VecDeque<Times>,
    /// Hops of the last questions.
    lengths: VecDeque<usize>,
    /// Guesses seen so far, as far as the warm-up counts.
    guesses: u32,
    /// Questions since the last one that guessed.
    unprobed: u32,
}

impl Default for TunerOptions {
    fn default() -> Self {
        Self {
            k_default: TWO.saturating_add(1),
            k_max: TWO.saturating_add(6),
            epsilon: 0.05,
            min_gain: 0.01,
            worth: 0.0,
            calls_max: f64::INFINITY,
            half_life: 150.0,
            probe_every: 10,
        }
    }
}

impl Tuner {
    /// A tuner that knows nothing yet.
    pub fn new(options: TunerOptions) -> Self {
        Self {
            options,
            estimator: Estimator::new(options.half_life),
            lately: Lately::default(),
        }
    }

    /// A tuner that knows what another one had learnt. `None` if no tuner can have learnt that.
    pub fn resume(options: TunerOptions, learnt: Learnt) -> Option<Self> {
        let Learnt { seen, lately } = learnt;
        (seen.is_sensible() && lately.is_sensible()).then(|| Self {
            options,
            estimator: Estimator::resume(options.half_life, seen),
            lately,
        })
    }

    /// What it has learnt so far.
    pub fn learnt(&self) -> Learnt {
        Learnt {
            seen: self.estimator.seen().clone(),
            lately: self.lately.clone(),
        }
    }

    /// Takes in a question that has ended: its k, whoever chose it, and its committed hops.
    ///
    /// Where k ≥ 2, a hop without a guess's time is taken for one whose guess was not there in time.
    /// `accepted` is for hops that were compared; a speculator that had no idea is as good as
    /// wrong, and best recorded so. Of a hop that took over another branch's look-up, give the segment
    /// alone: how long it waited for its observation says nothing of the tool, nor of the speculator.
    ///
    /// If the speculator has changed, what was known of its guesses before is forgotten. Then it returns how many
    /// of the last comparisons, those of this question among them, are of the speculator as it is now.
    pub fn record(&mut self, k: NonZeroUsize, hops: &[Stages]) -> Option<usize> {
        if hops.is_empty() {
            return None;
        }
        push(
            &mut self.lately.lengths,
            hops.len().min(HOPS_MAX),
            LENGTHS_MAX,
        );
        for hop in hops {
            let in_time = |time: &f64| time.is_finite() && *time >= 0.0;
            let mut stages = *hop;
            if k >= TWO && hop.accepted.is_none() && hop.speculation.is_none() {
                stages.speculation = hop.target;
            }
            self.estimator.record(stages);
            let (Some(segment), Some(target), Some(speculation)) = (
                stages.segment.filter(in_time),
                stages.target.filter(in_time),
                stages.speculation.filter(in_time),
            ) else {
                continue;
            };
            self.lately.guesses = self.lately.guesses.saturating_add(1);
            let times = Times {
                segment,
                target,
                speculation,
            };
            push(&mut self.lately.times, times, TIMES_MAX);
        }
        hops.iter()
            .filter_map(|hop| hop.accepted)
            .for_each(|accepted| self.lately.verdicts.push(accepted));
        let left = self.lately.verdicts.forget_what_changed();
        if left.is_some() {
            self.estimator.forget_accepted();
            for accepted in self.lately.verdicts.iter() {
                self.estimator.record(Stages {
                    accepted: Some(accepted),
                    ..Stages::default()
                });
            }
        }
        left
    }

    /// Chooses for the next question on a machine with room. While speculation is off, counts the
    /// questions between probes.
    pub fn choose(&mut self) -> Choice {
        self.choose_under(0.0)
    }

    /// The same under load: the share of time, from 0 to 1, in which there was no room for speculation.
    ///
    /// Work ahead of need is done in the rest of the time alone, so that a window is expected to save
    /// so much less. Times are no measure of load: what waits for needed calls makes the target call
    /// look slow, as if there were more to hide.
    pub fn choose_under(&mut self, load: f64) -> Choice {
        let load = share(load);
        let mut choice = self.look_under(load);
        if !matches!(choice.reason, Reason::DoesNotPay { .. }) {
            self.lately.unprobed = 0;
            return choice;
        }
        if Self::is_full(load) {
            // A probe would learn nothing but that.
            return choice;
        }
        self.lately.unprobed = self.lately.unprobed.saturating_add(1);
        if self.lately.unprobed >= self.options.probe_every.max(1) && self.options.k_max >= TWO {
            self.lately.unprobed = 0;
            choice.k = TWO;
            choice.gain = self.gain(&choice.marginal, TWO, load);
            choice.reason = Reason::Probe {
                every: self.options.probe_every.max(1),
            };
        }
        choice
    }

    /// Whether a machine under this load has no room for speculation, whatever it might save.
    pub fn is_full(load: f64) -> bool {
        load >= FULL
    }

    /// Share of guesses accepted, of those compared; `None` before the first.
    pub fn p(&self) -> Option<Interval> {
        self.estimator.p()
    }

    /// What would be chosen on a machine with room, probes aside. Counts nothing, for those who only want
    /// to know.
    pub fn look(&self) -> Choice {
        self.look_under(0.0)
    }

    /// [`Tuner::look`] under load, as in [`Tuner::choose_under`].
    pub fn look_under(&self, load: f64) -> Choice {
        let load = share(load);
        let mut choice = self.weigh(load);
        if Self::is_full(load) && choice.k >= TWO {
            choice.k = NonZeroUsize::MIN;
            choice.gain = 0.0;
            choice.reason = Reason::Busy { load };
        }
        choice
    }

    fn weigh(&self, load: f64) -> Choice {
        let p = self.estimator.p();
        let setting = self.estimator.setting();
        let mut choice = Choice {
            k: self.options.k_default.min(self.options.k_max),
            reason: Reason::WarmUp {
                guesses: self.lately.guesses,
                needed: WARM_UP,
            },
            p,
            alpha: self.estimator.alpha(),
            beta: self.estimator.beta(),
            setting,
            k_epsilon: None,
            gain: 0.0,
            marginal: Vec::new(),
        };
        if self.options.k_max < TWO {
            choice.reason = Reason::Off;
        }
        if self.lately.guesses < WARM_UP {
            return choice;
        }
        // All guesses too late to be compared: nothing is known of p, and nothing depends on it.
        let p = p.unwrap_or(Interval {
            value: 0.5,
            low: 0.0,
            high: 1.0,
        });
        choice.marginal = self.curve(p.value);
        // No window is wide enough where a branch costs no time, or where times vary beyond measure.
        choice.k_epsilon = setting
            .map(|setting| k_epsilon(setting, self.options.epsilon).unwrap_or(NonZeroUsize::MAX));
        if choice.reason != Reason::Off {
            self.decide(&mut choice, p, load);
        }
        choice
    }

    fn decide(&self, choice: &mut Choice, p: Interval, load: f64) {
        let min_gain = self.options.min_gain;
        let risk = choice.k_epsilon.unwrap_or(NonZeroUsize::MAX).max(TWO);
        let points: &[Point] = &choice.marginal;
        let points = &points[..points.len().min(risk.get())];
        let cost = |at: &Point| self.cost(at, load);
        let best = points.iter().map(cost).fold(1.0, f64::min);
        let enough = |at: &&Point| cost(at) - best <= min_gain * best;
        let chosen = points
            .iter()
            .find(enough)
            .map_or(NonZeroUsize::MIN, |at| at.k);
        if chosen >= TWO {
            choice.k = chosen;
            choice.gain = self.gain(points, chosen, load);
            let bound = if chosen.get() < points.len() {
                Bound::Gain
            } else if chosen == self.options.k_max {
                Bound::Max
            } else if chosen == risk {
                Bound::Risk
            } else {
                Bound::Hops
            };
            choice.reason = Reason::Pays {
                gain: choice.gain,
                bound,
            };
            return;
        }
        let free = points.iter().map(|at| self.cost(at, 0.0));
        let free = free.fold(1.0, f64::min);
        if load > 0.0 && 1.0 - free > min_gain * free {
            choice.k = NonZeroUsize::MIN;
            choice.gain = 0.0;
            choice.reason = Reason::Busy { load };
            return;
        }
        let hopeful = self.curve(p.high);
        // What its guesses are worth does not depend on the load of the moment.
        let hoped = hopeful.iter().map(|at| 1.0 - self.cost(at, 0.0));
        let gain_high = hoped.fold(0.0, f64::max);
        if gain_high < DOUBT * min_gain {
            choice.k = NonZeroUsize::MIN;
            choice.gain = 0.0;
            choice.reason = Reason::DoesNotPay {
                gain_high,
                p_high: p.high,
                probe_every: self.options.probe_every.max(1),
            };
        } else {
            choice.k = TWO;
            choice.gain = self.gain(&choice.marginal, TWO, load);
            choice.reason = Reason::InDoubt {
                gain: choice.gain,
                gain_high,
            };
        }
    }

    fn curve(&self, p: f64) -> Vec<Point> {
        let times: Vec<Times> = self.lately.times.iter().copied().collect();
        let mut lengths = [0; HOPS_MAX + 1];
        for length in &self.lately.lengths {
            lengths[*length] += 1;
        }
        curve(&times, &lengths, p, self.options.k_max)
    }

    /// Latency and the price of the calls, as a share of the latency at k = 1.
    fn cost(&self, at: &Point, load: f64) -> f64 {
        let saved = 1.0 - (at.rel_lat + self.options.worth * at.extra_targets);
        1.0 - (1.0 - load) * saved
    }

    fn gain(&self, points: &[Point], k: NonZeroUsize, load: f64) -> f64 {
        let at = points.iter().find(|at| at.k == k);
        at.map_or(0.0, |at| 1.0 - self.cost(at, load))
    }
}

impl Lately {
    fn is_sensible(&self) -> bool {
        let in_time = |time: f64| time.is_finite() && time >= 0.0;
        let sensible = |at: &Times| {
            [at.segment, at.target, at.speculation]
                .into_iter()
                .all(in_time)
        };
        self.verdicts.is_sensible()
            && self.times.len() <= TIMES_MAX
            && self.times.iter().all(sensible)
            && self.lengths.len() <= LENGTHS_MAX
            && self
                .lengths
                .iter()
                .all(|hops| (1..=HOPS_MAX).contains(hops))
    }
}

/// A load that nobody knows is none.
fn share(load: f64) -> f64 {
    if load.is_nan() {
        0.0
    } else {
        load.clamp(0.0, 1.0)
    }
}

/// Adds to a ring.
fn push<T>(ring: &mut VecDeque<T>, item: T, max: usize) {
    if ring.len() == max {
        ring.pop_front();
    }
    ring.push_back(item);
}
