//! The chance that a call will be used, by which the scheduler ranks speculative calls.

use std::time::Duration;

use spechop_ports::Guess;
use spechop_types::{BranchId, Chance, ms};
use spechop_window::WeighedGuess;

use super::Run;
use crate::stages::Work;

impl Run<'_> {
    /// A drafted look-up is of use if its branch asks for it, too. A guess is of use if its branch becomes
    /// head and it is right.
    pub(super) fn chance_of(&self, work: Work, branch: BranchId) -> Chance {
        let becomes_head = self.window.chance(branch);
        let is_needed = |lookup| match self.window.drafted_for(lookup) {
            Some((_, chance)) => chance,
            None => becomes_head,
        };
        match work {
            Work::Segment(_) => becomes_head,
            // Nobody has counted how often such drafts are right.
            Work::Draft(..) => becomes_head.and(Chance::EVEN),
            Work::Target(lookup) => is_needed(lookup),
            Work::Speculation(lookup) => is_needed(lookup).and(self.settings.guess_chance),
        }
    }

    /// A guess, how likely it is to hold, and how likely it must be: what its speculator says,
    /// calibrated, else what its guesses were worth so far.
    pub(super) fn guess_of(&self, guess: &Guess, age: Duration) -> WeighedGuess {
        let weighing = &self.settings.policy.weighing;
        let said = guess.confidence.map(|said| weighing.calibration.of(said));
        WeighedGuess {
            text: guess.text.clone(),
            chance: said.unwrap_or(self.settings.guess_chance),
            least: weighing.least(ms(age)),
        }
    }
}
