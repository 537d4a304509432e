//! What waits for the model, and what runs next. Pure: no threads, no clock.

use std::collections::VecDeque;
use std::sync::Arc;

use spechop_ports::{Call, Lane, PortError};
use tokio::sync::oneshot;

/// Passage jobs in the queue at once. One keeps the model busy; the second is there when the
/// first ends. More would only hold memory.
const PASSAGE_JOBS_MAX: usize = 2;

/// What starting a run costs beside its tokens, in tokens: two queries of unlike length share a
/// run where the padding costs less than this. Measured on two cores: about 4 ms against 0.27 ms a token.
const RUN_OVERHEAD_TOKENS: usize = 16;

/// Where the vectors of a job go.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, PortError>>;

/// Names a job while it waits.
pub(crate) type JobId = u64;

/// A query that waits for a run.
pub(crate) struct QueryJob {
    pub(crate) call: Call,
    pub(crate) tokens: Vec<u32>,
    pub(crate) reply: Reply<Vec<f32>>,
}

/// Passages that wait for their runs. The job stays in the queue until its last run is done.
pub(crate) struct PassageJob {
    /// Indices into `tokens`, longest first, those that have not run yet.
    left: VecDeque<usize>,
    tokens: Arc<[Vec<u32>]>,
    /// Filled by [`Queue::finish_passages`]; a vector is empty until its run is done.
    vectors: Vec<Vec<f32>>,
    unfinished: usize,
    reply: Reply<Vec<Vec<f32>>>,
}

impl PassageJob {
    pub(crate) fn new(tokens: Vec<Vec<u32>>, reply: Reply<Vec<Vec<f32>>>) -> Self {
        let mut left: Vec<usize> = (0..tokens.len()).collect();
        // Neighbours in length share a run, so hardly anything is padding.
        left.sort_by_key(|&at| std::cmp::Reverse(tokens[at].len()));
        Self {
            left: left.into(),
            vectors: vec![Vec::new(); tokens.len()],
            unfinished: tokens.len(),
            tokens: tokens.into(),
            reply,
        }
    }

    /// Takes the longest passages that fit in a run, at least one.
    fn take(&mut self, run_tokens_max: usize) -> Vec<usize> {
        let longest = self.left.front().map_or(0, |&at| self.tokens[at].len());
        let count = (run_tokens_max / longest.max(1)).clamp(1, self.left.len());
        self.left.drain(..count).collect()
    }
}

/// What the model computes in one go.
pub(crate) enum Run {
    /// Queries of one lane; they have left the queue.
    Queries(Vec<QueryJob>),
    /// Some passages of a job, which is still in the queue.
    Passages {
        job: JobId,
        at: Vec<usize>,
        tokens: Arc<[Vec<u32>]>,
    },
}

impl Run {
    /// The texts of the run, in order.
    pub(crate) fn texts(&self) -> Vec<&[u32]> {
        match self {
            Self::Queries(jobs) => jobs.iter().map(|job| job.tokens.as_slice()).collect(),
            Self::Passages { at, tokens, .. } => {
                at.iter().map(|&at| tokens[at].as_slice()).collect()
            }
        }
    }
}

/// Everything that waits, in order of arrival.
#[derive(Default)]
pub(crate) struct Queue {
    queries: VecDeque<(JobId, QueryJob)>,
    passages: VecDeque<(JobId, PassageJob)>,
    next_id: JobId,
}

impl Queue {
    /// Adds a query, or gives it back where `lane_max` queries of its lane wait already. Lanes do
    /// not share room: guesses never keep a needed query out.
    pub(crate) fn push_query(&mut self, job: QueryJob, lane_max: usize) -> Result<JobId, QueryJob> {
        let lane = job.call.lane();
        let waiting = self.queries.iter().filter(|(_, job)| job.call.lane() == lane);
        if waiting.count() >= lane_max {
            return Err(job);
        }
        let id = self.new_id();
        self.queries.push_back((id, job));
        Ok(id)
    }

