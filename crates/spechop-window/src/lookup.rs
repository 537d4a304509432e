//! One look-up: the target call and the guesses of one sub-question, kept apart from the branches
//! that ask it.

use std::sync::Arc;

use smallvec::SmallVec;
use spechop_types::{BranchId, Chance, LookupId, Observation, SubQuestion};

use crate::WeighedGuess;
use crate::branch::Launched;

/// The target tool's work.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Running.
    Running(Launched),
    /// Failed while speculative; tried again once its branch is head.
    Failed,
    /// Answered; waits for its turn (law 2).
    Observed(Arc<Observation>),
}

/// The speculator's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Guessing {
    /// Not asked: k = 1, an orphan, observed, or waiting for room in the window.
    Idle,
    /// Running: the guesses that it has told so far, in the order of their coming.
    Running(Guesses),
    /// Over: the guesses, in the order of their coming. Empty if the speculator had none.
    Over(Guesses),
}

/// Guesses of one look-up: none empty, none twice, at most as many as the policy builds upon.
pub(crate) type Guesses = SmallVec<[WeighedGuess; 1]>;

impl Guessing {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// What can be built upon. `None` as long as that is not known: it was not asked, or has told nothing.
    pub(crate) fn known(&self) -> Option<&Guesses> {
        match self {
            Self::Idle => None,
            Self::Running(guesses) => Some(guesses).filter(|guesses| !guesses.is_empty()),
            Self::Over(guesses) => Some(guesses),
        }
    }
}

/// A look-up. Without users it is an orphan, or drafted.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    pub(crate) id: LookupId,
    pub(crate) asked: SubQuestion,
    pub(crate) target: Target,
    pub(crate) guessing: Guessing,
    /// The branches that ask it. More than one only if siblings ask the same.
    pub(crate) users: SmallVec<[BranchId; 2]>,
    /// The branch that may be about to ask it, and how likely that is. `None` as soon as somebody has.
    pub(crate) draft: Option<(BranchId, Chance)>,
    /// Orders the orphans by the moment at which they became one.
    pub(crate) orphaned: u32,
}

impl Lookup {
    pub(crate) fn observation(&self) -> Option<&Arc<Observation>> {
        match &self.target {
            Target::Observed(observation) => Some(observation),
            Target::Running(_) | Target::Failed => None,
        }
    }

    pub(crate) fn is_orphan(&self) -> bool {
        self.users.is_empty() && self.draft.is_none()
    }

    pub(crate) fn is_drafted_for(&self, branch: BranchId) -> bool {
        self.draft.is_some_and(|(writer, _)| writer == branch)
    }
}
