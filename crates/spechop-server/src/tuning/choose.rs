//! What a question leaves to the server: k, planning ahead, and what its guesses are weighed by.
//!
//! The last questions are played by every setting, and the best one for them is taken for the next. The
//! tuner says first whether speculation pays at all.

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;

use spechop_agent::{Policy, Settings, Width};
use spechop_config::Free;
use spechop_sim::{Choices, Fixed, Played, Rules, Wanted, WhatIf};
use spechop_theory::{CallRate, Choice, Point, Reason, TWO, Tuner, TunerOptions};
use spechop_types::{Chance, Owned};

use super::{PLAYED_MAX, Seen, TuningOf, Tunings};

/// What is not `free` is fixed, if `policy` holds it.
fn fixed(free: Free, k: Option<NonZeroUsize>, policy: &Policy) -> Fixed {
    let ahead = policy.plans_ahead();
    Fixed {
        k,
        k_max: None,
        plan_ahead: (!free.plan_ahead || !policy.salvages()).then_some(ahead),
        gate: !free.gate,
    }
}

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
    pub(super) fn of(seen: &Seen, options: &TunerOptions) -> Self {
        let best = |plan_ahead| {
            let fixed = Fixed {
                plan_ahead,
                ..Fixed::default()
            };
            seen.choices.best(fixed, seen.wanted(options, 0.0))
        };
        let rel_lat = |played: Option<&Played>| played.map_or(0.0, |at| at.means.rel_lat);
        Self {
            pays: best(None).is_some_and(|at| at.plan_ahead),
            without: rel_lat(best(Some(false))),
            with: rel_lat(best(Some(true))),
        }
    }
}

/// What drafts would have done to the last questions, at the setting that was best for them and at the best
/// one with k = 2, whatever guesses would make of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Drafts {
    best: Drafted,
    narrow: Drafted,
}

/// What they would have done at one setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Drafted {
    /// Whether they save enough.
    pub(crate) pay: bool,
    /// RelLat of the last questions without them.
    pub(crate) without: f64,
    /// RelLat of the last questions with them.
    pub(crate) with: f64,
    /// What is then saved of the latency at k = 1, after the price of the calls.
    gain: f64,
    /// Target calls with them, for each one at k = 1.
    calls: f64,
}

impl Drafted {
    /// From the last questions without drafts and with them. A question makes `standard` target calls at k = 1.
    ///
    /// Once they are made they go on for as long as they save anything at all: so they do not come and go.
    fn decide(self, [without, with]: &[WhatIf; 2], standard: f64, options: &TunerOptions) -> Self {
        let least = if self.pay { 0.0 } else { options.min_gain };
        let price = |calls: f64| calls.max(0.0) * options.worth;
        let further = price(with.targets - without.targets);
        let calls = with.targets / standard.max(f64::MIN_POSITIVE);
        let saved = without.rel_lat - with.rel_lat;
        Self {
            pay: saved > least.max(further) && calls <= options.calls_max,
            without: without.rel_lat,
            with: with.rel_lat,
            gain: 1.0 - with.rel_lat - price(with.targets - standard),
            calls,
        }
    }

    /// The same, if so many calls may be expected of the next questions.
    fn within(self, calls_max: f64) -> Self {
        Self {
            pay: self.pay && self.calls <= calls_max,
            ..self
        }
    }
}

impl Drafts {
    /// What a question of this width would get, if so many calls may be expected of it.
    pub(super) fn at(self, width: Width, calls_max: f64) -> Drafted {
        let is_narrow = width == Width::bounded(TWO);
        let drafted = if is_narrow { self.narrow } else { self.best };
        drafted.within(calls_max)
    }

    /// k = 1 makes none. If that, or hardly more, is what guesses come to, drafts that pay open the window.
    pub(super) fn open(
        self,
        choice: &mut Choice,
        rate: &CallRate,
        options: &TunerOptions,
        load: f64,
    ) {
        let narrow = self.narrow.within(rate.expectable(options.calls_max));
        let gain = (1.0 - load) * narrow.gain;
        let is_closed = matches!(
            choice.reason,
            Reason::DoesNotPay { .. }
                | Reason::Probe { .. }
                | Reason::InDoubt { .. }
                | Reason::Spent
                | Reason::Busy { .. }
        );
        let is_worth_it = gain >= options.min_gain && !Tuner::is_full(load);
        if is_closed && is_worth_it && narrow.pay {
            choice.k = TWO;
            choice.gain = gain;
            choice.reason = Reason::Drafts { gain };
        }
    }
}

impl Seen {
    fn wanted(&self, options: &TunerOptions, load: f64) -> Wanted {
        Wanted {
            // The rest is for what the next questions do otherwise than the last ones.
            tolerance: options.min_gain / 5.0,
            worth: options.worth,
            calls_max: self.calls.expectable(options.calls_max),
            load,
        }
    }

