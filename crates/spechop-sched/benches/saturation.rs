//! Many questions at once over few places, on a virtual clock, so exact: what speculation does to
//! the calls that answers need. No timing of this machine is in the table.
//!
//! A question is a chain of four hops and a final segment; a hop is a segment, then a target call.
//! With speculation a guess is asked for beside every target call, and the chain goes on from it,
//! at most `K` hops deep. Three ways: without speculation; with it, in lanes; with it, but every call
//! in one queue, as if all were needed.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark's own helpers")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use futures::future::FusedFuture;
use futures::future::{LocalBoxFuture, join_all, pending};
use futures::{FutureExt, select_biased};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use spechop_ports::{Call, Lane, PortError};
use spechop_sched::{Backend, Limits};
use spechop_types::Chance;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const HOPS: usize = 4;
const K: usize = 4;
const CAPACITY: usize = 8;
/// How often a guess is right.
const P: f64 = 0.6;
const SEEDS: u64 = 20;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Sequential,
    Lanes,
    OneQueue,
}

#[derive(Clone, Copy)]
struct Hop {
    segment: Duration,
    target: Duration,
    speculation: Duration,
    is_right: bool,
}

struct World {
    way: Way,
    planner: Backend,
    target: Backend,
    speculator: Backend,
    /// How long needed calls waited for their turns, from the moment they were needed.
    waits: RefCell<Vec<Duration>>,
}

/// A question on its way.
struct Question<'a> {
    world: &'a World,
    hops: [Hop; HOPS + 1],
    /// What stands on no guess.
    head: Cell<usize>,
    head_moved: Notify,
    /// The call of each hop that waits or runs.
    calls: RefCell<BTreeMap<usize, Call>>,
    /// When each hop became the head.
    head_since: RefCell<Vec<Instant>>,
}

impl World {
    fn new(way: Way) -> Self {
        let limits = Limits {
            capacity: NonZeroUsize::new(CAPACITY).unwrap(),
            rate: None,
            speculative_max: CAPACITY,
        };
        Self {
            way,
            planner: Backend::new("planner", limits),
            target: Backend::new("target", limits),
            speculator: Backend::new("speculator", limits),
            waits: RefCell::default(),
        }
    }

    fn call(&self, depth: usize) -> Call {
        let lane = match self.way {
            Way::OneQueue => Lane::Authoritative,
            _ if depth == 0 => Lane::Authoritative,
            _ => Lane::Speculative,
        };
        Call::new(lane, Chance::of(P.powi(depth as i32)))
    }
}

impl Question<'_> {
    fn depth(&self, at: usize) -> usize {
        at.saturating_sub(self.head.get())
    }

    /// Makes a call until it has ended: one that had to make room is made again when it is needed.
    async fn make(&self, backend: &Backend, at: usize, time: Duration) {
        loop {
            let call = self.world.call(self.depth(at));
            self.calls.borrow_mut().insert(at, call.clone());
            let asked = Instant::now();
            let work = async {
                let started = Instant::now();
                sleep(time).await;
                Ok::<_, PortError>(started)
            };
            let outcome = backend.run(&call, 1.0, work).await;
            self.calls.borrow_mut().remove(&at);
            if let Ok(started) = outcome {
                self.note(at, asked, started);
                return;
            }
            self.is_head(at).await;
        }
    }

    /// Of a call that is not needed yet nobody knows whether it ever will be.
    fn note(&self, at: usize, asked: Instant, started: Instant) {
        if let Some(needed) = self.head_since.borrow().get(at) {
            let wait = started.saturating_duration_since(asked.max(*needed));
            self.world.waits.borrow_mut().push(wait);
        }
    }

    async fn is_at_most(&self, depth: usize, at: usize) {
        while self.depth(at) > depth {
            self.head_moved.notified().await;
        }
    }

    async fn is_head(&self, at: usize) {
        self.is_at_most(0, at).await;
    }

    /// The chain from a hop to the end.
    fn go(&self, at: usize) -> LocalBoxFuture<'_, ()> {
        async move {
            let hop = self.hops[at];
            self.make(&self.world.planner, at, hop.segment).await;
            if at == HOPS {
                return self.is_head(at).await;
            }
            let has_guess = Cell::new(false);
            let ahead = async {
                if self.world.way == Way::Sequential {
                    return pending().await;
                }
                self.is_at_most(K - 2, at).await;
                let call = self.world.call(self.depth(at) + 1);
                let work = sleep(hop.speculation).map(Ok::<_, PortError>);
                if self.world.speculator.run(&call, 0.2, work).await.is_err() {
                    return pending().await;
                }
                has_guess.set(true);
                self.go(at + 1).await;
            };
            let mut ahead = ahead.boxed_local().fuse();
            let observe = async {
                self.make(&self.world.target, at, hop.target).await;
                self.is_head(at).await;
            };
            select_biased! {
                () = observe.boxed_local().fuse() => {}
                () = ahead => return,
            }
            if !(has_guess.get() && hop.is_right) {
                ahead = futures::future::Fuse::terminated();
                self.calls.borrow_mut().retain(|other, _| *other <= at);
            }
            self.head.set(at + 1);
            self.head_since.borrow_mut().push(Instant::now());
            if let Some(call) = self.calls.borrow().get(&(at + 1)) {
                call.promote();
            }
            self.head_moved.notify_waiters();
            if ahead.is_terminated() {
                self.go(at + 1).await;
            } else {
                ahead.await;
            }
        }
        .boxed_local()
    }
}

