//! The threads that own the models, and the one queue in front of them.

use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use spechop_ports::PortError;
use tokio::sync::Notify;

use crate::OpenError;
use crate::model::{Model, RunError};
use crate::queue::{JobId, Queue, Run};

/// What an encoder has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs of the model over queries.
    pub query_runs: u64,
    /// Queries encoded.
    pub queries: u64,
    /// Runs of the model over passages.
    pub passage_runs: u64,
    /// Passages encoded.
    pub passages: u64,
    /// Tokens computed, padding not included.
    pub tokens: u64,
    /// Tokens computed for nothing, because texts of unlike length shared a run.
    pub padding: u64,
    /// Jobs that left the queue because their callers did.
    pub cancelled: u64,
    /// Runs that failed.
    pub failed_runs: u64,
}

/// Owns the threads: dropping it lets runs that have begun end, and stops.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a thread for each model. `name` appears in errors.
    pub(crate) fn spawn(
        models: Vec<Model>,
        name: String,
        run_tokens_max: usize,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared {
            name,
            run_tokens_max,
            state: Mutex::default(),
            arrived: Condvar::new(),
            left: Notify::new(),
            tally: Tally::default(),
        });
        let mut workers = Self {
            shared,
            threads: Vec::with_capacity(models.len()),
        };
        for model in models {
            let shared = Arc::clone(&workers.shared);
            let thread = std::thread::Builder::new()
                .name("encoder".to_owned())
                .spawn(move || shared.work(model))
                .map_err(OpenError::Thread)?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }
}

impl Deref for Workers {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // It panicked: whoever waited has been told by then.
            let _ = thread.join();
        }
    }
}

/// What the thread and the callers hold together.
pub(crate) struct Shared {
    name: String,
    run_tokens_max: usize,
    state: Mutex<State>,
    /// Wakes the threads: a job has arrived, or it is time to stop.
    arrived: Condvar,
    /// Wakes callers that wait for room: a job has left the queue.
    left: Notify,
    tally: Tally,
}

#[derive(Default)]
struct State {
    queue: Queue,
    stopped: bool,
}

/// Takes its job out of the queue when dropped, which is how a cancelled call leaves.
pub(crate) struct Ticket<'a> {
    shared: &'a Shared,
    id: JobId,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.shared.lock().queue.remove(self.id) {
            self.shared.tally.cancelled.fetch_add(1, Relaxed);
            self.shared.left.notify_waiters();
        }
    }
}

impl Shared {
    /// Puts a job into the queue, waiting for room. `push` gives the job back where there is none;
    /// it looks at the job anew each time, so a promotion counts while it waits outside, too.
    pub(crate) async fn enter<J>(
        &self,
        mut job: J,
        push: impl Fn(&mut Queue, J) -> Result<JobId, J>,
    ) -> Result<Ticket<'_>, PortError> {
        loop {
            let mut left = pin!(self.left.notified());
            // From here on no departure is missed.
            left.as_mut().enable();
            {
                let mut state = self.lock();
                if state.stopped {
                    return Err(self.gone());
                }
                match push(&mut state.queue, job) {
                    Ok(id) => {
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
        PortError::unavailable(self.what(), "its threads have stopped")
    }

    /// What errors call this encoder.
    pub(crate) fn what(&self) -> String {
        format!("encoder {}", self.name)
    }

    /// Number of jobs in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().queue.len()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.tally.read()
    }

    fn work(&self, mut model: Model) {
        let _stop = StopOnDrop(self);
        while let Some(run) = self.next_run() {
            let result = model.run(&run.texts());
            self.tally.count(&run, result.is_ok());
            self.finish(run, result);
        }
    }

    /// The next run, waiting for one; none when it is time to stop.
    fn next_run(&self) -> Option<Run> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(run) = state.queue.next_run(self.run_tokens_max) {
                drop(state);
                self.left.notify_waiters();
                return Some(run);
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, run: Run, result: Result<Vec<Vec<f32>>, RunError>) {
        match (run, result) {
            (Run::Queries(jobs), Ok(vectors)) => {
                for (job, vector) in jobs.into_iter().zip(vectors) {
                    // A closed reply is a call cancelled during the run.
                    let _ = job.reply.send(Ok(vector));
                }
            }
            (Run::Queries(jobs), Err(error)) => {
                for job in jobs {
                    let _ = job.reply.send(Err(self.failed(&error)));
                }
            }
            (Run::Passages { job, at, .. }, Ok(vectors)) => {
                self.lock().queue.finish_passages(job, &at, vectors);
                self.left.notify_waiters();
            }
            (Run::Passages { job, .. }, Err(error)) => {
                self.lock().queue.fail_passages(job, self.failed(&error));
                self.left.notify_waiters();
            }
        }
    }

    fn failed(&self, error: &RunError) -> PortError {
        PortError::unavailable(self.what(), error.to_string())
    }

    /// No more runs; whoever waits is told, because the replies go with the queue.
    fn stop(&self) {
        {
            let mut state = self.lock();
            state.stopped = true;
            state.queue = Queue::default();
        }
        self.arrived.notify_all();
        self.left.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if it did, the queue would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However the thread ends, nobody waits for it in vain.
struct StopOnDrop<'a>(&'a Shared);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[derive(Default)]
struct Tally {
    query_runs: AtomicU64,
    queries: AtomicU64,
    passage_runs: AtomicU64,
    passages: AtomicU64,
    tokens: AtomicU64,
    padding: AtomicU64,
    cancelled: AtomicU64,
    failed_runs: AtomicU64,
}

impl Tally {
    fn count(&self, run: &Run, done: bool) {
        if !done {
            self.failed_runs.fetch_add(1, Relaxed);
            return;
        }
        let texts = run.texts();
        let (runs, encoded) = match run {
            Run::Queries(_) => (&self.query_runs, &self.queries),
            Run::Passages { .. } => (&self.passage_runs, &self.passages),
        };
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let tokens: usize = texts.iter().map(|text| text.len()).sum();
        runs.fetch_add(1, Relaxed);
        encoded.fetch_add(texts.len() as u64, Relaxed);
        self.tokens.fetch_add(tokens as u64, Relaxed);
        let padding = texts.len() * longest - tokens;
        self.padding.fetch_add(padding as u64, Relaxed);
    }

    fn read(&self) -> Counts {
        Counts {
            query_runs: self.query_runs.load(Relaxed),
            queries: self.queries.load(Relaxed),
            passage_runs: self.passage_runs.load(Relaxed),
            passages: self.passages.load(Relaxed),
            tokens: self.tokens.load(Relaxed),
            padding: self.padding.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            failed_runs: self.failed_runs.load(Relaxed),
        }
    }
}
