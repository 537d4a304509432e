//! What is learnt of the last questions, and the setting that is chosen for the next ones.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::num::NonZeroUsize;

use spechop_sim::{Choices, Fixed, History, Past, PastGuess, PastHop, Rules, Wanted};
use spechop_types::Chance;
use spechop_window::{Policy, ReliabilityCurve, Width};

const EXACTLY: Wanted = Wanted {
    tolerance: 0.0,
    worth: 0.0,
    calls_max: f64::INFINITY,
    load: 0.0,
};
const FREE: Fixed = Fixed {
    k: None,
    k_max: None,
    plan_ahead: None,
    gate: false,
};

fn hop(target_ms: f64, said: f64, accepted: bool, depends_on: &[u32]) -> PastHop {
    PastHop {
        segment_ms: 100.0,
        target_ms,
        guess: PastGuess::Compared {
            ms: 50.0,
            accepted,
            confidence: Some(said),
        },
        draft_held: None,
        depends_on: Some(depends_on.into()),
    }
}

fn history(questions: impl IntoIterator<Item = Vec<PastHop>>) -> History {
    let mut history = History::default();
    for hops in questions {
        history.push(Past {
            hops,
            final_ms: 100.0,
        });
    }
    history
}

fn choices(history: &History, fixed: Fixed) -> Choices {
    let rules = Rules::new(Width::STANDARD, Policy::default());
    Choices::of(history, rules, NonZeroUsize::new(4).unwrap(), fixed)
}

#[test]
fn guesses_are_taken_for_what_they_were_worth() {
    // Of those that claim 2 %, half are right; of those that claim 80 %, all; and a claim of 50 % is no better
    // than one of 20 %.
    let said = |question: u32| match question % 4 {
        0 => (0.02, question.is_multiple_of(8)),
        1 => (0.2, !question.is_multiple_of(3)),
        2 => (0.5, !question.is_multiple_of(3)),
        _ => (0.8, true),
    };
    let questions = |n: u32| {
        history((0..n).map(|question| {
            let (said, accepted) = said(question);
            vec![hop(1000.0, said, accepted, &[])]
        }))
    };
    let known = questions(192).calibration();
    let right = |said: f64| known.of(Chance::of(said)).share();
    assert!((right(0.02) - 0.5).abs() < 0.03, "{}", right(0.02));
    assert!(right(0.2) > 0.5 && right(0.2) < right(0.35) && right(0.5) < 0.9);
    assert!((right(0.35) - 2.0 / 3.0).abs() < 0.03, "{}", right(0.35));
    assert!(right(0.8) > 0.97 && right(1.0) == right(0.8));
    // All claim the same, and the later half is right.
    let alike = (0..24).map(|question| vec![hop(1000.0, 0.5, question >= 12, &[])]);
    let alike = history(alike).calibration().of(Chance::EVEN).share();
    assert!((alike - 0.5).abs() < 0.03, "{alike}");
    // Too few prove nothing.
    assert_eq!(questions(20).calibration(), ReliabilityCurve::AS_SAID);
}

#[test]
fn what_has_run_for_long_may_run_on() {
    // Nine calls of ten take a second, the tenth takes twenty.
    let questions = (0..50).map(|question: u32| {
        let target = |at: u32| match (2 * question + at) % 10 {
            0 => 20_000.0,
            _ => 1_000.0,
        };
        vec![
            hop(target(0), 0.5, true, &[]),
            hop(target(1), 0.5, true, &[]),
        ]
    });
    let hidden = history(questions).hidden();
    // What comes next takes 100 ms at the end, else 1.1 s: at the beginning a second of it is hidden at most.
    assert!((540..=560).contains(&hidden.after(0.0)), "{hidden:?}");
    assert_eq!(hidden.after(999.0), hidden.after(0.0));
    // Whatever takes longer than that takes much longer.
    assert_eq!(hidden.after(1_000.0), 600);
    assert_eq!(hidden.after(20_000.0), 0);
    assert_eq!(history([]).hidden().after(0.0), 0);
}

#[test]
fn hopeless_guesses_are_planned_without() {
    // Guesses are wrong and say so; no sub-question waits for an answer.
    let questions = || (0..24).map(|_| (0..3).map(|_| hop(1000.0, 0.02, false, &[])).collect());
    let all = choices(&history(questions()), FREE);
    let best = all.best(FREE, EXACTLY).unwrap();
    assert!(best.means.rel_lat < 0.6, "{best:?}");
    assert!((best.means.targets - all.standard_targets()).abs() < 1e-9);
    // If each needs the one before, nothing helps, and nothing is called in vain.
    let chain = |_| {
        let depends = [&[][..], &[1], &[2]];
        depends.map(|on| hop(1000.0, 0.02, false, on)).to_vec()
    };
    let all = choices(&history((0..24).map(chain)), FREE);
    let best = all.best(FREE, EXACTLY).unwrap();
    assert!(best.weighing.price_ms > 0);
    assert!((best.means.targets - all.standard_targets()).abs() < 1e-9);
    assert!((best.means.rel_lat - 1.0).abs() < 1e-9);
}

