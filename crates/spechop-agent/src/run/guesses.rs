//! Guesses: asked for, taken as they come, paid for.

use std::time::Duration;

use spechop_ports::{Guess, GuessRequest, Speculator};
use spechop_types::{LookupId, Refusal, Stage};
use spechop_window::{Effects, Event};

use super::Run;
use crate::stages::{self, Early, Work};
use crate::{Cost, TraceKind};

impl Run<'_> {
    pub(super) fn guess(&mut self, lookup: LookupId) -> Effects {
        let ports = self.ports;
        let asked = self.window.asked(lookup).cloned();
        let (Some(sub_question), Some((branch, depth))) = (asked, self.asker_or_writer(lookup))
        else {
            return Effects::new();
        };
        let nothing = Event::Guessed {
            lookup,
            guesses: Vec::new(),
            more: false,
        };
        let Some(speculator) = ports.speculator.as_ref() else {
            return self.apply(nothing);
        };
        if !self.may_speculate() {
            self.refuse(branch, Stage::Speculation, Refusal::Budget);
            self.note(lookup, branch).guess_refused = true;
            return self.apply(nothing);
        }
        let request = GuessRequest {
            question: self.question.clone(),
            hops: self.known(branch),
            sub_question,
            passages: self.settings.passages,
            limit: self.settings.policy.guesses_max,
        };
        let speculator: &dyn Speculator = speculator.as_ref();
        self.note(lookup, branch);
        // A guess is never needed: it stands one step further out than its branch.
        let early = Early::default();
        let tell = early.clone();
        let work = Work::Speculation(lookup);
        self.launch(branch, depth + 1, work, |call| {
            stages::speculation(speculator, call, request, tell)
        });
        self.running.listen(work, early);
        Effects::new()
    }

    /// A stage that still runs has guesses already.
    pub(crate) fn take_early(
        &mut self,
        work: Work,
        took: Duration,
        guesses: Vec<Guess>,
    ) -> Option<Event> {
        match work {
            Work::Speculation(lookup) => self.take_guesses(lookup, took, guesses, true),
            Work::Segment(_) | Work::Target(_) | Work::Draft(..) => None,
        }
    }

    /// Guesses of a look-up, those that were told before perhaps among them. Told at once if a branch asks, else
    /// when one does.
    pub(super) fn take_guesses(
        &mut self,
        lookup: LookupId,
        took: Duration,
        guesses: Vec<Guess>,
        more: bool,
    ) -> Option<Event> {
        let now = self.running.now();
        let asker = self.window.asker(lookup);
        let notes = self.lookups.get_mut(lookup)?;
        let age = now - notes.launched;
        let known = notes.guesses.len();
        for guess in guesses {
            if !notes.guesses.iter().any(|other| other.text == guess.text) {
                notes.guesses.push(guess);
            }
        }
        if known == 0 {
            notes.speculation = Some(took);
        }
        notes.is_unheard |= asker.is_none();
        let all = notes.guesses.clone();
        let likely: Vec<_> = all[known..]
            .iter()
            .map(|guess| self.guess_of(guess, age))
            .collect();
        if let Some(branch) = asker
            && (known == 0 || known < all.len())
        {
            let guesses = all;
            self.tell(branch, TraceKind::Guessed { guesses, took });
            self.tell_unlikely(branch, &likely);
        }
        Some(Event::Guessed {
            lookup,
            guesses: likely,
            more,
        })
    }

    /// Whether it is a guess that was told before the end of its call.
    pub(super) fn has_told_early(&self, work: Work) -> bool {
        match work {
            Work::Speculation(lookup) => {
                let notes = self.lookups.get(lookup);
                notes.is_some_and(|notes| !notes.guesses.is_empty())
            }
            Work::Segment(_) | Work::Target(_) | Work::Draft(..) => false,
        }
    }

    /// A guess that was told early may be of use although its call came to no end.
    pub(super) fn pay_for_early(&mut self, work: Work, cost: Cost) {
        if self.has_told_early(work)
            && let Work::Speculation(lookup) = work
            && let Some(notes) = self.lookups.get_mut(lookup)
        {
            notes.paid.add(Stage::Speculation, cost);
        }
    }
}
