//! The one queue of all workers of a model, and which of them serves whom.
//!
//! There are as many jobs in motion as workers, and they are the most urgent ones. A worker that
//! looks for work follows two rules, functions of this module:
//!
//! * It [takes](takes) the most urgent waiting job if that is more urgent than its own, and if no
//!   other worker has less urgent work to interrupt.
//! * It [hands over](hands_over) a job that stands still at its own place if another worker would
//!   move it at once. A model whose KV is of no use elsewhere hands nothing over: the job would begin
//!   anew.
//!
//! Urgencies are asked for anew every time, so a promotion counts at the next turn of any worker.
//! If there is work for a worker that sleeps, the first one is woken: under little load it always
//! serves, and finds its own KV.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::{Condvar, Mutex};
use spechop_ports::{Call, Lane, Urgency};

use super::job::{Job, Waiting, best};
use super::stats::Counters;

/// What a worker is to do next.
pub(super) enum Turn {
    /// This has just arrived: let it wait, or say why it cannot.
    Enter(u64, Job),
    /// Begin this, or resume it.
    Start(Box<Waiting>),
    /// Put the best job that stands still back into the queue.
    HandOver,
    /// Move the best of your own.
    Step,
    /// Nobody will ask any more.
    End,
}

/// What the queue knows of a worker.
enum Worker {
    /// It has nothing to do and sleeps.
    Asleep,
    /// It has nothing to do yet, and looks for work.
    Awake,
    /// It moves this call.
    Moves { call: Call, arrival: u64 },
    /// Its thread has ended.
    Gone,
}

impl Worker {
    fn moves(job: &Waiting) -> Self {
        Self::Moves {
            call: job.job.call.clone(),
            arrival: job.arrival,
        }
    }

    /// How urgent its work is; the inner `None` stands for no work, which is less than any. The outer
    /// `None` stands for a worker that is gone.
    fn load(&self) -> Option<Option<Urgency>> {
        match self {
            Self::Asleep | Self::Awake => Some(None),
            Self::Moves { call, arrival } => Some(Some(call.urgency(*arrival))),
            Self::Gone => None,
        }
    }
}

struct State {
    /// As they came, with the number of their arrival.
    arrived: VecDeque<(u64, Job)>,
    waiting: Vec<Waiting>,
    workers: Vec<Worker>,
    arrivals: u64,
    closed: bool,
}

/// See the [module](self).
pub(super) struct Queue {
    state: Mutex<State>,
    /// Wakes a worker each.
    bells: Vec<Condvar>,
    /// Jobs that may wait.
    waiting_max: usize,
    /// Of them, those that may have begun: each holds its KV.
    begun_max: usize,
    counters: Arc<Counters>,
}

impl Queue {
    /// For so many workers, all of them about to come.
    pub(super) fn new(
        workers: usize,
        waiting_max: usize,
        begun_max: usize,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                arrived: VecDeque::new(),
                waiting: Vec::new(),
                workers: (0..workers).map(|_| Worker::Awake).collect(),
                arrivals: 0,
                closed: false,
            }),
            bells: (0..workers).map(|_| Condvar::new()).collect(),
            waiting_max,
            begun_max,
            counters,
        }
    }

    /// Whether there is more than one worker.
    pub(super) fn is_shared(&self) -> bool {
        self.bells.len() > 1
    }

    /// Whether no answer needs another job than that of this worker. A guess that runs beside it has found a core
    /// of its own, or ends.
    pub(super) fn is_alone(&self, worker: usize) -> bool {
        let state = self.state.lock();
        let is_needed = |call: &Call| call.lane() == Lane::Authoritative;
        let others = state.workers.iter().enumerate();
        let mut moves = others.filter_map(|(at, other)| match other {
            Worker::Moves { call, .. } if at != worker => Some(call),
            _ => None,
        });
        let mut waiting = state.waiting.iter().map(|waiting| &waiting.job.call);
        let mut arrived = state.arrived.iter().map(|(_, job)| &job.call);
        !moves.any(is_needed) && !waiting.any(is_needed) && !arrived.any(is_needed)
    }

    /// Jobs that may wait.
    pub(super) fn waiting_max(&self) -> usize {
        self.waiting_max
    }

    /// Hands a job to the workers. False if none is left.
    pub(super) fn submit(&self, job: Job) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.arrivals += 1;
        let arrival = state.arrivals;
        state.arrived.push_back((arrival, job));
        self.wake(&mut state);
        true
    }

    /// No job comes any more, and those that are here get no answer.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.arrived.clear();
        state.waiting.clear();
        for bell in &self.bells {
            bell.notify_all();
        }
    }

    /// A worker works no more. After the last one nobody is answered.
    pub(super) fn leave(&self, worker: usize) {
        let mut state = self.state.lock();
        state.workers[worker] = Worker::Gone;
        let all = state
            .workers
            .iter()
            .all(|worker| matches!(worker, Worker::Gone));
        drop(state);
        if all {
            self.close();
        }
    }

    /// Lets a job wait. Returns the one that must leave for it, if there are too many.
    pub(super) fn wait(&self, waiting: Waiting) -> Option<Waiting> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.waiting.push(waiting);
        if state.waiting.len() <= self.waiting_max {
            return None;
        }
        self.sweep(&mut state);
        if state.waiting.len() <= self.waiting_max {
            return None;
        }
        let last = (0..state.waiting.len()).min_by_key(|at| state.waiting[*at].urgency())?;
        Some(state.waiting.swap_remove(last))
    }

    /// A job that had left the queue waits again. It does not count as one too many.
    pub(super) fn put_back(&self, waiting: Waiting) {
        let mut state = self.state.lock();
        if !state.closed {
            state.waiting.push(waiting);
            self.wake(&mut state);
        }
    }

    /// Whether one more job may wait with its KV.
    pub(super) fn has_room_for_begun(&self) -> bool {
        self.state.lock().has_room_for_begun(self.begun_max)
    }

    /// What a worker does next; sleeps until there is something. `own` are the jobs that have begun
    /// there, `can_start` is whether it has room for one more, or can make room, and `moves_kv` whether
    /// what they have computed is of use to another worker.
    pub(super) fn next<'a>(
        &self,
        worker: usize,
        own: &(impl Iterator<Item = &'a Waiting> + Clone),
        can_start: bool,
        moves_kv: bool,
    ) -> Turn {
        // No job waits with KV that cannot be moved.
        let begun_max = if moves_kv { self.begun_max } else { 0 };
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Turn::End;
            }
            if let Some((arrival, job)) = state.arrived.pop_front() {
                return Turn::Enter(arrival, job);
            }
            self.sweep(&mut state);
            let turn = state.next(worker, own.clone(), can_start, begun_max);
            let waiting = state.waiting.len() as u64;
            self.counters.waiting.store(waiting, Relaxed);
            if waiting > 0 {
                self.wake(&mut state);
            }
            if let Some(turn) = turn {
                return turn;
            }
            state.workers[worker] = Worker::Asleep;
            while matches!(state.workers[worker], Worker::Asleep) && !state.closed {
                self.bells[worker].wait(&mut state);
            }
        }
    }

    /// Whatever nobody waits for any more leaves.
    fn sweep(&self, state: &mut State) {
        let before = state.waiting.len();
        state.waiting.retain(|waiting| !waiting.is_dropped());
        let dropped = before - state.waiting.len();
        self.counters.dropped.fetch_add(dropped as u64, Relaxed);
    }

    /// The first worker that sleeps looks for work.
    fn wake(&self, state: &mut State) {
        let asleep = |worker: &Worker| matches!(worker, Worker::Asleep);
        if let Some(first) = state.workers.iter().position(asleep) {
            state.workers[first] = Worker::Awake;
            self.bells[first].notify_one();
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers = self.bells.len();
        f.debug_struct("Queue")
            .field("workers", &workers)
            .finish_non_exhaustive()
    }
}

