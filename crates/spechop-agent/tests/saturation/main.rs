//! Many questions at once over the same backends, by the virtual clock, so that the figures are exact:
//! what an answer needs must not notice that others speculate.
//!
//! `cargo test -p spechop-agent --test saturation -- --nocapture` prints the table.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a test that shows its figures"
)]

mod cores;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_agent::{Agent, Ports, Settings, TraceEvent, TraceKind, Width};
use spechop_ports::{Planner, Reader, Retriever, Speculator};
use spechop_sched::{Backend, Eligibility, Limits, Scheduled, ScheduledRetriever};
use spechop_testkit::{Script, ScriptedHop, ScriptedPorts};
use spechop_types::{Chance, Question, Stage, Tenant};
use spechop_verifier::Mode;
use tokio::time::Instant;

const QUESTIONS: u64 = 64;
const HOPS: usize = 5;

/// The backends that all questions share.
#[derive(Clone)]
struct Backends {
    planner: Backend,
    retriever: Backend,
    reader: Backend,
    speculator: Backend,
}

fn backend(name: &str, capacity: usize) -> Backend {
    let limits = Limits {
        capacity: NonZeroUsize::new(capacity).unwrap(),
        rate: None,
        speculative_max: capacity,
    };
    Backend::new(name, limits)
}

impl Backends {
    fn new(capacity: usize) -> Self {
        Self {
            planner: backend("planner", capacity),
            retriever: backend("retriever", capacity),
            reader: backend("reader", capacity),
            speculator: backend("speculator", capacity),
        }
    }

    /// Nobody runs, nobody waits.
    fn are_empty(&self) {
        let Self {
            planner,
            retriever,
            reader,
            speculator,
        } = self;
        for backend in [planner, retriever, reader, speculator] {
            let held = backend.gauges();
            let running = held.running_authoritative + held.running_speculative;
            let waiting = held.waiting_authoritative + held.waiting_speculative;
            assert_eq!(running + waiting, 0, "{backend:?}");
        }
    }
}

/// How long each segment and each target call was waited for that the answer needed: from its launch,
/// or from the moment that a speculative one became needed, to its result.
#[derive(Default)]
struct Waits {
    branches: BTreeMap<u32, Branch>,
    committed: Vec<f64>,
}

/// Since when a branch is head, and what it waits for.
#[derive(Default)]
struct Branch {
    head_since: Option<Duration>,
    launched: BTreeMap<Stage, Duration>,
    done: Vec<(Duration, Duration)>,
}

impl Waits {
    fn note(&mut self, event: &TraceEvent) {
        let branch = self.branches.entry(event.branch.0).or_default();
        if !event.provisional {
            branch.head_since.get_or_insert(event.at);
        }
        let ended = match &event.kind {
            TraceKind::Launched { stage } => {
                branch.launched.insert(*stage, event.at);
                return;
            }
            TraceKind::Planned { .. } | TraceKind::Drafted { .. } => Stage::Segment,
            TraceKind::Observed { .. } => Stage::Target,
            TraceKind::Committed { .. } => return self.commit(event.branch.0),
            _ => return,
        };
        if let Some(launched) = branch.launched.remove(&ended) {
            branch.done.push((launched, event.at));
        }
    }

    fn commit(&mut self, branch: u32) {
        let branch = self.branches.remove(&branch).unwrap_or_default();
        let needed = branch.head_since.unwrap_or_default();
        for (launched, ended) in branch.done {
            let wait = ended.saturating_sub(launched.max(needed));
            self.committed.push(wait.as_secs_f64() * 1000.0);
        }
    }
}

