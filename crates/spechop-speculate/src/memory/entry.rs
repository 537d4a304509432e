//! One entry: what it learns when a hop is committed, and what it guesses.

use std::sync::Arc;

use spechop_ports::{Guess, Record, Remembered};
use spechop_types::{Chance, Hop, SubQuestion, Tenant, canonical_name};

use super::nearest::names;

/// Longer texts are not remembered: a sub-answer is a name or a date.
pub(super) const TEXT_BYTES_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) asked: Arc<str>,
    pub(super) answer: Arc<str>,
    pub(super) own: Record,
    pub(super) neighbour: Record,
}

/// What a committed hop says to a memory.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) asked: SubQuestion,
    /// `None` if nothing was found.
    pub(super) observed: Option<Arc<str>>,
}

impl Heard {
    pub(super) fn of(hop: &Hop) -> Self {
        let observation = &hop.observation;
        Self {
            asked: hop.sub_question.clone(),
            observed: observation.found.then(|| Arc::clone(&observation.answer)),
        }
    }

    pub(super) fn is_right(&self, answer: &str, agrees: impl Fn(&str, &str) -> bool) -> bool {
        let observed = self.observed.as_deref();
        observed.is_some_and(|observed| agrees(answer, observed))
    }
}

impl Entry {
    /// Of a sub-question that was not known; `None` if it is not to be remembered.
    pub(super) fn new(heard: &Heard) -> Option<Self> {
        let answer = heard.observed.as_ref().filter(|answer| fits(answer))?;
        is_short(&heard.asked).then(|| Self {
            asked: Arc::clone(heard.asked.text()),
            answer: Arc::clone(answer),
            own: Record::default(),
            neighbour: Record::default(),
        })
    }

    /// An entry that was kept elsewhere; `None` if this memory would not have kept it.
    pub(super) fn resumed(remembered: &Remembered) -> Option<Self> {
        let asked = SubQuestion::new(&remembered.asked);
        (is_short(&asked) && fits(&remembered.answer)).then(|| Self {
            asked: Arc::clone(&remembered.asked),
            answer: Arc::clone(&remembered.answer),
            own: remembered.own,
            neighbour: remembered.neighbour,
        })
    }

    pub(super) fn remembered(&self, tenant: &Tenant, vector: Option<Vec<i8>>) -> Remembered {
        Remembered {
            tenant: tenant.clone(),
            asked: Arc::clone(&self.asked),
            answer: Arc::clone(&self.answer),
            own: self.own,
            neighbour: self.neighbour,
            vector,
        }
    }

    /// A hop of its own words was committed.
    pub(super) fn hears(&mut self, heard: &Heard, agrees: impl Fn(&str, &str) -> bool) {
        let holds = heard.is_right(&self.answer, agrees);
        note(&mut self.own, holds);
        let mut is_another = false;
        // What is too long stays unknown: the old answer has been counted as wrong, which silences it.
        if let Some(observed) = heard.observed.as_ref().filter(|answer| fits(answer))
            && is_short(&heard.asked)
        {
            self.asked = Arc::clone(heard.asked.text());
            self.answer = Arc::clone(observed);
            is_another = !holds;
        }
        if is_another || holds && is_silenced(self.neighbour) {
            // What it was worth to others was the old answer's worth. And a silent neighbour is not
            // guessed, so that nothing but its own words can give it another chance.
            self.neighbour = Record::default();
        }
    }

    /// It was guessed as a neighbour, with this answer. Says whether that counts: it does not if nothing
    /// was found, or if the entry has another answer by now.
    pub(super) fn was_neighbour(
        &mut self,
        guessed: &str,
        heard: &Heard,
        agrees: impl Fn(&str, &str) -> bool,
    ) -> bool {
        let counts = heard.observed.is_some() && *self.answer == *guessed;
        if counts {
            note(&mut self.neighbour, heard.is_right(guessed, agrees));
        }
        counts
    }

    /// For its own words. If it is silenced, its neighbours would say the same.
    pub(super) fn own_guess(&self) -> Option<Guess> {
        let confidence = chance(self.own, 1.0);
        (!is_silenced(self.own)).then(|| self.guess(confidence))
    }

    fn guess(&self, confidence: Chance) -> Guess {
        Guess {
            confidence: Some(confidence),
            ..Guess::from(Arc::clone(&self.answer))
        }
    }
}

/// What entries that are near to a sub-question guess: of those that name the same, at most `most`, no
/// answer twice. They are given with their cosines and keys, the nearest first.
pub(super) fn neighbours<'a, K>(
    asked: &str,
    near: impl IntoIterator<Item = (f32, K, &'a Entry)>,
    most: usize,
) -> Vec<(K, Guess)> {
    let named = names(asked);
    let mut guesses: Vec<(K, Guess)> = Vec::new();
    for (similarity, key, entry) in near {
        let is_new =
            |(_, other): &(K, Guess)| canonical_name(&other.text) != canonical_name(&entry.answer);
        if is_silenced(entry.own)
            || is_silenced(entry.neighbour)
            || names(&entry.asked) != named
            || !guesses.iter().all(is_new)
        {
            continue;
        }
        guesses.push((key, entry.guess(chance(entry.neighbour, similarity))));
        if guesses.len() >= most {
            break;
        }
    }
    guesses
}

fn note(record: &mut Record, is_right: bool) {
    let count = if is_right {
        &mut record.right
    } else {
        &mut record.wrong
    };
    *count = count.saturating_add(1);
}

fn is_silenced(record: Record) -> bool {
    record.wrong > record.right
}

/// Laplace's rule of succession.
fn chance(record: Record, similarity: f32) -> Chance {
    let (right, wrong) = (f64::from(record.right), f64::from(record.wrong));
    Chance::of((right + 1.0) / (right + wrong + 2.0) * f64::from(similarity))
}

fn is_short(asked: &SubQuestion) -> bool {
    fits(asked.as_str()) && !asked.key().is_empty()
}

fn fits(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= TEXT_BYTES_MAX
}
