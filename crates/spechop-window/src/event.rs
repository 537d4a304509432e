//! What the window is told, and what it asks for.

use std::sync::Arc;

use spechop_types::{BranchId, Observation, Stage, Step};

/// Something that happened. News about a branch that is no longer alive is ignored.
#[derive(Clone, Debug)]
pub enum Event {
    /// The planner finished the segment asked for by [`Effect::Write`].
    Wrote {
        /// Whose segment.
        branch: BranchId,
        /// What it ends with.
        step: Step,
    },
    /// The target tool answered [`Effect::Call`].
    Observed {
        /// Whose call.
        branch: BranchId,
        /// What it found.
        observation: Arc<Observation>,
    },
    /// The speculator answered [`Effect::Guess`]; `None` where it has no idea.
    Guessed {
        /// Whose hop was guessed.
        branch: BranchId,
        /// The guess.
        guess: Option<Arc<str>>,
    },
    /// The verifier answered [`Effect::Verify`].
    Verified {
        /// Whose guess.
        branch: BranchId,
        /// Whether the guess says what the observation says.
        accepted: bool,
    },
    /// A stage failed or ran out of time.
    Failed {
        /// Whose stage.
        branch: BranchId,
        /// Which stage.
        stage: Stage,
    },
    /// The question's budget is used up: answer from what is committed.
    FinishNow,
}

/// Something to be done, in order.
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
    /// Launch the target call of the branch's sub-question.
    Call {
        /// The branch.
        branch: BranchId,
    },
    /// Ask the speculator for the answer of the branch's sub-question. Never at k = 1.
    Guess {
        /// The branch.
        branch: BranchId,
    },
    /// Stop the speculator's call of this branch: the observation was faster.
    DropGuess {
        /// The branch.
        branch: BranchId,
    },
    /// Compare [`crate::Window::comparison`] and report [`Event::Verified`] before anything else.
    Verify {
        /// The head.
        branch: BranchId,
    },
    /// The branch's hop is final, and the branch is gone. One event may commit several.
    Commit {
        /// The branch that was head.
        branch: BranchId,
        /// Where its hop stands in [`crate::Window::committed`].
        at: usize,
    },
    /// The branch is head now: its running calls have become authoritative.
    Promote {
        /// The new head.
        branch: BranchId,
    },
    /// The branch is gone: stop all its calls.
    Abort {
        /// The branch.
        branch: BranchId,
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
