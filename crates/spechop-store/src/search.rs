//! Searches wait in a queue for one thread, which answers those that wait together in one pass.
//!
//! A thread of its own, because a pass over a large index takes milliseconds and its first touch of
//! a page may wait for the disk. One thread, because the scan is bound by memory bandwidth.

use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, mem};

use parking_lot::{Condvar, Mutex};
use spechop_ports::{Call, Doing, Lane, PortError, panic_text};
use spechop_types::{Activity, Passage};
use tokio::sync::oneshot;

use crate::error::Fault;
use crate::rows::{PART, Rows};
use crate::scan::{Query, Top, scan};
use crate::shard::Held;

/// Searches of one pass. More would delay the first for the sake of the last.
const BATCH_MAX: usize = 16;

/// Searches that may wait. The scheduler above keeps far fewer in flight; this is the end of the
/// queue, not its working point.
const QUEUE_MAX: usize = 1024;

/// Rows between two looks at the queue, well under a millisecond: what an authoritative search waits at
/// most for a speculative pass to step aside.
const SEGMENT_ROWS: usize = 16_384;

/// How long the thread is idle at most before it looks whether somebody has written to the files of
/// an index that is not held in memory.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// One search on its way.
pub(crate) struct Job {
    pub(crate) query: Query,
    pub(crate) call: Call,
    pub(crate) reply: oneshot::Sender<Result<Vec<Passage>, PortError>>,
}

/// The thread and its queue. Dropping it ends the thread at its next look at the queue.
pub(crate) struct Searcher {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Searcher {
    pub(crate) fn spawn(rows: Arc<Rows>) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let worker = Worker {
            rows,
            queue: Arc::clone(&queue),
        };
        let thread = std::thread::Builder::new()
            .name("passage-search".into())
            .spawn(move || worker.run())?;
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }

    /// Queues a search. Its answer comes through the job's reply; dropping the receiver takes it
    /// out again.
    pub(crate) fn submit(&self, job: Job) {
        self.queue.push(job);
    }
}

impl Drop for Searcher {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // It ends within a segment. Had it panicked, the vital signs have told.
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// With the number of its arrival.
    jobs: Vec<(u64, Job)>,
    arrived: u64,
    closed: bool,
}

/// What the thread does next.
enum Turn {
    /// Searches, all of one lane.
    Search(Vec<Job>),
    /// Nobody has asked for a while.
    Look,
}

impl Queue {
    fn push(&self, job: Job) {
        self.waiting.lock().push(job);
        self.news.notify_one();
    }

    /// No more turns. False if that was so already.
    fn close(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let first = !mem::replace(&mut waiting.closed, true);
        // Dropping a job tells its waiter.
        waiting.jobs.clear();
        self.news.notify_one();
        first
    }

    /// The next turn, after `patience` at the latest; `None` once closed.
    fn next(&self, patience: Duration) -> Option<Turn> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.closed {
                return None;
            }
            let batch = waiting.take(Lane::Speculative);
            if !batch.is_empty() {
                return Some(Turn::Search(batch));
            }
            let woken = self.news.wait_for(&mut waiting, patience);
            if woken.timed_out() && waiting.jobs.is_empty() && !waiting.closed {
                return Some(Turn::Look);
            }
        }
    }
}

impl Waiting {
    /// Adds a job. If no room is left, an authoritative one takes the place of the least urgent
    /// speculative one; otherwise the newcomer is refused.
    fn push(&mut self, job: Job) {
        if self.closed {
            return;
        }
        self.jobs.retain(|(_, job)| !job.reply.is_closed());
        let refused = if self.jobs.len() < QUEUE_MAX {
            None
        } else if let (Lane::Authoritative, Some(at)) = (job.call.lane(), self.least_wanted()) {
            Some(self.jobs.remove(at).1)
        } else {
            return refuse(job);
        };
        self.jobs.push((self.arrived, job));
        self.arrived += 1;
        if let Some(refused) = refused {
            refuse(refused);
        }
    }

