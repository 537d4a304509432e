//! The queue between a question and the reader of its stream. It knows how long the reader has taken
//! nothing, and can be emptied from the writer's end.
//!
//! A reader that does not read cannot be asked: a stream is polled only as long as the client's window has
//! room. So the question's own task waits for the end of the reader's time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// An empty queue. It has no bound: the agent never waits for a reader, and a question has an end and no
/// more events than a few for each hop and branch.
pub(crate) fn queue<T>() -> (Writer<T>, Reader<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            waiting: VecDeque::new(),
            untouched_since: None,
            reader: None,
            is_over: false,
        }),
        changed: Notify::new(),
    });
    (Writer(Arc::clone(&shared)), Reader(shared))
}

/// The end that writes. When it is dropped, the reader finds the end behind what waits.
pub(crate) struct Writer<T>(Arc<Shared<T>>);

/// The end that reads.
pub(crate) struct Reader<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Told to the writer whenever the queue becomes empty or stops being so.
    changed: Notify,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// Since when something waits and nothing has been taken. `None` if nothing waits.
    untouched_since: Option<Instant>,
    reader: Option<Waker>,
    is_over: bool,
}

impl<T> Writer<T> {
    pub(crate) fn send(&self, item: T) {
        self.0.wake_after(|state| {
            state.waiting.push_back(item);
            state.untouched_since.get_or_insert_with(Instant::now);
        });
        self.0.changed.notify_one();
    }

    /// Drops whatever waits; this is all that the reader will still find.
    pub(crate) fn end_with(self, item: T) {
        // What waits is dropped outside the lock.
        let _dropped = self.0.wake_after(|state| {
            let waiting = std::mem::take(&mut state.waiting);
            state.waiting.push_back(item);
            waiting
        });
    }

    /// Ready when something has waited for so long without anything having been taken.
    pub(crate) async fn unread(&self, limit: Duration) {
        loop {
            let since = self.0.lock().untouched_since;
            match since.map(|since| since + limit) {
                Some(end) if end <= Instant::now() => return,
                Some(end) => sleep_until(end).await,
                None => self.0.changed.notified().await,
            }
        }
    }

    /// Ready when nothing waits.
    pub(crate) async fn read_up(&self) {
        while !self.0.lock().waiting.is_empty() {
            self.0.changed.notified().await;
        }
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.0.wake_after(|state| state.is_over = true);
    }
}

impl<T> Reader<T> {
    pub(crate) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock();
        let Some(item) = state.waiting.pop_front() else {
            if state.is_over {
                return Poll::Ready(None);
            }
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        let is_empty = state.waiting.is_empty();
        state.untouched_since = (!is_empty).then(Instant::now);
        drop(state);
        if is_empty {
            self.0.changed.notify_one();
        }
        Poll::Ready(Some(item))
    }
}

impl<T> Shared<T> {
    fn wake_after<R>(&self, act: impl FnOnce(&mut State<T>) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::FutureExt;
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn next<T>(reader: &mut Reader<T>) -> Option<T> {
        poll_fn(|context| reader.poll_recv(context)).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_is_read_in_order_up_to_the_end() {
        let (writer, mut reader) = queue();
        writer.send(1);
        writer.send(2);
        assert!(writer.read_up().now_or_never().is_none());
        assert_eq!(next(&mut reader).await, Some(1));
        assert_eq!(next(&mut reader).await, Some(2));
        assert!(writer.read_up().now_or_never().is_some());
        // Whoever waits is woken, by an item and by the end.
        let (item, ()) = tokio::join!(next(&mut reader), async { writer.send(3) });
        assert_eq!(item, Some(3));
        let (end, ()) = tokio::join!(next(&mut reader), async { drop(writer) });
        assert_eq!(end, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_is_late_only_while_something_waits_and_nothing_is_taken() {
        let (writer, mut reader) = queue();
        // Nothing to read: nobody is late, however long it takes.
        assert!(timeout(10 * LIMIT, writer.unread(LIMIT)).await.is_err());
        writer.send(1);
        writer.send(2);
        writer.send(3);
        let almost = LIMIT - Duration::from_millis(1);
        for item in 1..3 {
            assert!(timeout(almost, writer.unread(LIMIT)).await.is_err());
            assert_eq!(next(&mut reader).await, Some(item));
        }
        // What is sent meanwhile gives no more time.
        assert!(timeout(almost, writer.unread(LIMIT)).await.is_err());
        writer.send(4);
        let began = Instant::now();
        writer.unread(LIMIT).await;
        assert!(began.elapsed() <= Duration::from_millis(2));
        writer.end_with(9);
        assert_eq!(next(&mut reader).await, Some(9));
        assert_eq!(next(&mut reader).await, None);
    }
}
