//! What has happened to one question, and who reads it.
//!
//! Each reader has a cursor of its own. What no reader has yet to take is *past*: it is kept for readers to
//! come, as far as the bounds allow. What a reader has yet to take stays. A reader that takes nothing for too
//! long is cut off: it hears that, and nothing else any more.
//!
//! A *guest* is a reader that comes when the question is over. No place is held for it, so any number of
//! questions may have some. If there is no room, what only guests have yet to take is forgotten, too.
//!
//! A reader that does not read cannot be asked: a stream is polled only as long as the client's window has
//! room. So the question's own task waits for the end of a reader's time ([`Log::forsaken`],
//! [`Log::read_up`]). It waits for no guest: those are cut off from time to time
//! ([`Log::cut_late_guests`]).

mod found;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use prost::Message;
use spechop_proto::AskEvent;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub(crate) use self::found::{Forsaken, Found, OffTheLog, Recording};
use crate::status::AskError;

/// Readers of one question at the same time. Each costs something with every event, and a connection for as long
/// as the question takes.
pub(crate) const READERS_MAX: usize = 16;

/// How much of the past is kept.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// Events of one question.
    pub(crate) events_max: usize,
    /// Their bytes on the wire.
    pub(crate) bytes_max: usize,
    /// The bytes of all questions together.
    pub(crate) total_max: usize,
    /// How many those are now.
    pub(crate) total: Arc<AtomicUsize>,
}

/// The events of one question.
pub(crate) struct Log {
    bounds: Bounds,
    state: Mutex<State>,
    /// Told to the question's task whenever a reader comes, goes, or has taken everything.
    changed: Notify,
}

struct State {
    /// In order, without gaps; the last of them has the number `last`.
    events: VecDeque<(Arc<AskEvent>, usize)>,
    last: u64,
    bytes: usize,
    end: Option<End>,
    readers: HashMap<u64, Cursor>,
    readers_ever: u64,
    /// Since when nobody reads; `None` as long as somebody does.
    alone_since: Option<Instant>,
    /// Whether the last one that read was cut off.
    was_cut: bool,
    /// How long a reader may take nothing, as the question's task has said.
    unread: Option<Duration>,
}

/// How it ended: with the answer as the last event, or with an error behind it.
#[derive(Clone)]
enum End {
    Answered,
    Failed(Arc<AskError>),
}

struct Cursor {
    /// The number of the last event that it has taken.
    after: u64,
    /// Since when something waits for it and it has taken nothing. `None` if nothing waits.
    untouched_since: Option<Instant>,
    waker: Option<Waker>,
    is_cut: bool,
    /// It has taken the end.
    is_done: bool,
    /// The question was over when it came.
    is_guest: bool,
}

