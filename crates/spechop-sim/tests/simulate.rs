//! The simulator against hand-worked timelines, and against the closed forms.

use std::num::NonZeroUsize;

use spechop_sim::{Chances, Draw, Hop, Rules, Shape, Simulator, Trace, read_traces};
use spechop_theory::Setting;
use spechop_types::Chance;
use spechop_window::{Policy, Width};

fn width(k: usize) -> Width {
    NonZeroUsize::new(k).map_or(Width::UNBOUNDED, Width::bounded)
}

/// Segment 100 ms, target 1,000 ms, guess 50 ms, final segment 100 ms.
fn steady(right: &[bool]) -> Trace {
    let hop = |accepted: &bool| Hop {
        segment_ms: 100.0,
        target_ms: 1000.0,
        speculation_ms: 50.0,
        accepted: *accepted,
        confidence: None,
        guessed: true,
        right_guess: None,
        draft_held: None,
        depends_on: None,
    };
    Trace {
        id: "steady".into(),
        hops: right.iter().map(hop).collect(),
        final_ms: 100.0,
    }
}

#[track_caller]
fn check(trace: &Trace, k: usize, latency_ms: f64, calls: [u64; 3]) {
    check_policy(trace, k, Policy::EAGER, latency_ms, calls, 0);
}

#[track_caller]
fn check_policy(
    trace: &Trace,
    k: usize,
    policy: Policy,
    latency_ms: f64,
    calls: [u64; 3],
    salvaged: u64,
) {
    let got = Simulator::new().run(trace, Rules::new(width(k), policy));
    assert!(
        (got.latency_ms - latency_ms).abs() < 1e-9,
        "k = {k}: {} ms, not {latency_ms}",
        got.latency_ms
    );
    let made = [
        got.calls.segments,
        got.calls.targets,
        got.calls.speculations,
    ];
    assert_eq!(made, calls, "k = {k}");
    assert_eq!(got.salvaged, salvaged, "k = {k}");
}

#[test]
fn timelines_worked_by_hand() {
    let right = steady(&[true, true, true]);
    check(&right, 1, 3400.0, [4, 3, 0]);
    // Third sub-question at 1,200: its guess waits for it from 300 on.
    check(&right, 2, 2200.0, [4, 3, 3]);
    check(&right, 4, 1400.0, [4, 3, 3]);
    check(&right, 0, 1400.0, [4, 3, 3]);
    let wrong = steady(&[false, false]);
    check(&wrong, 1, 2300.0, [3, 2, 0]);
    // Behind the wrong guess: the second sub-question, its look-up and guess, a final segment. Then
    // all of it again, with a final segment behind the second wrong guess.
    check(&wrong, 0, 2300.0, [6, 3, 3]);
    check(&steady(&[]), 3, 100.0, [1, 0, 0]);
}

/// Guesses wait for room, and branches for guesses.
#[test]
fn the_papers_algorithm_worked_by_hand() {
    let right = steady(&[true, true, true]);
    let check = |k, latency_ms, calls| check_policy(&right, k, Policy::PAPER, latency_ms, calls, 0);
    check(1, 3400.0, [4, 3, 0]);
    // The second guess is asked for when there is room again, at 1,100, and is there at 1,150: the third
    // sub-question is written at 1,250, and its look-up ends at 2,250.
    check(2, 2250.0, [4, 3, 3]);
    check(3, 1400.0, [4, 3, 3]);
    check(0, 1400.0, [4, 3, 3]);
    // A guess that comes after its look-up has is no use to the head, and is built upon behind it.
    let mut slow = steady(&[true, true]);
    slow.hops[1].speculation_ms = 2000.0;
    slow.hops[1].target_ms = 200.0;
    check_policy(&slow, 0, Policy::PAPER, 1200.0, [3, 2, 2], 0);
    check_policy(&slow, 0, Policy::EAGER, 1100.0, [3, 2, 2], 0);
}

#[test]
fn rounds_worked_by_hand() {
    let right = steady(&[true, true, true]);
    let rounds = Policy {
        continuous: false,
        ..Policy::EAGER
    };
    // The second hop is settled at 1,250; only then is the third one begun. Continuous: 2,200.
    check_policy(&right, 2, rounds, 2350.0, [4, 3, 3], 0);
    check_policy(&right, 4, rounds, 1400.0, [4, 3, 3], 0);
}