/// A question whose stage times are drawn, log-normal with ν = 0.4; six guesses of ten are right.
fn script(seed: u64) -> Script {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut time = |mean_ms: f64| {
        let normal: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let sigma = 0.385;
        Duration::from_secs_f64(mean_ms * (sigma * normal - sigma * sigma / 2.0).exp() / 1000.0)
    };
    let mut hops = Vec::new();
    for i in 0..HOPS {
        let (segment, target, speculation) = (time(100.0), time(1000.0), time(150.0));
        hops.push(ScriptedHop {
            ask: format!("q{i} after"),
            answer: format!("fact {i}"),
            guesses: vec![format!("fact {i}")],
            confidence: None,
            draft_held: None,
            depends_on: None,
            segment,
            target,
            speculation,
        });
    }
    for (i, hop) in hops.iter_mut().enumerate() {
        if StdRng::seed_from_u64(seed * 31 + i as u64).random_bool(0.4) {
            hop.guesses = vec![format!("fiction {i}")];
        }
    }
    Script {
        hops,
        final_segment: Duration::from_millis(100),
        ..Script::default()
    }
}

/// What came of all questions.
#[derive(Default)]
struct Load {
    /// Of each authoritative call, in milliseconds, sorted.
    calls: Vec<f64>,
    /// Of each question, in milliseconds.
    questions: Vec<f64>,
    /// Until the last answer, in milliseconds.
    makespan: f64,
    answers: Vec<Arc<str>>,
}

impl Load {
    fn quantile(sorted: &[f64], q: f64) -> f64 {
        let at = ((sorted.len() - 1) as f64 * q).round();
        sorted[at as usize]
    }

    /// Another run, one after the other.
    fn add(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.questions.extend(other.questions);
        self.calls.sort_by(f64::total_cmp);
        self.questions.sort_by(f64::total_cmp);
        self.makespan += other.makespan;
    }

    fn mean(&self) -> f64 {
        self.questions.iter().sum::<f64>() / self.questions.len() as f64
    }
}

/// A question's own ports behind the backends of all.
fn scheduled(seed: u64, backends: &Backends) -> Ports {
    behind(backends, Arc::new(ScriptedPorts::new(script(seed))))
}

/// Every call of this port takes its turn.
fn behind<P>(backends: &Backends, port: Arc<P>) -> Ports
where
    P: Planner + Retriever + Reader + Speculator + 'static,
{
    let policy = Eligibility::shipped();
    let rule = |tool| policy.of(tool);
    let (planner, reader) = (&backends.planner, &backends.reader);
    let (retriever, speculator) = (&backends.retriever, &backends.speculator);
    let planner = Scheduled::<dyn Planner>::new(port.clone(), planner, rule("planner"));
    let reader = Scheduled::<dyn Reader>::new(port.clone(), reader, rule("reader"));
    let speculates = Scheduled::<dyn Speculator>::new(port.clone(), speculator, rule("speculator"));
    Ports {
        planner: Arc::new(planner),
        reader: Arc::new(reader),
        retriever: Arc::new(ScheduledRetriever::new(port, retriever, rule("retriever"))),
        speculator: Some(Arc::new(speculates)),
        drafter: None,
        draft_writer: None,
    }
}

/// A tenant each, so that questions share nothing but the backends.
fn settings(seed: u64, k: usize) -> Settings {
    Settings {
        width: Width::bounded(NonZeroUsize::new(k).unwrap()),
        hops_max: 8,
        verifier: Mode::Exact,
        tenant: Tenant::new(&format!("t{seed}")).unwrap(),
        guess_chance: Chance::of(0.6),
        ..Settings::default()
    }
}

fn question() -> Question {
    Question::new("Who is the mother of the director?").unwrap()
}

