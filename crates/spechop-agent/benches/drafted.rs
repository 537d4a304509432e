//! What written drafts save if planner and look-ups are as slow as the SpecHop paper's: latency with drafts
//! over latency without, at the same k, beside equation 1 of arXiv 2512.15834.
//!
//! `cargo bench -p spechop-agent --bench drafted`; a table, then a line of JSON. The agent is the real one.
//! Its models are scripted and its clock is paused, so every run prints the same on every machine.

#![expect(clippy::print_stdout, reason = "a benchmark's result")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use spechop_agent::{Agent, Policy, Ports, Settings, StageLimits, Width};
use spechop_sim::InjectedLatency;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_theory::Calls;
use spechop_types::Question;
use spechop_verifier::Mode;
use tokio::runtime::{Builder, Runtime};

/// Seconds of a segment: GPT-5 in the SpecHop paper.
const SEGMENT_S: f64 = 1.48;
/// A look-up on the web there.
const WEB: InjectedLatency = InjectedLatency {
    mean_ms: 4150.0,
    sigma_ms: 1680.0,
    seed: 7,
};
/// Seconds of a guess: the upper end of the local speculator there.
const GUESS_S: f64 = 0.2;
/// Share of right guesses: GPT-4o from memory on 2WikiMultihopQA there.
const RIGHT: f64 = 0.68;
const QUESTIONS: usize = 400;
const HOPS: usize = 4;
/// k, and whether anybody guesses answers.
const WINDOWS: [(usize, bool); 4] = [(2, false), (2, true), (3, true), (4, true)];
/// Seconds in which a draft is written: patterns need none, CoRAG's planner of 8 B parameters writes a
/// segment in 0.33.
const DRAFT_S: [f64; 2] = [0.0, 0.33];
const HELD: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

fn main() {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let Ok(runtime) = runtime else { return };
    println!(
        "{QUESTIONS} questions of {HOPS} hops; segment {SEGMENT_S} s, look-up {:.2} s (σ {:.2}), guess \
         {GUESS_S} s; right guesses {RIGHT}",
        WEB.mean_ms / 1000.0,
        WEB.sigma_ms / 1000.0
    );
    println!(
        "   k  guesses  draft s  right   without      with     ratio   equation 1   look-ups more"
    );
    let Some(standard) = mean(&runtime, 1, false, None) else {
        return println!("a question had no answer");
    };
    let mut rows = Vec::new();
    for (k, guesses) in WINDOWS {
        let Some(without) = mean(&runtime, k, guesses, None) else {
            return println!("a question had no answer");
        };
        for draft_s in DRAFT_S {
            for held in HELD {
                let drafts = Some((draft_s, held));
                let (Some(with), Some(theory)) = (
                    mean(&runtime, k, guesses, drafts),
                    equation_1(draft_s, held),
                ) else {
                    return println!("a question had no answer");
                };
                let rel_lat = |row: Row| row.latency_s / standard.latency_s;
                let ratio = with.latency_s / without.latency_s;
                let more = with.targets - without.targets;
                println!(
                    "{k:>4}  {guesses:>7}  {draft_s:>7.2}  {held:>5.2}  {:>8.3}  {:>8.3}  {ratio:>8.3}  \
                     {theory:>11.3}  {more:>14.2}",
                    rel_lat(without),
                    rel_lat(with),
                );
                rows.push(json!({
                    "k": k,
                    "guesses": guesses,
                    "draft_s": draft_s,
                    "draft_right": held,
                    "rel_lat_without": rel_lat(without),
                    "rel_lat_with": rel_lat(with),
                    "ratio": ratio,
                    "equation_1": theory,
                    "lookups_more": more,
                }));
            }
        }
    }
    println!(
        "{}",
        json!({"questions": QUESTIONS, "hops": HOPS, "rows": rows})
    );
}

/// Equation 1 of a whole question: hops with a draft over hops without. The final segment drafts nothing.
/// There is nothing else to be hidden: nobody guesses answers.
fn equation_1(draft_s: f64, held: f64) -> Option<f64> {
    let tool_s = WEB.mean_ms / 1000.0;
    let calls = Calls::new(SEGMENT_S, draft_s.max(f64::MIN_POSITIVE), tool_s, held).ok()?;
    let whole = |hop: f64| HOPS as f64 * hop + SEGMENT_S;
    Some(whole(calls.speculative()) / whole(calls.standard()))
}

/// Means over all questions.
#[derive(Clone, Copy)]
struct Row {
    latency_s: f64,
    targets: f64,
}

/// At this k, with drafts of so many seconds of which such a share is right. `None` if a question had no
/// answer.
fn mean(runtime: &Runtime, k: usize, guesses: bool, drafts: Option<(f64, f64)>) -> Option<Row> {
    let mut sum = Row {
        latency_s: 0.0,
        targets: 0.0,
    };
    for number in 0..QUESTIONS {
        let row = runtime.block_on(ask(k, guesses, script(number, drafts)))?;
        sum.latency_s += row.latency_s;
        sum.targets += row.targets;
    }
    let count = QUESTIONS as f64;
    Some(Row {
        latency_s: sum.latency_s / count,
        targets: sum.targets / count,
    })
}

/// The same draws for the same question, whatever is asked with it.
fn script(number: usize, drafts: Option<(f64, f64)>) -> Script {
    let mut rng = StdRng::seed_from_u64(number as u64);
    let mut script = Script::steady(&[true; HOPS], 0, 0, 0);
    script.final_segment = Duration::from_secs_f64(SEGMENT_S);
    script.draft_time = Duration::from_secs_f64(drafts.map_or(0.0, |(draft_s, _)| draft_s));
    for (at, hop) in script.hops.iter_mut().enumerate() {
        hop.segment = Duration::from_secs_f64(SEGMENT_S);
        hop.target = Duration::from_secs_f64(WEB.of(&format!("{number} {at}")) / 1000.0);
        hop.speculation = Duration::from_secs_f64(GUESS_S);
        let (right, held): (f64, f64) = (rng.random(), rng.random());
        if right >= RIGHT {
            hop.guesses = vec![format!("fiction {at}")];
        }
        hop.draft_held = drafts.map(|(_, share)| held < share);
    }
    script
}

async fn ask(k: usize, guesses: bool, script: Script) -> Option<Row> {
    let port = Arc::new(ScriptedPorts::new(script));
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port.clone(),
        speculator: guesses.then(|| port.clone() as _),
        drafter: None,
        draft_writer: Some(port.clone()),
    });
    let settings = Settings {
        width: Width::bounded(NonZeroUsize::new(k)?),
        policy: Policy {
            drafts_max: 1,
            ..Policy::EAGER
        },
        hops_max: HOPS as u32,
        verifier: Mode::Exact,
        limits: StageLimits::NONE,
        ..Settings::default()
    };
    let question = Question::new("Who is the mother of the director?").ok()?;
    let report = agent.answer(&question, &settings, &mut |_| {}).await.ok()?;
    Some(Row {
        latency_s: report.elapsed.as_secs_f64(),
        targets: f64::from(report.usage.targets.started),
    })
}
