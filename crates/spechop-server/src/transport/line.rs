//! One connection: a TCP stream that can be hung up on, and whose peer has to take what it is sent.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::accept::Lines;
use super::counts::Closed;
use super::roster::LineId;
use crate::gcra::Gcra;

/// A connection as the server reads and writes it. Dropping it is what ends it.
pub(super) struct Line {
    stream: TcpStream,
    handle: LineHandle,
    /// Since when the peer has taken nothing of what it was sent.
    stalled: Option<Pin<Box<Sleep>>>,
    stall_max: Duration,
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
    /// How many requests it has sent, and how many of them are attended to.
    heard: AtomicUsize,
    attended: AtomicUsize,
    /// Bytes that it holds, by [`Hoard`].
    held: [AtomicUsize; 2],
    /// When the next request may be taken up, if they come too fast.
    requests: Mutex<Gcra>,
    /// When the next wrong key is answered, if they come too fast.
    wrong_keys: Mutex<Gcra>,
    unread: Mutex<Unread>,
}

/// Since when parts of answers have been waiting for the peer, by number of the answer.
#[derive(Default)]
struct Unread {
    answers: u64,
    since: HashMap<u64, Instant>,
}

/// What a connection can hold on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hoard {
    /// Bytes of requests that have not arrived whole, or wait for their turn.
    Unfinished,
    /// Bytes of answers that the peer has not taken.
    Unread,
}

/// Bytes that a connection holds. Dropping it gives them back.
pub(super) struct Held {
    line: LineHandle,
    hoard: Hoard,
    bytes: usize,
}

/// A request from its head to the end of its answer.
pub(super) struct Attended(LineHandle);

/// A request that is worked on. Dropping it ends that.
pub(super) struct Working(LineHandle);

/// A part of an answer that the peer has not taken yet.
pub(super) struct Ticket {
    line: LineHandle,
    number: u64,
}

impl Line {
    pub(super) fn new(stream: TcpStream, handle: LineHandle, stall_max: Duration) -> Self {
        Self {
            stream,
            handle,
            stalled: None,
            stall_max,
        }
    }

    #[cfg(test)]
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The handle that requests get.
    pub(super) fn handle(&self) -> &LineHandle {
        &self.handle
    }

    /// The first bytes that have come; they stay where they are.
    pub(super) fn poll_peek(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.still_on(context)?;
        self.stream.poll_peek(context, buffer)
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
        Self {
            shared: Arc::new(Shared {
                id,
                lines,
                hung_up: AtomicBool::new(false),
                waker: AtomicWaker::new(),
                heard: AtomicUsize::new(0),
                attended: AtomicUsize::new(0),
                held: Default::default(),
                requests: Mutex::default(),
                wrong_keys: Mutex::default(),
                unread: Mutex::default(),
            }),
        }
    }

    /// Ends the connection the next time that anybody looks at it, which is at once.
    pub(super) fn hang_up(&self) {
        self.shared.hung_up.store(true, Ordering::Release);
        self.shared.waker.wake();
    }

    /// The head of a request has come.
    pub(super) fn attend(&self) -> Attended {
        self.shared.heard.fetch_add(1, Ordering::Relaxed);
        self.shared.attended.fetch_add(1, Ordering::Relaxed);
        Attended(self.clone())
    }

    /// How many requests have come; `None` while one of them is attended to.
    pub(super) fn heard(&self) -> Option<usize> {
        let attended = self.shared.attended.load(Ordering::Relaxed);
        (attended == 0).then(|| self.shared.heard.load(Ordering::Relaxed))
    }

    /// Makes room for so many bytes of a request that is arriving, if this connection may hold them.
    pub(super) fn hold(&self, bytes: usize) -> Option<Held> {
        let mut held = self.holds(Hoard::Unfinished);
        held.grow(bytes).then_some(held)
    }

    /// So many bytes of an answer are there, and wait for the peer.
    pub(super) fn lay_out(&self, bytes: usize) -> Held {
        let mut held = self.holds(Hoard::Unread);
        held.grow(bytes);
        held
    }

    fn holds(&self, hoard: Hoard) -> Held {
        Held {
            line: self.clone(),
            hoard,
            bytes: 0,
        }
    }

    /// Bytes that it holds.
    pub(super) fn held(&self, hoard: Hoard) -> usize {
        self.shared.held[hoard as usize].load(Ordering::Relaxed)
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
        let mut unread = self.shared.unread.lock();
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
        self.shared.unread.lock().since.values().min().copied()
    }

    /// Waits until the request that has just arrived may be taken up: `interval` after the one before,
    /// except that `burst` of them may come at once after a pause.
    pub(super) async fn turn(&self, interval: Duration, burst: u32) {
        turn(&self.shared.requests, interval, burst).await;
    }

    /// Waits until a request with a wrong key may be answered.
    pub(super) async fn turn_of_wrong_key(&self, interval: Duration, burst: u32) {
        turn(&self.shared.wrong_keys, interval, burst).await;
    }

    /// Counts that it is being closed, and why.
    pub(super) fn closed(&self, why: Closed) {
        self.shared.lines.counts().closed(why);
    }

    /// As [`Lines::turn_to_warn`].
    pub(super) fn turn_to_warn(&self, kind: &'static str) -> Option<u64> {
        self.shared.lines.turn_to_warn(kind)
    }
}

async fn turn(bucket: &Mutex<Gcra>, interval: Duration, burst: u32) {
    let now = Instant::now();
    let turn = {
        let mut bucket = bucket.lock();
        bucket.lend(now, interval, burst)
    };
    // A timer has ticks of a millisecond and waits for the next one, also if its time has come.
    if turn > now {
        sleep_until(turn).await;
    }
}

impl Held {
    /// Makes room for more. False if the connection holds too much already.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let shared = &self.line.shared;
        let before = shared.held[self.hoard as usize].fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        shared.lines.hold(self.hoard, bytes);
        match self.hoard {
            Hoard::Unfinished => {
                before.saturating_add(bytes) <= shared.lines.limits().unfinished_bytes_max
            }
            // An answer is as long as it is.
            Hoard::Unread => true,
        }
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.shared.attended.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let shared = &self.line.shared;
        shared.held[self.hoard as usize].fetch_sub(self.bytes, Ordering::Relaxed);
        shared.lines.release(self.hoard, self.bytes);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.line.shared.unread.lock().since.remove(&self.number);
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

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.still_on(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_may_go_at_once_does() {
        let bucket = Mutex::default();
        let take = || turn(&bucket, Duration::from_millis(10), 2);
        for _ in 0..2 {
            take().now_or_never().expect("no timer is asked");
        }
        let began = Instant::now();
        take().await;
        assert!(began.elapsed() >= Duration::from_millis(10));
    }
}
