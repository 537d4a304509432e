//! The agent on one host and its ports on another, with a bad network between them: messages are
//! late, held or lost, links break, the server crashes in mid-call, the client drops questions.
//!
//! Simulated time, simulated TCP, and every draw from one seed: nothing here waits for anything.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's own helpers, and what the seeds came to"
)]

use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::{HEARTBEAT, RemotePorts, SERVER};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_agent::{
    Agent, AgentError, Policy, Ports, Report, Settings, StageLimits, Stopped, TraceKind, Weighing,
    Width,
};
use spechop_ports::PortError;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Budget, Chance, CommitKind, Hop, Question, Stage};
use spechop_verifier::Mode;
use tokio::time::Instant;

const SEEDS: u64 = 250;
const QUESTIONS: usize = 4;
const CLIENT: &str = "client";
const LATENCY_MAX: Duration = Duration::from_millis(20);
/// After it, on a network that works again, the end of every connection has been noticed.
const SETTLED: Duration = Duration::from_millis(300);

#[test]
fn a_bad_network_costs_time_and_calls_but_no_answer() {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        simulate(seed, &mut tally);
    }
    println!("{tally:?}");
    // Each thing that can happen did, or this test says less than it seems to.
    assert!(tally.answers > 250, "{tally:?}");
    assert!(tally.budgets > 5, "{tally:?}");
    assert!(tally.failures > 100, "{tally:?}");
    assert!(tally.deadlines > 50, "{tally:?}");
    assert!(tally.drops > 100, "{tally:?}");
    assert!(tally.accepted > 150, "{tally:?}");
    assert!(tally.salvaged > 70, "{tally:?}");
    assert!(tally.failed_calls > 300, "{tally:?}");
    assert!(tally.crashes > 100, "{tally:?}");
}

/// How the questions ended, and what they met with.
#[derive(Debug, Default)]
struct Tally {
    answers: u32,
    /// Of the answers, those whose budget was used up.
    budgets: u32,
    failures: u32,
    deadlines: u32,
    drops: u32,
    accepted: usize,
    salvaged: u32,
    failed_calls: usize,
    crashes: u32,
}

/// What the client and the one who makes trouble share.
#[derive(Default)]
struct Shared {
    /// The server may be crashed now.
    is_troubled: Cell<bool>,
    is_up: Cell<bool>,
    tally: RefCell<Tally>,
}

fn simulate(seed: u64, tally: &mut Tally) {
    let mut rng = StdRng::seed_from_u64(seed);
    let script = script(&mut rng);
    let alone = alone(&script);
    let ports = ScriptedPorts::new(script);
    let shared = Rc::new(Shared {
        tally: RefCell::new(std::mem::take(tally)),
        ..Shared::default()
    });
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(2))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(LATENCY_MAX)
        .simulation_duration(Duration::from_secs(3600))
        .enable_random_order()
        .build();
    let served = ports.clone();
    sim.host(SERVER, move || crate::wire::serve(served.clone()));
    let client = Client {
        rng: StdRng::seed_from_u64(rng.random()),
        remote: RemotePorts::default(),
        ports,
        alone,
        shared: shared.clone(),
    };
    sim.client(CLIENT, client.run());
    let mut down_until = None;
    loop {
        let is_up = down_until.is_none_or(|until| until <= sim.elapsed());
        if is_up && down_until.take().is_some() {
            sim.bounce(SERVER);
        }
        shared.is_up.set(is_up);
        if is_up && shared.is_troubled.get() && rng.random_bool(0.000_5) {
            sim.crash(SERVER);
            let time = Duration::from_millis(rng.random_range(0..500));
            down_until = Some(sim.elapsed() + time);
            shared.tally.borrow_mut().crashes += 1;
        }
        match sim.step() {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    *tally = shared.tally.take();
}

/// A question of up to six hops, some of them independent of those before. Guesses are right, wrong,
/// several, missing, failing, or never come.
fn script(rng: &mut StdRng) -> Script {
    let mut script = Script::random(rng.random());
    let hops = script.hops.len();
    for (at, hop) in script.hops.iter_mut().enumerate() {
        let needed = (0..at).filter(|_| rng.random_bool(0.5));
        hop.depends_on = Some(needed.collect());
        if rng.random_bool(0.1) {
            hop.answer = String::new();
        }
        if rng.random_bool(0.3) {
            hop.guesses.insert(0, format!("fable {at}"));
        }
        if rng.random_bool(0.1) {
            hop.speculation = Duration::from_secs(3600);
        }
        if rng.random_bool(0.05) {
            script.failures.insert((at, Stage::Target), 1);
        }
    }
    if rng.random_bool(0.1) {
        script.failures.insert((hops, Stage::Segment), 1);
    }
    script
}

/// What the standard agent answers where nothing goes wrong.
fn alone(script: &Script) -> Report {
    let mut script = script.clone();
    script.failures.clear();
    let port = Arc::new(ScriptedPorts::new(script));
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port,
        speculator: None,
        drafter: None,
        draft_writer: None,
    });
    let settings = Settings {
        width: Width::STANDARD,
        verifier: Mode::Exact,
        ..Settings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let answer = async {
        agent
            .answer(&question(), &settings, &mut |_| {})
            .await
            .unwrap()
    };
    runtime.block_on(answer)
}

