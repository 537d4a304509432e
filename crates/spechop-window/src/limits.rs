//! The limits of one question's window, and what it does beyond the paper.

use std::num::NonZeroUsize;

use crate::{Weighing, Width};
use spechop_types::{AnswerOptions, Chance};

/// The limits of one question's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most branches alive at once.
    pub width: Width,
    /// Most hops; the step after them must be the final answer. 0 asks nothing at all.
    pub hops_max: u32,
    /// Most observations without relevant information in a trajectory; one more, and the next
    /// step must be the final answer.
    pub not_found_max: u32,
    /// How far speculation goes.
    pub policy: Policy,
}

/// What a window does beyond the paper's algorithm. None of it changes an answer (law 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Most look-ups of aborted branches that are kept for reuse. 0 switches salvage off.
    pub orphans_max: usize,
    /// If no guess is worth building upon, continue with the answer left open. Later sub-questions that do
    /// not need the answer are then looked up ahead of time. Without salvage this has no use, and is off.
    pub plan_ahead: bool,
    /// Most guesses of a hop that branches are built upon. 1 is the paper's algorithm.
    pub guesses_max: NonZeroUsize,
    /// The gate: a branch less likely than this to become head is not built. A branch becomes head if
    /// all guesses that it stands on are right. [`Chance::NONE`] leaves the gate open.
    pub chance_min: Chance,
    /// What each guess is weighed by, beside `chance_min`. Drivers apply it when a guess comes:
    /// [`crate::WeighedGuess::least`].
    pub weighing: Weighing,
    /// Most look-ups that are drafted for a branch while its planner writes. 0 switches drafts off.
    /// Source: speculative tool calls (arXiv 2512.15834, algorithm 2), which a window of k > 1 makes.
    pub drafts_max: usize,
    /// Whether the answers of drafted look-ups are guessed, too, before anybody has asked.
    pub draft_guesses: bool,
    /// Whether a sub-question's answer is guessed as soon as it is asked. A branch that gets a place later
    /// then has its guess already. If not, as in the paper (algorithm 2, line 13), a guess is asked for only
    /// while the window has room for a branch upon it.
    pub guess_at_once: bool,
    /// Whether a branch is built on an observation that arrived before its hop is head's, if nothing is
    /// built on a guess of it. If not, as in the paper, branches are built on guesses only.
    pub build_on_observations: bool,
    /// The paper's continuous window, which is refilled at every commit. If false, the window works in
    /// rounds, for comparison: it is k hops deep at most, and refilled when all of them are settled.
    pub continuous: bool,
}

impl Policy {
    /// The paper's algorithm and nothing else.
    pub const PAPER: Self = Self {
        orphans_max: 0,
        plan_ahead: false,
        guesses_max: NonZeroUsize::MIN,
        chance_min: Chance::NONE,
        weighing: Weighing::NONE,
        drafts_max: 0,
        draft_guesses: false,
        guess_at_once: false,
        build_on_observations: false,
        continuous: true,
    };

    /// The paper's algorithm without its two waits: guesses wait for no room in the window, and branches for no
    /// guess where an observation is there before it.
    pub const EAGER: Self = Self {
        guess_at_once: true,
        build_on_observations: true,
        ..Self::PAPER
    };

    /// With what is said about it. What is not said stays.
    #[must_use]
    pub fn with(self, said: &AnswerOptions) -> Self {
        Self {
            orphans_max: match said.salvage {
                Some(false) => 0,
                Some(true) if self.orphans_max == 0 => Self::default().orphans_max,
                Some(true) | None => self.orphans_max,
            },
            plan_ahead: said.plan_ahead.unwrap_or(self.plan_ahead),
            guesses_max: said.guesses.unwrap_or(self.guesses_max),
            chance_min: said.chance_min.unwrap_or(self.chance_min),
            drafts_max: said.drafts.map_or(self.drafts_max, |most| most as usize),
            ..self
        }
    }

    /// Whether aborted look-ups are kept for reuse.
    pub fn salvages(&self) -> bool {
        self.orphans_max > 0
    }

    /// Whether hops without a guess worth building upon are left open and skipped.
    pub fn plans_ahead(&self) -> bool {
        self.plan_ahead && self.salvages()
    }
}

impl Default for Policy {
    /// [`Policy::EAGER`], and salvage of as many look-ups as a wide window has.
    fn default() -> Self {
        Self {
            orphans_max: 8,
            ..Self::EAGER
        }
    }
}