    fn least_wanted(&self) -> Option<usize> {
        let speculative = self.jobs.iter().enumerate();
        speculative
            .map(|(at, (arrival, job))| (at, job.call.urgency(*arrival)))
            .filter(|(_, urgency)| urgency.lane() == Lane::Speculative)
            .min_by_key(|(_, urgency)| *urgency)
            .map(|(at, _)| at)
    }

    /// Takes the next jobs, all of one lane, which is at least this one, the most urgent first. The lane is asked
    /// for now, so a promotion counts while it waits. It is asked for once: a job that is promoted between two
    /// looks would be in neither lane, and wait until somebody else comes.
    fn take(&mut self, least: Lane) -> Vec<Job> {
        self.jobs.retain(|(_, job)| !job.reply.is_closed());
        let jobs = mem::take(&mut self.jobs).into_iter();
        let mut batch: Vec<_> = jobs
            .map(|(arrival, job)| (job.call.urgency(arrival), arrival, job))
            .collect();
        batch.sort_by_key(|(urgency, ..)| Reverse(*urgency));
        let lane = batch.first().map(|(urgency, ..)| urgency.lane());
        let lane = lane.filter(|lane| *lane >= least);
        let of_lane = batch.iter().take(BATCH_MAX);
        let of_lane = of_lane.take_while(|(urgency, ..)| Some(urgency.lane()) == lane);
        let others = batch.split_off(of_lane.count());
        self.jobs = others.into_iter().map(|(_, at, job)| (at, job)).collect();
        batch.into_iter().map(|(.., job)| job).collect()
    }
}

fn refuse(job: Job) {
    let full = PortError::unavailable(PART, "too many searches wait");
    // A waiter that is gone needs no answer.
    let _ = job.reply.send(Err(full));
}

struct Worker {
    rows: Arc<Rows>,
    queue: Arc<Queue>,
}

/// However the thread ends, nobody waits for it any longer.
impl Drop for Worker {
    fn drop(&mut self) {
        // Nobody asked it to.
        if self.queue.close() {
            let ended = "its search thread has ended".to_owned();
            self.rows.give_up(ended);
        }
    }
}

/// What a pass found: the passages of each of its jobs, in their order.
type Found = Vec<Vec<Passage>>;

impl Worker {
    fn run(self) {
        let patience = match self.rows.held() {
            Held::OnDisk => LOOK_EVERY,
            Held::InMemory => Duration::MAX,
        };
        while let Some(turn) = self.queue.next(patience) {
            match turn {
                Turn::Search(batch) => self.pass(batch),
                Turn::Look => {
                    if let Err(fault) = self.rows.unchanged() {
                        self.rows.break_down(fault);
                    }
                }
            }
        }
    }

    /// One pass over all rows for the jobs of a batch. A pass that panics fails, and the next one is
    /// made.
    fn pass(&self, jobs: Vec<Job>) {
        let mut running: Vec<(Job, Top)> = jobs
            .into_iter()
            .map(|job| {
                let top = Top::new(job.query.limit());
                (job, top)
            })
            .collect();
        let found = catch_unwind(AssertUnwindSafe(|| self.find(&mut running)));
        let reason: Arc<str> = match found {
            Ok(Ok(found)) => {
                for ((job, _), passages) in running.into_iter().zip(found) {
                    let _ = job.reply.send(Ok(passages));
                }
                return;
            }
            Ok(Err(fault)) => self.rows.break_down(fault),
            Err(panic) => format!("a search panicked: {}", panic_text(&*panic)).into(),
        };
        for (job, _) in running {
            let _ = job.reply.send(Err(PortError::unavailable(PART, &*reason)));
        }
    }