    /// The k of the setting that was best for the last questions, in place of that which the tuner says,
    /// if speculation pays. And what every k would have given. `gate` holds beside what guesses are weighed by.
    pub(super) fn refine(
        &self,
        mut choice: Choice,
        fixed: Fixed,
        gate: Chance,
        options: &TunerOptions,
        load: f64,
    ) -> Choice {
        let wanted = self.wanted(options, load);
        let at = |k: NonZeroUsize| {
            let fixed = Fixed {
                k: Some(k),
                ..fixed
            };
            self.choices.best(fixed, wanted)
        };
        if let Some(best) = self.choices.best(fixed, wanted) {
            let point = |played: &Played| Point {
                k: played.k,
                rel_lat: played.means.rel_lat,
                extra_targets: played.means.targets - self.choices.standard_targets(),
            };
            let standard = Point {
                k: NonZeroUsize::MIN,
                rel_lat: 1.0,
                extra_targets: 0.0,
            };
            let played = (2..=options.k_max.get()).filter_map(NonZeroUsize::new);
            let played = played.filter_map(at).map(point);
            choice.marginal = [standard].into_iter().chain(played).collect();
            let gain = 1.0 - self.choices.cost(best, wanted);
            let may = matches!(choice.reason, Reason::Pays { .. } | Reason::InDoubt { .. });
            // Its bound is that of guesses alone: what is planned ahead or salvaged may pay without a right one. A
            // window that is open for that needs no probe.
            let is_of_guesses = matches!(
                choice.reason,
                Reason::DoesNotPay { .. } | Reason::Probe { .. } | Reason::Busy { .. }
            );
            let may_open = may || is_of_guesses && !Tuner::is_full(load);
            // The tuner knows of no limit.
            let is_held_back = self.calls.holds_back(options.calls_max);
            let is_worth_it = self.choices.is_worth_it(best, wanted, options.min_gain);
            let is_worth_it = is_worth_it && (!is_held_back || self.choices.fits(best, wanted));
            if may_open && is_worth_it {
                choice.k = best.k;
                choice.gain = gain;
                choice.reason = Reason::Played {
                    gain,
                    plan_ahead: best.plan_ahead,
                    least: best.weighing.least(0.0).max(gate).share(),
                };
            } else if may && is_held_back {
                choice.k = NonZeroUsize::MIN;
                choice.gain = 0.0;
                choice.reason = Reason::Spent;
            }
        }
        choice
    }

    /// Takes the last questions, played anew, for what is chosen from now on. `drafted` are those without
    /// drafts and with them, at the best setting and at the best one with k = 2.
    fn adopt(
        &mut self,
        choices: Choices,
        salvages: bool,
        drafted: Option<([WhatIf; 2], [WhatIf; 2])>,
        options: &TunerOptions,
    ) {
        self.choices = choices;
        self.salvages = salvages;
        let standard = self.choices.standard_targets();
        let Drafts { best, narrow } = self.drafts;
        self.drafts = match drafted {
            Some((at_best, at_two)) => Drafts {
                best: best.decide(&at_best, standard, options),
                narrow: narrow.decide(&at_two, standard, options),
            },
            None => Drafts::default(),
        };
        self.weighed_at = self.hops;
    }

    /// Whether the last questions were played as this one may be answered. If it salvages nothing, wrong guesses cost
    /// it look-ups; if it is quiet, nothing is looked up ahead of need.
    fn is_played_for(&self, policy: &Policy, is_quiet: bool) -> bool {
        self.salvages == policy.salvages() && !is_quiet
    }

    /// What a question of this k gets beside it.
    pub(super) fn settle(
        &self,
        fixed: Fixed,
        options: &TunerOptions,
        load: f64,
    ) -> Option<&Played> {
        let k = fixed.k?.min(self.choices.settings().last()?.k);
        let fixed = Fixed {
            k: Some(k),
            ..fixed
        };
        self.choices.best(fixed, self.wanted(options, load))
    }
}

impl Tunings {
    /// Puts into the settings what they leave to the server, under this load (`Tuner::choose_under`).
    /// Returns the choice of k, at most `k_max`, if that was left to it.
    pub(crate) fn settle(
        &self,
        of: &TuningOf,
        free: Free,
        load: f64,
        k_max: NonZeroUsize,
        settings: &mut Settings,
    ) -> Option<Choice> {
        settings.guess_chance = self.guess_chance(of);
        let mut choice = free.k.then(|| self.choose(of, load));
        let mut tunings = self.tunings.lock();
        let Some(seen) = tunings.seen.get(of) else {
            if let Some(choice) = &mut choice {
                choice.k = choice.k.min(k_max);
                settings.width = Width::bounded(choice.k);
            }
            return choice;
        };
        let is_played = seen.is_played_for(&settings.policy, settings.wishes.quiet);
        let policy = &mut settings.policy;
        if let Some(mut chosen) = choice.take() {
            if is_played {
                let fixed = Fixed {
                    k_max: Some(k_max),
                    ..fixed(free, None, policy)
                };
                chosen = seen.refine(chosen, fixed, policy.chance_min, &self.options, load);
            }
            if free.drafts && is_played && k_max >= TWO {
                seen.drafts
                    .open(&mut chosen, &seen.calls, &self.options, load);
            }
            chosen.k = chosen.k.min(k_max);
            settings.width = Width::bounded(chosen.k);
            choice = Some(chosen);
        }
        if is_played {
            self.weigh_with(seen, free, load, settings.width, policy);
        }
        choice
    }