impl Log {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: Mutex::new(State {
                events: VecDeque::new(),
                last: 0,
                bytes: 0,
                end: None,
                readers: HashMap::new(),
                readers_ever: 0,
                alone_since: Some(Instant::now()),
                was_cut: false,
                unread: None,
            }),
            changed: Notify::new(),
        }
    }

    /// The next event. Its number must be the next one. The last one is the answer.
    pub(crate) fn push(&self, event: AskEvent, is_last: bool) {
        let bytes = event.encoded_len();
        self.wake_after(|state| {
            state.last += 1;
            debug_assert_eq!(event.sequence, state.last);
            state.events.push_back((Arc::new(event), bytes));
            state.bytes += bytes;
            if is_last {
                state.end = Some(End::Answered);
            }
            self.bounds.total.fetch_add(bytes, Ordering::Relaxed);
            state.something_waits();
            self.forget(state);
        });
    }

    /// The question came to no answer. An end that it has already stays.
    pub(crate) fn failed(&self, error: Arc<AskError>) {
        self.wake_after(|state| {
            if state.end.is_none() {
                state.end = Some(End::Failed(error));
                state.something_waits();
            }
        });
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().end.is_some()
    }

    /// All of it, if it is over and nothing was forgotten.
    pub(crate) fn whole(&self) -> Option<Recording> {
        let state = self.state.lock();
        let error = match state.end.as_ref()? {
            End::Answered => None,
            End::Failed(error) => Some(Arc::clone(error)),
        };
        (state.first() == 1).then(|| Recording {
            events: state
                .events
                .iter()
                .map(|(event, _)| Arc::clone(event))
                .collect(),
            bytes: state.bytes,
            error,
        })
    }

    /// The event that holds the answer.
    pub(crate) fn answer(&self) -> Option<Arc<AskEvent>> {
        let state = self.state.lock();
        let is_answered = matches!(state.end, Some(End::Answered));
        let last = state.events.back().filter(|_| is_answered);
        last.map(|(event, _)| Arc::clone(event))
    }

    /// Forgets every event, for its question is forgotten. How many bytes are free now; `None` if somebody has
    /// yet to take some of them.
    pub(crate) fn clear(&self) -> Option<usize> {
        self.clear_unless(Cursor::is_reading)
    }

    /// The same, whatever guests have yet to take.
    pub(crate) fn clear_of_guests(&self) -> Option<usize> {
        self.clear_unless(Cursor::holds_place)
    }

    fn clear_unless(&self, holds: impl Fn(&Cursor) -> bool) -> Option<usize> {
        let mut state = self.state.lock();
        if !state.events.is_empty() && state.readers.values().any(holds) {
            return None;
        }
        state.events = VecDeque::new();
        let bytes = std::mem::take(&mut state.bytes);
        self.bounds.total.fetch_sub(bytes, Ordering::Relaxed);
        Some(bytes)
    }

    /// Cuts off guests that have taken nothing for as long as the question's task allows or has allowed. How many
    /// there were: no task tells of them.
    pub(crate) fn cut_late_guests(&self) -> usize {
        let mut state = self.state.lock();
        let Some(unread) = state.unread else {
            return 0;
        };
        let (cut, _) = state.cut_late(unread, |cursor| cursor.is_guest);
        cut
    }

    /// Bytes that it keeps.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// A reader of the events behind that number. Of a question that is over it finds the end in any
    /// case.
    pub(crate) fn attach(&self, after: u64) -> Result<u64, OffTheLog> {
        let state = self.state.lock();
        let (first, last) = (state.first(), state.last);
        if after > last {
            return Err(OffTheLog::Ahead { last });
        }
        if after + 1 < first && !state.is_forgotten() {
            return Err(OffTheLog::Behind { after, first });
        }
        self.read_from(state, after)
    }

    /// A reader of what comes from now on, or of the end.
    pub(crate) fn attach_last(&self) -> Result<u64, OffTheLog> {
        let state = self.state.lock();
        let last = state.last;
        self.read_from(state, last)
    }

    fn read_from(&self, mut state: MutexGuard<'_, State>, after: u64) -> Result<u64, OffTheLog> {
        let reading = state.readers.values().filter(|cursor| !cursor.is_cut);
        if reading.count() >= READERS_MAX {
            return Err(OffTheLog::TooManyReaders);
        }
        // A moment ago, or nobody would know it.
        if state.is_forgotten() {
            return Err(OffTheLog::Forgotten);
        }
        let after = match state.end {
            Some(End::Answered) => after.min(state.last.saturating_sub(1)),
            Some(End::Failed(_)) | None => after,
        };
        state.readers_ever += 1;
        let id = state.readers_ever;
        let mut cursor = Cursor {
            after,
            untouched_since: None,
            waker: None,
            is_cut: false,
            is_done: false,
            is_guest: state.end.is_some(),
        };
        if after < state.last || state.end.is_some() {
            cursor.untouched_since = Some(Instant::now());
        }
        state.readers.insert(id, cursor);
        state.alone_since = None;
        drop(state);
        self.changed.notify_one();
        Ok(id)
    }

    /// The reader goes away.
    pub(crate) fn detach(&self, id: u64) {
        let mut state = self.state.lock();
        let gone = state.readers.remove(&id);
        if gone.is_some_and(|cursor| !cursor.is_cut) && state.is_alone() {
            state.alone_since = Some(Instant::now());
            state.was_cut = false;
        }
        self.forget(&mut state);
        drop(state);
        self.changed.notify_one();
    }

    /// What comes next for a reader.
    pub(crate) fn poll_next(&self, id: u64, context: &mut Context<'_>) -> Poll<Found> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (first, is_forgotten) = (state.first(), state.is_forgotten());
        let Some(cursor) = state.readers.get_mut(&id) else {
            return Poll::Ready(Found::Over);
        };
        if cursor.is_cut {
            return Poll::Ready(Found::Unread);
        }
        if cursor.is_done {
            return Poll::Ready(Found::Over);
        }
        let waits = state.last - cursor.after;
        let found = if waits > 0 {
            let Some(at) = (cursor.after + 1).checked_sub(first) else {
                cursor.is_done = true;
                self.changed.notify_one();
                let after = cursor.after;
                let off = match is_forgotten {
                    true => OffTheLog::Forgotten,
                    false => OffTheLog::Behind { after, first },
                };
                return Poll::Ready(Found::Off(off));
            };
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let Some((event, _)) = state.events.get(at) else {
                return Poll::Ready(Found::Over);
            };
            cursor.after += 1;
            cursor.is_done = waits == 1 && matches!(state.end, Some(End::Answered));
            Found::Event(Arc::clone(event))
        } else {
            match &state.end {
                None => {
                    cursor.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
                Some(end) => {
                    cursor.is_done = true;
                    match end {
                        End::Answered => Found::Over,
                        End::Failed(error) => Found::Failed(Arc::clone(error)),
                    }
                }
            }
        };
        let failed = matches!(state.end, Some(End::Failed(_)));
        let more = !cursor.is_done && (cursor.after < state.last || failed);
        cursor.untouched_since = more.then(Instant::now);
        self.forget(state);
        if !more {
            self.changed.notify_one();
        }
        Poll::Ready(found)
    }

    /// Ready when nobody has followed for so long. Readers that take nothing for `unread` are cut off
    /// meanwhile.
    pub(crate) async fn forsaken(&self, unread: Duration, linger: Duration) -> Forsaken {
        loop {
            let next = {
                let mut state = self.state.lock();
                state.unread = Some(unread);
                let (_, late) = state.cut_late(unread, |cursor| !cursor.is_guest);
                match state.alone_since.map(|since| since + linger) {
                    Some(end) if end <= Instant::now() => {
                        return match state.was_cut {
                            true => Forsaken::Unread,
                            false => Forsaken::Away,
                        };
                    }
                    Some(end) => Some(end),
                    None => late,
                }
            };
            self.change_or(next).await;
        }
    }

    /// Ready when every reader but guests has taken everything, or was cut off. True if some were cut off.
    pub(crate) async fn read_up(&self, unread: Duration) -> bool {
        loop {
            let next = {
                let mut state = self.state.lock();
                state.unread = Some(unread);
                let (_, late) = state.cut_late(unread, |cursor| !cursor.is_guest);
                if !state.readers.values().any(Cursor::holds_place) {
                    let mut readers = state.readers.values();
                    return readers.any(|cursor| cursor.is_cut && !cursor.is_guest);
                }
                late
            };
            self.change_or(next).await;
        }
    }

    async fn change_or(&self, time: Option<Instant>) {
        match time {
            None => self.changed.notified().await,
            Some(time) => {
                tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until(time) => {}
                }
            }
        }
    }

    /// Drops as much of the past as is beyond the bounds. The last event stays.
    fn forget(&self, state: &mut State) {
        let Bounds {
            events_max,
            bytes_max,
            total_max,
            total,
        } = &self.bounds;
        let readers = state.readers.values();
        let reading = readers.filter(|cursor| cursor.is_reading());
        let taken = reading.map(|cursor| cursor.after).min();
        let taken = taken.unwrap_or(u64::MAX);
        while state.events.len() > 1
            && state.first() <= taken
            && (state.events.len() > *events_max
                || state.bytes > *bytes_max
                || total.load(Ordering::Relaxed) > *total_max)
        {
            if let Some((_, bytes)) = state.events.pop_front() {
                state.bytes -= bytes;
                total.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
    }

    fn wake_after(&self, act: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        act(&mut state);
        let readers = state.readers.values_mut();
        let wakers: Vec<_> = readers.filter_map(|cursor| cursor.waker.take()).collect();
        drop(state);
        for waker in wakers {
            waker.wake();
        }
        self.changed.notify_one();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let bytes = self.state.lock().bytes;
        self.bounds.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Cursor {
    /// Whether it may still take something.
    fn is_reading(&self) -> bool {
        !self.is_cut && !self.is_done
    }

    /// Whether its question keeps its place for it.
    fn holds_place(&self) -> bool {
        self.is_reading() && !self.is_guest
    }
}

impl State {
    /// The number of the first event that is kept.
    fn first(&self) -> u64 {
        self.last + 1 - self.events.len() as u64
    }

    /// Whether not even the answer is kept any more.
    fn is_forgotten(&self) -> bool {
        matches!(self.end, Some(End::Answered)) && self.events.is_empty()
    }

    fn is_alone(&self) -> bool {
        self.readers.values().all(|cursor| cursor.is_cut)
    }

    fn something_waits(&mut self) {
        for cursor in self.readers.values_mut() {
            cursor.untouched_since.get_or_insert_with(Instant::now);
        }
    }

    /// Cuts off those readers that have taken nothing for too long: how many there were, and when the next one
    /// will have taken nothing for that long.
    fn cut_late(
        &mut self,
        unread: Duration,
        whom: impl Fn(&Cursor) -> bool,
    ) -> (usize, Option<Instant>) {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut cut = 0;
        for cursor in self.readers.values_mut() {
            if !cursor.is_reading() || !whom(cursor) {
                continue;
            }
            match cursor.untouched_since.map(|since| since + unread) {
                Some(end) if end <= now => {
                    cursor.is_cut = true;
                    cut += 1;
                    if let Some(waker) = cursor.waker.take() {
                        waker.wake();
                    }
                }
                Some(end) => next = Some(next.map_or(end, |next| next.min(end))),
                None => {}
            }
        }
        if cut > 0 && self.is_alone() {
            self.alone_since.get_or_insert(now);
            self.was_cut = true;
        }
        (cut, next)
    }
}

#[cfg(test)]
mod tests;