fn draw(rng: &mut StdRng) -> [Hop; HOPS + 1] {
    let mut time = |median: f64, sigma: f64| {
        let seconds = LogNormal::new(median.ln(), sigma).unwrap().sample(rng);
        Duration::from_secs_f64(seconds)
    };
    let mut hops = [0; HOPS + 1].map(|_| Hop {
        segment: time(0.3, 0.4),
        target: time(1.5, 0.5),
        speculation: time(0.2, 0.3),
        is_right: false,
    });
    for hop in &mut hops {
        hop.is_right = rng.random_bool(P);
    }
    hops
}

#[derive(Default)]
struct Seen {
    latencies: Vec<Duration>,
    waits: Vec<Duration>,
    started: u64,
    preempted: u64,
    promoted: u64,
}

async fn play(way: Way, questions: usize, seed: u64, seen: &mut Seen) {
    let mut rng = StdRng::seed_from_u64(seed);
    let world = World::new(way);
    let start = Instant::now();
    let asked: Vec<_> = (0..questions)
        .map(|_| Question {
            world: &world,
            hops: draw(&mut rng),
            head: Cell::new(0),
            head_moved: Notify::new(),
            calls: RefCell::default(),
            head_since: RefCell::new(vec![start]),
        })
        .collect();
    let ends = join_all(asked.iter().map(|question| async {
        question.go(0).await;
        start.elapsed()
    }));
    seen.latencies.extend(ends.await);
    seen.waits.extend(world.waits.borrow().iter());
    for backend in [&world.planner, &world.target, &world.speculator] {
        let gauges = backend.gauges();
        seen.started += gauges.started;
        seen.preempted += gauges.preempted;
        seen.promoted += gauges.promoted;
    }
}

fn seconds(times: &mut [Duration], quantile: f64) -> f64 {
    times.sort_unstable();
    let at = (times.len() - 1) as f64 * quantile;
    times[at.round() as usize].as_secs_f64()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    println!(
        "{CAPACITY} places each for planner, target and speculator; k = {K}, p = {P}, {SEEDS} seeds; seconds"
    );
    println!(
        "questions  way         question p50    p99   needed call waits p50    p99   calls  pre-empted  promoted"
    );
    for questions in [4, 16, 64] {
        for (name, way) in [
            ("sequential", Way::Sequential),
            ("lanes", Way::Lanes),
            ("one queue", Way::OneQueue),
        ] {
            let mut seen = Seen::default();
            for seed in 0..SEEDS {
                runtime.block_on(play(way, questions, seed, &mut seen));
            }
            let [p50, p99] = [0.5, 0.99].map(|q| seconds(&mut seen.latencies, q));
            let [wait_p50, wait_p99] = [0.5, 0.99].map(|q| seconds(&mut seen.waits, q));
            println!(
                "{questions:>9}  {name:<10}  {p50:>12.2}  {p99:>5.2}  {wait_p50:>21.3}  {wait_p99:>5.2}  {:>6}  {:>10}  {:>8}",
                seen.started / SEEDS,
                seen.preempted / SEEDS,
                seen.promoted / SEEDS,
            );
        }
    }
}
