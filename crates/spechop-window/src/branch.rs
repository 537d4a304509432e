//! One branch: the answer that it stands on, and the step that its planner has written.

use std::sync::Arc;

use spechop_types::{BranchId, Chance, LookupId, Observation, SubQuestion};

use crate::{Stop, WeighedGuess};

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
    Asked {
        sub_question: SubQuestion,
        /// `None` if it names an answer that is left open: there is nothing to look up yet.
        lookup: Option<LookupId>,
    },
    /// Ended with a final answer, or with nothing that can be built upon: a leaf.
    Answered(Arc<str>),
}

/// What a branch takes its parent's answer to be.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// A guess, to be verified.
    Guess(WeighedGuess),
    /// The observation itself, which was faster than any guess.
    Observation(Arc<Observation>),
    /// Nothing yet: the text names the sub-question instead. Never verified, never committed.
    Open(Arc<str>),
}

impl Granted {
    pub(crate) fn text(&self) -> &Arc<str> {
        match self {
            Self::Guess(guess) => &guess.text,
            Self::Open(text) => text,
            Self::Observation(observation) => &observation.answer,
        }
    }

    /// How likely it is to hold. An open answer claims nothing that could be wrong, and the look-ups
    /// behind it were asked without it.
    pub(crate) fn chance(&self) -> Chance {
        match self {
            Self::Guess(guess) => guess.chance,
            Self::Observation(_) | Self::Open(_) => Chance::CERTAIN,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

/// What a branch stands on beside its parent's own prefix.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) parent: BranchId,
    pub(crate) granted: Granted,
}

/// One speculative thread of the paper.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) id: BranchId,
    /// `None` for the head, whose whole prefix is committed.
    pub(crate) base: Option<Base>,
    /// Where its hop would stand in the trajectory, from 0.
    pub(crate) hop: usize,
    /// Why its segment must be the final answer, if it must.
    pub(crate) stop: Option<Stop>,
    pub(crate) segment: Segment,
}

impl Branch {
    pub(crate) fn sub_question(&self) -> Option<&SubQuestion> {
        match &self.segment {
            Segment::Asked { sub_question, .. } => Some(sub_question),
            Segment::Writing(_) | Segment::Failed | Segment::Answered(_) => None,
        }
    }

    pub(crate) fn lookup(&self) -> Option<LookupId> {
        match self.segment {
            Segment::Asked { lookup, .. } => lookup,
            Segment::Writing(_) | Segment::Failed | Segment::Answered(_) => None,
        }
    }

    pub(crate) fn is_child_of(&self, parent: BranchId) -> bool {
        self.base.as_ref().is_some_and(|base| base.parent == parent)
    }

    pub(crate) fn stands_open(&self) -> bool {
        self.base
            .as_ref()
            .is_some_and(|base| base.granted.is_open())
    }
}
