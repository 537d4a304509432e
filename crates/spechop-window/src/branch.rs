//! One branch: what it has written, what it waits for, what the next one stands on.

use std::sync::Arc;

use spechop_types::{BranchId, Observation, SubQuestion};

use crate::Stop;

/// Who pays for a running call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launched {
    /// It was launched while its branch was head.
    Authoritative,
    /// It was launched ahead of time. Should it fail after its branch has become head, it gets one
    /// authoritative try (law 6).
    Speculative,
}

/// The planner's work for a branch.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    /// Being written.
    Writing(Launched),
    /// Failed while speculative; tried again once the branch is head.
    Failed,
    /// Ended with a sub-question.
    Asked(SubQuestion),
    /// Ended with a final answer: a leaf.
    Answered(Arc<str>),
}

/// The target tool's work for a branch.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// No sub-question yet.
    Idle,
    /// Running.
    Running(Launched),
    /// Failed while speculative; tried again once the branch is head.
    Failed,
    /// Answered; waits for its turn (law 2).
    Observed(Arc<Observation>),
}

/// The speculator's work for a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Guessing {
    /// Not asked: no sub-question yet, or k = 1.
    Idle,
    /// Running.
    Running,
    /// A guess that waits for room in the window.
    Ready(Arc<str>),
    /// Over: built upon, not had, or not needed.
    Over,
}

/// What the next branch takes this branch's answer to be.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// A guess, to be verified.
    Guess(Arc<str>),
    /// The observation itself, which was faster than any guess.
    Observation(Arc<str>),
}

impl Granted {
    pub(crate) fn text(&self) -> &Arc<str> {
        match self {
            Self::Guess(text) | Self::Observation(text) => text,
        }
    }
}

/// One speculative thread of the paper.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) id: BranchId,
    /// Why its segment must be the final answer, if it must.
    pub(crate) stop: Option<Stop>,
    pub(crate) segment: Segment,
    pub(crate) target: Target,
    pub(crate) guessing: Guessing,
    /// Set when the next branch is made, and only then.
    pub(crate) granted: Option<Granted>,
    /// [`crate::Effect::Verify`] is out.
    pub(crate) verifying: bool,
}

impl Branch {
    pub(crate) fn new(id: BranchId, stop: Option<Stop>, launched: Launched) -> Self {
        Self {
            id,
            stop,
            segment: Segment::Writing(launched),
            target: Target::Idle,
            guessing: Guessing::Idle,
            granted: None,
            verifying: false,
        }
    }

    pub(crate) fn sub_question(&self) -> Option<&SubQuestion> {
        match &self.segment {
            Segment::Asked(sub_question) => Some(sub_question),
            Segment::Writing(_) | Segment::Failed | Segment::Answered(_) => None,
        }
    }

    pub(crate) fn observation(&self) -> Option<&Arc<Observation>> {
        match &self.target {
            Target::Observed(observation) => Some(observation),
            Target::Idle | Target::Running(_) | Target::Failed => None,
        }
    }
}
