//! Searches wait in a queue for one thread, which answers those that wait together in one pass.
//!
//! A thread of its own, because a pass over a large index takes milliseconds and its first touch of
//! a page may wait for the disk. One thread, because the scan is bound by memory bandwidth.

use std::cmp::Reverse;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::{io, mem};

use spechop_ports::{Call, Lane, PortError};
use spechop_types::Passage;
use tokio::sync::oneshot;

use crate::index::Rows;
use crate::scan::{Query, Top, scan};

/// Searches of one pass. More would delay the first for the sake of the last.
const BATCH_MAX: usize = 16;

/// Searches that may wait. The scheduler above keeps far fewer in flight; this is the end of the
/// queue, not its working point.
const QUEUE_MAX: usize = 1024;

/// Rows between two looks at the queue, well under a millisecond: what an authoritative search waits at
/// most for a speculative pass to step aside.
const SEGMENT_ROWS: usize = 16_384;

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
            // It ends within a segment. Had it panicked, its waiters have been told already.
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

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing under the lock can leave the list half-changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) {
        self.lock().push(job);
        self.news.notify_one();
    }

    fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        // Dropping a job tells its waiter.
        waiting.jobs.clear();
        self.news.notify_one();
    }

    /// The next batch, all of one lane; `None` once closed.
    fn next(&self) -> Option<Vec<Job>> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            for lane in [Lane::Authoritative, Lane::Speculative] {
                let batch = waiting.take(lane);
                if !batch.is_empty() {
                    return Some(batch);
                }
            }
            waiting = self
                .news
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
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

    /// Takes the next jobs of a lane, the most urgent first. The lane is asked for now, so a
    /// promotion counts while it waits.
    fn take(&mut self, lane: Lane) -> Vec<Job> {
        self.jobs.retain(|(_, job)| !job.reply.is_closed());
        let (mut batch, mut others): (Vec<_>, Vec<_>) = mem::take(&mut self.jobs)
            .into_iter()
            .partition(|(_, job)| job.call.lane() == lane);
        batch.sort_by_key(|(arrival, job)| Reverse(job.call.urgency(*arrival)));
        others.extend(batch.split_off(batch.len().min(BATCH_MAX)));
        self.jobs = others;
        batch.into_iter().map(|(_, job)| job).collect()
    }
}

fn refuse(job: Job) {
    let full = PortError::Unavailable {
        what: "passage index (too many searches wait)".into(),
        source: None,
    };
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
        self.queue.close();
    }
}

impl Worker {
    fn run(self) {
        while let Some(batch) = self.queue.next() {
            self.pass(batch);
        }
    }

    /// One pass over all rows for the jobs of a batch.
    fn pass(&self, jobs: Vec<Job>) {
        let mut running: Vec<(Job, Top)> = jobs
            .into_iter()
            .map(|job| {
                let top = Top::new(job.query.limit());
                (job, top)
            })
            .collect();
        for (shard, first_row) in self.rows.shards() {
            for start in (0..shard.rows()).step_by(SEGMENT_ROWS) {
                self.step_aside(&mut running);
                if running.is_empty() {
                    return;
                }
                let rows = start..shard.rows().min(start + SEGMENT_ROWS);
                let (queries, mut tops): (Vec<&Query>, Vec<Top>) = running
                    .iter_mut()
                    .map(|(job, top)| (&job.query, mem::replace(top, Top::new(0))))
                    .unzip();
                scan(shard, rows, first_row, &queries, &mut tops);
                for ((_, top), scanned) in running.iter_mut().zip(tops) {
                    *top = scanned;
                }
            }
        }
        for (job, top) in running {
            let found = self.rows.passages(&top.into_hits());
            let _ = job.reply.send(found.map_err(|error| PortError::Malformed {
                what: "passage index".into(),
                detail: error.to_string(),
            }));
        }
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
            let urgent = self.queue.lock().take(Lane::Authoritative);
            if urgent.is_empty() {
                break;
            }
            self.pass(urgent);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use spechop_types::Chance;

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
        assert_eq!(names(&waiting.take(Lane::Authoritative)), [2, 3]);
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