/// The first guess is certain, the others are as good as a coin.
#[test]
fn the_gate_worked_by_hand() {
    let mut trace = steady(&[true, true, true]);
    trace.hops[0].confidence = Some(1.0);
    let gate = |share| Policy {
        chance_min: Chance::of(share),
        ..Policy::EAGER
    };
    check_policy(&trace, 0, gate(0.25), 1400.0, [4, 3, 3], 0);
    // The last segment waits until one of the two is known to hold, at 1,250.
    check_policy(&trace, 0, gate(0.26), 1400.0, [4, 3, 3], 0);
    // The third sub-question waits until then, too.
    check_policy(&trace, 0, gate(0.51), 2450.0, [4, 3, 3], 0);
    check_policy(&trace, 0, gate(1.0), 2450.0, [4, 3, 3], 0);
    // Nothing more is known of those that say nothing than how many are right.
    let mut rules = Rules::new(width(0), gate(0.51));
    rules.guess_chance = Chance::CERTAIN;
    assert_eq!(Simulator::new().run(&trace, rules).latency_ms, 1400.0);
}

/// Two hops, neither of which needs the other's answer.
fn independent() -> Trace {
    let mut trace = steady(&[false, false]);
    for hop in &mut trace.hops {
        hop.depends_on = Some([].into());
    }
    trace
}

#[test]
fn salvage_worked_by_hand() {
    let salvage = Policy::default();
    // Without it, the wrong guess at 1,100 costs the second look-up, which runs since 250.
    check(&independent(), 0, 2300.0, [6, 3, 3]);
    // With it: asked again at 1,200, it answers at 1,250; the answer is written from then on. Its guess
    // is known, so that a final segment is begun behind it for a second time.
    check_policy(&independent(), 0, salvage, 1350.0, [6, 2, 2], 1);
    check_policy(&independent(), 2, salvage, 1350.0, [5, 2, 2], 1);
    check_policy(&independent(), 1, salvage, 2300.0, [3, 2, 0], 0);
    // What depends on the wrong guess is of no use.
    check_policy(&steady(&[false, false]), 0, salvage, 2300.0, [6, 3, 3], 0);
    // An orphan that may not live for the 100 ms until it is asked again.
    let mut brief = Rules::new(width(0), salvage);
    brief.orphan_ms = 99.0;
    assert_eq!(Simulator::new().run(&independent(), brief).salvaged, 0);
    brief.orphan_ms = 101.0;
    assert_eq!(Simulator::new().run(&independent(), brief).salvaged, 1);
}

#[test]
fn plan_ahead_worked_by_hand() {
    let plan_ahead = Policy {
        plan_ahead: true,
        ..Policy::default()
    };
    let mut trace = independent();
    for hop in &mut trace.hops {
        hop.guessed = false;
    }
    check_policy(&trace, 0, Policy::default(), 2300.0, [3, 2, 2], 0);
    // As with a wrong guess: the answer is left open at 150, the second look-up runs from 250 on.
    check_policy(&trace, 0, plan_ahead, 1350.0, [6, 2, 2], 1);
    // Where the second hop needs the first, nothing can be looked up.
    let mut chain = steady(&[false, false]);
    for hop in &mut chain.hops {
        hop.guessed = false;
    }
    check_policy(&chain, 0, plan_ahead, 2300.0, [6, 2, 2], 0);
}

#[test]
fn second_guess_worked_by_hand() {
    let two = Policy {
        guesses_max: NonZeroUsize::new(2).unwrap(),
        ..Policy::EAGER
    };
    let mut trace = steady(&[false, true]);
    check(&trace, 0, 2200.0, [5, 3, 3]);
    trace.hops[0].right_guess = Some(2);
    // Both guesses are built upon at 150; each has two guesses of its own, four final segments. The
    // second one is right, and so is the best guess behind it: answered with the look-up at 1,250.
    check_policy(&trace, 0, two, 1250.0, [7, 3, 3], 0);
    // Room for one of them only.
    check_policy(&trace, 2, two, 2200.0, [4, 3, 3], 0);
}

/// Every sub-question is made of all answers before it, and the first of them is wrong: a text that held them
/// would be twice as long at each hop, and there are as many hops as the server's what-if takes.
#[test]
fn a_wrong_answer_that_everything_is_made_of_takes_no_room() {
    let mut chain = steady(&[true; 64]);
    chain.hops[0].accepted = false;
    chain.hops[0].target_ms = 100_000.0;
    let mut trace = chain.clone();
    for (before, hop) in (0..).zip(&mut trace.hops) {
        hop.depends_on = Some((1..=before).collect());
    }
    let played = |trace| Simulator::new().run(trace, Rules::new(width(0), Policy::default()));
    let outcome = played(&trace);
    // Behind the wrong answer and behind the right one: each hop but the first.
    assert_eq!(outcome.calls.targets, 127);
    assert_eq!(outcome, played(&chain));
}

#[test]
fn slow_guess_is_dropped() {
    let mut trace = steady(&[true, true]);
    for hop in &mut trace.hops {
        hop.speculation_ms = 2000.0;
    }
    check(&trace, 3, 2300.0, [3, 2, 2]);
}