    /// The passages for all jobs that are still wanted at the end; the others leave `running`.
    fn find(&self, running: &mut Vec<(Job, Top)>) -> Result<Found, Fault> {
        let scanning = |running: &[(Job, Top)]| -> Vec<Doing> {
            let calls = running.iter().map(|(job, _)| &job.call);
            calls.map(|call| call.doing(Activity::Scan)).collect()
        };
        if let Some(lexical) = self.rows.lexical() {
            // Words take about as long as a segment, and nobody who is needed waits for those of a whole batch.
            loop {
                self.step_aside(running);
                let mut jobs = running.iter_mut().map(|(job, _)| job);
                let Some(job) = jobs.find(|job| job.query.has_words()) else {
                    break;
                };
                let _mixing = job.call.doing(Activity::Scan);
                job.query.mix(lexical);
            }
        }
        for (shard, first_row) in self.rows.shards() {
            for start in (0..shard.rows()).step_by(SEGMENT_ROWS) {
                self.step_aside(running);
                if running.is_empty() {
                    return Ok(Vec::new());
                }
                let _scanning = scanning(running);
                let rows = start..shard.rows().min(start + SEGMENT_ROWS);
                let (queries, mut tops): (Vec<&Query>, Vec<Top>) = running
                    .iter_mut()
                    .map(|(job, top)| (&job.query, mem::replace(top, Top::new(0))))
                    .unzip();
                scan(shard, rows, first_row, &queries, &mut tops)?;
                for ((_, top), scanned) in running.iter_mut().zip(tops) {
                    *top = scanned;
                }
            }
        }
        let _collecting = scanning(running);
        let tops = running.iter_mut();
        let tops = tops.map(|(_, top)| mem::replace(top, Top::new(0)));
        let found = tops
            .map(|top| self.rows.passages(&top.into_hits()))
            .collect::<Result<_, _>>()?;
        // What was read while somebody wrote is not given out.
        self.rows.unchanged()?;
        Ok(found)
    }

    /// Between two segments: cancelled jobs leave, and where nobody in this pass is authoritative,
    /// waiting authoritative searches go first.
    fn step_aside(&self, running: &mut Vec<(Job, Top)>) {
        running.retain(|(job, _)| !job.reply.is_closed());
        let urgent_inside = |(job, _): &(Job, Top)| job.call.lane() == Lane::Authoritative;
        if running.is_empty() || running.iter().any(urgent_inside) {
            return;
        }
        loop {
            let urgent = self.queue.waiting.lock().take(Lane::Authoritative);
            if urgent.is_empty() {
                break;
            }
            self.pass(urgent);
        }
    }
}

#[cfg(test)]
mod tests {
    use spechop_ports::Vitals;
    use spechop_types::Chance;

    use super::*;
    use crate::fixture::{unit_vectors, write};

    type Answer = oneshot::Receiver<Result<Vec<Passage>, PortError>>;

    /// A job whose limit serves as its name.
    fn job(name: usize, call: &Call) -> (Job, Answer) {
        let (reply, answer) = oneshot::channel();
        let query = Query::new(&[1.0], name).unwrap();
        let call = call.clone();
        (Job { query, call, reply }, answer)
    }

    fn names(jobs: &[Job]) -> Vec<usize> {
        jobs.iter().map(|job| job.query.limit()).collect()
    }

    /// A search over vectors of no components, which no caller can make: comparing them panics.
    fn impossible() -> (Job, Answer) {
        let (reply, answer) = oneshot::channel();
        let query = Query::new(&[], 1).unwrap();
        let call = Call::authoritative();
        (Job { query, call, reply }, answer)
    }

