//! The threads that own the models, and the one queue in front of them.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use spechop_ports::{PortError, Vitals, panic_text};
use tokio::sync::Notify;

use crate::OpenError;
use crate::session::RunError;
use crate::waiting::JobId;

/// A kind of work: what waits for it, and how it is done.
pub(crate) trait Backlog: Send + 'static {
    /// Whose work it is, in errors and as the name of its threads.
    const KIND: &'static str;

    /// What does the work; each thread owns one.
    type Model: Send + 'static;
    /// What is done in one go.
    type Run;
    /// What comes of it.
    type Done;

    /// What to do next.
    fn next_run(&mut self) -> Option<Self::Run>;
    /// After `next_run` gave nothing: whether something waits for what the queue does not hear of, such as a
    /// promotion or a core that is idle now.
    fn is_held_back(&self) -> bool {
        false
    }
    /// Does it. The only slow part, and the only one that does not hold the queue.
    fn compute(model: &mut Self::Model, run: &Self::Run) -> Result<Self::Done, RunError>;
    /// Answers those who wait for it; `what` is the name of the model in errors.
    fn finish(&mut self, run: Self::Run, done: Result<Self::Done, RunError>, what: &str);
    /// Takes out a job whose caller has left; one that is not there any more is no mistake.
    fn cancel(&mut self, id: JobId) -> bool;
    /// Drops every job.
    fn clear(&mut self);
    /// Number of jobs.
    fn len(&self) -> usize;
}

/// How often an idle thread looks again at what is held back: short beside a run.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Why a call gets nothing once a thread has ended.
const STOPPED: &str = "its threads have stopped";

/// Owns the threads: dropping it lets runs that have begun end, and stops.
pub(crate) struct Workers<B: Backlog> {
    shared: Arc<Shared<B>>,
    threads: Vec<JoinHandle<()>>,
}

impl<B: Backlog> Workers<B> {
    /// Starts a thread for each model. `name` appears in errors. `vitals` hears of a thread that ends
    /// although nobody has asked it to.
    pub(crate) fn spawn(
        models: Vec<B::Model>,
        name: &str,
        backlog: B,
        vitals: &Vitals,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared {
            what: format!("{} {name}", B::KIND),
            state: Mutex::new(State {
                backlog,
                last_id: 0,
                stopped: false,
            }),
            arrived: Condvar::new(),
            left: Notify::new(),
            vitals: vitals.clone(),
        });
        let mut workers = Self {
            shared,
            threads: Vec::with_capacity(models.len()),
        };
        for model in models {
            let shared = Arc::clone(&workers.shared);
            let thread = std::thread::Builder::new()
                .name(B::KIND.to_owned())
                .spawn(move || shared.work(model))
                .map_err(|source| OpenError::Thread {
                    kind: B::KIND,
                    source,
                })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }
}

impl<B: Backlog> Deref for Workers<B> {
    type Target = Shared<B>;

    fn deref(&self) -> &Shared<B> {
        &self.shared
    }
}

impl<B: Backlog> Drop for Workers<B> {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // If it panicked, whoever waited has been told by then.
            let _ = thread.join();
        }
    }
}

/// What the threads and the callers hold together.
pub(crate) struct Shared<B: Backlog> {
    what: String,
    state: Mutex<State<B>>,
    /// Wakes the threads: a job has arrived, or it is time to stop.
    arrived: Condvar,
    /// Wakes callers that wait for room: a job has left the queue.
    left: Notify,
    vitals: Vitals,
}

struct State<B> {
    backlog: B,
    last_id: JobId,
    stopped: bool,
}

/// Takes its job out of the queue when dropped, which is how a cancelled call leaves.
pub(crate) struct Ticket<'a, B: Backlog> {
    shared: &'a Shared<B>,
    id: JobId,
}

impl<B: Backlog> Drop for Ticket<'_, B> {
    fn drop(&mut self) {
        if self.shared.state.lock().backlog.cancel(self.id) {
            self.shared.left.notify_waiters();
        }
    }
}