fn question() -> Question {
    Question::new("Who is the mother of the director?").unwrap()
}

/// The host that asks.
struct Client {
    rng: StdRng,
    remote: RemotePorts,
    /// The server's own, to look at what it has running.
    ports: ScriptedPorts,
    alone: Report,
    shared: Rc<Shared>,
}

impl Client {
    async fn run(mut self) -> turmoil::Result {
        for _ in 0..QUESTIONS {
            let settings = settings(&mut self.rng);
            self.ask(&settings).await;
            self.settle().await;
        }
        Ok(())
    }

    async fn ask(&mut self, settings: &Settings) {
        let patience = match self.rng.random_bool(0.3) {
            true => Duration::from_millis(self.rng.random_range(0..1500)),
            false => Duration::from_secs(3600),
        };
        let trouble = trouble(StdRng::seed_from_u64(self.rng.random()));
        let is_troubled = self.rng.random_bool(0.8);
        let (agent, question) = (self.remote.agent(), question());
        let mut told = Told::default();
        self.shared.is_troubled.set(is_troubled);
        let outcome = {
            let mut trace = |event: spechop_agent::TraceEvent| told.take(event.kind);
            tokio::select! {
                biased;
                outcome = agent.answer(&question, settings, &mut trace) => Some(outcome),
                () = tokio::time::sleep(patience) => None,
                () = trouble, if is_troubled => None,
            }
        };
        self.shared.is_troubled.set(false);
        assert_eq!(self.remote.live(), 0, "calls are left on the client");
        self.check(settings, outcome, &told);
    }

    /// The network and the server work again, and what is over is over on both sides.
    async fn settle(&self) {
        turmoil::release(CLIENT, SERVER);
        turmoil::repair(CLIENT, SERVER);
        while !self.shared.is_up.get() {
            tokio::time::sleep(HEARTBEAT).await;
        }
        tokio::time::sleep(SETTLED).await;
        assert_eq!(self.ports.live(), 0, "calls are left on the server");
    }

    fn check(&self, settings: &Settings, outcome: Option<Result<Report, AgentError>>, told: &Told) {
        let mut tally = self.shared.tally.borrow_mut();
        let late = settings
            .deadline
            .map(|end| Instant::now().duration_since(end));
        assert!(late.unwrap() <= Duration::from_millis(2), "late: {late:?}");
        let right: Vec<_> = self.alone.hops.iter().map(|hop| said(&hop.hop)).collect();
        let is_prefix = right.starts_with(&told.committed);
        assert!(is_prefix, "{:?} is no way to {right:?}", told.committed);
        tally.failed_calls += told.failed;
        match outcome {
            None => tally.drops += 1,
            Some(Ok(report)) => {
                let said: Vec<_> = report.hops.iter().map(|hop| said(&hop.hop)).collect();
                assert_eq!(said, told.committed, "the report and the trace");
                if report.stopped == Stopped::Budget {
                    tally.budgets += 1;
                } else {
                    assert_eq!(said, right);
                    assert_eq!(report.answer, self.alone.answer);
                    assert_eq!(report.stopped, self.alone.stopped);
                }
                tally.answers += 1;
                tally.salvaged += report.usage.salvaged;
                let kinds = report.hops.iter().map(|hop| hop.hop.kind);
                tally.accepted += kinds.filter(|kind| *kind == CommitKind::Accepted).count();
            }
            Some(Err(AgentError::Deadline { committed })) => {
                assert!(late >= Some(Duration::ZERO), "a deadline before its time");
                assert_eq!(committed, told.committed.len());
                tally.deadlines += 1;
            }
            Some(Err(AgentError::Stage { hop, stage, source })) => {
                assert_ne!(stage, Stage::Speculation, "a guess is never needed");
                assert_eq!(hop as usize, told.committed.len() + 1);
                // Anything else would be the agent's own doing.
                let is_the_networks = matches!(
                    source,
                    PortError::Unavailable { .. } | PortError::Timeout { .. }
                );
                assert!(is_the_networks, "{source:?}");
                tally.failures += 1;
            }
        }
    }
}

