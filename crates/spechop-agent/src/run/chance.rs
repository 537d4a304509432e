//! The chance that a call will be used, by which the scheduler ranks speculative calls.

use spechop_types::BranchId;
use spechop_window::{Chance, Guess};

use super::Run;
use crate::stages::Work;

impl Run<'_> {
    /// A guess is of use where its branch becomes head and it is right.
    #[expect(clippy::cast_possible_truncation, reason = "a share needs no more")]
    pub(super) fn chance_of(&self, work: Work, branch: BranchId) -> f32 {
        let becomes_head = self.window.chance(branch).share() as f32;
        match work {
            Work::Segment(_) | Work::Target(_) => becomes_head,
            Work::Speculation(_) => becomes_head * self.settings.guess_chance,
        }
    }

    /// A guess and how likely it is to hold: what its speculator says, else what its guesses were
    /// worth so far.
    pub(super) fn guess_of(&self, guess: &spechop_ports::Guess) -> Guess {
        let share = guess.confidence.unwrap_or(self.settings.guess_chance);
        Guess {
            text: guess.text.clone(),
            chance: Chance::of(f64::from(share)),
        }
    }
}