impl<B: Backlog> Shared<B> {
    /// Puts a job into the queue, waiting for room. `push` gives the job back where there is none;
    /// it looks at the job anew each time, so a promotion counts while it waits outside, too.
    pub(crate) async fn enter<J>(
        &self,
        mut job: J,
        push: impl Fn(&mut B, JobId, J) -> Result<(), J>,
    ) -> Result<Ticket<'_, B>, PortError> {
        loop {
            let mut left = pin!(self.left.notified());
            // From here on no departure is missed.
            left.as_mut().enable();
            {
                let mut state = self.state.lock();
                if state.stopped {
                    return Err(self.gone());
                }
                state.last_id += 1;
                let id = state.last_id;
                match push(&mut state.backlog, id, job) {
                    Ok(()) => {
                        // All of them: a passage job is work for each.
                        self.arrived.notify_all();
                        return Ok(Ticket { shared: self, id });
                    }
                    Err(back) => job = back,
                }
            }
            left.await;
        }
    }

    /// The error of a call whose model has gone.
    pub(crate) fn gone(&self) -> PortError {
        PortError::unavailable(self.what(), STOPPED)
    }

    /// What errors call this model.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Number of jobs in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().backlog.len()
    }

    /// Looks at the backlog.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&B) -> T) -> T {
        at(&self.state.lock().backlog)
    }

    fn work(&self, mut model: B::Model) {
        let _stop = StopOnDrop(self);
        while let Some(run) = self.next_run() {
            // A run that panics is a run that failed. The model keeps nothing from one run to the next.
            let done = catch_unwind(AssertUnwindSafe(|| B::compute(&mut model, &run)));
            let done = done.unwrap_or_else(|panic| {
                let panicked = format!("a run panicked: {}", panic_text(&*panic));
                tracing::error!(model = self.what, "{panicked}");
                Err(RunError::Failed(panicked))
            });
            self.state.lock().backlog.finish(run, done, &self.what);
            self.left.notify_waiters();
        }
    }

    /// The next run, waiting for one; none when it is time to stop.
    fn next_run(&self) -> Option<B::Run> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(run) = state.backlog.next_run() {
                drop(state);
                self.left.notify_waiters();
                // There may be room by now for what had none: whoever has found work wakes another thread.
                self.arrived.notify_one();
                return Some(run);
            }
            if state.backlog.is_held_back() {
                self.arrived.wait_for(&mut state, LOOK_AGAIN);
            } else {
                self.arrived.wait(&mut state);
            }
        }
    }

    /// No more runs; whoever waits is told, because the replies go with the queue.
    fn stop(&self) {
        {
            let mut state = self.state.lock();
            state.stopped = true;
            state.backlog.clear();
        }
        self.arrived.notify_all();
        self.left.notify_waiters();
    }
}

/// However the thread ends, nobody waits for it in vain.
struct StopOnDrop<'a, B: Backlog>(&'a Shared<B>);

