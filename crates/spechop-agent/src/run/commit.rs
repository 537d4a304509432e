//! A hop becomes final: it is paid for, its guesses are judged, and it is reported and told.

use std::time::Duration;

use spechop_ports::Guess;
use spechop_types::{BranchId, Hop, LookupId};
use spechop_verifier::{Mode, Verdict, verify};

use super::Run;
use crate::notes::{BranchNotes, LookupNotes};
use crate::{HopReport, StageTimes, TraceKind};

impl Run<'_> {
    pub(super) fn commit(&mut self, branch: BranchId, lookup: LookupId, at: usize) {
        let notes = self.branches.remove(branch).unwrap_or_default();
        let found = self
            .lookups
            .remove(lookup)
            .unwrap_or_else(|| LookupNotes::new(self.started, (branch, notes.hop)));
        let Some(hop) = self.window.committed().get(at).cloned() else {
            return;
        };
        self.ledger.commit(hop.kind, &notes.paid, &found.paid);
        if let Some(journal) = &self.settings.journal {
            journal.committed(lookup, hop.kind);
        }
        let now = self.running.now();
        let could_wait = notes.written_at.map(|at| at.max(self.committed_at));
        let stall = could_wait.map_or(Duration::ZERO, |since| now - since);
        self.committed_at = now;
        let mode = self.settings.verifier;
        self.hops
            .push(hop_report(mode, &hop, &notes, &found, stall));
        let usage = self.usage_so_far();
        self.tell_as(
            branch,
            notes.hop,
            false,
            TraceKind::Committed { hop, usage },
        );
    }
}

fn hop_report(
    mode: Mode,
    hop: &Hop,
    notes: &BranchNotes,
    found: &LookupNotes,
    stall: Duration,
) -> HopReport {
    let Judged {
        guess_held,
        right_guess,
        guess_by,
    } = Judged::of(mode, hop, notes.verdict.as_ref(), &found.guesses);
    let best = found.guesses.first();
    HopReport {
        hop: hop.clone(),
        verdict: notes.verdict,
        guess_held,
        right_guess,
        times: StageTimes {
            segment: notes.segment,
            target: found.target,
            read: found.read,
            speculation: found.speculation,
        },
        stall,
        activities: notes.paid.activities_with(&found.paid, hop.kind),
        salvaged: found.salvaged,
        draft_held: (notes.drafted > 0).then_some(found.foreseen.is_some()),
        draft_right: (notes.likeliest.as_ref()).map(|draft| draft.has_words_of(&hop.sub_question)),
        foreseen: found.foreseen.unwrap_or_default(),
        guess_refused: found.guess_refused && found.guesses.is_empty(),
        silent: found.speculation.is_some() && found.guesses.is_empty(),
        certainty: notes.certainty,
        confidence: best.and_then(|best| best.confidence),
        guess_by,
        best_by: best.and_then(|best| best.by),
    }
}

/// Which guesses of a hop were right. A guess is judged even if nothing was built upon it: the tuner learns
/// from it.
struct Judged {
    /// [`HopReport::guess_held`].
    guess_held: Option<bool>,
    /// [`HopReport::right_guess`].
    right_guess: Option<u32>,
    /// [`HopReport::guess_by`].
    guess_by: Option<&'static str>,
}

impl Judged {
    /// `verdict` is that of the last guess that was compared, if one was.
    fn of(mode: Mode, hop: &Hop, verdict: Option<&Verdict>, guesses: &[Guess]) -> Self {
        let is_right = |guess: &Guess| verify(mode, &hop.observation.answer, &guess.text).accepted;
        let best = guesses.first();
        let guess_held = match (verdict, guesses) {
            (Some(verdict), [] | [_]) => Some(verdict.accepted),
            (_, _) => best.map(is_right),
        };
        let right_guess = match (guess_held, guesses) {
            // The only one has been compared.
            (Some(held), [_]) => held.then_some(1),
            (_, _) => (1..)
                .zip(guesses)
                .find(|(_, guess)| is_right(guess))
                .map(|(rank, _)| rank),
        };
        // The guess that was right, else the best.
        let in_hop = |guess: &&Guess| hop.guess.as_ref() == Some(&guess.text);
        let named = guesses.iter().find(in_hop).or(best);
        Self {
            guess_held,
            right_guess,
            guess_by: named.and_then(|guess| guess.by),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spechop_types::{CommitKind, Observation, SubQuestion};

    use super::*;

    #[test]
    fn guesses_are_judged_by_what_was_observed() {
        const OBSERVED: &str = "Paris";
        // Guesses in the order of their coming, the last one that was compared, the hop's own.
        for (guesses, compared, own, expected) in [
            ("", None, None, (None, None, None)),
            (
                "Paris",
                Some("Paris"),
                Some("Paris"),
                (Some(true), Some(1), Some("first")),
            ),
            (
                "Rome",
                Some("Rome"),
                Some("Rome"),
                (Some(false), None, Some("first")),
            ),
            // Nothing was built upon it.
            ("Paris", None, None, (Some(true), Some(1), Some("first"))),
            ("Rome", None, None, (Some(false), None, Some("first"))),
            (
                "Rome Paris",
                Some("Paris"),
                Some("Paris"),
                (Some(false), Some(2), Some("second")),
            ),
            (
                "Paris Rome",
                Some("Rome"),
                Some("Paris"),
                (Some(true), Some(1), Some("first")),
            ),
            (
                "Rome Oslo",
                Some("Oslo"),
                Some("Rome"),
                (Some(false), None, Some("first")),
            ),
        ] {
            let hop = Hop {
                sub_question: SubQuestion::new("Which city?"),
                answer: OBSERVED.into(),
                kind: CommitKind::Observed,
                guess: own.map(Arc::from),
                observation: Arc::new(Observation::read(Some(OBSERVED.into()), Vec::new())),
            };
            let names = ["first", "second"].into_iter();
            let all: Vec<_> = guesses
                .split_whitespace()
                .zip(names)
                .map(|(text, by)| Guess {
                    by: Some(by),
                    ..Guess::from(text)
                })
                .collect();
            let verdict = compared.map(|guess| verify(Mode::Exact, OBSERVED, guess));
            let judged = Judged::of(Mode::Exact, &hop, verdict.as_ref(), &all);
            let found = (judged.guess_held, judged.right_guess, judged.guess_by);
            assert_eq!(found, expected, "{guesses}, compared {compared:?}");
        }
    }
}
