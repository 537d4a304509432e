//! The work of a reader: passages of requests, each by itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use spechop_ports::{Call, Lane};
use spechop_types::Activity;

use super::boundary::Asked;
use super::model::Model;
use super::pairs::{Pair, Shown};
use super::spans::{self, Logits};
use super::{Calibration, Room};
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

/// What the passages of a request are read for.
pub(crate) struct Wanted {
    pub(crate) asked: Asked,
    /// The passages, best first.
    pub(crate) shown: Vec<Shown>,
    pub(crate) answer_tokens_max: usize,
    pub(crate) calibration: Calibration,
    /// A reading of this confidence ends the request.
    pub(crate) enough: Option<f64>,
}

impl Wanted {
    /// Whether what these logits say of the passage `at` ends the request.
    fn is_enough(&self, at: usize, logits: &Logits) -> bool {
        let Some(enough) = self.enough else {
            return false;
        };
        let score = spans::best_score(&self.shown[at], logits, &self.asked, self.answer_tokens_max);
        score.is_some_and(|score| self.calibration.confidence(score) >= enough)
    }
}

/// What was read of a passage.
pub(crate) struct Read {
    logits: Logits,
    is_enough: bool,
}

/// A request, passage by passage.
///
/// The passages are read in their order, and a reading that is sure enough ends it: the answer is the
/// best of the passages up to that one. Threads that have no other needed work read on meanwhile, so what
/// they read may be of no use; the answer does not hang on how many they are.
pub(crate) struct Work {
    wanted: Arc<Wanted>,
    /// Those that nobody has begun to read, and their places in the request.
    left: VecDeque<(usize, Pair)>,
    /// Those that are being read.
    reading: usize,
    /// What was read, in the places of the request.
    read: Vec<Option<Read>>,
}

impl Work {
    /// Of pairs, at least one, in the order of `wanted.shown`.
    pub(crate) fn new(pairs: Vec<Pair>, wanted: Arc<Wanted>) -> Self {
        Self {
            wanted,
            read: pairs.iter().map(|_| None).collect(),
            left: pairs.into_iter().enumerate().collect(),
            reading: 0,
        }
    }

    /// Keeps what was read of the passage `at`. Nothing behind it is begun any more if that is enough.
    fn keep(&mut self, at: usize, read: Read) {
        if read.is_enough {
            self.left.clear();
        }
        self.read[at] = Some(read);
    }

    /// How many of the first passages have the answer, once that is known.
    fn settled(&self) -> Option<usize> {
        for (at, read) in self.read.iter().enumerate() {
            if read.as_ref()?.is_enough {
                return Some(at + 1);
            }
        }
        Some(self.read.len())
    }
}

/// A request, waiting for the logits of its first passages.
pub(crate) type ReadJob = Job<Work, Vec<Logits>>;

/// A passage that is being read.
pub(crate) struct Passage {
    of: JobId,
    at: usize,
    pair: Pair,
    wanted: Arc<Wanted>,
    call: Call,
}

/// What waits for a reader, and what it has done.
///
/// Each passage has a run of its own. Passages are of unlike length, so of a run of five nearly half
/// would be padding. Int8 models scale the activations of a run together, so company would change
/// the logits, and with them, now and then, an answer. And between two passages the turn goes to
/// whoever is most urgent: a needed request waits for one passage of a guess's, not for all.
///
/// The further passages of a request may turn out to be of no use. So a needed request of which nothing is
/// being read goes before those of another one, and if the cores are crowded they are read one by one.
///
/// Of a guess's request one passage is read at a time, and further ones only on idle cores: so it has
/// room beside other needed work, and slows none.
#[derive(Default)]
pub(crate) struct Readings {
    /// What there is for the further passages of a request, now.
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
        if turn.work.reading == 0 {
            return true;
        }
        let Some(room) = &self.room else {
            return true;
        };
        if turn.urgency.lane() == Lane::Authoritative {
            return !room.is_crowded();
        }
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

