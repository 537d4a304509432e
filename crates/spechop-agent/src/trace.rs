//! The trace: events of a question while it is being answered.

use std::sync::Arc;
use std::time::Duration;

use spechop_ports::Guess;
use spechop_types::{
    BranchId, Chance, Hop, Observation, ProviderChange, Refusal, Stage, SubQuestion,
};
use spechop_verifier::Verdict;

use crate::Usage;

/// Something that happened, in the order in which it happened.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// Time since the question was taken up.
    pub at: Duration,
    /// The branch it happened to.
    pub branch: BranchId,
    /// The hop that the branch is at, counted from 1.
    pub hop: u32,
    /// True while an unverified guess lies before it: it may yet be rolled back.
    pub provisional: bool,
    /// What happened.
    pub kind: TraceKind,
}

impl TraceEvent {
    /// The same event of a plan that began so long after the question. The question had had so many branches by
    /// then, and had spent so much.
    pub(crate) fn behind(mut self, before: Duration, branches: u32, spent: &Usage) -> Self {
        self.at += before;
        self.branch = BranchId(branches + self.branch.0);
        if let TraceKind::Committed { usage, .. } = &mut self.kind {
            usage.add(spent);
        }
        self
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum TraceKind {
    /// Work of a branch began. A branch begins with its first segment.
    Launched {
        /// Which work.
        stage: Stage,
    },
    /// The planner wrote the sub-question.
    Planned {
        /// The sub-question.
        sub_question: SubQuestion,
        /// How long the segment took.
        took: Duration,
    },
    /// The planner wrote a final answer; it leaves as [`crate::Report`] only once its branch is
    /// the head.
    Drafted {
        /// The answer.
        answer: Arc<str>,
        /// How likely it is to become the final one: all guesses that its branch stands on must be right.
        chance: Chance,
        /// How long the segment took.
        took: Duration,
    },
    /// The speculator guessed, or had no guess.
    Guessed {
        /// The guesses, best first. Empty if it had none.
        guesses: Vec<Guess>,
        /// How long it took.
        took: Duration,
    },
    /// The target tool answered.
    Observed {
        /// Its answer and evidence.
        observation: Arc<Observation>,
        /// How long retrieval and reading took together.
        took: Duration,
    },
    /// The guess was compared with the observation.
    Verified {
        /// With which result.
        verdict: Verdict,
    },
    /// The hop is final.
    Committed {
        /// The hop.
        hop: Hop,
        /// The cost of the question so far, that of an answer or a plan before this one included. Calls that are
        /// under way count as wasted.
        usage: Box<Usage>,
    },
    /// A search of a call went to another provider; told at the end of the call.
    ProviderChanged {
        /// From which to which, and why.
        change: ProviderChange,
    },
    /// While the branch writes, a look-up begins of what it may be about to ask.
    AskedAhead {
        /// What was drafted.
        sub_question: SubQuestion,
        /// How likely the look-up is to be needed.
        chance: Chance,
    },
    /// The branch asks what was drafted for it. No new call is made.
    Foreseen {
        /// How long the look-up had already run, or how long it took.
        saved: Duration,
    },
    /// The branch asks what an aborted branch has looked up or is looking up. No new call is made.
    Salvaged {
        /// How long the look-up had already run, or how long it took.
        saved: Duration,
    },
    /// The question is of a form that its planner was not trained on, and another one answers it anew: every
    /// branch so far is dead, and so is every committed hop. The branch of the event is the first one to come.
    HandedOver {
        /// How likely the question is to be of such a form all the same.
        of_form: Chance,
    },
    /// The guess that the branch stood on was accepted: its work is needed now.
    Promoted,
    /// The branch was aborted: a guess before it was wrong, or the question ended.
    RolledBack,
    /// Speculative work was refused or stopped early. If it turns out to be needed, it is done then.
    NotSpeculated {
        /// The kind of work. If a branch was too unlikely to be built, this is its segment, and the
        /// event is about the branch that it would have stood on.
        stage: Stage,
        /// Why.
        why: Refusal,
    },
    /// A stage failed. A speculative stage is tried again if its branch becomes the head.
    Failed {
        /// Which stage.
        stage: Stage,
        /// Why, in a line.
        reason: String,
    },
}