    fn index(vitals: &Vitals) -> (tempfile::TempDir, Arc<Rows>) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &unit_vectors(1, 30, 8), 20);
        let rows = Rows::open(dir.path(), 0, vitals.clone()).unwrap();
        (dir, Arc::new(rows))
    }

    #[tokio::test]
    async fn a_search_that_panics_fails_alone() {
        let vitals = Vitals::default();
        let (_dir, rows) = index(&vitals);
        let searcher = Searcher::spawn(rows).unwrap();
        for _ in 0..3 {
            let (job, answer) = impossible();
            searcher.submit(job);
            let error = answer.await.expect("told").unwrap_err();
            let reason = std::error::Error::source(&error).unwrap().to_string();
            assert!(
                reason.contains("a search panicked: a query of another width"),
                "{reason}"
            );
            let (reply, answer) = oneshot::channel();
            let query = Query::new(&unit_vectors(2, 1, 8)[0], 3).unwrap();
            let call = Call::authoritative();
            searcher.submit(Job { query, call, reply });
            assert_eq!(answer.await.expect("told").unwrap().len(), 3);
        }
        assert_eq!(vitals.failures(), []);
    }

    #[tokio::test]
    async fn a_thread_that_ends_unasked_is_a_vital_sign() {
        let vitals = Vitals::default();
        let (_dir, rows) = index(&vitals);
        let queue = Arc::new(Queue::default());
        let (job, answer) = job(1, &Call::authoritative());
        queue.push(job);
        let worker = Worker {
            rows: Arc::clone(&rows),
            queue: Arc::clone(&queue),
        };
        drop(worker);
        assert!(answer.await.is_err(), "nobody waits");
        assert!(rows.usable().is_err());
        let failures = vitals.failures();
        assert_eq!(failures.len(), 1);
        assert!(failures[0].reason.contains("search thread has ended"));

        let vitals = Vitals::default();
        let (_dir, rows) = index(&vitals);
        drop(Searcher::spawn(rows).unwrap());
        assert_eq!(vitals.failures(), [], "it was asked to");
    }

    #[test]
    fn takes_by_urgency_and_forgets_the_cancelled() {
        let mut waiting = Waiting::default();
        let deep = Call::new(Lane::Speculative, Chance::EVEN.pow(2));
        let shallow = Call::new(Lane::Speculative, Chance::EVEN);
        let needed = Call::authoritative();
        let promoted = Call::new(Lane::Speculative, Chance::EVEN.pow(5));
        let mut answers = Vec::new();
        for (name, call) in [&deep, &shallow, &promoted, &needed, &shallow]
            .iter()
            .enumerate()
        {
            let (job, answer) = job(name, call);
            waiting.push(job);
            answers.push(answer);
        }
        promoted.promote();
        drop(answers.remove(1));
        // Of one lane, whoever may come.
        assert_eq!(names(&waiting.take(Lane::Speculative)), [2, 3]);
        assert!(waiting.take(Lane::Authoritative).is_empty());
        assert_eq!(names(&waiting.take(Lane::Speculative)), [4, 0]);
        assert!(waiting.jobs.is_empty());
    }

    #[test]
    fn a_batch_has_an_end_and_the_rest_keeps_its_order() {
        let mut waiting = Waiting::default();
        let answers: Vec<Answer> = (0..BATCH_MAX + 2)
            .map(|name| {
                let (job, answer) = job(name, &Call::authoritative());
                waiting.push(job);
                answer
            })
            .collect();
        assert_eq!(waiting.take(Lane::Authoritative).len(), BATCH_MAX);
        let rest = waiting.take(Lane::Authoritative);
        assert_eq!(names(&rest), [BATCH_MAX, BATCH_MAX + 1]);
        drop(answers);
    }

    #[test]
    fn a_full_queue_refuses_guesswork_first() {
        let mut waiting = Waiting::default();
        let refused = |answer: &mut Answer| {
            matches!(answer.try_recv(), Ok(Err(PortError::Unavailable { .. })))
        };
        let mut answers: Vec<Answer> = (0..QUEUE_MAX)
            .map(|name| {
                let depth = if name == 7 { 9 } else { 1 };
                let (job, answer) =
                    job(name, &Call::new(Lane::Speculative, Chance::EVEN.pow(depth)));
                waiting.push(job);
                answer
            })
            .collect();
        let (late, mut answer) = job(0, &Call::new(Lane::Speculative, Chance::EVEN));
        waiting.push(late);
        assert!(refused(&mut answer), "no room for another guess");
        let (needed, mut answer) = job(0, &Call::authoritative());
        waiting.push(needed);
        assert!(!refused(&mut answer));
        assert!(
            refused(&mut answers[7]),
            "the least likely guess makes room"
        );
        assert_eq!(waiting.jobs.len(), QUEUE_MAX);
        drop(answers);
        waiting.jobs.retain(|(_, job)| !job.reply.is_closed());
        assert_eq!(waiting.jobs.len(), 1, "only the needed one is left");
    }
}
