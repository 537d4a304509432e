//! Stories of questions on their way to whoever sends them off.

use std::collections::VecDeque;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use super::otlp::BATCH_MAX;
use super::story::Story;

/// Spans whose stories may wait: a few hundred bytes each.
const WAITING_MAX: usize = 16_384;

/// What becomes of spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanCounts {
    pub(super) exported: Counter,
    dropped: Family<Why, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

/// Why a span was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// There was no room for it in the queue.
    QueueFull,
    /// The receiver was not there, too slow, or failed.
    Failed,
    /// The receiver did not want it.
    Rejected,
    /// The server ended before.
    Shutdown,
}

impl Lost {
    fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Shutdown => "shutdown",
        }
    }
}

impl SpanCounts {
    /// Counters of that registry.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let counts = Self::default();
        registry.register(
            "spans_exported",
            "Spans that the receiver of traces has taken",
            counts.exported.clone(),
        );
        registry.register(
            "spans_dropped",
            "Spans that did not reach the receiver of traces, by reason",
            counts.dropped.clone(),
        );
        counts
    }

    pub(super) fn lost(&self, why: Lost, spans: usize) {
        if spans > 0 {
            let reason = why.as_str();
            let lost = self.dropped.get_or_create(&Why { reason });
            lost.inc_by(spans as u64);
        }
    }
}

/// Where stories wait. Whoever offers one never does.
pub(crate) struct Queue {
    pub(super) counts: SpanCounts,
    waiting: Mutex<Waiting>,
    /// The first story came, or enough for a request. Whoever sends off is not woken for each.
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    stories: VecDeque<(Story, usize)>,
    /// Of all of them.
    spans: usize,
    is_closed: bool,
}

impl Queue {
    pub(crate) fn new(counts: SpanCounts) -> Self {
        Self {
            counts,
            waiting: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Takes the spans of a question, all or none.
    pub(super) fn offer(&self, story: Story) {
        let more = story.len();
        let mut waiting = self.waiting.lock();
        let before = waiting.spans;
        let after = before.saturating_add(more);
        let lost = match (waiting.is_closed, after > WAITING_MAX) {
            (true, _) => Some(Lost::Shutdown),
            (false, true) => Some(Lost::QueueFull),
            (false, false) => None,
        };
        if lost.is_none() {
            waiting.stories.push_back((story, more));
            waiting.spans = after;
        }
        drop(waiting);
        match lost {
            Some(why) => self.counts.lost(why, more),
            None if before == 0 || (before < BATCH_MAX && after >= BATCH_MAX) => {
                self.changed.notify_one();
            }
            None => {}
        }
    }

    /// Waits until so many spans wait, or no more will come. One may wait at a time.
    pub(super) async fn holds(&self, spans: usize) {
        while self.is_short_of(spans) {
            self.changed.notified().await;
        }
    }

    fn is_short_of(&self, spans: usize) -> bool {
        let waiting = self.waiting.lock();
        !waiting.is_closed && waiting.spans < spans
    }

    /// The stories that have waited longest, with spans for one request or few more.
    pub(super) fn take(&self) -> Vec<Story> {
        let mut waiting = self.waiting.lock();
        let mut taken = Vec::new();
        let mut spans = 0;
        while spans < BATCH_MAX
            && let Some((story, more)) = waiting.stories.pop_front()
        {
            spans += more;
            taken.push(story);
        }
        waiting.spans -= spans;
        taken
    }

    /// Takes no more. What waits can still be taken off.
    pub(super) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::empty_story;
    use super::*;

    #[test]
    fn what_the_queue_has_no_room_for_is_dropped_and_counted() {
        let queue = Queue::new(SpanCounts::default());
        for _ in 0..WAITING_MAX + 100 {
            queue.offer(empty_story());
        }
        let lost = |why: Lost| {
            let reason = why.as_str();
            queue.counts.dropped.get_or_create(&Why { reason }).get()
        };
        assert_eq!(lost(Lost::QueueFull), 100);
        // What is taken makes room.
        assert_eq!(queue.take().len(), BATCH_MAX);
        for _ in 0..BATCH_MAX + 1 {
            queue.offer(empty_story());
        }
        assert_eq!(lost(Lost::QueueFull), 101);
        queue.close();
        queue.offer(empty_story());
        assert_eq!(lost(Lost::Shutdown), 1);
        let left = std::iter::repeat_with(|| queue.take().len());
        assert_eq!(left.take_while(|n| *n > 0).sum::<usize>(), WAITING_MAX);
    }
}