fn settings(rng: &mut StdRng) -> Settings {
    let is_hurried = rng.random_bool(0.3);
    let mut some = |most: u64| Duration::from_millis(rng.random_range(most / 4..most));
    let limits = StageLimits {
        segment: some(2000),
        target: some(4000),
        speculation: some(2000),
        draft: some(2000),
    };
    let deadline = Instant::now() + some(if is_hurried { 2000 } else { 20_000 });
    let orphan_time = some(2000);
    let time = Some(some(8000)).filter(|_| rng.random_bool(0.1));
    let calls = Some(rng.random_range(2..20)).filter(|_| rng.random_bool(0.2));
    let tokens = Some(rng.random_range(30..500)).filter(|_| rng.random_bool(0.1));
    Settings {
        width: NonZeroUsize::new(rng.random_range(0..7)).map_or(Width::UNBOUNDED, Width::bounded),
        policy: Policy {
            orphans_max: rng.random_range(0..5),
            plan_ahead: rng.random_bool(0.5),
            guesses_max: rng.random_range(1..4_usize).try_into().unwrap(),
            chance_min: Chance::of(rng.random_range(-0.6..0.6)),
            // A fifth of them go in rounds.
            weighing: Weighing::NONE,
            continuous: !orphan_time.as_millis().is_multiple_of(5),
            drafts_max: 0,
            draft_guesses: false,
            guess_at_once: rng.random_bool(0.8),
            build_on_observations: rng.random_bool(0.8),
        },
        orphan_time,
        verifier: Mode::Exact,
        budget: Budget {
            time,
            target_calls: calls,
            tokens,
            ..Budget::default()
        },
        deadline: Some(deadline),
        limits,
        ..Settings::default()
    }
}

/// Breaks the link and mends it, for ever; now and then, or all the time.
async fn trouble(mut rng: StdRng) {
    let quiet_ms = [300, 1500, 6000][rng.random_range(0..3)];
    loop {
        let quiet = Duration::from_millis(rng.random_range(0..quiet_ms));
        tokio::time::sleep(quiet).await;
        match rng.random_range(0..4) {
            0 => turmoil::hold(CLIENT, SERVER),
            1 => turmoil::partition(CLIENT, SERVER),
            2 => turmoil::partition_oneway(CLIENT, SERVER),
            _ => turmoil::partition_oneway(SERVER, CLIENT),
        }
        let broken = Duration::from_millis(rng.random_range(0..400));
        tokio::time::sleep(broken).await;
        turmoil::release(CLIENT, SERVER);
        turmoil::repair(CLIENT, SERVER);
    }
}

/// What the trace of a question told.
#[derive(Default)]
struct Told {
    committed: Vec<(String, String)>,
    failed: usize,
}

impl Told {
    fn take(&mut self, kind: TraceKind) {
        match kind {
            TraceKind::Committed { hop, .. } => self.committed.push(said(&hop)),
            TraceKind::Failed { .. } => self.failed += 1,
            _ => {}
        }
    }
}

fn said(hop: &Hop) -> (String, String) {
    (hop.sub_question.as_str().to_owned(), hop.answer.to_string())
}