impl State {
    /// `None` if there is nothing to do.
    fn next<'a>(
        &mut self,
        worker: usize,
        own: impl Iterator<Item = &'a Waiting> + Clone,
        can_start: bool,
        begun_max: usize,
    ) -> Option<Turn> {
        let mine = own.clone().max_by_key(|job| job.urgency());
        let others = || {
            let of = |(at, other): (usize, &Worker)| Some((at, other.load()?));
            let not_me = |(at, _): &(usize, _)| *at != worker;
            self.workers
                .iter()
                .enumerate()
                .filter_map(of)
                .filter(not_me)
        };
        if let Some(first) = best(self.waiting.iter()).filter(|_| can_start) {
            let load = mine.map(Waiting::urgency);
            if takes((worker, load), self.waiting[first].urgency(), others()) {
                let taken = self.waiting.swap_remove(first);
                // As it will be, so that nobody else makes room for a job that has found some.
                self.workers[worker] = Worker::moves(&taken);
                return Some(Turn::Start(Box::new(taken)));
            }
        }
        let Some(mine) = mine else {
            self.workers[worker] = Worker::Awake;
            return None;
        };
        let stands_still = own
            .filter(|job| job.arrival != mine.arrival)
            .map(Waiting::urgency)
            .max();
        let hands_over = stands_still.is_some_and(|urgency| {
            let waiting = self.waiting.iter().map(Waiting::urgency);
            hands_over(urgency, waiting, others().map(|(_, load)| load))
                && self.has_room_for_begun(begun_max)
        });
        self.workers[worker] = Worker::moves(mine);
        Some(if hands_over {
            Turn::HandOver
        } else {
            Turn::Step
        })
    }

    fn has_room_for_begun(&self, begun_max: usize) -> bool {
        let begun = self.waiting.iter().filter(|job| job.begun.is_some());
        begun.count() < begun_max
    }
}

/// Whether a worker takes the most urgent waiting job. The least loaded worker does, the first of
/// several, unless it is busy and has more urgent work itself. One that has no work never leaves it to another.
fn takes(
    (worker, load): (usize, Option<Urgency>),
    waiting: Urgency,
    mut others: impl Iterator<Item = (usize, Option<Urgency>)>,
) -> bool {
    load.is_none()
        || load < Some(waiting) && !others.any(|(at, other)| (other, at) < (load, worker))
}

/// Whether a job that stands still would be moved at once by one of the others: more of them have
/// less urgent work than there are more urgent jobs in the queue.
fn hands_over(
    job: Urgency,
    waiting: impl Iterator<Item = Urgency>,
    others: impl Iterator<Item = Option<Urgency>>,
) -> bool {
    let before = waiting.filter(|waiting| *waiting > job).count();
    others.filter(|load| *load < Some(job)).count() > before
}

#[cfg(test)]
mod tests;
