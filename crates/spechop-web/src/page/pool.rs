//! Threads that make text of pages.
//!
//! A parse cannot be cancelled, so the number of pages under way is that of the threads. What waits is
//! taken by [`Urgency`](spechop_ports::Urgency), and is gone as soon as nobody waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::{io, thread};

use parking_lot::{Condvar, Mutex};
use spechop_ports::Call;
use tokio::sync::oneshot;

/// Dropping it ends its threads, each after the page that it is busy with.
pub(super) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Job>,
    arrivals: u64,
    closed: bool,
}

struct Job {
    call: Call,
    arrival: u64,
    work: Box<dyn FnOnce() + Send>,
}

/// The work broke down, and the thread is as good as before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Pool {
    pub(super) fn new(threads: usize) -> io::Result<Self> {
        let pool = Self(Arc::default());
        for n in 0..threads {
            let shared = Arc::clone(&pool.0);
            let builder = thread::Builder::new().name(format!("page-{n}"));
            builder.spawn(move || shared.work())?;
        }
        Ok(pool)
    }

    /// What `work` comes to, when a thread has had time for it. Dropped before its turn, it never
    /// begins.
    pub(super) async fn run<T, F>(&self, call: &Call, work: F) -> Result<T, Broken>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work = move || {
            if let Ok(done) = catch_unwind(AssertUnwindSafe(work)) {
                // Nobody may be waiting any more.
                let _ = reply.send(done);
            }
        };
        let _place = self.0.push(call.clone(), Box::new(work));
        answer.await.map_err(|_| Broken)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.queue.lock().closed = true;
        self.0.changed.notify_all();
    }
}

/// A place in the queue. Dropping it gives it up.
struct Place<'a> {
    shared: &'a Shared,
    arrival: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        let at = queue
            .waiting
            .iter()
            .position(|job| job.arrival == self.arrival);
        let left = at.map(|at| queue.waiting.swap_remove(at));
        drop(queue);
        // Pages are large; they are freed outside the lock.
        drop(left);
    }
}

impl Shared {
    fn push(&self, call: Call, work: Box<dyn FnOnce() + Send>) -> Place<'_> {
        let mut queue = self.queue.lock();
        queue.arrivals += 1;
        let arrival = queue.arrivals;
        queue.waiting.push(Job {
            call,
            arrival,
            work,
        });
        drop(queue);
        self.changed.notify_one();
        Place {
            shared: self,
            arrival,
        }
    }

    fn work(&self) {
        let mut queue = self.queue.lock();
        while !queue.closed {
            let urgent = (0..queue.waiting.len()).max_by_key(|&at| {
                let job = &queue.waiting[at];
                job.call.urgency(job.arrival)
            });
            match urgent {
                Some(at) => {
                    let job = queue.waiting.swap_remove(at);
                    drop(queue);
                    (job.work)();
                    queue = self.queue.lock();
                }
                None => self.changed.wait(&mut queue),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::future::join_all;
    use futures::{FutureExt, poll};
    use spechop_ports::Lane;
    use spechop_types::Chance;

    use super::*;

    /// A pool whose one thread is busy until the sender is used or dropped.
    async fn busy() -> (Arc<Pool>, mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
        let pool = Arc::new(Pool::new(1).unwrap());
        let (release, held) = mpsc::channel();
        let (started, start) = oneshot::channel();
        let work = move || {
            let _ = started.send(());
            let _ = held.recv();
        };
        let blocking = Arc::clone(&pool);
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        let task = tokio::spawn(async move {
            blocking.run(&Call::authoritative(), work).await.unwrap();
        });
        start.await.unwrap();
        (pool, release, task)
    }

    #[tokio::test]
    async fn the_most_urgent_page_is_read_first() {
        let (pool, release, task) = busy().await;
        let (order, seen) = mpsc::channel();
        let call = |lane, share| Call::new(lane, Chance::of(share));
        let calls = [
            call(Lane::Speculative, 0.1),
            call(Lane::Speculative, 0.9),
            call(Lane::Speculative, 0.5),
            Call::authoritative(),
        ];
        let runs = calls.iter().enumerate().map(|(n, call)| {
            let order = order.clone();
            pool.run(call, move || order.send(n).unwrap()).boxed()
        });
        let mut runs = join_all(runs).boxed();
        assert!(poll!(&mut runs).is_pending());
        calls[0].promote();
        drop(release);
        runs.await;
        task.await.unwrap();
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [0, 3, 1, 2]);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_never_begins() {
        let (pool, release, task) = busy().await;
        let (order, seen) = mpsc::channel();
        let call = Call::authoritative();
        let other = order.clone();
        let mut dropped = pool
            .run(&call, move || other.send("dropped").unwrap())
            .boxed();
        assert!(poll!(&mut dropped).is_pending());
        drop(dropped);
        assert!(pool.0.queue.lock().waiting.is_empty());
        drop(release);
        pool.run(&call, move || order.send("kept").unwrap())
            .await
            .unwrap();
        task.await.unwrap();
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["kept"]);
    }

    #[tokio::test]
    async fn a_panic_costs_one_page() {
        let pool = Pool::new(1).unwrap();
        let call = Call::authoritative();
        assert_eq!(
            pool.run(&call, || panic!("on purpose")).await,
            Err::<(), _>(Broken)
        );
        assert_eq!(pool.run(&call, || 7).await, Ok(7));
    }
}
