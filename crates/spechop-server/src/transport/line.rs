//! One connection: a TCP stream that can be hung up on, and that has to say something in time.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tonic::transport::server::Connected;

use super::accept::Lines;
use super::counts::Closed;
use super::roster::LineId;

/// The preface of HTTP/2, and about the shortest request of HTTP/1.1.
const GREETING_BYTES: usize = 24;

/// A connection as the server reads and writes it. Dropping it is what ends it.
pub(super) struct Line {
    stream: TcpStream,
    handle: LineHandle,
    greeting: Option<Greeting>,
    /// Since when the peer has taken nothing of what it was sent.
    stalled: Option<Pin<Box<Sleep>>>,
    stall_max: Duration,
}

/// What is still missing of the first bytes, and until when.
struct Greeting {
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

/// What a request knows of the connection that it came by; it is among the request's extensions.
#[derive(Clone)]
pub(super) struct LineHandle {
    shared: Arc<Shared>,
}

struct Shared {
    id: LineId,
    lines: Lines,
    hung_up: AtomicBool,
    waker: AtomicWaker,
    /// Bytes of requests that have not arrived whole.
    unfinished: AtomicUsize,
    /// When the next request may be taken up, if they come too fast.
    next_request: Mutex<Instant>,
    unread: Mutex<Unread>,
}

/// Since when parts of answers have been waiting for the peer, by number of the answer.
#[derive(Default)]
struct Unread {
    answers: u64,
    since: HashMap<u64, Instant>,
}

/// Bytes of an unfinished request. Dropping it gives them back.
pub(super) struct Unfinished {
    line: LineHandle,
    bytes: usize,
}

/// A request that is worked on. Dropping it ends that.
pub(super) struct Working(LineHandle);

/// A part of an answer that the peer has not taken yet.
pub(super) struct Ticket {
    line: LineHandle,
    number: u64,
}

impl Line {
    pub(super) fn new(
        stream: TcpStream,
        handle: LineHandle,
        greeting: Duration,
        stall_max: Duration,
    ) -> Self {
        Self {
            stream,
            handle,
            greeting: Some(Greeting {
                missing: GREETING_BYTES,
                deadline: Box::pin(sleep(greeting)),
            }),
            stalled: None,
            stall_max,
        }
    }

    #[cfg(test)]
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Fails if the server has hung up. Whoever polls next hears of it then.
    fn still_on(&self, context: &Context<'_>) -> io::Result<()> {
        self.handle.shared.waker.register(context.waker());
        if self.handle.shared.hung_up.load(Ordering::Acquire) {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the server hung up",
            ));
        }
        Ok(())
    }

    /// For everything that waits until the peer takes what it was sent.
    fn unless_stalled<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.stall_max;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stalled.as_mut().poll(context));
        self.handle.shared.lines.counts().closed(Closed::Stalled);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl LineHandle {
    pub(super) fn new(id: LineId, lines: Lines) -> Self {
        let limits = lines.limits();
        let burst = limits.request_interval * limits.request_burst;
        let now = Instant::now();
        Self {
            shared: Arc::new(Shared {
                id,
                lines,
                hung_up: AtomicBool::new(false),
                waker: AtomicWaker::new(),
                unfinished: AtomicUsize::new(0),
                next_request: Mutex::new(now.checked_sub(burst).unwrap_or(now)),
                unread: Mutex::default(),
            }),
        }
    }

    /// Ends the connection the next time that anybody looks at it, which is at once.
    pub(super) fn hang_up(&self) {
        self.shared.hung_up.store(true, Ordering::Release);
        self.shared.waker.wake();
    }

    /// Makes room for so many bytes of a request that is arriving, if this connection may hold them.
    pub(super) fn hold(&self, bytes: usize) -> Option<Unfinished> {
        let mut held = Unfinished {
            line: self.clone(),
            bytes: 0,
        };
        held.grow(bytes).then_some(held)
    }

    /// Bytes of its requests that have not arrived whole.
    pub(super) fn unfinished(&self) -> usize {
        self.shared.unfinished.load(Ordering::Relaxed)
    }

    pub(super) fn is_hung_up(&self) -> bool {
        self.shared.hung_up.load(Ordering::Relaxed)
    }

    /// A request has arrived whole.
    pub(super) fn begin(&self) -> Working {
        self.shared.lines.began(self.shared.id);
        Working(self.clone())
    }

    /// A part of an answer is handed over now, and unread until the ticket is dropped.
    pub(super) fn hand_over(&self) -> Ticket {
        let mut unread = self.lock_unread();
        unread.answers += 1;
        let number = unread.answers;
        unread.since.insert(number, Instant::now());
        drop(unread);
        Ticket {
            line: self.clone(),
            number,
        }
    }

    /// Since when the peer has let some part of an answer lie.
    pub(super) fn unread_since(&self) -> Option<Instant> {
        self.lock_unread().since.values().min().copied()
    }

    fn lock_unread(&self) -> MutexGuard<'_, Unread> {
        // Nothing panics while it is held.
        self.shared
            .unread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// When the request that has just arrived may be taken up: `interval` after the one before, except
    /// that `burst` of them may come at once after a pause.
    pub(super) fn turn(&self, now: Instant, interval: Duration, burst: u32) -> Instant {
        // Nothing panics while it is held.
        let mut next = self
            .shared
            .next_request
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        turn(&mut next, now, interval, burst)
    }
}

