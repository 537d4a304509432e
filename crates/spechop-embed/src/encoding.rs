//! The work of an encoder: queries and passages to vectors.

use spechop_types::Activity;

use crate::model::Model;
use crate::queue::{PassageJob, QueryJob, Queue, Run};
use crate::session::RunError;
use crate::waiting::JobId;
use crate::worker::Backlog;

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

/// What waits for an encoder, and what it has done.
pub(crate) struct Encoding {
    queue: Queue,
    run_tokens_max: usize,
    counts: Counts,
}

impl Encoding {
    pub(crate) fn new(run_tokens_max: usize) -> Self {
        Self {
            queue: Queue::default(),
            run_tokens_max,
            counts: Counts::default(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn push_query(
        &mut self,
        id: JobId,
        job: QueryJob,
        lane_max: usize,
    ) -> Result<(), QueryJob> {
        self.queue.push_query(id, job, lane_max)
    }

    pub(crate) fn push_passages(&mut self, id: JobId, job: PassageJob) -> Result<(), PassageJob> {
        self.queue.push_passages(id, job)
    }

    fn count(&mut self, run: &Run) {
        let texts = run.texts();
        let (runs, encoded) = match run {
            Run::Queries(_) => (&mut self.counts.query_runs, &mut self.counts.queries),
            Run::Passages { .. } => (&mut self.counts.passage_runs, &mut self.counts.passages),
        };
        *runs += 1;
        *encoded += texts.len() as u64;
        let lengths = texts.iter().map(|text| text.len());
        let (tokens, padding) = shares(lengths);
        self.counts.tokens += tokens;
        self.counts.padding += padding;
    }
}

/// How many tokens of a run are text and how many padding, from the lengths of its rows.
pub(crate) fn shares(lengths: impl ExactSizeIterator<Item = usize> + Clone) -> (u64, u64) {
    let longest = lengths.clone().max().unwrap_or(0);
    let padded = lengths.len() * longest;
    let tokens: usize = lengths.sum();
    (tokens as u64, (padded - tokens) as u64)
}

impl Backlog for Encoding {
    const KIND: &'static str = "encoder";

    type Model = Model;
    type Run = Run;
    type Done = Vec<Vec<f32>>;

    fn next_run(&mut self) -> Option<Run> {
        self.queue.next_run(self.run_tokens_max)
    }

    fn compute(model: &mut Model, run: &Run) -> Result<Vec<Vec<f32>>, RunError> {
        let _encoding: Vec<_> = match run {
            Run::Queries(jobs) => jobs
                .iter()
                .map(|job| job.call.doing(Activity::Encode))
                .collect(),
            // Whoever waits for passages is encoding all the while.
            Run::Passages { .. } => Vec::new(),
        };
        model.run(&run.texts())
    }

    fn finish(&mut self, run: Run, done: Result<Vec<Vec<f32>>, RunError>, what: &str) {
        match &done {
            Ok(_) => self.count(&run),
            Err(_) => self.counts.failed_runs += 1,
        }
        match (run, done) {
            (Run::Queries(jobs), Ok(vectors)) => {
                for (job, vector) in jobs.into_iter().zip(vectors) {
                    // A closed reply is a call cancelled during the run.
                    let _ = job.reply.send(Ok(vector));
                }
            }
            (Run::Queries(jobs), Err(error)) => {
                for job in jobs {
                    let _ = job.reply.send(Err(error.of(what)));
                }
            }
            (Run::Passages { job, at, .. }, Ok(vectors)) => {
                self.queue.finish_passages(job, &at, vectors);
            }
            (Run::Passages { job, .. }, Err(error)) => {
                self.queue.fail_passages(job, error.of(what));
            }
        }
    }

    fn cancel(&mut self, id: JobId) -> bool {
        let was_there = self.queue.remove(id);
        self.counts.cancelled += u64::from(was_there);
        was_there
    }

    fn clear(&mut self) {
        self.queue = Queue::default();
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
