//! What the engine itself costs: scripted tools without latency, everything but gRPC.
//!
//! Look-ups that return at once beat their guesses, so that nothing is ever built on a guess: the
//! cheap case, and the one where speculation is of no use. Look-ups that let the executor turn a few
//! times are what speculation is for: every guess is accepted.

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spechop_agent::{Agent, Ports, Report, Settings, Width};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{CommitKind, Question};
use spechop_verifier::Mode;
use tokio::runtime::Runtime;

const HOPS: u32 = 8;
/// How many turns of the executor a look-up takes where its guess is to arrive first.
const TURNS: u32 = 8;

fn overhead(criterion: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
    else {
        return;
    };
    let mut group = criterion.benchmark_group("overhead per hop");
    group.throughput(Throughput::Elements(u64::from(HOPS)));
    for (what, turns) in [("look-ups at once", 0), ("guesses accepted", TURNS)] {
        for k in [1, 4] {
            let engine = Engine::new(k, turns);
            let accepted = engine.accepted(&runtime);
            let expected = if k > 1 && turns > 0 { HOPS } else { 0 };
            assert_eq!(accepted, expected, "{what}, k={k}");
            group.bench_function(format!("{what}, k={k}, {HOPS} hops"), |bench| {
                bench.to_async(&runtime).iter(|| async {
                    let mut events = 0_u32;
                    let report = engine.answer(&mut events).await;
                    (report.is_some(), events)
                });
            });
        }
    }
    group.finish();
}

struct Engine {
    agent: Agent,
    question: Option<Question>,
    settings: Settings,
}

impl Engine {
    fn new(k: usize, target_turns: u32) -> Self {
        let port = Arc::new(ScriptedPorts::new(Script {
            target_turns,
            ..Script::instant(HOPS as usize)
        }));
        Self {
            agent: Agent::new(Ports {
                planner: port.clone(),
                reader: port.clone(),
                retriever: port.clone(),
                speculator: Some(port),
            }),
            question: Question::new("Who is the mother of the director?").ok(),
            settings: Settings {
                width: k.try_into().map_or(Width::UNBOUNDED, Width::bounded),
                hops_max: HOPS,
                verifier: Mode::Exact,
                ..Settings::default()
            },
        }
    }

    async fn answer(&self, events: &mut u32) -> Option<Report> {
        let question = self.question.as_ref()?;
        let mut trace = |_| *events += 1;
        let answer = self.agent.answer(question, &self.settings, &mut trace);
        answer.await.ok()
    }

    /// How many hops are committed with their guess.
    fn accepted(&self, runtime: &Runtime) -> u32 {
        let report = runtime.block_on(self.answer(&mut 0));
        let hops = report.iter().flat_map(|report| &report.hops);
        let accepted = hops.filter(|hop| hop.hop.kind == CommitKind::Accepted);
        accepted.map(|_| 1).sum()
    }
}

criterion_group!(benches, overhead);
criterion_main!(benches);