/// A token bucket that lends: its level is the time at which it would be full, less the burst.
fn turn(next: &mut Instant, now: Instant, interval: Duration, burst: u32) -> Instant {
    let credit = interval * burst;
    let full = now.checked_sub(credit).unwrap_or(now);
    *next = (*next).max(full) + interval;
    (*next).max(now)
}

impl Unfinished {
    /// Makes room for more. False if the connection holds too much already.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let shared = &self.line.shared;
        let before = shared.unfinished.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        shared.lines.hold(bytes);
        before.saturating_add(bytes) <= shared.lines.limits().unfinished_bytes_max
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let shared = &self.line.shared;
        shared.unfinished.fetch_sub(self.bytes, Ordering::Relaxed);
        shared.lines.release(self.bytes);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.line.lock_unread().since.remove(&self.number);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let shared = &self.0.shared;
        shared.lines.ended(shared.id);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let shared = &self.handle.shared;
        shared.lines.left(shared.id);
    }
}

impl Connected for Line {
    type ConnectInfo = LineHandle;

    fn connect_info(&self) -> LineHandle {
        self.handle.clone()
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.still_on(context)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(greeting) = &mut self.greeting else {
            return read;
        };
        let came = buffer.filled().len() - before;
        greeting.missing = greeting.missing.saturating_sub(came);
        if greeting.missing == 0 {
            self.greeting = None;
            return read;
        }
        if read.is_ready() {
            return read;
        }
        ready!(greeting.deadline.as_mut().poll(context));
        self.handle.shared.lines.counts().closed(Closed::Silent);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.still_on(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.unless_stalled(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.still_on(context)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.unless_stalled(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.still_on(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_may_come_in_bursts_and_then_at_their_rate() {
        let interval = Duration::from_millis(10);
        let start = Instant::now() + Duration::from_secs(60);
        let mut next = start - Duration::from_secs(1);
        let mut waits = |now: Instant| turn(&mut next, now, interval, 3) - now;
        assert_eq!([0; 3].map(|_| waits(start)), [Duration::ZERO; 3]);
        assert_eq!(waits(start), interval);
        assert_eq!(waits(start), 2 * interval);
        let later = start + 2 * interval;
        assert_eq!(waits(later), interval);
        // After a pause the burst is back, and no more than that.
        let later = start + Duration::from_secs(5);
        assert_eq!(
            [0; 4].map(|_| waits(later)),
            [Duration::ZERO, Duration::ZERO, Duration::ZERO, interval]
        );
    }
}
