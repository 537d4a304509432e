//! The same on one machine: planner, reader, index and guesses compute on the same two cores, and every
//! call that computes beside others is slower for it. By the virtual clock, so exact.

use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_ports::{
    Call, GuessRequest, Guessed, PlanRequest, Planned, Planner, PortError, ReadRequest, Reader,
    Reading, Retriever, Speculator,
};
use spechop_sched::{Cores, Demand, Millicores};
use spechop_theory::{Stages, Tuner, TunerOptions};
use spechop_types::Passage;
use tokio::time::{sleep, timeout};

use super::*;

const CORES: usize = 2;
/// How often work looks how many others share the cores.
const SLICE: Duration = Duration::from_millis(10);

/// Cores that share themselves evenly among all threads, as those of an operating system do.
#[derive(Default)]
struct Machine {
    threads: Mutex<usize>,
}

/// So many threads that are at work.
struct AtWork<'a>(&'a Machine, usize);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        *self.0.threads.lock() -= self.1;
    }
}

impl Machine {
    /// Work of so much time of one core, on so many threads.
    async fn compute(&self, work: Duration, threads: usize) {
        *self.threads.lock() += threads;
        let _at_work = AtWork(self, threads);
        let mut left = work.as_secs_f64();
        while left > 0.0 {
            let all = *self.threads.lock();
            let speed = threads as f64 * (CORES as f64 / all as f64).min(1.0);
            let slice = SLICE.as_secs_f64().min(left / speed);
            sleep(Duration::from_secs_f64(slice)).await;
            left -= slice * speed;
        }
    }
}

/// Scripted ports that compute for their answers. Only a look-up may wait as well, for something
/// elsewhere.
struct Computing {
    says: ScriptedPorts,
    times: Script,
    machine: Arc<Machine>,
    wait: Duration,
}

impl Computing {
    fn new(seed: u64, machine: &Arc<Machine>, wait: Duration) -> Self {
        let times = script(seed);
        let mut says = times.clone();
        for hop in &mut says.hops {
            (hop.segment, hop.target, hop.speculation) = Default::default();
        }
        says.final_segment = Duration::ZERO;
        Self {
            says: ScriptedPorts::new(says),
            times,
            machine: Arc::clone(machine),
            wait,
        }
    }

    /// The hop that is asked about, if it is in the script.
    fn hop(&self, sub_question: &str) -> Option<&ScriptedHop> {
        let hops = &self.times.hops;
        hops.iter().find(|hop| sub_question.starts_with(&hop.ask))
    }
}

#[async_trait]
impl Planner for Computing {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let hop = self.times.hops.get(request.hops.len());
        let segment = hop.map_or(self.times.final_segment, |hop| hop.segment);
        self.machine.compute(3 * segment, 1).await;
        self.says.plan(call, request).await
    }
}

#[async_trait]
impl Retriever for Computing {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        sleep(self.wait).await;
        let target = self.hop(query).map_or(Duration::ZERO, |hop| hop.target);
        self.machine.compute(target / 50, 1).await;
        self.says.retrieve(call, query, limit).await
    }
}

#[async_trait]
impl Reader for Computing {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let hop = self.hop(request.sub_question.as_str());
        let target = hop.map_or(Duration::ZERO, |hop| hop.target);
        self.machine.compute(target / 10, CORES).await;
        self.says.read(call, request).await
    }
}

#[async_trait]
impl Speculator for Computing {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let hop = self.hop(request.sub_question.as_str());
        let guess = hop.map_or(Duration::ZERO, |hop| hop.speculation);
        self.machine.compute(2 * guess / 3, CORES).await;
        self.says.guess(call, request).await
    }
}

/// Who may use the cores ahead of need.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// Whoever has a place.
    Places,
    /// Whoever finds them idle.
    IdleCores,
}

/// The backends of a server that computes everything itself: a planner with a thread for each core and
/// two calls that stand ready, and a reader for one call at a time on all cores, which guesses, too.
fn backends(rule: Rule, waits: bool) -> (super::Backends, Cores) {
    let cores = Cores::new(Millicores::cores(CORES));
    let backend = |name: &str, places: usize, each: usize, at_once: u32| {
        let limits = Limits {
            capacity: NonZeroUsize::new(places).unwrap(),
            rate: None,
            speculative_max: places,
        };
        let demand = Demand {
            each: Millicores::cores(each),
            alone: Millicores::cores(each),
            guess: Millicores::cores(each),
            at_once,
            yields: true,
        };
        match rule {
            Rule::IdleCores => Backend::on(&cores, demand, name, limits),
            Rule::Places => Backend::new(name, limits),
        }
    };
    let reader = backend("reader", 1, CORES, 1);
    let index = if waits {
        super::backend("retriever", 256)
    } else {
        backend("retriever", 16, 1, 2)
    };
    let backends = super::Backends {
        planner: backend("planner", 4, 1, 2),
        retriever: index,
        speculator: reader.clone(),
        reader,
    };
    (backends, cores)
}

/// Asks so many questions, so many of them at once.
async fn play(k: usize, rule: Rule, at_once: usize, questions: u64, wait: Duration) -> Load {
    let (backends, cores) = backends(rule, wait > Duration::ZERO);
    play_on(&backends, &cores, || k, at_once, questions, wait).await
}

/// The same on idle cores, at the k that `auto` chooses for each question by their load.
async fn play_auto(at_once: usize, questions: u64) -> Load {
    let (backends, cores) = backends(Rule::IdleCores, false);
    let (tuner, widest) = (Mutex::new(tuner()), Mutex::new(0));
    let k = || {
        let k = tuner.lock().choose_under(cores.load()).k.get();
        let mut widest = widest.lock();
        *widest = k.max(*widest);
        k
    };
    let load = play_on(&backends, &cores, k, at_once, questions, Duration::ZERO).await;
    assert!(*widest.lock() > 1, "it never speculated");
    load
}

