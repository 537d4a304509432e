//! The equations of speculative tool calls (arXiv 2512.15834), held against the simulator: a draft is a call
//! that is guessed while the model still writes it.
//!
//! Equations 4 to 6 speak of an inference engine. What its tokens take is reckoned here; when they are
//! waited for is the simulator's to say.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::num::NonZeroUsize;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use spechop_sim::{Hop, Rules, Simulator, Trace};
use spechop_theory::{Calls, Engine, Turn};
use spechop_window::{Policy, Width};

const TRIALS: usize = 1_000;
/// Requests of a trial.
const REQUESTS: usize = 4;

fn ms(seconds: f64) -> f64 {
    1000.0 * seconds
}

/// Nothing is guessed but what is asked.
fn hop(segment: f64, target: f64, held: bool) -> Hop {
    Hop {
        segment_ms: ms(segment),
        target_ms: ms(target),
        speculation_ms: 0.0,
        accepted: false,
        confidence: None,
        guessed: false,
        right_guess: None,
        draft_held: Some(held),
        depends_on: None,
    }
}

fn seconds(hops: Vec<Hop>, k: usize) -> f64 {
    let policy = Policy {
        drafts_max: 1,
        ..Policy::EAGER
    };
    let width = Width::bounded(NonZeroUsize::new(k).unwrap());
    let trace = Trace {
        id: "drawn".into(),
        hops,
        final_ms: 0.0,
    };
    Simulator::new()
        .run(&trace, Rules::new(width, policy))
        .latency_ms
        / 1000.0
}

/// Mean, and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread = values.iter().map(|value| (value - mean).powi(2));
    (mean, (spread.sum::<f64>() / (n - 1.0) / n).sqrt())
}

/// The difference of what was simulated and what the equation says, trial by trial, is no more than chance.
#[track_caller]
fn agree(differences: &[f64], scale: f64) {
    let (off, error) = mean(differences);
    assert!(
        off.abs() <= 4.0 * error + 1e-9 * scale,
        "off by {off}, standard error {error}, of {scale}"
    );
}

#[test]
fn a_drafted_request_takes_what_equation_1_says() {
    // G, g, T and α: what is hidden is the tool, the writing, or hardly anything.
    for (generation, guess, tool, acceptance) in [
        (2.0, 0.5, 2.0, 0.8),
        (2.0, 0.3, 0.4, 0.6),
        (0.3, 0.1, 4.0, 0.9),
        (1.0, 0.9, 1.0, 0.3),
    ] {
        for is_steady in [true, false] {
            let mut rng = SmallRng::seed_from_u64(7);
            let mut time = |mean: f64| {
                let drawn: f64 = Exp1.sample(&mut rng);
                if is_steady {
                    mean
                } else {
                    mean * drawn.max(1e-6)
                }
            };
            let drawn: Vec<[f64; 3]> = (0..TRIALS * REQUESTS)
                .map(|_| [time(generation), time(guess), time(tool)])
                .collect();
            let mut off = Vec::with_capacity(TRIALS);
            let (mut standard, mut speculative) = (0.0, 0.0);
            for trial in drawn.chunks(REQUESTS) {
                let mut expected = [0.0; 2];
                let mut hops = [Vec::new(), Vec::new()];
                for [generation, guess, tool] in trial {
                    let calls = Calls::new(*generation, *guess, *tool, acceptance).unwrap();
                    expected[0] += calls.standard();
                    expected[1] += calls.speculative();
                    let held = rng.random_bool(acceptance);
                    // The call begins when it is guessed, not when the model begins to write.
                    let late = if held { *guess } else { 0.0 };
                    hops[0].push(hop(*generation, *tool, held));
                    hops[1].push(hop(*generation, late + *tool, held));
                }
                let [plain, drafted] = hops;
                let (plain, drafted) = (seconds(plain, 1), seconds(drafted, 2));
                assert!((plain - expected[0]).abs() < 1e-9 * plain);
                off.push(drafted - expected[1]);
                standard += plain;
                speculative += drafted;
            }
            agree(&off, speculative / TRIALS as f64);
            // Equations 2 and 3, and lemma 1: drafts save time, and never half of it.
            let calls = Calls::new(generation, guess, tool, acceptance).unwrap();
            let speed_up = standard / speculative;
            assert!(speed_up < 2.0, "{speed_up}");
            if is_steady {
                assert!(speed_up > 1.0, "{speed_up}");
                assert!(
                    (speed_up / calls.speed_up() - 1.0).abs() < 0.02,
                    "{speed_up}"
                );
                assert!(speed_up < 1.01 * calls.speed_up_bound());
                let all = [true; REQUESTS].map(|held| hop(generation, guess + tool, held));
                let best = calls.standard() * REQUESTS as f64 / seconds(all.into(), 2);
                assert!((best - calls.speed_up_max()).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn an_engine_takes_what_equations_4_to_6_say() {
    let (overhead, prefill, decode, prompt) = (0.1, 0.001, 0.01, 1000.0);
    let turns: Vec<Turn> = [(200.0, 50.0, 500.0, 1.0), (300.0, 20.0, 800.0, 2.5)]
        .map(|(reasoning, call, output, tool)| Turn {
            reasoning,
            call,
            output,
            tool,
        })
        .into();
    let engine = Engine::new(overhead, prefill, decode, prompt, turns.clone()).unwrap();
    let request = 2.0 * overhead;
    let written = |turn: &Turn| decode * (turn.reasoning + turn.call);
    let (mut read, mut again) = (prompt, 0.0);
    let mut vanilla = Vec::new();
    let mut cached = Vec::new();
    for turn in &turns {
        let grown = turn.call + turn.output;
        let plain = request + written(turn);
        vanilla.push(hop(plain + prefill * read, turn.tool, false));
        cached.push(hop(
            plain + prefill * (grown + if again == 0.0 { prompt } else { 0.0 }),
            turn.tool,
            false,
        ));
        (read, again) = (read + grown, read);
    }
    assert!((seconds(vanilla, 1) - engine.vanilla()).abs() < 1e-9);
    assert!((seconds(cached, 1) - engine.cached()).abs() < 1e-9);
    // A hit is checked in one step, stays in its batch, and its tool is done by then.
    for acceptance in [0.0, 0.5, 1.0] {
        let mut rng = SmallRng::seed_from_u64(11);
        let expected = engine.speculative(acceptance).unwrap();
        let off: Vec<f64> = (0..TRIALS)
            .map(|_| {
                let hops = turns.iter().enumerate().map(|(at, turn)| {
                    let first = if at == 0 { prompt } else { 0.0 };
                    let reading = prefill * (first + turn.call + turn.output);
                    let hit = rng.random_bool(acceptance);
                    let writing = match hit {
                        true => decode * (turn.reasoning + 1.0),
                        false => request + written(turn),
                    };
                    hop(reading + writing, turn.tool, hit)
                });
                seconds(hops.collect(), 2) - expected
            })
            .collect();
        agree(&off, expected);
    }
}
