//! What is chosen for questions, from what was learnt of others.

mod changed;

use spechop_agent::{ReliabilityCurve, Weighing};
use spechop_config::SpeculatorKind;
use spechop_sim::{Past, PastGuess, PastHop};
use spechop_theory::Stages;
use spechop_types::{Chance, Tenant};

use super::*;

const ALL: Free = Free {
    k: true,
    plan_ahead: true,
    gate: true,
    drafts: true,
};

fn policy() -> Policy {
    Policy {
        orphans_max: 8,
        ..Policy::EAGER
    }
}

/// Sixteen questions of two hops, the second of which names the answer of the first, or not. Every
/// `right`-th guess is right, and says so.
fn taught(depends: bool, right: u32) -> (Tunings, TuningOf) {
    drafted(depends, right, None)
}

/// The same, with the drafts of their sub-questions.
fn drafted(depends: bool, right: u32, draft_held: Option<bool>) -> (Tunings, TuningOf) {
    drafted_after(depends, right, draft_held, 16)
}

fn drafted_after(
    depends: bool,
    right: u32,
    draft_held: Option<bool>,
    questions: u32,
) -> (Tunings, TuningOf) {
    let most = NonZeroUsize::new(100).unwrap();
    let tunings = Tunings::new(TunerOptions::default(), most);
    let of = Owned::new(&Tenant::default(), SpeculatorKind::Hot);
    // From the second one on: every number divides 0.
    for question in 1..=questions {
        let chance = |accepted| Some(if accepted { 0.3 } else { 0.02 });
        let (past, stages) = asked(question, depends, right, draft_held, chance);
        tunings.learn(of.clone(), most, &stages, past, None, []);
    }
    (tunings, of)
}

/// One of these questions. A guess that is right or wrong says to be `chance`.
fn asked(
    question: u32,
    depends: bool,
    right: u32,
    draft_held: Option<bool>,
    chance: impl Fn(bool) -> Option<f64>,
) -> (Past, [Stages; 2]) {
    let hops = [0, 1].map(|hop| {
        let accepted = (2 * question + hop).is_multiple_of(right);
        let depends_on: &[u32] = if depends && hop == 1 { &[1] } else { &[] };
        let past = PastHop {
            draft_held,
            segment_ms: 200.0,
            target_ms: 2000.0,
            guess: PastGuess::Compared {
                ms: 100.0,
                accepted,
                confidence: chance(accepted),
            },
            depends_on: Some(depends_on.into()),
        };
        let stages = Stages {
            segment: Some(0.2),
            target: Some(2.0),
            speculation: Some(0.1),
            accepted: Some(accepted),
        };
        (past, stages)
    });
    let past = Past {
        hops: hops.iter().map(|(past, _)| past.clone()).collect(),
        final_ms: 200.0,
    };
    (past, hops.map(|(_, stages)| stages))
}

#[test]
fn planning_ahead_pays_where_sub_questions_do_not_wait_for_answers() {
    for (depends, pays) in [(false, true), (true, false)] {
        // Hardly a guess is right.
        let (tunings, of) = taught(depends, 16);
        assert_eq!(tunings.ahead(&of), Ahead::default());
        assert!(tunings.is_weighing_due(&of));
        tunings.weigh(&of, ALL, policy(), 10_000.0);
        let ahead = tunings.ahead(&of);
        assert_eq!(ahead.pays, pays, "{ahead:?}");
        assert!(!tunings.is_weighing_due(&of));
    }
}

