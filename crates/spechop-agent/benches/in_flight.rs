//! Memory of a question in flight: heap bytes of a question whose look-ups never return, its window
//! full of guesses, the mean over many of them. `cargo bench -p spechop-agent --bench in_flight`; a
//! table, then a line of JSON.
//!
//! Counted is all that a question has allocated since before it was made: its future, its settings,
//! its stages, and the scripted ports' own futures and texts.

#![expect(clippy::print_stdout, reason = "a benchmark's result")]

use std::alloc::System;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use spechop_agent::{Agent, Ports, Settings, Width};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Question;
use spechop_verifier::Mode;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const QUESTIONS: usize = 1_000;
const HOPS: usize = 6;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let Ok(runtime) = runtime else { return };
    println!("{QUESTIONS} questions of {HOPS} hops, none of whose look-ups returns");
    println!(
        "{:>4} {:>18} {:>12} {:>8}",
        "k", "heap per question", "of it future", "calls"
    );
    let mut rows = Vec::new();
    for k in [1, 4, 8] {
        let Flight {
            bytes,
            future,
            calls,
        } = runtime.block_on(flight(k));
        println!("{k:>4} {bytes:>12} bytes {future:>6} bytes {calls:>8}");
        rows.push(json!({"k": k, "bytes": bytes, "future_bytes": future, "calls": calls}));
    }
    println!(
        "{}",
        json!({"questions": QUESTIONS, "hops": HOPS, "rows": rows})
    );
}

/// Per question.
struct Flight {
    /// On the heap, its boxed future included.
    bytes: usize,
    future: usize,
    /// Under way in its ports.
    calls: usize,
}

async fn flight(k: usize) -> Flight {
    let mut script = Script::instant(HOPS);
    for hop in &mut script.hops {
        // Longer than any benchmark. A timer that has not expired takes no heap of its own.
        hop.target = Duration::from_secs(3600);
    }
    let ports = ScriptedPorts::new(script);
    let port = Arc::new(ports.clone());
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port.clone(),
        speculator: Some(port),
        drafter: None,
        draft_writer: None,
    });
    let settings = Settings {
        width: k.try_into().map_or(Width::UNBOUNDED, Width::bounded),
        verifier: Mode::Exact,
        ..Settings::default()
    };
    let region = Region::new(GLOBAL);
    let mut flying: Vec<Pin<Box<dyn Future<Output = bool>>>> = Vec::with_capacity(QUESTIONS);
    let mut future = 0;
    for n in 0..QUESTIONS {
        let (agent, settings) = (&agent, settings.clone());
        let asked = async move {
            let Ok(question) = Question::new(&format!("Who is the mother of director {n}?")) else {
                return false;
            };
            let mut events = 0_u32;
            let mut trace = |_| events += 1;
            agent.answer(&question, &settings, &mut trace).await.is_ok()
        };
        future = size_of_val(&asked);
        let mut asked: Pin<Box<dyn Future<Output = bool>>> = Box::pin(asked);
        // No stage of it yields but the look-ups: one poll takes it as far as it goes.
        let ended = futures::poll!(&mut asked);
        assert!(ended.is_pending(), "its look-ups returned");
        flying.push(asked);
    }
    let change = region.change();
    Flight {
        bytes: change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated)
            / QUESTIONS,
        future,
        calls: ports.live() / QUESTIONS,
    }
}