/// RelLat over many hops of steady stages tends to the closed form: that of the continuous window, which is
/// ours, and that of the window in rounds, which is Corollary 3 of the paper. A question of n hops is off by
/// the ends of its trajectory, at most one (1 + β) and one β in n (1 + β); the share of right guesses
/// scatters by less than four standard deviations.
#[test]
fn long_questions_tend_to_the_closed_form() {
    let hops = 1_500;
    for (p, alpha, beta) in [
        (0.68, 0.19, 0.10),
        (0.28, 0.03, 0.10),
        (0.41, 0.05, 0.11),
        (0.27, 0.30, 0.74),
        (1.0, 0.1, 0.1),
        (0.0, 0.1, 0.1),
    ] {
        let draw = Draw::new(Chances::paper(p, alpha, beta, 0.0), &[Shape::chain(hops)]).unwrap();
        let trace = draw.traces(7, 1).next().unwrap();
        let mut simulator = Simulator::new();
        let one = simulator
            .run(&trace, Rules::paper(Width::STANDARD))
            .latency_ms;
        let setting = Setting::new(p, alpha, beta, 0.0).unwrap();
        for k in [1, 2, 3, 4, 8, 0] {
            let (continuous, rounds) = match NonZeroUsize::new(k) {
                Some(k) => (setting.rel_lat_continuous(k), setting.rel_lat_k(k)),
                None => (setting.rel_lat_oracle(), f64::NAN),
            };
            // dRelLat/dp is at most 1 for every k; 4 standard deviations of the share.
            let scatter = 4.0 * (p * (1.0 - p) / hops as f64).sqrt();
            let bound = 2.0 / hops as f64 + scatter + 1e-9;
            for (expected, in_rounds) in [(continuous, false), (rounds, true)] {
                // An endless round is a continuous window.
                if in_rounds && k == 0 {
                    continue;
                }
                let mut rules = Rules::new(width(k), Policy::EAGER);
                rules.policy.continuous = !in_rounds;
                let got = simulator.run(&trace, rules).latency_ms / one;
                assert!(
                    (got - expected).abs() <= bound,
                    "p {p} α {alpha} β {beta} k {k} in rounds {in_rounds}: {got}, not {expected} ± {bound}"
                );
            }
        }
    }
}