#[test]
fn what_is_fixed_stays_and_what_is_free_is_chosen() {
    let (tunings, of) = taught(true, 2);
    tunings.weigh(&of, ALL, policy(), 10_000.0);
    let settle = |free, k, plan_ahead| {
        let mut settings = Settings {
            width: Width::bounded(NonZeroUsize::new(k).unwrap()),
            policy: Policy {
                plan_ahead,
                chance_min: Chance::of(0.4),
                ..policy()
            },
            ..Settings::default()
        };
        let choice = tunings.settle(&of, free, 0.0, NonZeroUsize::MAX, &mut settings);
        (settings, choice)
    };
    let (settings, choice) = settle(ALL, 1, false);
    let choice = choice.unwrap();
    assert_eq!(settings.width, Width::bounded(choice.k));
    assert!(matches!(choice.reason, Reason::Played { .. }), "{choice:?}");
    // The wrong guesses say so: nothing is built upon them, and all of the right ones are.
    let weighing = settings.policy.weighing;
    let least = weighing.least(100.0);
    assert!(weighing.calibration.of(Chance::of(0.02)) < least);
    assert!(weighing.calibration.of(Chance::of(0.3)) >= least);
    // Whoever fixes the gate is not overruled, and what guesses are worth is known nevertheless.
    let (settings, choice) = settle(
        Free {
            gate: false,
            k: false,
            ..ALL
        },
        3,
        false,
    );
    assert_eq!(choice, None);
    assert_eq!(
        settings.width,
        Width::bounded(NonZeroUsize::new(3).unwrap())
    );
    assert_eq!(settings.policy.weighing.price_ms, 0);
    assert_ne!(
        settings.policy.weighing.calibration,
        ReliabilityCurve::AS_SAID
    );
    for plan_ahead in [false, true] {
        let (settings, _) = settle(
            Free {
                plan_ahead: false,
                ..ALL
            },
            3,
            plan_ahead,
        );
        assert_eq!(settings.policy.plan_ahead, plan_ahead);
    }
    // The standard agent has nothing to choose.
    let (settings, _) = settle(Free { k: false, ..ALL }, 1, false);
    assert_eq!(settings.policy.weighing, Weighing::NONE);
}

#[test]
fn drafts_are_made_where_they_pay() {
    for (held, pay) in [(Some(true), true), (Some(false), false), (None, false)] {
        let (tunings, of) = drafted(true, 2, held);
        for (free, made) in [(true, pay), (false, false)] {
            let free = Free {
                drafts: free,
                ..ALL
            };
            tunings.weigh(&of, free, policy(), 10_000.0);
            let mut settings = Settings::default();
            tunings.settle(&of, free, 0.0, NonZeroUsize::MAX, &mut settings);
            assert_eq!(settings.policy.drafts_max, usize::from(made), "{held:?}");
        }
    }
}

/// No guess is ever right, so the tuner says k = 1, at which nothing is drafted.
#[test]
fn drafts_that_pay_open_the_window_that_guesses_would_close() {
    let settled = |held, drafts, load| {
        let (tunings, of) = drafted_after(true, u32::MAX, held, 200);
        let free = Free { drafts, ..ALL };
        tunings.weigh(&of, free, policy(), 10_000.0);
        let mut settings = Settings::default();
        let choice = tunings.settle(&of, free, load, NonZeroUsize::MAX, &mut settings);
        let known = tunings
            .known(&Tenant::default(), load, false)
            .remove(0)
            .choice;
        let choice = choice.unwrap();
        assert_eq!((choice.k, choice.reason), (known.k, known.reason));
        assert_eq!(settings.width, Width::bounded(choice.k));
        (choice, settings.policy.drafts_max)
    };
    let (open, drafts) = settled(Some(true), true, 0.0);
    assert_eq!((open.k, drafts), (TWO, 1));
    let Reason::Drafts { gain } = open.reason else {
        panic!("{open:?}");
    };
    // The two segments before the last one hide in the look-ups: 400 of 4,600 ms.
    assert!((gain - 400.0 / 4600.0).abs() < 0.005, "{gain}");
    let (half, _) = settled(Some(true), true, 0.5);
    assert!((half.gain - gain / 2.0).abs() < 1e-9, "{half:?}");
    for (held, is_free, load) in [
        (Some(false), true, 0.0),
        (None, true, 0.0),
        (Some(true), false, 0.0),
        (Some(true), true, 0.96),
    ] {
        let (closed, _) = settled(held, is_free, load);
        assert_eq!(closed.k, NonZeroUsize::MIN, "{held:?} {is_free} {load}");
    }
}