impl<B: Backlog> Drop for StopOnDrop<'_, B> {
    fn drop(&mut self) {
        // Nobody asked it to: whatever it was, no later call will find it mended. Told first, so that
        // whoever learns it from a call finds it told.
        if !self.0.state.lock().stopped {
            self.0.vitals.fail(self.0.what(), STOPPED);
        }
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use spechop_ports::{Call, Lane};
    use spechop_types::Chance;
    use tokio::sync::oneshot;

    use super::*;
    use crate::waiting::{Job, Waiting};

    /// A number whose doubling panics, and one whose result cannot be handed over.
    const PANICS: u32 = 0;
    const BREAKS_THE_QUEUE: u32 = u32::MAX;
    /// One that is not doubled ahead of need.
    const ONLY_NEEDED: u32 = 1000;

    /// Doubles numbers, each once the test lets it.
    struct Doubling {
        waiting: Waiting<u32, u32>,
        began: mpsc::Sender<u32>,
    }

    struct Doubler {
        turns: mpsc::Receiver<()>,
    }

    impl Backlog for Doubling {
        const KIND: &'static str = "doubler";

        type Model = Doubler;
        type Run = Job<u32, u32>;
        type Done = u32;

        fn next_run(&mut self) -> Option<Self::Run> {
            let turns = self.waiting.by_urgency();
            let first = turns.first()?;
            let is_needed = first.urgency.lane() == Lane::Authoritative;
            if *first.work == ONLY_NEEDED && !is_needed {
                let _ = self.began.send(ONLY_NEEDED);
                return None;
            }
            let first = first.id;
            let job = self.waiting.take(first)?;
            let _ = self.began.send(job.work);
            Some(job)
        }

        fn is_held_back(&self) -> bool {
            !self.waiting.is_empty()
        }

        fn compute(model: &mut Doubler, run: &Self::Run) -> Result<u32, RunError> {
            match model.turns.recv() {
                Ok(()) if run.work == PANICS => panic!("a model that panics"),
                Ok(()) => Ok(run.work.wrapping_mul(2)),
                Err(error) => Err(RunError::Failed(error.to_string())),
            }
        }

        fn finish(&mut self, run: Self::Run, done: Result<u32, RunError>, what: &str) {
            assert!(run.work != BREAKS_THE_QUEUE, "a queue that panics");
            let _ = run.reply.send(done.map_err(|error| error.of(what)));
        }

        fn cancel(&mut self, id: JobId) -> bool {
            self.waiting.take(id).is_some()
        }

        fn clear(&mut self) {
            self.waiting = Waiting::default();
        }

        fn len(&self) -> usize {
            self.waiting.len()
        }
    }

    struct Bench {
        workers: Workers<Doubling>,
        vitals: Vitals,
        began: mpsc::Receiver<u32>,
        turns: mpsc::Sender<()>,
    }

    type Answer = oneshot::Receiver<Result<u32, PortError>>;

    impl Bench {
        fn new() -> Self {
            let (begin, began) = mpsc::channel();
            let (turns, model) = mpsc::channel();
            let waiting = Waiting::default();
            let backlog = Doubling {
                waiting,
                began: begin,
            };
            let vitals = Vitals::default();
            let workers = Workers::spawn(vec![Doubler { turns: model }], "two", backlog, &vitals);
            Self {
                workers: workers.expect("a thread"),
                vitals,
                began,
                turns,
            }
        }

        async fn enter(&self, call: &Call, work: u32) -> (Ticket<'_, Doubling>, Answer) {
            let (reply, answer) = oneshot::channel();
            let call = call.clone();
            let job = Job { call, work, reply };
            let push = |backlog: &mut Doubling, id, job| backlog.waiting.push(id, job, 2);
            let ticket = self.workers.enter(job, push).await;
            (ticket.expect("it works"), answer)
        }
    }

    #[tokio::test]
    async fn turns_are_given_by_urgency_and_never_to_those_who_left() {
        let bench = Bench::new();
        let needed = Call::authoritative();
        let (first, first_answer) = bench.enter(&needed, 1).await;
        // The model is busy from here on.
        assert_eq!(bench.began.recv(), Ok(1));
        let deep = Call::new(Lane::Speculative, Chance::EVEN.pow(9));
        let (_deep, deep_answer) = bench.enter(&deep, 2).await;
        let (shallow, _) = bench
            .enter(&Call::new(Lane::Speculative, Chance::EVEN), 3)
            .await;
        let (_last, last_answer) = bench.enter(&needed, 4).await;
        assert_eq!(bench.workers.waiting(), 3);

        // The speculative lane is full: a third one waits outside until another leaves.
        let another = Call::new(Lane::Speculative, Chance::EVEN.pow(5));
        let mut outside = pin!(bench.enter(&another, 5));
        assert!(futures::poll!(outside.as_mut()).is_pending());
        drop(shallow);
        let (_inside, inside_answer) = outside.await;
        deep.promote();
        // Leaving during a run stops nobody.
        drop(first);
        for _ in 0..4 {
            bench.turns.send(()).expect("a model");
        }
        assert!(matches!(first_answer.await, Ok(Ok(2))));
        for (answer, expected) in [(deep_answer, 4), (last_answer, 8), (inside_answer, 10)] {
            assert_eq!(
                answer.await.expect("an answer").expect("a number"),
                expected
            );
        }
        assert_eq!(bench.began.try_iter().collect::<Vec<_>>(), [2, 4, 5]);
        assert_eq!(bench.workers.waiting(), 0);
    }

    /// Nobody wakes the thread: the queue does not hear of promotions.
    #[tokio::test]
    async fn what_is_held_back_begins_once_it_may() {
        let bench = Bench::new();
        let ahead = Call::new(Lane::Speculative, Chance::EVEN);
        let (_ticket, answer) = bench.enter(&ahead, ONLY_NEEDED).await;
        // It was looked at, and the thread sleeps.
        assert_eq!(bench.began.recv(), Ok(ONLY_NEEDED));
        ahead.promote();
        bench.turns.send(()).expect("a model");
        let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
        let answer = answer.expect("it has begun").expect("told");
        assert_eq!(answer.expect("a number"), 2 * ONLY_NEEDED);
    }

    #[tokio::test]
    async fn a_run_that_panics_fails_alone() {
        let bench = Bench::new();
        let needed = Call::authoritative();
        for _ in 0..3 {
            let (_ticket, broken) = bench.enter(&needed, PANICS).await;
            let (_other, waiting) = bench.enter(&needed, 4).await;
            bench.turns.send(()).expect("a model");
            bench.turns.send(()).expect("a model");
            let error = broken.await.expect("told").expect_err("it panicked");
            assert!(matches!(error, PortError::Unavailable { .. }));
            let why = std::error::Error::source(&error).map(ToString::to_string);
            assert_eq!(
                why.expect("a reason"),
                "a run panicked: a model that panics"
            );
            assert_eq!(waiting.await.expect("told").expect("a number"), 8);
        }
        assert_eq!(bench.vitals.failures(), []);
        drop(bench.turns);
        drop(bench.workers);
        assert_eq!(bench.vitals.failures(), [], "it was asked to stop");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_thread_that_has_gone() {
        let bench = Bench::new();
        let needed = Call::authoritative();
        let (_ticket, broken) = bench.enter(&needed, BREAKS_THE_QUEUE).await;
        assert_eq!(bench.began.recv(), Ok(BREAKS_THE_QUEUE));
        let (_other, waiting) = bench.enter(&needed, 1).await;
        bench.turns.send(()).expect("a model");
        assert!(broken.await.is_err() && waiting.await.is_err());
        let (reply, _) = oneshot::channel();
        let call = needed;
        let job = Job {
            call,
            work: 1,
            reply,
        };
        let push = |backlog: &mut Doubling, id, job| backlog.waiting.push(id, job, 2);
        let error = bench.workers.enter(job, push).await.err().expect("stopped");
        assert!(error.to_string().contains("doubler two"), "{error}");
        let failures = bench.vitals.failures();
        assert_eq!(failures.len(), 1);
        assert_eq!(
            (&*failures[0].part, &*failures[0].reason),
            ("doubler two", STOPPED)
        );
    }
}
