//! What the engine itself costs: scripted tools without latency, everything but gRPC.
//!
//! Look-ups that return at once beat their guesses, so that nothing is ever built on a guess: the
//! cheap case, and the one where speculation is of no use. Where a look-up lets the executor turn,
//! its guess comes first: every guess is accepted, which is what speculation is for. More turns are
//! more of the executor's work. The tools' own work is in every figure; "tools alone" says how much.

use std::num::NonZeroUsize;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spechop_agent::{Agent, Ports, Report, Settings, Width};
use spechop_ports::{
    Call, GuessRequest, KnownHop, PlanRequest, Planner, ReadRequest, Reader, Retriever, Speculator,
};
use spechop_sched::{
    Backend, Cores, Demand, Eligibility, Limits, Millicores, Scheduled, ScheduledRetriever,
};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{CommitKind, Question, Step};
use spechop_verifier::Mode;
use tokio::runtime::Runtime;

const QUESTION: &str = "Who is the mother of the director?";
const HOPS: u32 = 8;

fn overhead(criterion: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
    else {
        return;
    };
    let Ok(question) = Question::new(QUESTION) else {
        return;
    };
    let mut group = criterion.benchmark_group("overhead per hop");
    group.throughput(Throughput::Elements(u64::from(HOPS)));
    for (what, turns, way) in [
        ("look-ups at once", 0, Way::Bare),
        ("guesses accepted", 1, Way::Bare),
        ("guesses accepted", 8, Way::Bare),
        ("guesses accepted, scheduled", 1, Way::Scheduled),
        ("guesses accepted, scheduled on cores", 1, Way::OnCores),
    ] {
        for k in [1, 4] {
            let engine = Engine::new(&question, k, turns, way);
            let accepted = engine.accepted(&runtime);
            let expected = if k > 1 && turns > 0 { HOPS } else { 0 };
            assert_eq!(accepted, expected, "{what}, turns={turns}, k={k}");
            let name = format!("{what}, turns={turns}, k={k}, {HOPS} hops");
            group.bench_function(name, |bench| {
                bench.to_async(&runtime).iter(|| async {
                    let mut events = 0_u32;
                    let report = engine.answer(&mut events).await;
                    (report.is_some(), events)
                });
            });
        }
    }
    let tools = ScriptedPorts::new(Script::instant(HOPS as usize));
    for guesses in [false, true] {
        let name = format!("tools alone, guesses={guesses}, {HOPS} hops");
        assert!(runtime.block_on(play(&tools, &question, guesses)).is_some());
        group.bench_function(name, |bench| {
            bench
                .to_async(&runtime)
                .iter(|| play(&tools, &question, guesses));
        });
    }
    group.finish();
}

/// Every call of a question, one after another, as no engine at all would make them.
async fn play(tools: &ScriptedPorts, question: &Question, guesses: bool) -> Option<Arc<str>> {
    let call = Call::authoritative();
    let mut hops = Vec::new();
    loop {
        let request = PlanRequest {
            question: question.clone(),
            hops: hops.clone(),
            must_answer: hops.len() == HOPS as usize,
            drafts: Vec::new(),
        };
        let sub_question = match tools.plan(&call, request).await.ok()?.step {
            Step::Ask(sub_question) => sub_question,
            Step::Answer(answer) => return Some(answer),
        };
        if guesses {
            let request = GuessRequest {
                question: question.clone(),
                hops: hops.clone(),
                sub_question: sub_question.clone(),
                passages: NonZeroUsize::MIN,
                limit: NonZeroUsize::MIN,
            };
            tools.guess(&call, request).await.ok()?;
        }
        let found = tools.retrieve(&call, sub_question.as_str(), 5);
        let request = ReadRequest {
            passages: found.await.ok()?.into(),
            sub_question: sub_question.clone(),
        };
        let answer = tools.read(&call, request).await.ok()?.answer?;
        hops.push(KnownHop {
            sub_question,
            answer,
        });
    }
}

/// How the engine gets at its tools.
#[derive(Clone, Copy)]
enum Way {
    /// Without a scheduler.
    Bare,
    /// As the service wires tools that are elsewhere.
    Scheduled,
    /// As the service wires tools in its own process: all share the same cores.
    OnCores,
}

/// Every call takes its turn at a backend that has room.
fn taking_turns(port: Arc<ScriptedPorts>, cores: Option<&Cores>) -> Ports {
    let policy = Eligibility::shipped();
    // There is room for all: what a call costs is asked, not what it waits.
    let demand = Demand {
        each: Millicores::ONE,
        alone: Millicores::ONE,
        guess: Millicores::ONE,
        at_once: 16,
        yields: true,
    };
    let backend = |name: &str| {
        let capacity = NonZeroUsize::MIN.saturating_add(15);
        let limits = Limits {
            capacity,
            rate: None,
            speculative_max: capacity.get(),
        };
        let backend = match cores {
            Some(cores) => Backend::on(cores, demand, name, limits),
            None => Backend::new(name, limits),
        };
        (backend, policy.of(name))
    };
    let (planner, plans) = backend("planner");
    let (reader, reads) = backend("reader");
    let (retriever, retrieves) = backend("retriever");
    let (speculator, speculates) = backend("speculator");
    let planner = Scheduled::<dyn Planner>::new(port.clone(), &planner, plans);
    let reader = Scheduled::<dyn Reader>::new(port.clone(), &reader, reads);
    let retriever = ScheduledRetriever::new(port.clone(), &retriever, retrieves);
    let speculator = Scheduled::<dyn Speculator>::new(port, &speculator, speculates);
    Ports {
        planner: Arc::new(planner),
        reader: Arc::new(reader),
        retriever: Arc::new(retriever),
        speculator: Some(Arc::new(speculator)),
        drafter: None,
        draft_writer: None,
    }
}

struct Engine {
    agent: Agent,
    question: Question,
    settings: Settings,
}

impl Engine {
    fn new(question: &Question, k: usize, target_turns: u32, way: Way) -> Self {
        let port = Arc::new(ScriptedPorts::new(Script {
            target_turns,
            ..Script::instant(HOPS as usize)
        }));
        let bare = Ports {
            planner: port.clone(),
            reader: port.clone(),
            retriever: port.clone(),
            speculator: Some(port.clone()),
            drafter: None,
            draft_writer: None,
        };
        Self {
            agent: Agent::new(match way {
                Way::Bare => bare,
                Way::Scheduled => taking_turns(port, None),
                Way::OnCores => taking_turns(port, Some(&Cores::new(Millicores::cores(64)))),
            }),
            question: question.clone(),
            settings: Settings {
                width: k.try_into().map_or(Width::UNBOUNDED, Width::bounded),
                hops_max: HOPS,
                verifier: Mode::Exact,
                ..Settings::default()
            },
        }
    }

    async fn answer(&self, events: &mut u32) -> Option<Report> {
        let mut trace = |_| *events += 1;
        let answer = self
            .agent
            .answer(&self.question, &self.settings, &mut trace);
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