    /// Whose passage is read next.
    fn next(&self) -> Option<JobId> {
        let turns = self.waiting.by_urgency();
        let is_untouched = |turn: &&Turn<'_, Work>| {
            turn.urgency.lane() == Lane::Authoritative && turn.work.reading == 0
        };
        let untouched = turns.iter().find(is_untouched);
        let next = untouched.or_else(|| turns.iter().find(|turn| self.may_read(turn)));
        next.map(|turn| turn.id)
    }

    /// Puts a request aside, all of whose passages have been begun that will be.
    fn put_aside(&mut self, id: JobId) {
        if let Some(job) = self.waiting.take(id) {
            self.begun.insert(id, job);
        }
    }

    fn leave(&mut self, id: JobId) -> Option<ReadJob> {
        self.begun.remove(&id).or_else(|| self.waiting.take(id))
    }
}

impl Backlog for Readings {
    const KIND: &'static str = "reader";

    type Model = Model;
    type Run = Passage;
    type Done = Read;

    fn next_run(&mut self) -> Option<Passage> {
        let of = self.next()?;
        let job = self.waiting.get_mut(of)?;
        let call = job.call.clone();
        let wanted = Arc::clone(&job.work.wanted);
        let next = job.work.left.pop_front();
        job.work.reading += 1;
        if job.work.left.is_empty() {
            self.put_aside(of);
        }
        let (at, pair) = next?;
        Some(Passage {
            of,
            at,
            pair,
            wanted,
            call,
        })
    }

    fn is_held_back(&self) -> bool {
        // What waits here has passages that nobody has begun.
        !self.waiting.is_empty()
    }

    fn compute(model: &mut Model, passage: &Passage) -> Result<Read, RunError> {
        let _reading = passage.call.doing(Activity::Read);
        let logits = model.run(&passage.pair)?;
        Ok(Read {
            is_enough: passage.wanted.is_enough(passage.at, &logits),
            logits,
        })
    }

