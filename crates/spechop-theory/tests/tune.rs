//! What a tuner chooses, and how it says why.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::num::NonZeroUsize;

use serde_json::{Value, json};
use spechop_theory::{Bound, Choice, Learnt, Reason, Stages, Tuner, TunerOptions};

fn k(k: usize) -> NonZeroUsize {
    NonZeroUsize::new(k).unwrap()
}

/// Segments of 100 ms, look-ups of 1,000 ms; guesses of `speculation` ms, right as `right` says.
fn question(speculation: Option<f64>, right: &[bool]) -> Vec<Stages> {
    let hop = |accepted: &bool| Stages {
        segment: Some(100.0),
        target: Some(1_000.0),
        speculation,
        accepted: speculation.map(|_| *accepted),
    };
    right.iter().map(hop).collect()
}

/// `count` questions of four hops, `right` of them guessed.
fn fed(options: TunerOptions, count: usize, right: usize) -> Tuner {
    let mut tuner = Tuner::new(options);
    let hits: Vec<bool> = (0..4).map(|hop| hop < right).collect();
    for _ in 0..count {
        tuner.record(k(3), &question(Some(50.0), &hits));
    }
    tuner
}

#[track_caller]
fn check(choice: &Choice, k: usize, words: &str) {
    assert_eq!(choice.k.get(), k, "{choice:?}");
    assert_eq!(choice.reason.to_string(), words);
}

#[test]
fn says_what_it_does_and_why() {
    let options = TunerOptions::default();
    check(
        &fed(options, 0, 0).choose(),
        3,
        "the default, with 0 of 8 guesses seen yet",
    );
    check(
        &fed(options, 1, 4).choose(),
        3,
        "the default, with 4 of 8 guesses seen yet",
    );
    // A fifth branch would only write the answer ahead of a look-up that outlasts it anyway.
    check(
        &fed(options, 50, 4).choose(),
        4,
        "speculation saves 66 %; wider windows would save too little more",
    );
    let narrow = TunerOptions {
        k_max: k(2),
        ..options
    };
    check(
        &fed(narrow, 50, 4).choose(),
        2,
        "speculation saves 48 %; no wider window is allowed",
    );
    check(
        &fed(options, 50, 1).choose(),
        3,
        "speculation saves 16 %; wider windows would save too little more",
    );
    let mut off = fed(options, 50, 0);
    for _ in 1..10 {
        check(
            &off.choose(),
            1,
            "speculation is off: with at most 2.0 % of guesses right it would save at most 1.3 %; \
             one question in 10 probes",
        );
    }
    check(
        &off.choose(),
        2,
        "speculation is off, and one question in 10, this one, probes whether it would pay",
    );
    check(
        &fed(options, 4, 0).choose(),
        2,
        "speculation seems to save 0.0 %, at most 12.7 %: the narrowest window until that is certain",
    );
    let never = TunerOptions {
        k_max: k(1),
        ..options
    };
    check(
        &fed(never, 50, 4).choose(),
        1,
        "speculation is switched off: no window wider than 1 is allowed",
    );
}

#[test]
fn the_risk_bounds_the_window() {
    // Guesses of half a look-up: two branches never wait for long.
    let mut tuner = Tuner::new(TunerOptions {
        min_gain: 0.0,
        ..TunerOptions::default()
    });
    for _ in 0..50 {
        tuner.record(k(3), &question(Some(500.0), &[true; 6]));
    }
    let choice = tuner.choose();
    assert_eq!(choice.k_epsilon, Some(k(2)));
    assert_eq!(choice.k, k(2));
    assert!(
        matches!(
            choice.reason,
            Reason::Pays {
                bound: Bound::Risk,
                ..
            }
        ),
        "{choice:?}"
    );
}

#[test]
fn late_guesses_are_of_no_use() {
    let mut tuner = Tuner::new(TunerOptions::default());
    for _ in 0..10 {
        tuner.record(k(3), &question(None, &[true; 4]));
    }
    let choice = tuner.choose();
    assert!(
        matches!(choice.reason, Reason::DoesNotPay { .. }),
        "{choice:?}"
    );
    assert_eq!((choice.p, choice.setting), (None, None));
    assert_eq!(choice.alpha.unwrap().value, 1.0);
}

