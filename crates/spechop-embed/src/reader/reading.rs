//! The work of a reader: passages of requests, each by itself.

use std::collections::HashMap;

use spechop_ports::{Call, Lane};
use spechop_types::Activity;

use super::Room;
use super::model::Model;
use super::pairs::Pair;
use super::spans::Logits;
use crate::session::RunError;
use crate::waiting::{Job, JobId, Turn, Waiting};
use crate::worker::Backlog;

/// What a reader has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Requests read to their end.
    pub requests: u64,
    /// Passages read: each is a run of the model.
    pub passages: u64,
    /// Tokens of these.
    pub tokens: u64,
    /// Requests whose callers left before they were read to their end.
    pub cancelled: u64,
    /// Runs that failed.
    pub failed_runs: u64,
}

/// A request, passage by passage.
pub(crate) struct Work {
    /// Those that nobody has begun to read, and their places in the request. The longest one comes last,
    /// and is taken first: so the threads that share them end together.
    left: Vec<(usize, Pair)>,
    /// Those that are being read.
    reading: usize,
    /// What was read, in the places of the request.
    read: Vec<Option<Logits>>,
}

impl Work {
    /// Of pairs, at least one.
    pub(crate) fn new(pairs: Vec<Pair>) -> Self {
        let read = pairs.iter().map(|_| None).collect();
        let mut left: Vec<_> = pairs.into_iter().enumerate().collect();
        left.sort_by_key(|(_, pair)| pair.ids.len());
        Self {
            left,
            reading: 0,
            read,
        }
    }
}

/// A request, waiting for its logits.
pub(crate) type ReadJob = Job<Work, Vec<Logits>>;

/// A passage that is being read.
pub(crate) struct Passage {
    of: JobId,
    at: usize,
    pair: Pair,
    call: Call,
}

/// What waits for a reader, and what it has done.
///
/// Each passage has a run of its own. Passages are of unlike length, so of a run of five nearly half
/// would be padding. Int8 models scale the activations of a run together, so company would change
/// the logits, and with them, now and then, an answer. And between two passages the turn goes to
/// whoever is most urgent: a needed request waits for one passage of a guess's, not for all.
///
/// Of a guess's request one passage is read at a time, and further ones only on idle cores: so it has
/// room beside other needed work, and slows none.
#[derive(Default)]
pub(crate) struct Readings {
    /// How many passages of guesses may be read beside the first one of each, now.
    room: Option<Room>,
    /// Of which passages are left to begin.
    waiting: Waiting<Work, Vec<Logits>>,
    /// All of whose passages have been begun.
    begun: HashMap<JobId, ReadJob>,
    counts: ReaderCounts,
}

impl Readings {
    pub(crate) fn within(room: Option<Room>) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    /// Whether a passage of the request may be read now.
    fn may_read(&self, turn: &Turn<'_, Work>) -> bool {
        if turn.urgency.lane() == Lane::Authoritative || turn.work.reading == 0 {
            return true;
        }
        let Some(room) = &self.room else {
            return true;
        };
        let jobs = self.waiting.jobs().chain(self.begun.values());
        let guesses = jobs.filter(|job| job.call.lane() == Lane::Speculative);
        let beside = guesses.map(|job| job.work.reading.saturating_sub(1));
        beside.sum::<usize>() < room.passages()
    }

    pub(crate) fn push(&mut self, id: JobId, job: ReadJob, lane_max: usize) -> Result<(), ReadJob> {
        self.waiting.push(id, job, lane_max)
    }

    pub(crate) fn counts(&self) -> ReaderCounts {
        self.counts
    }

    fn leave(&mut self, id: JobId) -> Option<ReadJob> {
        self.begun.remove(&id).or_else(|| self.waiting.take(id))
    }
}

impl Backlog for Readings {
    const KIND: &'static str = "reader";

    type Model = Model;
    type Run = Passage;
    type Done = Logits;

    fn next_run(&mut self) -> Option<Passage> {
        let turns = self.waiting.by_urgency();
        let of = turns.iter().find(|turn| self.may_read(turn))?.id;
        let job = self.waiting.get_mut(of)?;
        let call = job.call.clone();
        let next = job.work.left.pop();
        job.work.reading += 1;
        if job.work.left.is_empty() {
            let job = self.waiting.take(of)?;
            self.begun.insert(of, job);
        }
        let (at, pair) = next?;
        Some(Passage { of, at, pair, call })
    }

    fn is_held_back(&self) -> bool {
        // What waits here has passages that nobody has begun.
        !self.waiting.is_empty()
    }

    fn compute(model: &mut Model, passage: &Passage) -> Result<Logits, RunError> {
        let _reading = passage.call.doing(Activity::Read);
        model.run(&passage.pair)
    }