    /// What a question of this width would get that leaves everything else of `policy` to the server, on
    /// a machine with room.
    pub(crate) fn settled(
        &self,
        of: &TuningOf,
        free: Free,
        width: Width,
        policy: Policy,
    ) -> Policy {
        let mut policy = policy;
        let tunings = self.tunings.lock();
        let seen = tunings.seen.peek(of);
        if let Some(seen) = seen.filter(|seen| seen.is_played_for(&policy, false)) {
            self.weigh_with(seen, free, 0.0, width, &mut policy);
        }
        policy
    }

    fn weigh_with(&self, seen: &Seen, free: Free, load: f64, width: Width, policy: &mut Policy) {
        let k = width.get().unwrap_or(NonZeroUsize::MAX);
        let fixed = fixed(free, Some(k), policy);
        if let Some(played) = seen.settle(fixed, &self.options, load) {
            policy.plan_ahead = played.plan_ahead;
            policy.weighing = played.weighing;
        }
        let most = seen.calls.expectable(self.options.calls_max);
        if free.drafts && seen.drafts.at(width, most).pay {
            policy.drafts_max = 1;
        }
    }

    /// What is known of planning ahead.
    #[cfg(test)]
    pub(crate) fn ahead(&self, of: &TuningOf) -> Ahead {
        let known = self
            .tunings
            .lock()
            .seen
            .peek(of)
            .map(|seen| Ahead::of(seen, &self.options));
        known.unwrap_or_default()
    }

    /// Whether it is time to [play](Self::weigh) the last questions anew.
    pub(crate) fn is_weighing_due(&self, of: &TuningOf) -> bool {
        let tunings = self.tunings.lock();
        let seen = tunings.seen.peek(of);
        seen.is_some_and(|seen| {
            // A speculator that has changed is as good as a new one.
            let since = |hops: u64| hops - seen.changed_at;
            Choices::are_due(since(seen.hops), since(seen.weighed_at))
        })
    }

    /// Plays the last questions by every setting that `free` leaves of `policy`. **Computes** for a
    /// fraction of a second.
    pub(crate) fn weigh(&self, of: &TuningOf, free: Free, policy: Policy, orphan_ms: f64) {
        let wanted = |seen: &Seen| (seen.wanted(&self.options, 0.0), seen.changes);
        let Some((wanted, changes)) = self.tunings.lock().seen.peek(of).map(wanted) else {
            return;
        };
        let mut history = self.history(of);
        history.keep_last(PLAYED_MAX);
        let rules = Rules {
            orphan_ms,
            guess_chance: self.guess_chance(of),
            draft_chance: history.draft_chance(),
            ..Rules::new(Width::STANDARD, policy)
        };
        let fixed = fixed(free, None, &policy);
        let choices = Choices::of(&history, rules, self.options.k_max, fixed);
        let drafted = free.drafts.then(|| {
            let drafted = |fixed| Choices::drafted(&history, rules, choices.best(fixed, wanted)?);
            let narrow = Fixed {
                k: Some(TWO),
                ..fixed
            };
            drafted(fixed).zip(drafted(narrow))
        });
        let mut tunings = self.tunings.lock();
        // What was played meanwhile of a speculator that has changed is of no use.
        let seen = tunings.seen.get(of);
        let Some(seen) = seen.filter(|seen| seen.changes == changes) else {
            return;
        };
        let before = seen.choices.best(fixed, wanted).map(|best| best.plan_ahead);
        seen.adopt(choices, policy.salvages(), drafted.flatten(), &self.options);
        let (now, drafts) = (seen.choices.best(fixed, wanted).cloned(), seen.drafts);
        drop(tunings);
        if let Some(now) = now
            && before != Some(now.plan_ahead)
        {
            log_change(of, &now, drafts);
        }
    }
}

/// The best setting of all, said at first and when planning ahead begins or ceases to pay.
fn log_change(of: &TuningOf, now: &Played, drafts: Drafts) {
    let Owned { tenant, item } = of;
    tracing::info!(
        %tenant,
        speculator = item.as_str(),
        k = now.k,
        plan_ahead = now.plan_ahead,
        least_chance = now.weighing.least(0.0).share(),
        rel_lat = now.means.rel_lat,
        target_calls = now.means.targets,
        drafts = drafts.best.pay || drafts.narrow.pay,
        "the last questions were played by every setting"
    );
}
