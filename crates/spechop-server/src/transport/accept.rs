//! Accepting connections: a bounded number of them, and never a busy loop.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use spechop_ports::Sparingly;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Limits;
use super::counts::{Closed, Counts};
use super::line::{Hoard, Line, LineHandle};
use super::roster::{Entry, LineId, Roster};

/// How long to wait if the system has no file descriptor left: someone has to hang up first.
const PAUSE: Duration = Duration::from_millis(100);

/// How often to look for answers that nobody reads, at the latest.
const SWEEP: Duration = Duration::from_secs(5);

/// After how long a silence the system asks whether the peer is still there, and how often.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The open connections. Clones are handles to the same.
#[derive(Clone)]
pub(crate) struct Lines {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    counts: Counts,
    warnings: Sparingly,
    /// What all connections hold, by [`Hoard`].
    held: [AtomicUsize; 2],
    book: Mutex<Book>,
    /// Told whenever somebody leaves or has nothing to do.
    room: Notify,
}

struct Book {
    roster: Roster,
    handles: HashMap<LineId, LineHandle>,
}

impl Lines {
    /// Nobody is connected yet.
    pub(crate) fn new(limits: Limits, counts: Counts) -> Self {
        Self {
            shared: Arc::new(Shared {
                book: Mutex::new(Book {
                    roster: Roster::new(limits.connections_max),
                    handles: HashMap::new(),
                }),
                limits,
                counts,
                warnings: Sparingly::default(),
                held: Default::default(),
                room: Notify::new(),
            }),
        }
    }

    /// Every connection to the listener, one after the other, for as long as the stream is polled.
    pub(super) fn accept(&self, listener: TcpListener) -> impl Stream<Item = Line> + use<> {
        unfold((self.clone(), listener), |(lines, listener)| async move {
            let line = lines.next(&listener).await;
            Some((line, (lines, listener)))
        })
    }

