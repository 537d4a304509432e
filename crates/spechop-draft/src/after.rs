//! Patterns of the last sub-question alone, for questions of forms that nobody has seen.
//!
//! They know little: what follows "When was {s1} born?" is up to the question. But if it found nothing, the
//! planner asks the same in other words, whatever the question is.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::InvalidForm;
use crate::form::{Form, Slot};
use crate::outline::Outline;
use crate::patterns::{PatternRow, Shelved, chance, in_order};
use crate::step::Step;

/// What followed the sub-questions of one form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AfterPattern {
    pub(crate) form: Form,
    /// How many questions had it, each counted once.
    pub(crate) questions: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<Step>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<Step>,
}

impl Shelved for AfterPattern {
    fn form(&self) -> &Form {
        &self.form
    }
}

impl AfterPattern {
    pub(crate) fn step(&self, found: bool) -> Option<&Step> {
        if found {
            self.found.as_ref()
        } else {
            self.lost.as_ref()
        }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = PatternRow> {
        let steps = [("", &self.found), (" (nothing found)", &self.lost)];
        steps.into_iter().filter_map(move |(note, step)| {
            let step = step.as_ref()?;
            let asks = step.asks.iter();
            Some(PatternRow {
                form: format!("{}{note}", self.form),
                of_question: false,
                questions: self.questions,
                asks: asks
                    .map(|ask| (ask.form.to_string(), chance(ask.times, step)))
                    .collect(),
            })
        })
    }

    /// Whether its slots can be filled; the first that cannot.
    pub(crate) fn checked(&self) -> Result<(), InvalidForm> {
        let gaps = in_order(&self.form, Slot::Again)?;
        for (step, found) in [(&self.found, true), (&self.lost, false)] {
            let asks = step.iter().flat_map(|step| &step.asks);
            for slot in asks.flat_map(|ask| ask.form.slots()) {
                let filled = match slot {
                    Slot::Last => found,
                    Slot::Again(at) => usize::from(at) < gaps,
                    Slot::Name(_) | Slot::Answer(_) => false,
                };
                if !filled {
                    return Err(InvalidForm::Slot(slot.to_string()));
                }
            }
        }
        Ok(())
    }
}

/// Counts what follows what, whatever the question.
#[derive(Debug, Default)]
pub(crate) struct Followers<'a> {
    by_form: BTreeMap<Form, Follower<'a>>,
}

#[derive(Debug, Default)]
struct Follower<'a> {
    questions: BTreeSet<&'a str>,
    found: Step,
    lost: Step,
}

impl<'a> Followers<'a> {
    pub(crate) fn note(&mut self, question: &'a str, outline: &Outline) {
        for (at, (last, found)) in outline.hops.iter().enumerate() {
            let slots: Vec<_> = last.slots().collect();
            let Some(form) = numbered(last) else { continue };
            let follower = self.by_form.entry(form).or_default();
            follower.questions.insert(question);
            let step = if *found {
                &mut follower.found
            } else {
                &mut follower.lost
            };
            let Some((next, _)) = outline.hops.get(at + 1) else {
                step.ended += 1;
                continue;
            };
            let again = |slot: Slot| {
                let same = slots.iter().position(|other| *other == slot);
                let same = same.and_then(|at| u8::try_from(at).ok()).map(Slot::Again);
                let last = usize::from(match slot {
                    Slot::Answer(of) => of,
                    _ => u8::MAX,
                });
                same.or((last == at && *found).then_some(Slot::Last))
            };
            match next.with_slots(again) {
                // One hop only: what comes later is up to the question.
                Some(next) => {
                    step.note(&[(next, true)], usize::MAX);
                    let ask = step.asks.iter_mut();
                    ask.for_each(|ask| ask.found = None);
                }
                None => step.other += 1,
            }
        }
    }

    /// Those that were seen in enough questions, and what follows in a good share of them.
    pub(crate) fn patterns(self, support: usize, share: f64) -> Vec<AfterPattern> {
        let enough = self.by_form.into_iter();
        let enough = enough.filter(|(_, follower)| follower.questions.len() >= support);
        let patterns = enough.map(|(form, follower)| {
            let kept = |mut step: Step| {
                step.prune(share);
                (!step.asks.is_empty() && step.times() >= support as u64).then_some(step)
            };
            AfterPattern {
                form,
                questions: u32::try_from(follower.questions.len()).unwrap_or(u32::MAX),
                found: kept(follower.found),
                lost: kept(follower.lost),
            }
        });
        patterns
            .filter(|pattern| pattern.found.is_some() || pattern.lost.is_some())
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
