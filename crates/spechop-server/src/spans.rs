//! Spans of questions, for a receiver of OTLP.
//!
//! ```text
//! key        the attributes that a span can have: a closed set
//! story      from what was noted of a question to its spans: a pure function
//! otlp       the request of that protocol around spans
//! queue      stories that wait, bounded
//! exporter   whoever sends them off
//! ```
//!
//! A question's story is told when it ends: the events that it told meanwhile, and the notes of its calls.
//! Nothing of a question waits for more. Its spans are made when they are sent off, and what the queue has no
//! room for is dropped and counted. Upstream services learn before which span they work for, as a span's name
//! follows from that of the question and from a number.

mod exporter;
mod key;
mod otlp;
mod queue;
mod story;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use spechop_agent::{CallNote, Journal, Settings, TraceEvent, Width};
use spechop_config::{Otlp, SpeculatorKind};
use spechop_types::{TraceContext, TraceId};
use tokio::time::Instant;

use crate::outcome::Outcome;
pub(crate) use exporter::{Exporter, InvalidReceiver};
pub(crate) use queue::{Queue, SpanCounts};
use story::{Marks, Story};

/// Decides which questions are told of, and to which trace each belongs.
pub(crate) struct Spans {
    /// `None` if nobody is told.
    told: Option<Told>,
}

struct Told {
    queue: Arc<Queue>,
    sample: f64,
    pace: Pace,
}

/// Lets so many a second pass.
struct Pace {
    most: u32,
    since: Instant,
    /// The second that is under way, and how many have passed in it: the upper and the lower half.
    passed: AtomicU64,
}

/// A question's place in a trace.
pub(crate) struct Traced {
    /// The name of the trace: what the question is called in the log.
    pub(crate) id: TraceId,
    /// The notes of its spans, if they are kept.
    pub(crate) record: Option<Record>,
}

/// What is noted of a question until its end. If it is dropped before, the question went away.
pub(crate) struct Record {
    queue: Arc<Queue>,
    context: TraceContext,
    parent: Option<TraceContext>,
    journal: Journal,
    began: SystemTime,
    since: Instant,
    /// How long the question was under way before its agent began, whose calls count from then on.
    before: Duration,
    rewriting: Option<CallNote>,
    width: Width,
    speculator: SpeculatorKind,
    marks: Marks,
    is_over: bool,
}

impl Spans {
    pub(crate) fn new(otlp: Option<&Otlp>, counts: SpanCounts) -> Self {
        Self {
            told: otlp.map(|otlp| Told {
                queue: Arc::new(Queue::new(counts)),
                sample: otlp.sample,
                pace: Pace::new(otlp.per_second),
            }),
        }
    }

    /// Where stories wait to be sent off, if they are.
    pub(crate) fn queue(&self) -> Option<&Arc<Queue>> {
        self.told.as_ref().map(|told| &told.queue)
    }

    /// Gives a question that was let in its place in the trace of its caller, or in one of its own.
    ///
    /// A caller that brings a trace has decided whether it is kept. Without a receiver, the caller's trace
    /// is passed on as it is, and a question without one belongs to none: no service upstream hears of it.
    pub(crate) fn trace(
        &self,
        parent: Option<TraceContext>,
        settings: &mut Settings,
        speculator: SpeculatorKind,
    ) -> Traced {
        let Some(told) = &self.told else {
            let id = parent.as_ref().map_or_else(
                || TraceContext::root(rand::random(), 1, false).trace_id(),
                TraceContext::trace_id,
            );
            settings.trace = parent;
            return Traced { id, record: None };
        };
        let context = match &parent {
            Some(parent) => parent.child(rand::random()),
            None => {
                let root = TraceContext::root(rand::random(), rand::random(), false);
                let sampled = root.trace_id().is_among(told.sample) && told.pace.passes();
                root.with_sampled(sampled)
            }
        };
        settings.trace = Some(context.clone());
        let id = context.trace_id();
        let record = context.is_sampled().then(|| {
            let journal = Journal::default();
            settings.journal = Some(journal.clone());
            Record {
                queue: Arc::clone(&told.queue),
                context,
                parent,
                journal,
                began: SystemTime::now(),
                since: Instant::now(),
                before: Duration::ZERO,
                rewriting: None,
                width: settings.width,
                speculator,
                marks: Marks::default(),
                is_over: false,
            }
        });
        Traced { id, record }
    }
}

impl Pace {
    fn new(most: u32) -> Self {
        Self {
            most,
            since: Instant::now(),
            passed: AtomicU64::new(0),
        }
    }

    fn passes(&self) -> bool {
        let second = self.since.elapsed().as_secs() << 32;
        let next = |passed: u64| {
            // Others may have seen a later second already.
            let second = second.max(passed & !u64::from(u32::MAX));
            let in_second = passed
                .checked_sub(second)
                .filter(|count| *count <= u64::from(u32::MAX));
            match in_second {
                Some(count) if count >= u64::from(self.most) => None,
                Some(_) => Some(passed + 1),
                // It was of another second.
                None => Some(second + 1),
            }
        };
        self.passed.fetch_update(Relaxed, Relaxed, next).is_ok()
    }
}

impl Record {
    /// The agent begins now, so long after the question.
    pub(crate) fn agent_begins(&mut self, before: Duration) {
        self.before = before;
    }

    /// Before the agent began, this call put a conversation into the question, from its beginning on.
    pub(crate) fn rewritten(&mut self, call: CallNote) {
        self.rewriting = Some(call);
    }

    /// Notes what happens, at a time that counts from the beginning of the question.
    pub(crate) fn hear(&mut self, event: &TraceEvent) {
        self.marks.hear(event);
    }

    /// The answer is the fallback's, and stands on nothing before it.
    pub(crate) fn answered_by_fallback(&mut self) {
        self.marks.answered_by_fallback();
    }

    /// The question has ended so.
    pub(crate) fn ended(mut self, outcome: Outcome) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Outcome) {
        self.is_over = true;
        let mut notes = self.journal.take();
        for call in &mut notes.calls {
            call.began = call.began.saturating_add(self.before);
            call.ended = call.ended.saturating_add(self.before);
        }
        let story = Story {
            context: self.context.clone(),
            parent: self.parent.take(),
            began: self.began,
            elapsed: self.since.elapsed(),
            outcome,
            width: self.width,
            speculator: self.speculator,
            marks: std::mem::take(&mut self.marks),
            notes,
            rewriting: self.rewriting.take(),
        };
        self.queue.offer(story);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_over {
            self.tell(Outcome::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests;