/// At k = 1 nothing is guessed, and nothing is learnt of guesses.
#[test]
fn the_standard_agent_teaches_nothing_of_guesses() {
    let mut tuner = Tuner::new(TunerOptions::default());
    for _ in 0..50 {
        tuner.record(k(1), &question(None, &[false; 4]));
    }
    let choice = tuner.choose();
    assert!(matches!(choice.reason, Reason::WarmUp { guesses: 0, .. }));
    assert_eq!(choice.alpha, None);
    assert!((choice.beta.unwrap().value - 0.1).abs() < 1e-9);
}

#[test]
fn looking_is_not_choosing() {
    let mut tuner = fed(TunerOptions::default(), 50, 0);
    for _ in 0..100 {
        assert!(matches!(tuner.look().reason, Reason::DoesNotPay { .. }));
    }
    let probes = (0..100).filter(|_| matches!(tuner.choose().reason, Reason::Probe { .. }));
    assert_eq!(probes.count(), 10);
}

/// Four hops, all guessed rightly, and the answer.
#[test]
fn steady_stages_can_be_worked_by_hand() {
    let points = fed(TunerOptions::default(), 10, 4).look().marginal;
    // k = 2: the third sub-question waits for the first to commit at 1,100; its guess and the fourth follow
    // at 1,250, and the fourth's look-up ends at 2,350. k = 3: only the fourth waits, from 450 to 1,100.
    // k = 4: nothing does; the fourth is asked at 550.
    let latencies = [4_500.0, 2_350.0, 2_200.0, 1_550.0, 1_550.0];
    assert_eq!(points.len(), latencies.len());
    for (point, latency) in points.iter().zip(latencies) {
        assert!(
            (point.rel_lat - latency / 4_500.0).abs() < 1e-9,
            "{point:?}"
        );
        assert_eq!(point.extra_targets, 0.0);
    }
}

#[test]
fn what_makes_no_sense_is_passed_over() {
    let mut tuner = fed(TunerOptions::default(), 50, 4);
    let before = tuner.look();
    tuner.record(k(3), &[]);
    let nonsense = Stages {
        segment: Some(f64::NAN),
        target: Some(-1.0),
        speculation: Some(f64::INFINITY),
        accepted: None,
    };
    tuner.record(k(3), &[nonsense; 4]);
    assert_eq!(tuner.look().marginal, before.marginal);
}

/// As a file would: written, and read again.
fn read_again(learnt: &Learnt) -> Value {
    serde_json::from_str(&serde_json::to_string(learnt).unwrap()).unwrap()
}

#[test]
fn a_tuner_resumes_where_another_one_stopped() {
    let options = TunerOptions::default();
    for (questions, right) in [(0, 0), (1, 4), (30, 1), (90, 3), (200, 0)] {
        let mut first = fed(options, questions, right);
        first.choose();
        let learnt = serde_json::from_value(read_again(&first.learnt())).unwrap();
        let mut second = Tuner::resume(options, learnt).unwrap();
        // Probes are counted on, and what changed is forgotten alike.
        for n in 0..40 {
            assert_eq!(second.choose(), first.choose(), "{questions}, {right}: {n}");
            let hops = question(Some(70.0 + f64::from(n) / 3.0), &[n % 2 == 0; 3]);
            first.record(k(2), &hops);
            second.record(k(2), &hops);
        }
    }
}