/// The tuner knows of guesses alone, none of which is right.
#[test]
fn planning_ahead_that_pays_opens_the_window_that_guesses_would_close() {
    for (depends, is_open) in [(false, true), (true, false)] {
        let (tunings, of) = drafted_after(depends, u32::MAX, None, 200);
        tunings.weigh(&of, ALL, policy(), 10_000.0);
        let mut settings = Settings::default();
        let choice = tunings.settle(&of, ALL, 0.0, NonZeroUsize::MAX, &mut settings);
        let choice = choice.unwrap();
        assert_eq!(choice.k > NonZeroUsize::MIN, is_open, "{choice:?}");
        let plans_ahead = matches!(choice.reason, Reason::Played { plan_ahead, .. } if plan_ahead);
        assert_eq!(plans_ahead, is_open, "{choice:?}");
    }
}

/// Questions whose guesses are hardly ever right, and whose hops do not need each other's answers.
fn apart(right: u32) -> (Tunings, TuningOf) {
    let (tunings, of) = drafted_after(false, right, None, 200);
    tunings.weigh(&of, ALL, policy(), 10_000.0);
    (tunings, of)
}

#[test]
fn what_is_said_of_a_choice_keeps_to_what_is_fixed() {
    let (tunings, of) = taught(true, 2);
    tunings.weigh(&of, ALL, policy(), 10_000.0);
    let settle = |free, k_max| {
        let mut settings = Settings::default();
        settings.policy.chance_min = Chance::of(0.4);
        let k_max = NonZeroUsize::new(k_max).unwrap();
        tunings
            .settle(&of, free, 0.0, k_max, &mut settings)
            .unwrap()
    };
    assert_eq!(settle(ALL, 64).marginal.len(), 3);
    assert_eq!(settle(ALL, 2).marginal.len(), 2);
    let gated = Free { gate: false, ..ALL };
    for choice in [ALL, gated].map(|free| settle(free, 2)) {
        let is_gated = matches!(choice.reason, Reason::Played { least, .. } if least > 0.39);
        assert!(choice.k <= TWO && is_gated, "{choice:?}");
    }
    let (tunings, of) = drafted_after(true, u32::MAX, Some(true), 200);
    tunings.weigh(&of, ALL, policy(), 10_000.0);
    let mut settings = Settings::default();
    let alone = tunings.settle(&of, ALL, 0.0, NonZeroUsize::MIN, &mut settings);
    let alone = alone.unwrap();
    assert_eq!(alone.k, NonZeroUsize::MIN);
    assert!(!matches!(alone.reason, Reason::Drafts { .. }), "{alone:?}");
}

#[test]
fn a_fifth_of_the_least_gain_is_given_away_for_fewer_calls() {
    let (tunings, of) = taught(true, 2);
    let kept = tunings.tunings.lock();
    let seen = kept.seen.peek(&of).unwrap();
    let wanted = seen.wanted(&TunerOptions::default(), 0.0);
    // `eval/tests/choice.rs` plays with the same.
    assert!((wanted.tolerance - 0.002).abs() < 1e-12, "{wanted:?}");
}

#[test]
fn a_full_machine_opens_no_window_and_better_guesses_close_none() {
    for right in [16, u32::MAX] {
        let (tunings, of) = apart(right);
        for (load, is_open) in [(0.0, true), (0.7, true), (0.96, false)] {
            let mut settings = Settings::default();
            let choice = tunings.settle(&of, ALL, load, NonZeroUsize::MAX, &mut settings);
            let choice = choice.unwrap();
            assert_eq!(
                choice.k > NonZeroUsize::MIN,
                is_open,
                "{right} {load} {choice:?}"
            );
        }
    }
}