/// Asks each question at the k of the moment at which it is asked.
async fn play_on(
    backends: &super::Backends,
    cores: &Cores,
    k: impl Fn() -> usize,
    at_once: usize,
    questions: u64,
    wait: Duration,
) -> Load {
    let machine = Arc::new(Machine::default());
    let started = Instant::now();
    let next = Mutex::new(0..questions);
    let client = || async {
        let mut answered = Vec::new();
        loop {
            let seed = next.lock().next();
            let Some(seed) = seed else {
                return answered;
            };
            let port = Arc::new(Computing::new(seed, &machine, wait));
            let agent = Agent::new(behind(backends, port));
            let settings = settings(seed, k());
            let report = agent.answer(&question(), &settings, &mut |_| {}).await;
            let report = report.unwrap();
            answered.push((report.elapsed.as_secs_f64() * 1000.0, report.answer));
        }
    };
    let answered = join_all((0..at_once).map(|_| client())).await;
    backends.are_empty();
    assert_eq!(cores.taken().needed, Millicores(0));
    let (mut questions, answers): (Vec<_>, Vec<_>) = answered.into_iter().flatten().unzip();
    questions.sort_by(f64::total_cmp);
    Load {
        makespan: started.elapsed().as_secs_f64() * 1000.0,
        questions,
        answers,
        calls: Vec::new(),
    }
}

/// Throughput and p99 over those without speculation.
fn over(on: &Load, off: &Load) -> (f64, f64) {
    let p99 = |load: &Load| Load::quantile(&load.questions, 0.99);
    (off.makespan / on.makespan, p99(on) / p99(off))
}

#[tokio::test(start_paused = true)]
async fn speculation_on_shared_cores_is_free_if_it_waits_for_idle_ones() {
    println!("{CORES} cores, everything computes on them: over k = 1");
    println!("at once     k  rule          throughput    p99");
    for (at_once, questions) in [(8, 128), (64, 256)] {
        let no_wait = Duration::ZERO;
        let off = play(1, Rule::IdleCores, at_once, questions, no_wait).await;
        let by_places = play(3, Rule::Places, at_once, questions, no_wait).await;
        let three = play(3, Rule::IdleCores, at_once, questions, no_wait).await;
        let auto = play_auto(at_once, questions).await;
        let found = [
            ("3", "places", by_places),
            ("3", "idle cores", three),
            ("auto", "idle cores", auto),
        ]
        .map(|(k, rule, on)| {
            let (throughput, p99) = over(&on, &off);
            println!("{at_once:>7}  {k:>4}  {rule:<12}  {throughput:>10.3} {p99:>6.3}");
            (throughput, p99)
        });
        let [(by_places, _), on_idle_cores @ ..] = found;
        for (throughput, p99) in on_idle_cores {
            assert!(throughput >= 0.99 && p99 <= 1.01, "{found:?}");
        }
        // The machine is one that the rule is needed for.
        assert!(by_places < 0.98, "{by_places}");
    }
}

#[tokio::test(start_paused = true)]
async fn cores_that_wait_for_look_ups_elsewhere_are_used_as_before() {
    let second = Duration::from_secs(1);
    let off = play(1, Rule::IdleCores, 1, 32, second).await;
    let by_places = play(3, Rule::Places, 1, 32, second).await;
    let idle = play(3, Rule::IdleCores, 1, 32, second).await;
    let [by_places, idle] = [by_places, idle].map(|load| load.mean() / off.mean());
    println!("look-ups of a second elsewhere: {by_places:.3} by places, {idle:.3} on idle cores");
    assert!(
        idle <= 0.8 && idle <= by_places + 0.03,
        "{by_places} {idle}"
    );
}

/// A tuner that has seen the guesses of these scripts.
fn tuner() -> Tuner {
    let mut tuner = Tuner::new(TunerOptions::default());
    for question in 0..20 {
        let hop = |hop: usize| Stages {
            segment: Some(0.1),
            target: Some(1.0),
            speculation: Some(0.15),
            accepted: Some((question + hop) % HOPS < 3),
        };
        let hops: Vec<_> = (0..HOPS).map(hop).collect();
        tuner.record(NonZeroUsize::MIN.saturating_add(2), &hops);
    }
    tuner
}

/// `auto` feels these cores through their load alone. It is asked each second, as a server asks it for a question.
#[tokio::test(start_paused = true)]
async fn at_saturation_auto_falls_to_one_within_seconds_and_comes_back() {
    const WITHIN: usize = 5;
    let second = Duration::from_secs(1);
    let (backends, cores) = backends(Rule::IdleCores, false);
    let mut tuner = tuner();
    let mut k = || tuner.choose_under(cores.load()).k.get();
    let before = k();
    let mut asking = pin!(play_on(
        &backends,
        &cores,
        || before,
        64,
        QUESTIONS,
        Duration::ZERO
    ));
    let mut during = Vec::new();
    while timeout(second, asking.as_mut()).await.is_err() {
        during.push(k());
    }
    let mut after = Vec::new();
    for _ in 0..WITHIN {
        sleep(second).await;
        after.push(k());
    }
    println!("k before {before}, each second of the load {during:?}, and after it {after:?}");
    assert!(before > 1);
    // By then half of the work is still to be done, so that no core is idle for a moment.
    let full = during.get(WITHIN - 1..during.len() / 2);
    assert!(full.is_some_and(|full| full.len() > 10 && full.iter().all(|k| *k == 1)));
    assert!(after.iter().any(|k| *k > 1));
}
