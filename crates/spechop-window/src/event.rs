//! The vocabulary of the window: events go in, effects come out.

use std::sync::Arc;

use smallvec::SmallVec;
use spechop_types::{BranchId, Chance, Draft, LookupId, Observation, Stage, Step};

/// Something that happened. An event about a branch or a look-up that is gone is ignored.
#[derive(Clone, Debug)]
pub enum Event {
    /// The planner finished the segment asked for by [`Effect::Write`].
    Wrote {
        /// Whose segment.
        branch: BranchId,
        /// What it ends with.
        step: Step,
    },
    /// The segment failed or ran out of time.
    WriteFailed {
        /// Whose segment.
        branch: BranchId,
    },
    /// The target tool answered [`Effect::Call`].
    Observed {
        /// Which look-up.
        lookup: LookupId,
        /// What it found.
        observation: Arc<Observation>,
    },
    /// The target call failed or ran out of time.
    CallFailed {
        /// Which look-up.
        lookup: LookupId,
    },
    /// The speculator answered [`Effect::Guess`], failed or ran out of time. Or it has guesses, and looks
    /// for better ones.
    Guessed {
        /// Which look-up.
        lookup: LookupId,
        /// The guesses, best first, as far as they were not told before: those that were may be repeated
        /// or left out. A failed guess is no guess (law 6).
        guesses: Vec<WeighedGuess>,
        /// The speculator is still at it: another such event follows.
        more: bool,
    },
    /// The verifier answered [`Effect::Verify`].
    Verified {
        /// The branch that stands on the guess.
        branch: BranchId,
        /// Whether the guess says what the head's observation says.
        accepted: bool,
    },
    /// A drafter answered [`Effect::Draft`]. One that takes its time may answer again and again, for as long
    /// as the branch writes.
    Drafted {
        /// Whose next sub-question it may be.
        branch: BranchId,
        /// The drafts, likeliest first. None, if it has no idea.
        drafts: Vec<Draft>,
    },
    /// The time for which [`Effect::Orphan`] keeps a look-up is over.
    Expired {
        /// Which look-up.
        lookup: LookupId,
    },
    /// The question's budget is used up: answer from what is committed.
    FinishNow,
}

/// A guessed answer, and what it is weighed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeighedGuess {
    /// The answer.
    pub text: Arc<str>,
    /// The estimated chance that it is right.
    pub chance: Chance,
    /// No branch is built on it that is less likely than this to become head:
    /// [`crate::Weighing::least`] at its coming. [`Chance::NONE`]: it is always worth it.
    pub least: Chance,
}

/// What an event leads to, in order. Hardly an event leads to more than these few.
pub type Effects = SmallVec<[Effect; 4]>;

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the planner for the branch's next step; [`crate::Window::trajectory`] is its prefix.
    /// A branch begins with this.
    Write {
        /// The branch.
        branch: BranchId,
        /// The step must be the final answer.
        must_answer: bool,
    },
    /// Ask the drafter what the branch is about to ask, and report [`Event::Drafted`] at once. Drafters that
    /// take their time may be asked, too; each of their drafts is one more such event. Never at k = 1.
    Draft {
        /// The branch, whose segment has just begun.
        branch: BranchId,
    },
    /// Launch the target call of [`crate::Window::asked`]. If no branch asks it yet, it was drafted:
    /// [`crate::Window::drafted_for`].
    Call {
        /// The look-up.
        lookup: LookupId,
    },
    /// Ask the speculator for the answer of [`crate::Window::asked`]. Never at k = 1.
    Guess {
        /// The look-up.
        lookup: LookupId,
    },
    /// Stop the speculator's call: its hop has an observation that is committed or built upon instead, or nobody
    /// needs the guess now.
    DropGuess {
        /// The look-up.
        lookup: LookupId,
    },
    /// Compare [`crate::Window::comparison`] and report [`Event::Verified`] before anything else.
    Verify {
        /// The branch that stands on the guess: a child of the head.
        branch: BranchId,
    },
    /// The branch's hop is final; the branch and its look-up are gone. One event may commit several.
    Commit {
        /// The branch that was head.
        branch: BranchId,
        /// Its look-up.
        lookup: LookupId,
        /// Where its hop stands in [`crate::Window::committed`].
        at: usize,
    },
    /// The branch is head now: its running calls have become authoritative.
    Promote {
        /// The new head.
        branch: BranchId,
    },
    /// The branch is gone: stop its segment. A separate effect says what happens to its look-up.
    Abort {
        /// The branch.
        branch: BranchId,
    },
    /// No branch needs the look-up any more. Keep its target call for a bounded time, then report
    /// [`Event::Expired`].
    Orphan {
        /// The look-up.
        lookup: LookupId,
    },
    /// The branch asks what an orphan has looked up or is looking up: it has that look-up now.
    Salvage {
        /// The branch.
        branch: BranchId,
        /// The look-up, an orphan no more.
        lookup: LookupId,
    },
    /// The branch asks what was drafted: it has that look-up now.
    Confirm {
        /// The branch.
        branch: BranchId,
        /// The look-up, a draft no more.
        lookup: LookupId,
    },
    /// The look-up is gone: stop its calls that still run.
    Drop {
        /// The look-up.
        lookup: LookupId,
    },
    /// The question is answered; nothing is alive any more.
    Answer {
        /// The branch that wrote it, head when it left.
        branch: BranchId,
        /// The final answer.
        answer: Arc<str>,
    },
    /// Authoritative work failed for good; nothing is alive any more.
    Fail {
        /// The branch that was head.
        branch: BranchId,
        /// What failed.
        stage: Stage,
    },
}

/// Why a planner must answer instead of asking on (the paper's stop rules, and the budget).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The trajectory has as many hops as it may.
    HopBudget,
    /// It asked what it had asked before.
    Repeated,
    /// Too many look-ups found no relevant information.
    NotFound,
    /// [`Event::FinishNow`].
    Budget,
}
