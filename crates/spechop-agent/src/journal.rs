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
///
/// A question may be answered by several plans. Each has a handle of its own, and they share the notes.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    book: Arc<Mutex<Book>>,
    /// Whose handle it is, by the place in the book.
    plan: usize,
    /// How long the question was under way before the plan began.
    before: Duration,
}

/// What is noted of all plans of a question, each note with its plan.
#[derive(Debug)]
struct Book {
    /// Calls that were launched.
    launched: u64,
    calls: Vec<(usize, CallNote)>,
    taken_over: Vec<(usize, TakenOver)>,
    committed: Vec<(usize, CommittedLookup)>,
    left_out: u64,
    /// Of each plan: how many branches of the trace come before its own; `None` if the trace does not tell of it.
    branches: Vec<Option<u32>>,
    /// The plan that the answer is of.
    chosen: usize,
}

/// The notes of a question, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Those of every plan, in the order of their end.
    pub calls: Vec<CallNote>,
    /// Look-ups that a branch of the answer's plan took over instead of calling again.
    pub taken_over: Vec<TakenOver>,
    /// Look-ups whose observation is part of the committed trajectory, which is that of the answer's plan.
    pub committed: Vec<CommittedLookup>,
    /// Calls that were too many to be noted.
    pub left_out: u64,
}

/// A call that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CallNote {
    /// Counted from 1 in the order of launch, over all plans: the number of its span
    /// ([`spechop_types::TraceContext::child`]).
    pub number: u64,
    /// Its kind of work.
    pub stage: Stage,
    /// The look-up of the answer's plan that it is a part of, if it is.
    pub lookup: Option<LookupId>,
    /// The branch that it was launched for, as the trace calls it; `None` if the trace does not tell of its plan.
    pub branch: Option<BranchId>,
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

impl Default for Book {
    /// With the first plan, which the trace tells of and the answer is of unless another one takes its place.
    fn default() -> Self {
        Self {
            launched: 0,
            calls: Vec::new(),
            taken_over: Vec::new(),
            committed: Vec::new(),
            left_out: 0,
            branches: vec![Some(0)],
            chosen: 0,
        }
    }
}

impl Journal {
    /// The notes so far. They are taken away.
    pub fn take(&self) -> Notes {
        let book = std::mem::take(&mut *self.book.lock());
        let told = |plan: usize, own: BranchId| {
            let before = book.branches.get(plan).copied().flatten()?;
            Some(BranchId(before + own.0))
        };
        let calls = book.calls.into_iter().map(|(plan, call)| CallNote {
            // Every plan counts its own.
            lookup: call.lookup.filter(|_| plan == book.chosen),
            branch: call.branch.and_then(|own| told(plan, own)),
            ..call
        });
        let taken_over = book.taken_over.into_iter().filter_map(|(plan, taken)| {
            let branch = told(plan, taken.branch).filter(|_| plan == book.chosen)?;
            Some(TakenOver { branch, ..taken })
        });
        let committed = book.committed.into_iter();
        let committed = committed.filter(|(plan, _)| *plan == book.chosen);
        Notes {
            calls: calls.collect(),
            taken_over: taken_over.collect(),
            committed: committed.map(|(_, committed)| committed).collect(),
            left_out: book.left_out,
        }
    }

    /// The handle of a further plan that begins so long after the question. The trace tells of it behind so many
    /// branches; `None` if it does not tell of it, or not yet.
    pub(crate) fn further(&self, before: Duration, branches: Option<u32>) -> Self {
        let mut book = self.book.lock();
        book.branches.push(branches);
        Self {
            book: Arc::clone(&self.book),
            plan: book.branches.len() - 1,
            before,
        }
    }

    /// The answer is of this plan. It stands on no other one's calls.
    pub(crate) fn answers(&self) {
        self.book.lock().chosen = self.plan;
    }

    /// The trace tells of this plan and of no other, behind so many branches.
    pub(crate) fn told_alone(&self, branches: u32) {
        let mut book = self.book.lock();
        book.branches.fill(None);
        if let Some(own) = book.branches.get_mut(self.plan) {
            *own = Some(branches);
        }
    }

    /// The number of a call that is launched now.
    pub(crate) fn number(&self) -> u64 {
        let mut book = self.book.lock();
        book.launched += 1;
        book.launched
    }

    pub(crate) fn taken_over(&self, taken_over: TakenOver) {
        self.book.lock().taken_over.push((self.plan, taken_over));
    }

    pub(crate) fn committed(&self, lookup: LookupId, kind: CommitKind) {
        let committed = CommittedLookup { lookup, kind };
        self.book.lock().committed.push((self.plan, committed));
    }

    fn call(&self, note: CallNote) {
        let mut book = self.book.lock();
        if book.calls.len() < CALLS_MAX {
            book.calls.push((self.plan, note));
        } else {
            book.left_out += 1;
        }
    }
}

/// What is known of a call at its launch. It becomes a note at its end.
pub(crate) struct Begun {
    pub(crate) journal: Journal,
    pub(crate) number: u64,
    pub(crate) branch: BranchId,
    pub(crate) hop: u32,
    /// When its plan was begun.
    pub(crate) started: Instant,
    pub(crate) lane: Lane,
}

impl Begun {
    /// The call was launched at `at`, and has ended so.
    pub(crate) fn end(self, work: Work, call: &Call, at: Instant, taken: Taken, end: CallEnd) {
        let began = self.journal.before.saturating_add(at - self.started);
        self.journal.call(CallNote {
            number: self.number,
            stage: work.stage(),
            lookup: match work {
                Work::Target(lookup) | Work::Speculation(lookup) => Some(lookup),
                Work::Segment(_) | Work::Draft(..) => None,
            },
            branch: Some(self.branch),
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
