//! Patterns of the last sub-question alone, for questions of forms that nobody has seen.
//!
//! If a look-up found nothing, the planner asks the same in other words, whatever the question is. What it asks
//! after a find is up to the question, so there are no such patterns for that: on MuSiQue's questions
//! their drafts were nearly always wrong.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::InvalidForm;
use crate::form::{Form, Slot};
use crate::outline::Outline;
use crate::patterns::{PatternRow, Shelved, chance, in_order};
use crate::step::Step;

/// What followed the sub-questions of one form that found nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AfterPattern {
    pub(crate) form: Form,
    /// How many questions had it, each counted once.
    pub(crate) questions: u32,
    pub(crate) lost: Step,
}

impl Shelved for AfterPattern {
    fn form(&self) -> &Form {
        &self.form
    }
}

impl AfterPattern {
    pub(crate) fn row(&self) -> PatternRow {
        let asks = self.lost.asks.iter();
        PatternRow {
            form: self.form.to_string(),
            of_question: false,
            questions: self.questions,
            asks: asks
                .map(|ask| (ask.form.to_string(), chance(ask.times, &self.lost)))
                .collect(),
        }
    }

    /// Whether its slots can be filled; the first that cannot.
    pub(crate) fn checked(&self) -> Result<(), InvalidForm> {
        let gaps = in_order(&self.form, Slot::Again)?;
        for slot in self.lost.asks.iter().flat_map(|ask| ask.form.slots()) {
            let filled = matches!(slot, Slot::Again(at) if usize::from(at) < gaps);
            if !filled {
                return Err(InvalidForm::Slot(slot.to_string()));
            }
        }
        Ok(())
    }
}

/// Counts what follows what found nothing, whatever the question.
#[derive(Debug, Default)]
pub(crate) struct Followers<'a> {
    by_form: BTreeMap<Form, Follower<'a>>,
}

#[derive(Debug, Default)]
struct Follower<'a> {
    questions: BTreeSet<&'a str>,
    lost: Step,
}

impl<'a> Followers<'a> {
    pub(crate) fn note(&mut self, question: &'a str, outline: &Outline) {
        for (at, (last, found)) in outline.hops.iter().enumerate() {
            let Some(form) = numbered(last).filter(|_| !found) else {
                continue;
            };
            let follower = self.by_form.entry(form).or_default();
            follower.questions.insert(question);
            let Some((next, _)) = outline.hops.get(at + 1) else {
                follower.lost.ended += 1;
                continue;
            };
            let again = |slot: Slot| {
                let same = last.slots().position(|other| other == slot);
                same.and_then(|at| u8::try_from(at).ok()).map(Slot::Again)
            };
            match next.with_slots(again) {
                Some(next) => follower.lost.note_ask(&next),
                None => follower.lost.other += 1,
            }
        }
    }

    /// Those that were seen in enough questions, and what follows in a good share of them.
    pub(crate) fn patterns(self, support: usize, share: f64) -> Vec<AfterPattern> {
        let enough = self.by_form.into_iter();
        let enough = enough.filter(|(_, follower)| follower.questions.len() >= support);
        let patterns = enough.map(|(form, mut follower)| {
            follower.lost.prune(share);
            AfterPattern {
                form,
                questions: u32::try_from(follower.questions.len()).unwrap_or(u32::MAX),
                lost: follower.lost,
            }
        });
        patterns
            .filter(|pattern| !pattern.lost.asks.is_empty())
            .collect()
    }
}

/// The same form with its gaps numbered from left to right.
fn numbered(form: &Form) -> Option<Form> {
    let next = std::cell::Cell::new(0_u8);
    form.with_slots(|_| {
        let at = next.get();
        next.set(at.checked_add(1)?);
        Some(Slot::Again(at))
    })
}