    fn finish(&mut self, passage: Passage, done: Result<Logits, RunError>, what: &str) {
        match &done {
            Ok(_) => {
                self.counts.passages += 1;
                self.counts.tokens += passage.pair.ids.len() as u64;
            }
            Err(_) => self.counts.failed_runs += 1,
        }
        let of = passage.of;
        let job = match self.begun.get_mut(&of) {
            Some(job) => Some(job),
            None => self.waiting.get_mut(of),
        };
        // It was cancelled, or another passage of it has failed.
        let Some(job) = job else {
            return;
        };
        job.work.reading -= 1;
        let read = match done {
            Ok(logits) => {
                job.work.read[passage.at] = Some(logits);
                if job.work.read.iter().any(Option::is_none) {
                    return;
                }
                Ok(std::mem::take(&mut job.work.read))
            }
            Err(error) => Err(error.of(what)),
        };
        let Some(job) = self.leave(of) else {
            return;
        };
        self.counts.requests += u64::from(read.is_ok());
        // A closed reply is a call that is being cancelled.
        let _ = job
            .reply
            .send(read.map(|read| read.into_iter().flatten().collect()));
    }

    fn cancel(&mut self, id: JobId) -> bool {
        let was_there = self.leave(id).is_some();
        self.counts.cancelled += u64::from(was_there);
        was_there
    }

