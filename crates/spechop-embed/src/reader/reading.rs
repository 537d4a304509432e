//! The work of a reader: one request, one run.

use spechop_types::Activity;

use super::model::Model;
use super::pairs::Pair;
use super::spans::Logits;
use crate::encoding::shares;
use crate::session::RunError;
use crate::waiting::{Job, JobId, Waiting};
use crate::worker::Backlog;

/// What a reader has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Runs of the model, one a request.
    pub runs: u64,
    /// Passages read.
    pub passages: u64,
    /// Tokens computed, padding not included.
    pub tokens: u64,
    /// Tokens computed for nothing, because passages of unlike length shared a run.
    pub padding: u64,
    /// Requests that left the queue because their callers did.
    pub cancelled: u64,
    /// Runs that failed.
    pub failed_runs: u64,
}

/// A request's pairs, waiting for their logits.
pub(crate) type ReadJob = Job<Vec<Pair>, Vec<Logits>>;

/// What waits for a reader, and what it has done.
///
/// Requests never share a run. Int8 models scale the activations of a run together, so company
/// would change the logits, and with them, now and then, an answer: the same request must be
/// answered the same whoever else is asking.
#[derive(Default)]
pub(crate) struct Readings {
    waiting: Waiting<Vec<Pair>, Vec<Logits>>,
    counts: ReaderCounts,
}

impl Readings {
    pub(crate) fn push(&mut self, id: JobId, job: ReadJob, lane_max: usize) -> Result<(), ReadJob> {
        self.waiting.push(id, job, lane_max)
    }

    pub(crate) fn counts(&self) -> ReaderCounts {
        self.counts
    }
}

impl Backlog for Readings {
    const KIND: &'static str = "reader";

    type Model = Model;
    type Run = ReadJob;
    type Done = Vec<Logits>;

    fn next_run(&mut self) -> Option<ReadJob> {
        let first = self.waiting.by_urgency().first()?.id;
        self.waiting.take(first)
    }

    fn compute(model: &mut Model, run: &ReadJob) -> Result<Vec<Logits>, RunError> {
        let _reading = run.call.doing(Activity::Read);
        model.run(&run.work)
    }

    fn finish(&mut self, run: ReadJob, done: Result<Vec<Logits>, RunError>, what: &str) {
        if done.is_ok() {
            let (tokens, padding) = shares(run.work.iter().map(|pair| pair.ids.len()));
            self.counts.runs += 1;
            self.counts.passages += run.work.len() as u64;
            self.counts.tokens += tokens;
            self.counts.padding += padding;
        } else {
            self.counts.failed_runs += 1;
        }
        // A closed reply is a call cancelled during the run.
        let _ = run.reply.send(done.map_err(|error| error.of(what)));
    }

    fn cancel(&mut self, id: JobId) -> bool {
        let was_there = self.waiting.take(id).is_some();
        self.counts.cancelled += u64::from(was_there);
        was_there
    }

    fn clear(&mut self) {
        self.waiting = Waiting::default();
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spechop_ports::{Call, Lane};
    use spechop_types::Chance;
    use tokio::sync::oneshot;

    const LANE_MAX: usize = 3;

    #[derive(Default)]
    struct Bench {
        readings: Readings,
        calls: Vec<Call>,
    }

    impl Bench {
        fn push(&mut self, lane: Lane, depth: u32) -> bool {
            let call = Call::new(lane, Chance::EVEN.pow(depth));
            let id = self.calls.len() as JobId;
            self.calls.push(call.clone());
            let work = vec![Pair {
                ids: vec![id as u32],
                type_ids: vec![1],
            }];
            let (reply, _) = oneshot::channel();
            let job = Job { call, work, reply };
            self.readings.push(id, job, LANE_MAX).is_ok()
        }

        fn runs(&mut self) -> Vec<u32> {
            std::iter::from_fn(|| self.readings.next_run())
                .map(|job| job.work[0].ids[0])
                .collect()
        }
    }

    #[test]
    fn requests_run_alone_and_by_urgency() {
        let mut bench = Bench::default();
        for (lane, depth) in [
            (Lane::Speculative, 3),
            (Lane::Speculative, 1),
            (Lane::Authoritative, 2),
            (Lane::Speculative, 1),
            (Lane::Authoritative, 0),
        ] {
            assert!(bench.push(lane, depth));
        }
        bench.calls[0].promote();
        assert_eq!(bench.runs(), [0, 2, 4, 1, 3]);
        assert_eq!(bench.readings.len(), 0);
    }

    #[test]
    fn a_full_lane_gives_back_and_does_not_fill_the_other() {
        let mut bench = Bench::default();
        for _ in 0..LANE_MAX {
            assert!(bench.push(Lane::Speculative, 1));
        }
        assert!(!bench.push(Lane::Speculative, 1));
        assert!(bench.push(Lane::Authoritative, 0));
    }

    #[test]
    fn a_cancelled_request_does_not_run() {
        let mut bench = Bench::default();
        bench.push(Lane::Authoritative, 0);
        bench.push(Lane::Authoritative, 0);
        assert!(bench.readings.cancel(0));
        assert!(!bench.readings.cancel(0));
        assert_eq!(bench.runs(), [1]);
        assert!(!bench.readings.cancel(1), "it has left to run");
        assert_eq!(bench.readings.counts().cancelled, 1);
    }

    #[test]
    fn a_failed_run_says_so() {
        let mut readings = Readings::default();
        let (reply, mut answer) = oneshot::channel();
        let job = Job {
            call: Call::authoritative(),
            work: Vec::new(),
            reply,
        };
        readings.finish(job, Err(RunError::Failed("broken".into())), "reader x");
        let error = answer.try_recv().expect("an answer").expect_err("failed");
        assert!(error.to_string().contains("reader x"), "{error}");
        assert_eq!(readings.counts().failed_runs, 1);
    }
}
