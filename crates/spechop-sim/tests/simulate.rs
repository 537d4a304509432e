//! The simulator against hand-worked timelines, and against the closed forms.

use std::num::NonZeroUsize;

use spechop_sim::{Draw, Hop, Outcome, Simulator, Trace, read_traces};
use spechop_theory::Setting;
use spechop_window::Width;

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
    };
    Trace {
        id: "steady".into(),
        hops: right.iter().map(hop).collect(),
        final_ms: 100.0,
    }
}

#[track_caller]
fn check(trace: &Trace, k: usize, latency_ms: f64, calls: [u64; 3]) {
    let Outcome {
        latency_ms: got,
        calls: made,
    } = Simulator::new().run(trace, width(k));
    assert!(
        (got - latency_ms).abs() < 1e-9,
        "k = {k}: {got} ms, not {latency_ms}"
    );
    assert_eq!(
        [made.segments, made.targets, made.speculations],
        calls,
        "k = {k}"
    );
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

#[test]
fn slow_guess_is_dropped() {
    let mut trace = steady(&[true, true]);
    for hop in &mut trace.hops {
        hop.speculation_ms = 2000.0;
    }
    check(&trace, 3, 2300.0, [3, 2, 2]);
}

/// RelLat over many hops of steady stages tends to the closed form of Theorem 2. A question of
/// n hops is off by the ends of its trajectory, at most one (1 + β) and one β in n (1 + β); the
/// share of right guesses scatters by less than four standard deviations.
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
        let draw = Draw::new(p, alpha, beta, 0.0, hops).unwrap();
        let trace = draw.traces(7, 1).next().unwrap();
        let mut simulator = Simulator::new();
        let one = simulator.run(&trace, Width::STANDARD).latency_ms;
        let setting = Setting::new(p, alpha, beta, 0.0).unwrap();
        for k in [1, 2, 3, 4, 8, 0] {
            let expected = match NonZeroUsize::new(k) {
                Some(k) => setting.rel_lat_k(k),
                None => setting.rel_lat_oracle(),
            };
            let got = simulator.run(&trace, width(k)).latency_ms / one;
            // dRelLat/dp is at most 1 for every k; 4 standard deviations of the share.
            let scatter = 4.0 * (p * (1.0 - p) / hops as f64).sqrt();
            let bound = 2.0 / hops as f64 + scatter + 1e-9;
            assert!(
                (got - expected).abs() <= bound,
                "p {p} α {alpha} β {beta} k {k}: {got}, not {expected} ± {bound}"
            );
        }
    }
}

#[test]
fn bad_lines_are_named() {
    let good = r#"{"id":"a","hops":[{"segment_ms":1,"target_ms":2,"speculation_ms":3,"accepted":true}],"final_ms":1}"#;
    let bad = [
        ("", "there is not a single trace"),
        ("\n \n", "there is not a single trace"),
        ("{", "line 1 is no trace"),
        (r#"{"id":"a","hops":[]}"#, "line 1 is no trace"),
        (
            r#"{"id":"a","hops":[],"final_ms":-1}"#,
            "line 1: final_ms is -1; it must be",
        ),
        (
            r#"{"id":"a","hops":[],"final_ms":1e12}"#,
            "line 1: final_ms is 1000000000000; it",
        ),
        (
            r#"{"id":"a","hops":[],"final_ms":NaN}"#,
            "line 1 is no trace",
        ),
        (
            &good.replace(":2,", ":-2,"),
            "line 1: hops[0].target_ms is -2; it must be",
        ),
        (
            &format!("{good}\n{good}"),
            "line 2: the id \"a\" has stood before",
        ),
        (&format!("{good}\nx"), "line 2 is no trace"),
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
