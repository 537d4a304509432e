//! How likely work is to be of use.

use std::sync::Arc;

use spechop_types::{BranchId, LookupId, SubQuestion};

use super::Run;
use crate::notes::LookupNotes;
use crate::stages::Work;

impl Run<'_> {
    /// A guess is of use where its branch becomes head and it is right.
    pub(super) fn chance_of(&self, work: Work, branch: BranchId) -> f32 {
        let becomes_head = self.chance(branch);
        match work {
            Work::Segment(_) | Work::Target(_) => becomes_head,
            Work::Speculation(_) => becomes_head * self.settings.guess_chance,
        }
    }

    /// How likely a branch is to become head: every guess before it must hold.
    pub(super) fn chance(&self, branch: BranchId) -> f32 {
        let guessed = self.window.trajectory(branch).skip(self.committed());
        guessed
            .map(|(asked, guess)| self.confidence(asked, guess))
            .product()
    }

    /// How likely a guess is to hold: what its speculator says, else what its guesses were worth
    /// so far.
    fn confidence(&self, asked: &SubQuestion, guess: &Arc<str>) -> f32 {
        let of = |(lookup, notes): (LookupId, &LookupNotes)| {
            let mut guesses = notes.guesses.iter();
            let found = guesses.find(|known| Arc::ptr_eq(&known.text, guess))?;
            found
                .confidence
                .filter(|_| self.window.asked(lookup) == Some(asked))
        };
        let known = self.lookups.iter().find_map(of);
        known.unwrap_or(self.settings.guess_chance)
    }
}