#[test]
fn what_no_tuner_can_have_learnt_is_not_taken_over() {
    let right = read_again(&fed(TunerOptions::default(), 30, 2).learnt());
    for (pointer, wrong) in [
        ("/seen/target/weight", json!(-1.0)),
        ("/seen/target/weight_squares", json!(0.0)),
        ("/seen/segment/sum", json!(-0.5)),
        // Guesses that were right more often than they were compared.
        ("/seen/accepted/sum", json!(1e6)),
        ("/lately/times/0/target", json!(-1.0)),
        (
            "/lately/times",
            json!(vec![right["lately"]["times"][0].clone(); 65]),
        ),
        ("/lately/lengths/0", json!(0)),
        ("/lately/lengths/0", json!(13)),
        ("/lately/verdicts", json!([true; 513].as_slice())),
    ] {
        let mut learnt = right.clone();
        *learnt.pointer_mut(pointer).unwrap() = wrong;
        let learnt = serde_json::from_value(learnt).unwrap();
        let tuner = Tuner::resume(TunerOptions::default(), learnt);
        assert!(tuner.is_none(), "{pointer}");
    }
    let learnt = serde_json::from_value(right).unwrap();
    assert!(Tuner::resume(TunerOptions::default(), learnt).is_some());
    // So many questions without a probe are no reason to forget the rest.
    let mut learnt = read_again(&fed(TunerOptions::default(), 100, 0).learnt());
    learnt["lately"]["unprobed"] = json!(u32::MAX);
    let learnt = serde_json::from_value(learnt).unwrap();
    let mut off = Tuner::resume(TunerOptions::default(), learnt).unwrap();
    assert!(matches!(off.choose().reason, Reason::Probe { .. }));
}

/// What a window saves is saved in the time that is left for it.
#[test]
fn a_full_machine_guesses_nothing_and_a_free_one_does_at_once() {
    let mut tuner = fed(TunerOptions::default(), 50, 4);
    let mut last = k(8);
    for (load, reason) in [
        (
            0.0,
            "speculation saves 66 %; wider windows would save too little more",
        ),
        (
            f64::NAN,
            "speculation saves 66 %; wider windows would save too little more",
        ),
        (
            0.5,
            "speculation saves 33 %; wider windows would save too little more",
        ),
    ] {
        let choice = tuner.choose_under(load);
        check(&choice, choice.k.get(), reason);
        assert!(choice.k >= k(2) && choice.k <= last, "{choice:?}");
        last = choice.k;
    }
    for (load, percent) in [(0.95, 95), (0.999, 100), (7.0, 100)] {
        let words = format!(
            "speculation is off for now: in {percent} % of the last seconds, needed calls left no room for it"
        );
        check(&tuner.choose_under(load), 1, &words);
    }
    check(
        &tuner.choose_under(0.0),
        4,
        "speculation saves 66 %; wider windows would save too little more",
    );
    // The default of a new server, too, and one that only probes.
    assert_eq!(
        fed(TunerOptions::default(), 0, 0).choose_under(0.99).k,
        k(1)
    );
    let mut off = fed(TunerOptions::default(), 100, 0);
    let full: Vec<_> = (0..20).map(|_| off.choose_under(1.0).k.get()).collect();
    assert!(full.iter().all(|k| *k == 1), "{full:?}");
    // A load that nobody knows is none, for a probe as well.
    let choices: Vec<_> = (0..10).map(|_| off.choose_under(f64::NAN)).collect();
    let probe = choices.iter().find(|choice| choice.k == k(2)).unwrap();
    assert!(probe.gain.is_finite(), "{probe:?}");
}

/// Little to save, and little time for it: off for the load, not for the guesses.
#[test]
fn a_small_gain_ends_earlier_under_load() {
    let options = TunerOptions {
        min_gain: 0.05,
        ..TunerOptions::default()
    };
    let tuner = fed(options, 100, 1);
    let free = tuner.look();
    let gain = 0.05..0.25;
    assert!(matches!(free.reason, Reason::Pays { .. }), "{free:?}");
    assert!(gain.contains(&free.gain), "{free:?}");
    assert_eq!(tuner.look_under(0.8).reason, Reason::Busy { load: 0.8 });
    assert_eq!(tuner.look_under(0.0), free);
}

#[test]
fn what_was_played_is_said_in_a_line() {
    let said = |plan_ahead, least| {
        let gain = 0.283;
        Reason::Played {
            gain,
            plan_ahead,
            least,
        }
        .to_string()
    };
    assert_eq!(
        said(true, 0.2),
        "this would have saved 28 % of the last questions' time: a guess is built upon if its branch \
         is needed in 20 % of cases, else its answer is left open"
    );
    assert_eq!(
        said(false, 0.0),
        "this would have saved 28 % of the last questions' time: every guess is built upon, and \
         nothing is planned without one"
    );
}