    /// Adds passages, or gives them back where enough of them wait already.
    pub(crate) fn push_passages(&mut self, job: PassageJob) -> Result<JobId, PassageJob> {
        if self.passages.len() >= PASSAGE_JOBS_MAX {
            return Err(job);
        }
        let id = self.new_id();
        self.passages.push_back((id, job));
        Ok(id)
    }

    /// Takes a job out, wherever it stands; one that is not there any more is no mistake.
    pub(crate) fn remove(&mut self, id: JobId) -> bool {
        let before = self.len();
        self.queries.retain(|(held, _)| *held != id);
        self.passages.retain(|(held, _)| *held != id);
        self.len() < before
    }

    /// Number of jobs, those whose runs have begun but not ended included.
    pub(crate) fn len(&self) -> usize {
        self.queries.len() + self.passages.len()
    }

    /// What to compute next: queries before passages, needed ones before guessed ones, then the
    /// smaller depth, then the earlier arrival. No run holds more than `run_tokens_max` tokens,
    /// padding included, unless a single text does.
    pub(crate) fn next_run(&mut self, run_tokens_max: usize) -> Option<Run> {
        if self.queries.is_empty() {
            let (id, job) = self.passages.iter_mut().find(|(_, job)| !job.left.is_empty())?;
            return Some(Run::Passages {
                job: *id,
                at: job.take(run_tokens_max),
                tokens: Arc::clone(&job.tokens),
            });
        }
        let chosen = self.choose(run_tokens_max);
        let mut jobs = Vec::with_capacity(chosen.len());
        for id in chosen {
            if let Some(at) = self.queries.iter().position(|(held, _)| *held == id) {
                jobs.extend(self.queries.remove(at).map(|(_, job)| job));
            }
        }
        Some(Run::Queries(jobs))
    }

    /// Puts the vectors of some passages in their places, and answers the job after its last.
    /// A job that has been cancelled meanwhile is no mistake.
    pub(crate) fn finish_passages(&mut self, id: JobId, at: &[usize], vectors: Vec<Vec<f32>>) {
        let Some(place) = self.passages.iter().position(|(held, _)| *held == id) else {
            return;
        };
        let (_, job) = &mut self.passages[place];
        for (&at, vector) in at.iter().zip(vectors) {
            job.vectors[at] = vector;
            job.unfinished -= 1;
        }
        if job.unfinished == 0
            && let Some((_, job)) = self.passages.remove(place)
        {
            // A closed reply is a cancelled call.
            let _ = job.reply.send(Ok(job.vectors));
        }
    }

    /// Answers a passage job with an error.
    pub(crate) fn fail_passages(&mut self, id: JobId, error: PortError) {
        if let Some(place) = self.passages.iter().position(|(held, _)| *held == id)
            && let Some((_, job)) = self.passages.remove(place)
        {
            let _ = job.reply.send(Err(error));
        }
    }

    fn new_id(&mut self) -> JobId {
        self.next_id += 1;
        self.next_id
    }

    /// The queries of the next run. The most urgent one leads. Another one of its lane joins where
    /// that is cheaper than a run of its own; one of the other lane never does, for a guess must
    /// not make a needed query wait.
    fn choose(&self, run_tokens_max: usize) -> Vec<JobId> {
        // Lanes change at any moment; each is looked at once, so that the order is one.
        let mut urgency: Vec<_> = self
            .queries
            .iter()
            .map(|(id, job)| {
                let speculative = job.call.lane() == Lane::Speculative;
                let depth = if speculative { job.call.depth() } else { 0 };
                (speculative, depth, *id, job.tokens.len())
            })
            .collect();
        urgency.sort_unstable();
        let mut chosen: Vec<JobId> = Vec::new();
        let (mut longest, mut leader) = (0, None);
        for (speculative, _, id, length) in urgency {
            if *leader.get_or_insert(speculative) != speculative {
                break;
            }
            let before = chosen.len() * longest;
            let after = (chosen.len() + 1) * longest.max(length);
            let joins = chosen.is_empty()
                || (after <= run_tokens_max && after - before < length + RUN_OVERHEAD_TOKENS);
            if joins {
                chosen.push(id);
                longest = longest.max(length);
            }
        }
        chosen
    }
}