    async fn next(&self, listener: &TcpListener) -> Line {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    self.accept_failed(&error).await;
                    continue;
                }
            };
            return self.admit(stream).await;
        }
    }

    /// A peer that has gone already is nobody's fault. Everything else (no file descriptors, no memory)
    /// would only fail again, and keep a core busy with it.
    async fn accept_failed(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionReset | Interrupted
        ) {
            return;
        }
        self.shared.counts.not_accepted();
        if let Some(left_out) = self.turn_to_warn("accept") {
            tracing::warn!(%error, left_out, "cannot accept a connection; trying again");
        }
        sleep(PAUSE).await;
    }

    /// Whether a line of this kind may go to the log, as [`Sparingly::turn`].
    pub(super) fn turn_to_warn(&self, kind: &'static str) -> Option<u64> {
        self.shared.warnings.turn(kind)
    }

    /// If all others are at work, the newcomer waits until one of them is not; those behind it wait in the
    /// system's own line.
    async fn admit(&self, stream: TcpStream) -> Line {
        loop {
            if let Some(handle) = self.enter() {
                return self.line(stream, handle);
            }
            self.shared.room.notified().await;
        }
    }

    fn line(&self, stream: TcpStream, handle: LineHandle) -> Line {
        let stall_max = self.shared.limits.stall_max;
        // Neither is worth a connection: without them it is slower, or longer dead.
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        Line::new(stream, handle, stall_max)
    }

    /// A place in the book, if need be that of somebody idle.
    fn enter(&self) -> Option<LineHandle> {
        let mut book = self.shared.book.lock();
        let (id, gone) = match book.roster.enter() {
            Entry::Free(id) => (id, None),
            Entry::Instead(id, other) => (id, book.handles.remove(&other)),
            Entry::Full => return None,
        };
        let handle = LineHandle::new(id, self.clone());
        book.handles.insert(id, handle.clone());
        drop(book);
        if let Some(gone) = gone {
            self.shared.counts.closed(Closed::Displaced);
            gone.hang_up();
        }
        Some(handle)
    }

    /// Hangs up on those who let an answer lie, every now and then. Never ends.
    pub(super) async fn sweep(&self) -> std::convert::Infallible {
        let stall_max = self.shared.limits.stall_max;
        loop {
            sleep(SWEEP.min(stall_max / 2)).await;
            let long_ago = Instant::now().checked_sub(stall_max);
            let lines: Vec<_> = self.shared.book.lock().handles.values().cloned().collect();
            for line in lines {
                let is_stalled = line
                    .unread_since()
                    .is_some_and(|since| Some(since) < long_ago);
                // One that was hung up on is still here until its last task is gone.
                if is_stalled && !line.is_hung_up() {
                    self.shared.counts.closed(Closed::Stalled);
                    line.hang_up();
                }
            }
        }
    }

    /// Bytes of answers that are there and wait for their peers.
    pub(crate) fn unread(&self) -> usize {
        self.shared.held[Hoard::Unread as usize].load(Ordering::Relaxed)
    }

    /// Hangs up on everybody whose requests have all been answered.
    pub(crate) fn dismiss_idle(&self) {
        let idle: Vec<_> = {
            let mut book = self.shared.book.lock();
            let idle = book.roster.take_idle();
            let handles = idle.iter().filter_map(|id| book.handles.remove(id));
            handles.collect()
        };
        idle.iter().for_each(LineHandle::hang_up);
    }

    /// So many more bytes are held. If that is too much, whoever holds most of them is hung up on: those who
    /// send their questions in one piece, and not too fast, and read what they asked for, never are.
    pub(super) fn hold(&self, hoard: Hoard, bytes: usize) {
        let shared = &self.shared;
        let (total_max, why) = match hoard {
            Hoard::Unfinished => (shared.limits.unfinished_total_max, Closed::Unfinished),
            Hoard::Unread => (shared.limits.unread_total_max, Closed::Unread),
        };
        let before = shared.held[hoard as usize].fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= total_max {
            return;
        }
        let most = {
            let book = self.shared.book.lock();
            // What those hold who have been hung up on is about to come back, whether or not they are
            // still in the book: it is nobody else's fault.
            let staying = book.handles.values().filter(|line| !line.is_hung_up());
            let staying: Vec<_> = staying.collect();
            let held: usize = staying.iter().map(|line| line.held(hoard)).sum();
            if held <= total_max {
                return;
            }
            staying
                .into_iter()
                .max_by_key(|line| line.held(hoard))
                .cloned()
        };
        if let Some(line) = most {
            shared.counts.closed(why);
            line.hang_up();
        }
    }

    /// They have arrived, been read, or been given up.
    pub(super) fn release(&self, hoard: Hoard, bytes: usize) {
        self.shared.held[hoard as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn began(&self, id: LineId) {
        self.shared.book.lock().roster.began(id);
    }

    pub(super) fn ended(&self, id: LineId) {
        self.shared.book.lock().roster.ended(id);
        self.shared.room.notify_one();
    }

    pub(super) fn left(&self, id: LineId) {
        let mut book = self.shared.book.lock();
        book.roster.left(id);
        // It may hold the last handle to the others' book: dropped outside.
        let handle = book.handles.remove(&id);
        drop(book);
        drop(handle);
        self.shared.room.notify_one();
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Open connections.
    pub(crate) fn open(&self) -> usize {
        self.shared.book.lock().roster.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small answers leave at once, and a peer that is gone without a word is noticed.
    #[tokio::test]
    async fn connections_have_no_delay_and_are_kept_alive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let lines = Lines::new(Limits::default(), Counts::default());
        let line = lines.next(&listener).await;
        assert!(line.stream().nodelay().unwrap());
        assert!(SockRef::from(line.stream()).keepalive().unwrap());
        assert_eq!(lines.open(), 1);
        drop(line);
        assert_eq!(lines.open(), 0);
    }

    /// Two connections, each with its peer.
    async fn two_within(limits: Limits) -> Vec<(TcpStream, Line)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lines = Lines::new(limits, Counts::default());
        let mut open = Vec::new();
        for _ in 0..2 {
            let peer = TcpStream::connect(address).await.unwrap();
            open.push((peer, lines.next(&listener).await));
        }
        open
    }

    /// Who sends a question in one piece, and not too fast, holds next to nothing, and is never the one.
    #[tokio::test]
    async fn whoever_holds_most_of_what_never_arrives_makes_room() {
        let mut open = two_within(Limits {
            unfinished_total_max: 100,
            ..Limits::default()
        })
        .await;
        let [much, little] = [0, 1].map(|at: usize| open[at].1.handle().clone());
        let _much = much.hold(60).unwrap();
        let _little = little.hold(40).unwrap();
        assert!(!much.is_hung_up() && !little.is_hung_up());
        let _more = little.hold(1).unwrap();
        assert!(much.is_hung_up() && !little.is_hung_up());
        // Its requests are not gone yet, then its connection is: nobody else makes room for them, though
        // the other one holds more now.
        let _most = little.hold(30).unwrap();
        assert!(!little.is_hung_up());
        drop(open.remove(0));
        let _even_more = little.hold(1).unwrap();
        assert!(!little.is_hung_up());
    }

    #[tokio::test]
    async fn whoever_lets_most_of_all_answers_lie_makes_room() {
        let open = two_within(Limits {
            unread_total_max: 100,
            ..Limits::default()
        })
        .await;
        let [much, little] = [0, 1].map(|at: usize| open[at].1.handle().clone());
        let much_held = much.lay_out(60);
        let little_held = little.lay_out(40);
        // What is no answer counts apart.
        let _arriving = little.hold(60).unwrap();
        assert!(!much.is_hung_up() && !little.is_hung_up());
        drop((much_held, little_held));
        let _all = much.lay_out(100);
        assert!(!much.is_hung_up());
        let _more = little.lay_out(1);
        assert!(much.is_hung_up() && !little.is_hung_up());
    }

    #[tokio::test]
    async fn if_all_are_at_work_a_newcomer_waits_until_one_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Limits {
            connections_max: 1,
            ..Limits::default()
        };
        let lines = Lines::new(limits, Counts::default());
        let _first = TcpStream::connect(address).await.unwrap();
        let first = lines.next(&listener).await;
        let working = first.handle().begin();
        let _second = TcpStream::connect(address).await.unwrap();
        let mut next = Box::pin(lines.next(&listener));
        let a_while = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = &mut next => panic!("there is no room"),
            () = a_while => {}
        }
        drop(working);
        let _second = next.await;
        assert!(first.handle().is_hung_up());
        assert_eq!(lines.open(), 1);
    }

    /// The wait between two attempts, on a clock that stands still otherwise.
    #[tokio::test(start_paused = true)]
    async fn where_nothing_can_be_accepted_no_core_is_kept_busy() {
        let lines = Lines::new(Limits::default(), Counts::default());
        let began = Instant::now();
        let none_left = rustix::io::Errno::MFILE.into();
        lines.accept_failed(&none_left).await;
        assert_eq!(began.elapsed(), PAUSE);
        lines
            .accept_failed(&io::ErrorKind::ConnectionAborted.into())
            .await;
        assert_eq!(began.elapsed(), PAUSE);
    }
}
