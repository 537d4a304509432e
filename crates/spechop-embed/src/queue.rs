//! What waits for the model, and what runs next. Pure: no threads, no clock.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use spechop_ports::{Call, PortError};

use crate::waiting::{Job, JobId, Reply, Waiting};

/// Passage jobs of a lane in the queue at once. One keeps the model busy; the second is there when the
/// first ends. More would only hold memory.
const PASSAGE_JOBS_MAX: usize = 2;

/// What starting a run costs beside its tokens, in tokens: two queries of unlike length share a
/// run where the padding costs less than this. Measured on two cores: about 4 ms against 0.27 ms a token.
const RUN_OVERHEAD_TOKENS: usize = 16;

/// A query's tokens, waiting for their vector.
pub(crate) type QueryJob = Job<Vec<u32>, Vec<f32>>;

/// Passages that wait for their runs. The job stays in the queue until its last run is done.
pub(crate) struct PassageJob {
    /// Whose they are.
    call: Box<Call>,
    /// Indices into `tokens`, longest first, those that have not run yet.
    left: VecDeque<usize>,
    tokens: Arc<[Vec<u32>]>,
    /// Filled by [`Queue::finish_passages`]; a vector is empty until its run is done.
    vectors: Vec<Vec<f32>>,
    unfinished: usize,
    reply: Reply<Vec<Vec<f32>>>,
}

impl PassageJob {
    pub(crate) fn new(call: Call, tokens: Vec<Vec<u32>>, reply: Reply<Vec<Vec<f32>>>) -> Self {
        let mut left: Vec<usize> = (0..tokens.len()).collect();
        // Neighbours in length share a run, so hardly anything is padding.
        left.sort_by_key(|&at| Reverse(tokens[at].len()));
        Self {
            call: Box::new(call),
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
            Self::Queries(jobs) => jobs.iter().map(|job| job.work.as_slice()).collect(),
            Self::Passages { at, tokens, .. } => {
                at.iter().map(|&at| tokens[at].as_slice()).collect()
            }
        }
    }
}

/// Everything that waits.
#[derive(Default)]
pub(crate) struct Queue {
    queries: Waiting<Vec<u32>, Vec<f32>>,
    passages: VecDeque<(JobId, PassageJob)>,
}

impl Queue {
    /// Adds a query, or gives it back where its lane is full.
    pub(crate) fn push_query(
        &mut self,
        id: JobId,
        job: QueryJob,
        lane_max: usize,
    ) -> Result<(), QueryJob> {
        self.queries.push(id, job, lane_max)
    }

    /// Adds passages, or gives them back where enough of their lane wait already.
    pub(crate) fn push_passages(&mut self, id: JobId, job: PassageJob) -> Result<(), PassageJob> {
        let lane = job.call.lane();
        let waiting = self.passages.iter();
        let waiting = waiting.filter(|(_, job)| job.call.lane() == lane);
        if waiting.count() >= PASSAGE_JOBS_MAX {
            return Err(job);
        }
        self.passages.push_back((id, job));
        Ok(())
    }

    /// Takes a job out, wherever it stands; one that is not there any more is no mistake.
    pub(crate) fn remove(&mut self, id: JobId) -> bool {
        let before = self.len();
        self.queries.take(id);
        self.passages.retain(|(held, _)| *held != id);
        self.len() < before
    }

    /// Number of jobs, those whose runs have begun but not ended included.
    pub(crate) fn len(&self) -> usize {
        self.queries.len() + self.passages.len()
    }

