//! Real time against simulated: what a question takes with real timers, over what the simulator says
//! it takes. `cargo bench -p spechop-agent --bench live_ratio`; a table, then a line of JSON.
//!
//! One question at a time. The tools are sleeps, and tokio's timers are late by a millisecond or so:
//! how late on this machine is measured beside, since every stage pays it and no engine can help it.

#![expect(clippy::print_stdout, reason = "a benchmark's result")]

#[path = "../tests/traces/mod.rs"]
mod traces;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use spechop_agent::{Policy, Width};
use spechop_sim::Rules;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use traces::{Drawn, NO_GUESS, live, simulate};

const SEED: u64 = 7;
const QUESTIONS: usize = 40;
const WIDTHS: [usize; 4] = [1, 2, 3, 0];

fn main() {
    let Ok(runtime) = Builder::new_current_thread().enable_time().build() else {
        return;
    };
    let mut rng = StdRng::seed_from_u64(SEED);
    let questions: Vec<_> = (0..QUESTIONS).map(|_| question(&mut rng)).collect();
    let timer_ms = timer_lateness_ms(&runtime);
    println!("{QUESTIONS} questions; a sleep takes {timer_ms:.2} ms longer than asked for (mean)");
    println!(
        "{:>4} {:>8} {:>11} {:>8} {:>8} {:>9}",
        "k", "salvage", "simulated", "mean", "max", "mean late"
    );
    let mut rows = Vec::new();
    for k in WIDTHS {
        for (salvage, policy) in [(false, Policy::EAGER), (true, Policy::default())] {
            if k == 1 && salvage {
                // The standard agent has nothing to salvage.
                continue;
            }
            let width = k.try_into().map_or(Width::UNBOUNDED, Width::bounded);
            let name = if k == 0 { "inf".into() } else { k.to_string() };
            let Some(gap) = gap(&runtime, &questions, Rules::new(width, policy)) else {
                println!("k={name}: a question had no answer");
                return;
            };
            let Gap {
                simulated_ms,
                ratio,
                ratio_max,
                late_ms,
            } = gap;
            println!(
                "{name:>4} {salvage:>8} {simulated_ms:>8.0} ms {ratio:>8.4} {ratio_max:>8.4} {late_ms:>6.2} ms"
            );
            rows.push(json!({
                "k": name,
                "salvage": salvage,
                "simulated_ms_mean": simulated_ms,
                "ratio_mean": ratio,
                "ratio_max": ratio_max,
                "late_ms_mean": late_ms,
            }));
        }
    }
    let report = json!({
        "seed": SEED,
        "questions": QUESTIONS,
        "timer_late_ms_mean": timer_ms,
        "rows": rows,
    });
    println!("{report}");
}

/// One to four hops: segments and guesses of 15 to 80 ms, look-ups of 90 to 350. Half of the best
/// guesses are right; a hop depends on each earlier one with a chance of one half.
fn question(rng: &mut StdRng) -> Vec<Drawn> {
    let hops = rng.random_range(1..=4);
    let hop = |_| Drawn {
        draft_held: None,
        times_ms: [15..80, 90..350, 15..80].map(|ms| rng.random_range(ms)),
        right: [1, 1, 1, 1, 0, 2, 3, NO_GUESS][rng.random_range(0..8)],
        needs: rng.random(),
        confidence: None,
    };
    (0..hops).map(hop).collect()
}

/// Live over simulated, over all questions.
struct Gap {
    simulated_ms: f64,
    ratio: f64,
    ratio_max: f64,
    late_ms: f64,
}

fn gap(runtime: &Runtime, questions: &[Vec<Drawn>], rules: Rules) -> Option<Gap> {
    let mut gap = Gap {
        simulated_ms: 0.0,
        ratio: 0.0,
        ratio_max: 0.0,
        late_ms: 0.0,
    };
    for hops in questions {
        let simulated_ms = simulate(hops, rules).0.latency_ms;
        let (report, _) = runtime.block_on(live(hops, rules))?;
        let live_ms = report.elapsed.as_secs_f64() * 1000.0;
        let ratio = live_ms / simulated_ms;
        gap.simulated_ms += simulated_ms;
        gap.ratio += ratio;
        gap.ratio_max = gap.ratio_max.max(ratio);
        gap.late_ms += live_ms - simulated_ms;
    }
    let count = questions.len() as f64;
    gap.simulated_ms /= count;
    gap.ratio /= count;
    gap.late_ms /= count;
    Some(gap)
}

/// How much longer a sleep takes than it should: the mean of a hundred.
fn timer_lateness_ms(runtime: &Runtime) -> f64 {
    let sleeps = 100;
    let time = Duration::from_millis(10);
    let took = runtime.block_on(async {
        let started = Instant::now();
        for _ in 0..sleeps {
            tokio::time::sleep(time).await;
        }
        started.elapsed()
    });
    (took.as_secs_f64() / f64::from(sleeps) - time.as_secs_f64()) * 1000.0
}