#[test]
fn bad_lines_are_named() {
    let good = r#"{"id":"a","hops":[{"segment_ms":1,"target_ms":2,"speculation_ms":3,"accepted":true}],"final_ms":1}"#;
    let bad = [
        ("", "there is not a single record"),
        ("\n \n", "there is not a single record"),
        ("{", "line 1 is no trace"),
        (r#"{"id":"a","hops":[]}"#, "line 1 is no trace"),
        (
            r#"{"id":"a","hops":[],"final_ms":-1}"#,
            "line 1: final_ms is -1.0; it must be",
        ),
        (
            r#"{"id":"a","hops":[],"final_ms":1e12}"#,
            "line 1: final_ms is 1000000000000.0; it",
        ),
        (
            r#"{"id":"a","hops":[],"final_ms":NaN}"#,
            "line 1 is no trace",
        ),
        (
            &good.replace(":2,", ":-2,"),
            "line 1: hops[0].target_ms is -2.0; it must be",
        ),
        (
            &format!("{good}\n{good}"),
            "line 2: the id \"a\" has stood before",
        ),
        (&format!("{good}\nx"), "line 2 is no trace"),
        (
            &good.replace("true}", "true,\"depends_on\":[1]}"),
            "line 1: hops[0] depends on a hop that is not an earlier one",
        ),
        (
            &good.replace("true}", "true,\"guessed\":false}"),
            "line 1: hops[0] accepts a guess that was not made",
        ),
        (
            &good.replace("true}", "true,\"confidence\":1.01}"),
            "line 1: hops[0].confidence is 1.01; it must be a share from 0 to 1",
        ),
        (
            &good.replace("true}", "true,\"confidence\":-0.1}"),
            "line 1: hops[0].confidence is -0.1; it must be",
        ),
        (
            &good.replace("true}", "false,\"guessed\":false,\"confidence\":0.5}"),
            "line 1: hops[0] is confident of a guess that was not made",
        ),
        (
            &good.replace("true}", "false,\"right_guess\":1}"),
            "line 1: hops[0] has a right_guess below 2",
        ),
    ];
    for (text, words) in bad {
        let error = read_traces(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(words), "{error:?} for {text:?}");
    }
    assert_eq!(
        read_traces(format!("\n{good}\n").as_bytes()).unwrap().len(),
        1
    );
}

/// Of the guesses that say they are right with some chance, that share is right, and as much of what
/// becomes of them is told as was asked for. What is drawn beside is the same.
#[test]
fn drawn_confidences_are_calibrated_and_as_sharp_as_asked() {
    for (p, missing) in [(0.3, 0.0), (0.6, 0.5), (0.0, 0.2), (1.0, 0.0)] {
        for sharpness in [0.0, -0.0, 1e-12, 0.01, 0.35, 0.9, 1.0 - 1e-12, 1.0] {
            let plain = Chances {
                missing,
                ..Chances::paper(p, 0.05, 0.1, 0.4)
            };
            let chances = Chances {
                sharpness: Some(sharpness),
                ..plain
            };
            let traces = |chances| -> Vec<Trace> {
                let draw = Draw::new(chances, &[Shape::chain(6)]).unwrap();
                draw.traces(3, 2_000).collect()
            };
            let mut said = traces(chances);
            let hops = || said.iter().flat_map(|trace| &trace.hops);
            let what = format!("p {p}, missing {missing}, sharpness {sharpness}");
            assert!(hops().all(|hop| hop.guessed == hop.confidence.is_some()));
            // Bins of a tenth, each with its guesses, what they said in all, and how many were right.
            let mut bins = [(0.0_f64, 0.0_f64, 0.0_f64); 10];
            let (mut n, mut squares) = (0.0_f64, 0.0_f64);
            let mean = chances.guess_chance();
            for hop in hops() {
                let Some(share) = hop.confidence else {
                    continue;
                };
                assert!((0.0..=1.0).contains(&share), "{what}: {share}");
                let bin = &mut bins[((share * 10.0) as usize).min(9)];
                bin.0 += 1.0;
                bin.1 += share;
                bin.2 += f64::from(u8::from(hop.accepted));
                n += 1.0;
                squares += (share - mean).powi(2);
            }
            for (count, said, right) in bins {
                // Four standard deviations, at most one half each.
                assert!(
                    (said - right).abs() <= 2.0 * count.sqrt() + 1e-6,
                    "{what}: {bins:?}"
                );
            }
            let told = squares / n;
            let asked = sharpness * mean * (1.0 - mean);
            assert!((told - asked).abs() < 0.012, "{what}: {told}, not {asked}");
            for hop in said.iter_mut().flat_map(|trace| &mut trace.hops) {
                hop.confidence = None;
            }
            assert_eq!(said, traces(plain), "{what}");
        }
    }
    for sharpness in [-0.1, 1.1, f64::NAN] {
        let chances = Chances {
            sharpness: Some(sharpness),
            ..Chances::paper(0.5, 0.05, 0.1, 0.4)
        };
        assert!(Draw::new(chances, &[Shape::chain(2)]).is_none());
    }
}

/// Each look-up begins with its segment if it was foreseen, and no later than without a draft if not.
#[test]
fn a_right_draft_hides_the_segment_and_a_wrong_one_costs_a_call() {
    let drafting = Policy {
        drafts_max: 1,
        ..Policy::EAGER
    };
    let played = |held: [Option<bool>; 2], k, policy| {
        let mut trace = steady(&[false, false]);
        for (hop, held) in trace.hops.iter_mut().zip(held) {
            hop.draft_held = held;
        }
        let got = Simulator::new().run(&trace, Rules::new(width(k), policy));
        (got.latency_ms, got.calls.targets, got.foreseen)
    };
    let both = [Some(true); 2];
    // Twice 100 and 1,000 ms, and the last segment.
    assert_eq!(played(both, 1, drafting), (2300.0, 2, 0));
    assert_eq!(played(both, 2, Policy::EAGER), (2300.0, 3, 0));
    // One of them behind the wrong guess.
    assert_eq!(played(both, 2, drafting), (2100.0, 3, 3));
    assert_eq!(played([Some(true), None], 2, drafting), (2200.0, 3, 1));
    assert_eq!(played([Some(false); 2], 2, drafting), (2300.0, 6, 0));
}

/// A drafter that is often right is not judged by a speculator that seldom is.
#[test]
fn the_gate_weighs_a_draft_by_its_own_chance() {
    let mut trace = steady(&[false, false]);
    for hop in &mut trace.hops {
        hop.draft_held = Some(true);
    }
    let policy = Policy {
        drafts_max: 1,
        chance_min: Chance::of(0.3),
        ..Policy::EAGER
    };
    let played = |draft_chance: f64| {
        let rules = Rules {
            guess_chance: Chance::of(0.2),
            draft_chance: Chance::of(draft_chance),
            ..Rules::new(width(2), policy)
        };
        let got = Simulator::new().run(&trace, rules);
        (got.latency_ms, got.calls.targets, got.foreseen)
    };
    // Nothing is built upon the guesses, so each hop waits for the one before, without its segment.
    assert_eq!(played(0.9), (2100.0, 2, 2));
    assert_eq!(played(0.3), (2100.0, 2, 2));
    assert_eq!(played(0.2), (2300.0, 2, 0));
}