#[test]
fn a_window_that_planning_ahead_holds_open_is_not_probed() {
    let (tunings, of) = apart(u32::MAX);
    let chosen = [(); 25].map(|()| {
        let mut settings = Settings::default();
        let choice = tunings.settle(&of, ALL, 0.0, NonZeroUsize::MAX, &mut settings);
        let choice = choice.unwrap();
        assert!(matches!(choice.reason, Reason::Played { .. }), "{choice:?}");
        choice.k
    });
    assert!(chosen.iter().all(|k| *k == chosen[0]), "{chosen:?}");
}

#[test]
fn what_was_played_counts_for_those_who_may_do_the_same() {
    let (tunings, of) = apart(u32::MAX);
    let of_question = |settings: Settings| {
        let mut settings = settings;
        let choice = tunings.settle(&of, ALL, 0.0, NonZeroUsize::MAX, &mut settings);
        (
            choice.unwrap().k > NonZeroUsize::MIN,
            settings.policy.plan_ahead,
        )
    };
    assert_eq!(of_question(Settings::default()), (true, true));
    let mut quiet = Settings::default();
    quiet.wishes.quiet = true;
    let mut wasteful = Settings::default();
    wasteful.policy.orphans_max = 0;
    for settings in [quiet, wasteful] {
        assert_eq!(of_question(settings), (false, false));
    }
    // Played without salvage, wrong guesses cost look-ups.
    let without = Policy {
        orphans_max: 0,
        ..policy()
    };
    tunings.weigh(&of, ALL, without, 10_000.0);
    assert_eq!(of_question(Settings::default()), (false, false));
}

#[test]
fn hops_without_a_guess_say_nothing_of_one() {
    let most = NonZeroUsize::new(100).unwrap();
    let tunings = Tunings::new(TunerOptions::default(), most);
    let of = Owned::new(&Tenant::default(), SpeculatorKind::Llm);
    assert_eq!(tunings.guess_chance(&of), Chance::EVEN);
    for question in 1..=16 {
        // The first one is right, and of the second hop it has no idea.
        let (mut past, mut stages) = asked(question, true, 1, None, |_| None);
        past.hops[1].guess = PastGuess::NoIdea { ms: 100.0 };
        stages[1].accepted = Some(false);
        tunings.learn(of.clone(), most, &stages, past, None, []);
    }
    assert_eq!(tunings.guess_chance(&of), Chance::of(17.0 / 18.0));
}

#[test]
fn drafts_must_save_something_to_begin_and_may_then_go_on() {
    let played = |rel_lat, targets| WhatIf {
        width: Width::STANDARD,
        rel_lat,
        latency_ms: 1000.0 * rel_lat,
        segments: 0.0,
        targets,
        speculations: 0.0,
        salvaged: 0.0,
        foreseen: 0.0,
    };
    let options = |worth| TunerOptions {
        min_gain: 0.02,
        worth,
        calls_max: 1.25,
        ..TunerOptions::default()
    };
    for (with, targets, worth, begins, goes_on) in [
        (0.70, 2.0, 0.0, true, true),
        (0.79, 2.0, 0.0, false, true),
        (0.81, 2.0, 0.0, false, false),
        (0.70, 2.1, 0.5, true, true),
        (0.70, 2.3, 0.5, false, false),
        // More target calls than may be.
        (0.50, 2.6, 0.0, false, false),
    ] {
        for (pay, expected) in [(false, begins), (true, goes_on)] {
            let before = Drafted {
                pay,
                ..Drafted::default()
            };
            let both = [played(0.80, 2.0), played(with, targets)];
            let now = before.decide(&both, 2.0, &options(worth));
            assert_eq!(now.pay, expected, "{with} {targets} {pay}");
            // What pays at one width says nothing of the other.
            let drafts = Drafts {
                best: now,
                narrow: Drafted::default(),
            };
            let at = |k, calls| drafts.at(Width::bounded(NonZeroUsize::new(k).unwrap()), calls);
            assert_eq!((at(3, 2.0).pay, at(2, 2.0).pay), (expected, false));
            // And with the last calls that may be expected none are made for which more are needed.
            assert_eq!(at(3, 1.0).pay, expected && targets == 2.0);
        }
    }
}