/// Asks so many questions at once.
async fn load(k: usize, capacity: usize, seeds: impl Iterator<Item = u64>) -> Load {
    let backends = Backends::new(capacity);
    let started = Instant::now();
    let asking = seeds.map(|seed| {
        let agent = Agent::new(scheduled(seed, &backends));
        async move {
            let mut waits = Waits::default();
            let mut note = |event: TraceEvent| waits.note(&event);
            let (question, settings) = (question(), settings(seed, k));
            let report = agent.answer(&question, &settings, &mut note).await.unwrap();
            let elapsed = report.elapsed.as_secs_f64() * 1000.0;
            (elapsed, report.answer, waits.committed, report.usage)
        }
    });
    let (mut calls, mut questions, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    let mut launched = [0; 3];
    for (elapsed, answer, waits, usage) in join_all(asking).await {
        for (sum, calls) in
            launched
                .iter_mut()
                .zip([usage.segments, usage.targets, usage.speculations])
        {
            *sum += u64::from(calls.started);
        }
        calls.extend(waits);
        questions.push(elapsed);
        answers.push(answer);
    }
    backends.are_empty();
    if capacity > 100 {
        // Where every call gets its turn at once, the ledgers' sums are the calls that were made.
        let Backends {
            planner,
            retriever,
            speculator,
            ..
        } = &backends;
        let made = [planner, retriever, speculator].map(|backend| backend.gauges().started);
        assert_eq!(launched, made);
    }
    calls.sort_by(f64::total_cmp);
    questions.sort_by(f64::total_cmp);
    Load {
        calls,
        questions,
        makespan: started.elapsed().as_secs_f64() * 1000.0,
        answers,
    }
}

#[tokio::test(start_paused = true)]
async fn speculation_never_slows_what_is_needed() {
    println!("64 questions of {HOPS} hops at once, capacity 8 each: k = 4 over k = 1");
    println!("seed  calls p50    p99  questions p50    p99  until the last answer");
    let (mut all_off, mut all_on) = (Load::default(), Load::default());
    for round in 0..8 {
        let seeds = || (0..QUESTIONS).map(move |n| round * 1000 + n);
        let off = load(1, 8, seeds()).await;
        let on = load(4, 8, seeds()).await;
        assert_eq!(off.answers, on.answers);
        println!("{round:>4} {}", ratios(&on, &off).0);
        all_off.add(off);
        all_on.add(on);
    }
    let (line, worst) = ratios(&all_on, &all_off);
    println!(" all {line}");
    assert!(worst <= 1.02, "{worst}");
    assert!(
        all_on.makespan <= all_off.makespan,
        "less is done in the same time"
    );
}

/// Of calls and questions at both quantiles, and of the whole; and the largest of them.
fn ratios(on: &Load, off: &Load) -> (String, f64) {
    let of = |what: fn(&Load) -> &[f64], q: f64| {
        Load::quantile(what(on), q) / Load::quantile(what(off), q)
    };
    let calls = [0.5, 0.99].map(|q| of(|load| &load.calls, q));
    let questions = [0.5, 0.99].map(|q| of(|load| &load.questions, q));
    let makespan = on.makespan / off.makespan;
    let line = format!(
        "{:>10.3} {:>6.3} {:>14.3} {:>6.3} {makespan:>9.3}",
        calls[0], calls[1], questions[0], questions[1]
    );
    let worst = calls.into_iter().chain(questions).fold(makespan, f64::max);
    (line, worst)
}

#[tokio::test(start_paused = true)]
async fn with_free_capacity_company_costs_nothing() {
    // Everything that 64 questions of k = 4 can want at once.
    let seeds = || 0..QUESTIONS;
    let together = load(4, 1024, seeds()).await;
    let mut alone = 0.0;
    for seed in seeds() {
        alone += load(4, 1024, std::iter::once(seed)).await.mean() / QUESTIONS as f64;
    }
    let ratio = together.mean() / alone;
    println!("mean latency together over alone: {ratio:.4}");
    assert!(ratio <= 1.05, "{ratio}");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_questions_cancelled_at_random_hold_nothing() {
    let backends = Backends::new(64);
    let asking = (0..10_000).map(|seed| {
        let agent = Agent::new(scheduled(seed, &backends));
        let patience = StdRng::seed_from_u64(seed).random_range(0..300_000);
        async move {
            let (question, settings) = (question(), settings(seed, 4));
            let mut ignore = |_| {};
            let answer = agent.answer(&question, &settings, &mut ignore);
            let waited = tokio::time::timeout(Duration::from_millis(patience), answer).await;
            waited.is_ok()
        }
    });
    let answered = join_all(asking).await;
    let answered = answered.into_iter().filter(|answered| *answered).count();
    println!("{answered} of 10000 answered, the others cancelled");
    assert!((500..9_500).contains(&answered), "{answered}");
    backends.are_empty();
}