    fn clear(&mut self) {
        self.waiting = Waiting::default();
        self.begun.clear();
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spechop_ports::PortError;
    use spechop_types::Chance;
    use tokio::sync::oneshot;

    const LANE_MAX: usize = 3;

    #[derive(Default)]
    struct Bench {
        readings: Readings,
        calls: Vec<Call>,
        answers: Vec<oneshot::Receiver<Result<Vec<Logits>, PortError>>>,
    }

    fn logits() -> Logits {
        Logits {
            start: Vec::new(),
            end: Vec::new(),
            classes: [0.0; 4],
        }
    }

    impl Bench {
        /// A request of so many passages.
        fn push(&mut self, lane: Lane, depth: u32, passages: usize) -> bool {
            let call = Call::new(lane, Chance::EVEN.pow(depth));
            let id = self.calls.len() as JobId;
            self.calls.push(call.clone());
            let pair = |_| Pair {
                ids: vec![id as u32; 10],
                type_ids: vec![1; 10],
            };
            let (reply, answer) = oneshot::channel();
            self.answers.push(answer);
            let work = Work::new((0..passages).map(pair).collect());
            let job = Job { call, work, reply };
            self.readings.push(id, job, LANE_MAX).is_ok()
        }

        /// Reads a passage, and says whose it was.
        fn read(&mut self) -> Option<JobId> {
            let run = self.readings.next_run()?;
            let id = run.of;
            self.readings.finish(run, Ok(logits()), "reader x");
            Some(id)
        }

        fn read_all(&mut self) -> Vec<JobId> {
            std::iter::from_fn(|| self.read()).collect()
        }
    }

    #[test]
    fn requests_are_read_by_urgency() {
        let mut bench = Bench::default();
        for (lane, depth) in [
            (Lane::Speculative, 3),
            (Lane::Speculative, 1),
            (Lane::Authoritative, 2),
            (Lane::Speculative, 1),
            (Lane::Authoritative, 0),
        ] {
            assert!(bench.push(lane, depth, 1));
        }
        bench.calls[0].promote();
        assert_eq!(bench.read_all(), [0, 2, 4, 1, 3]);
        assert_eq!(bench.readings.len(), 0);
    }

    #[test]
    fn a_needed_request_waits_for_one_passage_of_a_guess() {
        let mut bench = Bench::default();
        bench.push(Lane::Speculative, 1, 3);
        assert_eq!(bench.read(), Some(0));
        bench.push(Lane::Authoritative, 0, 2);
        assert!(bench.answers[0].try_recv().is_err(), "two are left");
        assert_eq!(bench.read_all(), [1, 1, 0, 0]);
        for (answer, passages) in bench.answers.iter_mut().zip([3, 2]) {
            let logits = answer.try_recv().expect("an answer").expect("logits");
            assert_eq!(logits.len(), passages);
        }
        let counts = bench.readings.counts();
        assert_eq!(
            (counts.requests, counts.passages, counts.tokens),
            (2, 5, 50)
        );
    }

    #[test]
    fn equals_do_not_take_turns() {
        let mut bench = Bench::default();
        bench.push(Lane::Authoritative, 0, 2);
        bench.push(Lane::Authoritative, 0, 2);
        // Else both would end late.
        assert_eq!(bench.read_all(), [0, 0, 1, 1]);
    }

    #[test]
    fn threads_share_a_request_and_its_order_stays() {
        let (reply, mut answer) = oneshot::channel();
        let pair = |length: usize| Pair {
            ids: vec![7; length],
            type_ids: vec![1; length],
        };
        let mut readings = Readings::default();
        let work = Work::new([3, 9, 5].map(pair).into());
        let call = Call::authoritative();
        let job = Job { call, work, reply };
        assert!(readings.push(0, job, LANE_MAX).is_ok());
        let mut runs: Vec<_> = std::iter::from_fn(|| readings.next_run()).collect();
        let lengths = runs.iter().map(|run| run.pair.ids.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [9, 5, 3]);
        assert_eq!(readings.len(), 0, "all of it is begun");
        for run in runs.drain(..).rev() {
            assert!(answer.try_recv().is_err());
            let start = vec![0.0; run.pair.ids.len()];
            let done = Logits { start, ..logits() };
            readings.finish(run, Ok(done), "reader x");
        }
        let read = answer.try_recv().expect("an answer").expect("logits");
        let lengths = read.iter().map(|logits| logits.start.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [3, 9, 5]);
    }

    #[test]
    fn a_guess_has_a_thread_and_others_while_they_are_idle() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

        let idle = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&idle);
        let mut bench = Bench {
            readings: Readings::within(Some(Room::new(move || seen.load(Relaxed)))),
            ..Bench::default()
        };
        bench.push(Lane::Speculative, 1, 3);
        bench.push(Lane::Speculative, 2, 3);
        let mut runs: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
        let of = |runs: &[Passage]| runs.iter().map(|run| run.of).collect::<Vec<_>>();
        assert_eq!(of(&runs), [0, 1], "one passage of each");
        idle.store(1, Relaxed);
        runs.extend(std::iter::from_fn(|| bench.readings.next_run()));
        assert_eq!(of(&runs), [0, 1, 0], "the better one has the idle core");
        // Needed, it has all threads.
        idle.store(0, Relaxed);
        bench.calls[1].promote();
        runs.extend(std::iter::from_fn(|| bench.readings.next_run()));
        assert_eq!(of(&runs), [0, 1, 0, 1, 1]);
        for run in runs {
            bench.readings.finish(run, Ok(logits()), "reader x");
        }
        assert_eq!(bench.read_all(), [0]);
        assert_eq!(bench.readings.counts().requests, 2);
    }

    #[test]
    fn a_full_lane_gives_back_and_does_not_fill_the_other() {
        let mut bench = Bench::default();
        for _ in 0..LANE_MAX {
            assert!(bench.push(Lane::Speculative, 1, 2));
        }
        assert!(!bench.push(Lane::Speculative, 1, 2));
        assert!(bench.push(Lane::Authoritative, 0, 1));
        // Once all of its passages are begun, a request waits no more.
        let _needed = bench.readings.next_run();
        let _first = bench.readings.next_run();
        assert!(!bench.push(Lane::Speculative, 1, 2));
        let _second = bench.readings.next_run();
        assert!(bench.push(Lane::Speculative, 1, 2));
    }

    #[test]
    fn a_cancelled_request_is_not_read_on() {
        let mut bench = Bench::default();
        for _ in 0..3 {
            bench.push(Lane::Authoritative, 0, 2);
        }
        // It waits.
        assert!(bench.readings.cancel(2));
        assert!(!bench.readings.cancel(2));
        // Its first passage is being read.
        let run = bench.readings.next_run().expect("work");
        assert!(bench.readings.cancel(0));
        bench.readings.finish(run, Ok(logits()), "reader x");
        // All of its passages are being read.
        let runs: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
        assert_eq!(runs.len(), 2);
        assert!(bench.readings.cancel(1));
        for run in runs {
            bench.readings.finish(run, Ok(logits()), "reader x");
        }
        let counts = bench.readings.counts();
        assert_eq!(
            (counts.cancelled, counts.requests, counts.passages),
            (3, 0, 3)
        );
        let closed = |answer: &mut oneshot::Receiver<_>| answer.try_recv().is_err();
        assert!(bench.answers.iter_mut().all(closed));
    }

    #[test]
    fn a_failed_run_says_so() {
        let mut bench = Bench::default();
        bench.push(Lane::Authoritative, 0, 3);
        let run = bench.readings.next_run().expect("work");
        let other = bench.readings.next_run().expect("work");
        let failed = Err(RunError::Failed("broken".into()));
        bench.readings.finish(run, failed, "reader x");
        let answer = bench.answers[0].try_recv().expect("an answer");
        let error = answer.expect_err("failed");
        assert!(error.to_string().contains("reader x"), "{error}");
        assert_eq!(bench.readings.counts().failed_runs, 1);
        // The others are of no use any more.
        bench.readings.finish(other, Ok(logits()), "reader x");
        assert_eq!(bench.read(), None);
    }
}