/// Of the first guesses half are right, and all are as sure: to build on them takes calls.
#[test]
fn what_was_made_beyond_the_limit_is_saved_on_the_next_questions() {
    let options = TunerOptions {
        calls_max: 1.5,
        ..TunerOptions::default()
    };
    let most = NonZeroUsize::new(100).unwrap();
    let chosen = |calls_of_two_hops: u64| {
        let tunings = Tunings::new(options, most);
        let of = Owned::new(&Tenant::default(), SpeculatorKind::Hot);
        for question in 0..24 {
            let (past, stages) = asked(question, true, 4, None, |_| Some(0.5));
            let calls = Some(calls_of_two_hops);
            tunings.learn(of.clone(), most, &stages, past, calls, []);
        }
        tunings.weigh(&of, ALL, policy(), 10_000.0);
        let known = tunings.known(&Tenant::default(), 0.0, false).remove(0);
        let mut points = known.choice.marginal.iter();
        let point = points.rfind(|point| point.k == known.choice.k);
        let rate = calls_of_two_hops as f64 / 2.0;
        assert!((known.calls.unwrap() - rate).abs() < 1e-9);
        let rate = 1.0 + point.unwrap().extra_targets / 2.0;
        (known.choice, rate)
    };
    let (_, within) = chosen(2);
    assert!(within > 1.0 && within <= 1.5, "{within}");
    // Far beyond the limit nothing may be built that could save anything.
    let (off, _) = chosen(4);
    assert_eq!((off.k, off.reason), (NonZeroUsize::MIN, Reason::Spent));
}

#[test]
fn nothing_is_chosen_before_anything_was_played() {
    let (tunings, of) = taught(true, 2);
    let mut settings = Settings::default();
    let choice = tunings
        .settle(&of, ALL, 0.0, NonZeroUsize::MAX, &mut settings)
        .unwrap();
    assert!(
        !matches!(choice.reason, Reason::Played { .. }),
        "{choice:?}"
    );
    assert_eq!(settings.policy, Settings::default().policy);
}

/// Three quarters of the guesses are right and all say so: every setting builds on them, and makes an eighth more
/// calls than k = 1.
#[test]
fn if_every_setting_makes_too_many_calls_and_they_were_made_nothing_is_guessed() {
    for (calls, reason) in [(2, None), (3, Some(Reason::Spent))] {
        let options = TunerOptions {
            calls_max: 1.1,
            ..TunerOptions::default()
        };
        let most = NonZeroUsize::new(100).unwrap();
        let tunings = Tunings::new(options, most);
        let of = Owned::new(&Tenant::default(), SpeculatorKind::Hot);
        for question in 1..=24_u32 {
            let right = if question.is_multiple_of(4) {
                u32::MAX
            } else {
                1
            };
            let (past, stages) = asked(question, true, right, None, |_| Some(0.9));
            tunings.learn(of.clone(), most, &stages, past, Some(calls), []);
        }
        tunings.weigh(&of, ALL, policy(), 10_000.0);
        let choice = tunings
            .known(&Tenant::default(), 0.0, false)
            .remove(0)
            .choice;
        assert_eq!(
            choice.k == NonZeroUsize::MIN,
            reason.is_some(),
            "{choice:?}"
        );
        if let Some(reason) = reason {
            assert_eq!(choice.reason, reason);
        }
    }
}

#[test]
fn whoever_is_quiet_is_told_of_no_drafts() {
    let (tunings, of) = drafted_after(true, u32::MAX, Some(true), 200);
    tunings.weigh(&of, ALL, policy(), 10_000.0);
    for (is_quiet, k) in [(false, TWO), (true, NonZeroUsize::MIN)] {
        let known = tunings.known(&of.tenant, 0.0, is_quiet).remove(0);
        assert_eq!(known.choice.k, k);
        assert_eq!(known.drafts.pay, !is_quiet);
    }
}