#[test]
fn likely_guesses_are_built_upon_and_unlikely_ones_not() {
    // Half of the guesses are right, and every one of them says so.
    let chain = |question: u32| {
        let hop = |at: u32, on: &[u32]| {
            let right = (question + at).is_multiple_of(2);
            hop(1000.0, if right { 0.3 } else { 0.1 }, right, on)
        };
        vec![hop(0, &[]), hop(1, &[1]), hop(2, &[2])]
    };
    let all = choices(&history((0..40).map(chain)), FREE);
    let best = all.best(FREE, EXACTLY).unwrap();
    let least = best.weighing.least(50.0);
    assert!(best.weighing.calibration.of(Chance::of(0.3)) >= least);
    assert!(best.weighing.calibration.of(Chance::of(0.1)) < least);
    let open = all.settings().iter().filter(|at| at.weighing.price_ms == 0);
    let quickest = open.map(|at| at.means.rel_lat).fold(1.0, f64::min);
    assert!((best.means.rel_lat - quickest).abs() < 1e-9);
    assert!((best.means.targets - all.standard_targets()).abs() < 1e-9);
    // As quick with all of them, and with more calls.
    let fixed = Fixed { gate: true, ..FREE };
    let open = all.best(fixed, EXACTLY).unwrap();
    assert!(open.means.targets > best.means.targets + 0.3);
}

#[test]
fn what_is_fixed_is_kept_and_prices_and_load_are_paid() {
    let chain = |question: u32| {
        let hop = |at: u32, on: &[u32]| hop(1000.0, 0.5, !(question + at).is_multiple_of(3), on);
        vec![hop(0, &[]), hop(1, &[1]), hop(2, &[])]
    };
    let history = history((0..40).map(chain));
    let all = choices(&history, FREE);
    for k in 2..=4 {
        for plan_ahead in [false, true] {
            let fixed = Fixed {
                k: NonZeroUsize::new(k),
                plan_ahead: Some(plan_ahead),
                gate: true,
                ..FREE
            };
            let best = all.best(fixed, EXACTLY).unwrap();
            assert_eq!((best.k.get(), best.plan_ahead), (k, plan_ahead));
            assert_eq!(best.weighing.price_ms, 0);
        }
    }
    let none = Fixed {
        k: NonZeroUsize::new(7),
        ..FREE
    };
    assert_eq!(all.best(none, EXACTLY), None);
    let narrow = Fixed {
        k_max: NonZeroUsize::new(2),
        ..FREE
    };
    assert_eq!(all.best(narrow, EXACTLY).unwrap().k.get(), 2);
    // What is not played cannot be chosen.
    let ahead = Fixed {
        plan_ahead: Some(true),
        ..FREE
    };
    let without = choices(
        &history,
        Fixed {
            plan_ahead: Some(false),
            gate: true,
            ..FREE
        },
    );
    assert_eq!(without.best(ahead, EXACTLY), None);
    assert!(
        without
            .settings()
            .iter()
            .all(|at| !at.plan_ahead && at.weighing.price_ms == 0)
    );
    // The dearer a call, the fewer are made; and if there is no time for any, none is worth it.
    let targets = |wanted| all.best(FREE, wanted).unwrap().means.targets;
    assert!(
        targets(Wanted {
            worth: 1.0,
            ..EXACTLY
        }) <= targets(EXACTLY)
    );
    assert!(
        targets(Wanted {
            tolerance: 0.05,
            load: 0.9,
            ..EXACTLY
        }) <= targets(EXACTLY)
    );
    assert!(
        choices(&History::default(), FREE)
            .best(FREE, EXACTLY)
            .is_none()
    );
}

/// A limit of target calls holds whatever is saved by more; if nothing keeps to it, the fewest are made.
#[test]
fn target_calls_have_a_limit() {
    // Half of the guesses are wrong, and what they say of themselves tells which, more or less.
    let chain = |question: u32| {
        let said = |at: u32| match (question + at) % 5 {
            0 => (0.1, false),
            1 => (0.3, (question + at).is_multiple_of(2)),
            2 => (0.5, (question + at).is_multiple_of(3)),
            3 => (0.7, true),
            _ => (0.9, true),
        };
        let hops = (0..4_u32).map(|at| {
            let (said, accepted) = said(at);
            let needed = [at];
            hop(1_000.0, said, accepted, &needed[usize::from(at == 0)..])
        });
        hops.collect::<Vec<_>>()
    };
    let history = history((0..60).map(chain));
    let all = choices(&history, FREE);
    let standard = all.standard_targets();
    let best = |calls_max| {
        let wanted = Wanted {
            calls_max,
            ..EXACTLY
        };
        all.best(FREE, wanted).unwrap().means
    };
    let unlimited = best(f64::INFINITY);
    assert!(unlimited.targets > 1.2 * standard, "{unlimited:?}");
    let mut before = unlimited;
    for limit in [1.2, 1.1, 1.05] {
        let now = best(limit);
        assert!(now.targets <= limit * standard, "{limit}: {now:?}");
        assert!(now.rel_lat >= before.rel_lat, "{limit}: {now:?}");
        before = now;
    }
    let fewest = all.settings().iter().map(|at| at.means.targets);
    let fewest = fewest.min_by(f64::total_cmp).unwrap();
    assert_eq!(best(0.0).targets, fewest);
}