    fn finish(&mut self, passage: Passage, done: Result<Read, RunError>, what: &str) {
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
        // It was cancelled, it has its answer, or another passage of it has failed.
        let Some(job) = job else {
            return;
        };
        job.work.reading -= 1;
        let read = match done {
            Ok(read) => {
                job.work.keep(passage.at, read);
                let Some(first) = job.work.settled() else {
                    if job.work.left.is_empty() {
                        self.put_aside(of);
                    }
                    return;
                };
                job.work.read.truncate(first);
                Ok(std::mem::take(&mut job.work.read))
            }
            Err(error) => Err(error.of(what)),
        };
        let Some(job) = self.leave(of) else {
            return;
        };
        self.counts.requests += u64::from(read.is_ok());
        // A closed reply is a call that is being cancelled.
        let logits =
            |read: Vec<Option<Read>>| read.into_iter().flatten().map(|read| read.logits).collect();
        let _ = job.reply.send(read.map(logits));
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
    use super::super::Space;
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

    fn read(is_enough: bool) -> Read {
        let logits = Logits {
            start: Vec::new(),
            end: Vec::new(),
            classes: [0.0; 4],
        };
        Read { logits, is_enough }
    }

    fn wanted() -> Arc<Wanted> {
        Arc::new(Wanted {
            asked: Asked::new("who is it"),
            shown: Vec::new(),
            answer_tokens_max: 24,
            calibration: Calibration {
                scale: 1.0,
                shift: 0.0,
            },
            enough: None,
        })
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
            let work = Work::new((0..passages).map(pair).collect(), wanted());
            let job = Job { call, work, reply };
            self.readings.push(id, job, LANE_MAX).is_ok()
        }

        /// Reads a passage, and says whose it was.
        fn read(&mut self) -> Option<JobId> {
            let run = self.readings.next_run()?;
            let id = run.of;
            self.readings.finish(run, Ok(read(false)), "reader x");
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
        let mut bench = Bench::default();
        bench.push(Lane::Authoritative, 0, 3);
        let mut runs: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
        let places = runs.iter().map(|run| run.at);
        assert_eq!(places.collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(bench.readings.len(), 0, "all of it is begun");
        for run in runs.drain(..).rev() {
            assert!(bench.answers[0].try_recv().is_err());
            let mut done = read(false);
            done.logits.start = vec![0.0; run.at];
            bench.readings.finish(run, Ok(done), "reader x");
        }
        let read = bench.answers[0].try_recv().expect("an answer");
        let places = read.expect("logits").into_iter().map(|one| one.start.len());
        assert_eq!(places.collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn untouched_requests_go_before_further_passages_of_another() {
        let mut bench = Bench::default();
        bench.push(Lane::Speculative, 1, 1);
        bench.push(Lane::Authoritative, 0, 2);
        bench.push(Lane::Authoritative, 0, 2);
        let runs = std::iter::from_fn(|| bench.readings.next_run());
        assert_eq!(runs.map(|run| run.of).collect::<Vec<_>>(), [1, 2, 1, 2, 0]);
    }

    /// However many passages are read at once, and whichever ends first, the same ones count.
    #[test]
    fn a_reading_that_is_enough_ends_a_request() {
        // Of five passages the third and the fifth would be enough.
        let is_enough = |at| at == 2 || at == 4;
        for (side_by_side, last_first, passages_read) in [
            (1, false, 3),
            (2, false, 3),
            (2, true, 3),
            (3, true, 3),
            (4, true, 5),
            (5, false, 3),
            (5, true, 5),
        ] {
            let mut bench = Bench::default();
            bench.push(Lane::Authoritative, 0, 5);
            let mut runs = VecDeque::new();
            let answer = loop {
                while runs.len() < side_by_side
                    && let Some(run) = bench.readings.next_run()
                {
                    runs.push_back(run);
                }
                let run = if last_first {
                    runs.pop_back()
                } else {
                    runs.pop_front()
                };
                let run = run.expect("a passage is being read");
                let done = read(is_enough(run.at));
                bench.readings.finish(run, Ok(done), "reader x");
                if let Ok(answer) = bench.answers[0].try_recv() {
                    break answer.expect("logits");
                }
            };
            let case = (side_by_side, last_first);
            assert_eq!(answer.len(), 3, "{case:?}");
            let passages = bench.readings.counts().passages;
            assert_eq!(passages, passages_read, "{case:?}");
            assert!(bench.readings.next_run().is_none(), "{case:?}");
            // Those still being read are of no use.
            for run in runs {
                bench.readings.finish(run, Ok(read(true)), "reader x");
            }
            assert_eq!(bench.readings.counts().requests, 1, "{case:?}");
            assert!(!bench.readings.cancel(0), "{case:?}: nothing is left of it");
        }
    }

    #[test]
    fn a_guess_has_a_thread_and_others_while_they_are_idle() {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

        let idle = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&idle);
        let room = Room::new(move || Space {
            idle: seen.load(Relaxed),
            is_crowded: false,
        });
        let mut bench = Bench {
            readings: Readings::within(Some(room)),
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
            bench.readings.finish(run, Ok(read(false)), "reader x");
        }
        assert_eq!(bench.read_all(), [0]);
        assert_eq!(bench.readings.counts().requests, 2);
    }

    #[test]
    fn on_crowded_cores_a_needed_request_has_one_thread() {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

        let is_crowded = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&is_crowded);
        let room = Room::new(move || Space {
            idle: 0,
            is_crowded: seen.load(Relaxed),
        });
        let mut bench = Bench {
            readings: Readings::within(Some(room)),
            ..Bench::default()
        };
        bench.push(Lane::Authoritative, 0, 3);
        bench.push(Lane::Authoritative, 0, 3);
        let first = bench.readings.next_run().expect("the first request");
        let second = bench.readings.next_run().expect("the second request");
        assert_eq!((first.of, second.of), (0, 1));
        assert!(bench.readings.next_run().is_none());
        assert!(bench.readings.is_held_back(), "so it is looked at again");
        bench.readings.finish(second, Ok(read(false)), "reader x");
        let again = bench.readings.next_run().expect("its second passage");
        assert_eq!((again.of, again.at), (1, 1));
        assert!(bench.readings.next_run().is_none());
        is_crowded.store(false, Relaxed);
        let further: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
        let of: Vec<_> = further.iter().map(|run| run.of).collect();
        assert_eq!(of, [0, 0, 1]);
        for run in further.into_iter().chain([first, again]) {
            bench.readings.finish(run, Ok(read(false)), "reader x");
        }
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
        bench.readings.finish(run, Ok(read(false)), "reader x");
        // All of its passages are being read.
        let runs: Vec<_> = std::iter::from_fn(|| bench.readings.next_run()).collect();
        assert_eq!(runs.len(), 2);
        assert!(bench.readings.cancel(1));
        for run in runs {
            bench.readings.finish(run, Ok(read(false)), "reader x");
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
        bench.readings.finish(other, Ok(read(false)), "reader x");
        assert_eq!(bench.read(), None);
    }
}