    /// What to compute next: queries before passages, of both the most urgent first. No run holds more than
    /// `run_tokens_max` tokens, padding included, unless a single text does.
    pub(crate) fn next_run(&mut self, run_tokens_max: usize) -> Option<Run> {
        if self.queries.is_empty() {
            let waiting = self.passages.iter_mut();
            let waiting = waiting.filter(|(_, job)| !job.left.is_empty());
            let (id, job) = waiting.max_by_key(|(id, job)| job.call.urgency(*id))?;
            return Some(Run::Passages {
                job: *id,
                at: job.take(run_tokens_max),
                tokens: Arc::clone(&job.tokens),
            });
        }
        let chosen = self.choose(run_tokens_max);
        let jobs = chosen.into_iter().filter_map(|id| self.queries.take(id));
        Some(Run::Queries(jobs.collect()))
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

    /// The queries of the next run. The most urgent one leads. Another one of its lane joins where
    /// that is cheaper than a run of its own; one of the other lane never does, for a guess must
    /// not make a needed query wait.
    fn choose(&self, run_tokens_max: usize) -> Vec<JobId> {
        let mut chosen: Vec<JobId> = Vec::new();
        let (mut longest, mut leader) = (0, None);
        for turn in self.queries.by_urgency() {
            let lane = turn.urgency.lane();
            if *leader.get_or_insert(lane) != lane {
                break;
            }
            let length = turn.work.len();
            let before = chosen.len() * longest;
            let after = (chosen.len() + 1) * longest.max(length);
            let joins = chosen.is_empty()
                || (after <= run_tokens_max && after - before < length + RUN_OVERHEAD_TOKENS);
            if joins {
                chosen.push(turn.id);
                longest = longest.max(length);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spechop_ports::{Call, Lane};
    use spechop_types::Chance;
    use tokio::sync::oneshot;

    const RUN_TOKENS_MAX: usize = 512;

    type Answer<T> = oneshot::Receiver<Result<T, PortError>>;

    /// A queue under test; replies are kept so that no job counts as cancelled.
    #[derive(Default)]
    struct Bench {
        queue: Queue,
        calls: Vec<Call>,
        answers: Vec<Answer<Vec<f32>>>,
    }

    impl Bench {
        fn push(&mut self, lane: Lane, depth: u32, length: usize) -> Option<JobId> {
            let (reply, answer) = oneshot::channel();
            let call = Call::new(lane, Chance::EVEN.pow(depth));
            self.calls.push(call.clone());
            self.answers.push(answer);
            // The first token tells the jobs apart.
            let id = self.calls.len() as JobId - 1;
            let mut work = vec![0; length];
            work[0] = id as u32;
            let job = Job { call, work, reply };
            self.queue.push_query(id, job, 100).ok().map(|()| id)
        }

        /// The numbers of the queries in the next run.
        fn run(&mut self) -> Vec<u32> {
            match self.queue.next_run(RUN_TOKENS_MAX) {
                Some(Run::Queries(jobs)) => jobs.iter().map(|job| job.work[0]).collect(),
                Some(Run::Passages { .. }) => panic!("passages instead of queries"),
                None => Vec::new(),
            }
        }
    }

    fn passages(lengths: &[usize]) -> (PassageJob, Answer<Vec<Vec<f32>>>) {
        passages_of(&Call::authoritative(), lengths)
    }

    fn passages_of(call: &Call, lengths: &[usize]) -> (PassageJob, Answer<Vec<Vec<f32>>>) {
        let (reply, answer) = oneshot::channel();
        let tokens = lengths.iter().map(|&length| vec![7; length]).collect();
        (PassageJob::new(call.clone(), tokens, reply), answer)
    }

    /// Runs in order, as "S3:20 A:20 -> 1 | 0": what is pushed (lane, depth, length) and who runs.
    fn check(pushed: &str, expected: &str) {
        let mut bench = Bench::default();
        for word in pushed.split_whitespace() {
            let (who, length) = word.split_once(':').expect("lane:length");
            let (lane, depth) = who.split_at(1);
            let lane = match lane {
                "A" => Lane::Authoritative,
                _ => Lane::Speculative,
            };
            bench.push(
                lane,
                depth.parse().unwrap_or(0),
                length.parse().expect("a length"),
            );
        }
        let mut runs = Vec::new();
        loop {
            let run = bench.run();
            if run.is_empty() {
                break;
            }
            runs.push(run.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
        }
        assert_eq!(runs.join(" | "), expected, "{pushed}");
    }

    #[test]
    fn runs_are_made_of_what_is_urgent_and_alike() {
        check("", "");
        check("A:20", "0");
        // Arrival decides among equals, and like lengths share a run.
        check("A:20 A:20 A:22", "0 1 2");
        // Needed before guessed, in a run of their own.
        check("S1:20 A:20 S1:20 A:20", "1 3 | 0 2");
        // The one on fewer guesses leads, and the others come along.
        check("S3:20 S1:20 S2:20", "1 2 0");
        // How likely a needed call was is history.
        check("A2:20 A1:20", "0 1");
        // Padding that costs more than a run of its own is not worth it.
        check("A:8 A:64 A:9 A:62", "0 2 | 1 3");
        check("A:64 A:8 A:60", "0 2 | 1");
        // No run over its limit: 8 × 64 = 512.
        check(&"A:64 ".repeat(10), "0 1 2 3 4 5 6 7 | 8 9");
        // A text over the limit runs alone.
        check("A:600 A:600", "0 | 1");
    }

    #[test]
    fn a_promotion_counts_while_the_query_waits() {
        let mut bench = Bench::default();
        bench.push(Lane::Speculative, 1, 20);
        bench.push(Lane::Speculative, 5, 20);
        bench.calls[1].promote();
        assert_eq!(bench.run(), [1]);
        assert_eq!(bench.run(), [0]);
    }

    #[test]
    fn a_full_lane_gives_back_and_does_not_fill_the_other() {
        let mut bench = Bench::default();
        for _ in 0..100 {
            assert!(bench.push(Lane::Speculative, 1, 20).is_some());
        }
        assert!(bench.push(Lane::Speculative, 1, 20).is_none());
        assert!(bench.push(Lane::Authoritative, 0, 20).is_some());
        bench.run();
        bench.run();
        assert!(bench.push(Lane::Speculative, 1, 20).is_some());
    }

    #[test]
    fn a_removed_query_does_not_run() {
        let mut bench = Bench::default();
        let first = bench.push(Lane::Authoritative, 0, 20).expect("room");
        bench.push(Lane::Authoritative, 0, 20);
        assert!(bench.queue.remove(first));
        assert!(!bench.queue.remove(first));
        assert_eq!(bench.run(), [1]);
    }

    #[test]
    fn queries_go_between_the_runs_of_passages() {
        let mut bench = Bench::default();
        let (job, _answer) = passages(&[512, 512, 512]);
        assert!(bench.queue.push_passages(100, job).is_ok());
        let Some(Run::Passages { at, .. }) = bench.queue.next_run(RUN_TOKENS_MAX) else {
            panic!("only passages wait");
        };
        assert_eq!(at.len(), 1);
        bench.push(Lane::Speculative, 9, 20);
        assert_eq!(bench.run(), [0]);
    }

    #[test]
    fn needed_passages_go_before_those_that_may_be_wasted() {
        let mut queue = Queue::default();
        let [unlikely, likely] =
            [0.2, 0.8].map(|share| Call::new(Lane::Speculative, Chance::of(share)));
        let needed = Call::authoritative();
        let mut answers = Vec::new();
        for (id, call) in [(2, &unlikely), (3, &likely), (4, &needed), (5, &needed)] {
            let (job, answer) = passages_of(call, &[RUN_TOKENS_MAX; 2]);
            assert!(queue.push_passages(id, job).is_ok(), "{id}");
            answers.push(answer);
        }
        let mut next = || match queue.next_run(RUN_TOKENS_MAX) {
            Some(Run::Passages { job, .. }) => job,
            _ => panic!("only passages wait"),
        };
        assert_eq!([next(), next(), next()], [4, 4, 5]);
        // A promotion counts between two runs of a job.
        unlikely.promote();
        assert_eq!([next(), next(), next()], [2, 2, 5]);
        assert_eq!([next(), next()], [3, 3]);
        // Each lane has its own room.
        assert!(queue.push_passages(6, passages(&[8]).0).is_err());
        assert!(queue.push_passages(6, passages_of(&likely, &[8]).0).is_ok());
    }

    #[test]
    fn passage_jobs_wait_outside_when_two_are_in() {
        let mut queue = Queue::default();
        let mut answers = Vec::new();
        for (id, expected) in [(1, true), (2, true), (3, false)] {
            let (job, answer) = passages(&[8]);
            assert_eq!(queue.push_passages(id, job).is_ok(), expected);
            answers.push(answer);
        }
    }

    #[test]
    fn a_failed_passage_job_says_so_and_leaves() {
        let mut queue = Queue::default();
        let (job, mut answer) = passages(&[8, 8]);
        let id = 1;
        assert!(queue.push_passages(id, job).is_ok());
        assert!(queue.next_run(8).is_some());
        queue.fail_passages(id, PortError::unavailable("model", "broken"));
        assert!(answer.try_recv().expect("an answer").is_err());
        assert_eq!(queue.len(), 0);
        // News of a job that has left is no mistake.
        queue.finish_passages(id, &[0], vec![vec![1.0]]);
    }

    proptest! {
        /// Every query runs exactly once, alone in its lane, within the limit, and never after a
        /// less urgent one of another lane.
        #[test]
        fn every_query_runs_once(jobs in prop::collection::vec((any::<bool>(), 0..6u32, 1..80usize), 0..60)) {
            let mut bench = Bench::default();
            for &(needed, depth, length) in &jobs {
                let lane = if needed { Lane::Authoritative } else { Lane::Speculative };
                bench.push(lane, depth, length);
            }
            let mut ran = vec![0; jobs.len()];
            let mut guesses_began = false;
            loop {
                let run = bench.run();
                let Some(&leader) = run.first() else { break };
                let needed = jobs[leader as usize].0;
                prop_assert!(!(needed && guesses_began));
                guesses_began |= !needed;
                let longest = run.iter().map(|&n| jobs[n as usize].2).max().unwrap_or(0);
                prop_assert!(run.len() == 1 || run.len() * longest <= RUN_TOKENS_MAX);
                for n in run {
                    prop_assert_eq!(jobs[n as usize].0, needed);
                    ran[n as usize] += 1;
                }
            }
            prop_assert!(ran.iter().all(|&times| times == 1));
            prop_assert_eq!(bench.queue.len(), 0);
        }

        /// Every passage runs once, and its vector ends in its place.
        #[test]
        fn every_passage_gets_its_own_vector(lengths in prop::collection::vec(1..600usize, 1..80)) {
            let mut queue = Queue::default();
            let (reply, mut answer) = oneshot::channel();
            let tokens = lengths.iter().enumerate().map(|(n, &length)| vec![n as u32; length]).collect();
            let job = PassageJob::new(Call::authoritative(), tokens, reply);
            prop_assert!(queue.push_passages(1, job).is_ok());
            while let Some(run) = queue.next_run(RUN_TOKENS_MAX) {
                let texts = run.texts();
                let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
                prop_assert!(texts.len() == 1 || texts.len() * longest <= RUN_TOKENS_MAX);
                let vectors = texts.iter().map(|text| vec![text[0] as f32]).collect();
                let Run::Passages { job, at, .. } = run else { panic!("no query was pushed") };
                queue.finish_passages(job, &at, vectors);
            }
            let vectors = answer.try_recv().expect("an answer").expect("vectors");
            prop_assert_eq!(vectors.len(), lengths.len());
            for (n, vector) in vectors.iter().enumerate() {
                prop_assert_eq!(vector, &vec![n as f32]);
            }
            prop_assert_eq!(queue.len(), 0);
        }
    }
}
