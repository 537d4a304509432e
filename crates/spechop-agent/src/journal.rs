//! What became of each call of a question, for whoever wants to see afterwards what ran when.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spechop_ports::{Call, Lane};
use spechop_types::{Activities, BranchId, CommitKind, LookupId, Refusal, Stage, Tokens};
use tokio::time::Instant;

use crate::ledger::Taken;
use crate::stages::Work;

/// Most calls that are noted. A question that makes more is noted up to there.
const CALLS_MAX: usize = 4096;

/// Takes notes of a question's calls as they end, however the question itself ends. Clones are handles to
/// the same notes.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<Notes>>);

/// The notes of a question, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// In the order of their end.
    pub calls: Vec<CallNote>,
    /// Look-ups that a branch took over instead of calling again.
    pub taken_over: Vec<TakenOver>,
    /// Look-ups whose observation is part of the committed trajectory.
    pub committed: Vec<CommittedLookup>,
    /// Calls that were too many to be noted.
    pub left_out: u64,
}

/// A call that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CallNote {
    /// Counted from 1 in the order of launch: the number of its span
    /// ([`spechop_types::TraceContext::child`]).
    pub number: u64,
    /// Its kind of work.
    pub stage: Stage,
    /// The look-up that it is a part of, if it is.
    pub lookup: Option<LookupId>,
    /// The branch that it was launched for.
    pub branch: BranchId,
    /// The hop of that branch, counted from 1.
    pub hop: u32,
    /// When it was launched, since the question was taken up.
    pub began: Duration,
    /// When it ended.
    pub ended: Duration,
    /// Whether it was launched ahead of need.
    pub was_speculative: bool,
    /// Whether the answer needed it at its end.
    pub is_needed: bool,
    /// Whether a kept result served it, or a part of it.
    pub was_kept: bool,
    /// As far as it has told of them.
    pub tokens: Tokens,
    /// What its time was spent on, as far as it is known.
    pub activities: Activities,
    /// How it ended.
    pub end: CallEnd,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// With a result.
    Done,
    /// With an error.
    Failed,
    /// At its time limit.
    TimedOut,
    /// It was speculative, and had no turn or lost it.
    Refused(Refusal),
    /// Nobody wanted it any more.
    Dropped,
}

/// A look-up whose observation is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedLookup {
    /// The look-up.
    pub lookup: LookupId,
    /// How its hop came about.
    pub kind: CommitKind,
}

/// A look-up that a branch took over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenOver {
    /// The look-up.
    pub lookup: LookupId,
    /// By which branch.
    pub branch: BranchId,
    /// How it had come about.
    pub origin: Origin,
}

/// For whom a look-up was begun that another branch took over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// For a branch that was rolled back.
    RolledBack,
    /// For a branch that was still writing: its sub-question was drafted.
    Drafted,
}

impl Journal {
    /// The notes so far. They are taken away.
    pub fn take(&self) -> Notes {
        std::mem::take(&mut *self.0.lock())
    }

    pub(crate) fn taken_over(&self, taken_over: TakenOver) {
        self.0.lock().taken_over.push(taken_over);
    }

    pub(crate) fn committed(&self, lookup: LookupId, kind: CommitKind) {
        self.0
            .lock()
            .committed
            .push(CommittedLookup { lookup, kind });
    }

    /// The answer is that of another plan: it stands on none of the calls that are noted so far.
    pub(crate) fn give_up(&self) {
        let mut notes = self.0.lock();
        notes.taken_over.clear();
        notes.committed.clear();
    }

    fn call(&self, note: CallNote) {
        let mut notes = self.0.lock();
        if notes.calls.len() < CALLS_MAX {
            notes.calls.push(note);
        } else {
            notes.left_out += 1;
        }
    }
}

/// What is known of a call at its launch. It becomes a note at its end.
pub(crate) struct Begun {
    pub(crate) journal: Journal,
    pub(crate) number: u64,
    pub(crate) branch: BranchId,
    pub(crate) hop: u32,
    /// When the question was taken up.
    pub(crate) started: Instant,
    pub(crate) lane: Lane,
}

impl Begun {
    /// The call was launched at `at`, and has ended so.
    pub(crate) fn end(self, work: Work, call: &Call, at: Instant, taken: Taken, end: CallEnd) {
        let began = at - self.started;
        self.journal.call(CallNote {
            number: self.number,
            stage: work.stage(),
            lookup: match work {
                Work::Target(lookup) | Work::Speculation(lookup) => Some(lookup),
                Work::Segment(_) | Work::Draft(..) => None,
            },
            branch: self.branch,
            hop: self.hop,
            began,
            ended: began.saturating_add(taken.time),
            was_speculative: self.lane == Lane::Speculative,
            is_needed: call.lane() == Lane::Authoritative,
            was_kept: call.was_kept(),
            tokens: taken.tokens,
            activities: taken.activities,
            end,
        });
    }
}
