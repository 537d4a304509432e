//! What is asked, guessed and found. A trace says which hop depends on which and whether a guess is
//! right; the texts that say so are made here, for the window compares texts.

use std::collections::HashMap;
use std::sync::Arc;

use spechop_types::{BranchId, Chance, Observation, SubQuestion};
use spechop_window::{OPEN_ANSWER, Policy, WeighedGuess, Window};

use crate::{Hop, Trace};

/// Most sub-questions of wrong branches that are kept from one trace for the next.
const ASTRAY_MAX: usize = 4096;

/// What is asked at a hop, counted from 1, if all that it depends on is right.
pub(crate) fn right(hop: usize) -> String {
    format!("hop {hop}")
}

/// What is found for a sub-question.
pub(crate) fn fact(sub_question: &str) -> String {
    format!("fact of ({sub_question})")
}

/// Everything that is ever asked.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// Of each hop, where all that it depends on is right.
    right: Vec<Asked>,
    /// Made of a wrong answer.
    astray: Vec<Asked>,
    /// Their numbers, by the hop and the answers that each is made of. Its text is its number: one that held all
    /// answers before it would be twice as long at each hop.
    numbers: HashMap<String, usize>,
    /// Made of all answers before it, some of them wrong; by branch, since no two branches share
    /// all answers before them.
    lost: Vec<Asked>,
}

/// A sub-question, what is found and what is guessed.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) sub_question: SubQuestion,
    pub(crate) found: Arc<Observation>,
    wrong: Vec<Arc<str>>,
}

impl Asked {
    fn new(text: &str) -> Self {
        Self {
            sub_question: SubQuestion::new(text),
            found: Arc::new(Observation {
                answer: fact(text).into(),
                found: true,
                confidence: None,
                evidence: Arc::default(),
            }),
            wrong: Vec::new(),
        }
    }

    /// At most as many guesses as the policy builds upon, best first, right as the trace says. The best one
    /// is as likely as it says itself, calibrated; if it does not, and for all others, `usual` has to do.
    pub(crate) fn guesses(
        &mut self,
        hop: &Hop,
        policy: &Policy,
        usual: Chance,
        age_ms: f64,
    ) -> Vec<WeighedGuess> {
        if !hop.guessed {
            return Vec::new();
        }
        let right = if hop.accepted {
            Some(1)
        } else {
            hop.right_guess
        };
        let mut text = |rank: usize| {
            if right.is_some_and(|right| right as usize == rank + 1) {
                return self.found.answer.clone();
            }
            while self.wrong.len() <= rank {
                let text = self.sub_question.as_str();
                let wrong = format!("fiction {} of ({text})", self.wrong.len() + 1);
                self.wrong.push(wrong.into());
            }
            self.wrong[rank].clone()
        };
        let weighing = &policy.weighing;
        let said = hop.confidence.map(Chance::of);
        let own = said.map(|said| weighing.calibration.of(said));
        (0..policy.guesses_max.get())
            .map(|rank| WeighedGuess {
                text: text(rank),
                chance: own.filter(|_| rank == 0).unwrap_or(usual),
                least: weighing.least(age_ms),
            })
            .collect()
    }
}

impl Texts {
    /// Makes ready for a trace.
    pub(crate) fn prepare(&mut self, trace: &Trace) {
        for hop in self.right.len()..trace.hops.len() {
            self.right.push(Asked::new(&right(hop + 1)));
        }
        if self.astray.len() > ASTRAY_MAX {
            self.astray.clear();
            self.numbers.clear();
        }
    }

    /// What a branch at this hop asks.
    pub(crate) fn ask(
        &mut self,
        trace: &Trace,
        hop: usize,
        window: &Window,
        branch: BranchId,
    ) -> SubQuestion {
        let before = window.trajectory(branch).map(|(_, answer)| answer);
        let is_right = |at: usize, answer: &Arc<str>| *answer == self.right[at].found.answer;
        let Some(depends_on) = &trace.hops[hop].depends_on else {
            let mut answers = before.enumerate();
            let Some((_, wrong)) = answers.find(|(at, answer)| !is_right(*at, answer)) else {
                return self.right[hop].sub_question.clone();
            };
            let mut answers = std::iter::once(wrong).chain(answers.map(|(_, answer)| answer));
            if let Some(open) = answers.find(|answer| answer.starts_with(OPEN_ANSWER)) {
                return SubQuestion::new(&format!("hop {} after {open}", hop + 1));
            }
            let branch = branch.0 as usize;
            while self.lost.len() <= branch {
                self.lost
                    .push(Asked::new(&format!("lost {}", self.lost.len())));
            }
            return self.lost[branch].sub_question.clone();
        };
        let answers: Vec<_> = before.collect();
        let mut needed = depends_on.iter().map(|hop| *hop as usize - 1);
        if needed.clone().all(|at| is_right(at, answers[at])) {
            return self.right[hop].sub_question.clone();
        }
        let mut text = format!("hop {} after ", hop + 1);
        if let Some(first) = needed.next() {
            text.push_str(answers[first]);
        }
        for at in needed {
            text.push_str(" and ");
            text.push_str(answers[at]);
        }
        if text.contains(OPEN_ANSWER) {
            // The window has to see that it names what is left open.
            return SubQuestion::new(&text);
        }
        self.made_of(text)
    }

    /// What no branch asks at this hop.
    pub(crate) fn elsewhere(&mut self, hop: usize) -> SubQuestion {
        self.made_of(format!("not hop {}", hop + 1))
    }

    fn made_of(&mut self, answers: String) -> SubQuestion {
        let next = self.astray.len();
        let at = *self.numbers.entry(answers).or_insert(next);
        if at == next {
            self.astray.push(Asked::new(&format!("astray {at}")));
        }
        self.astray[at].sub_question.clone()
    }

    /// What is known of a sub-question that [`Texts::ask`] made for this hop.
    pub(crate) fn asked(&mut self, hop: usize, sub_question: &SubQuestion) -> Option<&mut Asked> {
        let text = sub_question.text();
        if self
            .right
            .get(hop)
            .is_some_and(|a| Arc::ptr_eq(a.sub_question.text(), text))
        {
            return self.right.get_mut(hop);
        }
        if let Some(lost) = text.strip_prefix("lost ") {
            return self.lost.get_mut(lost.parse::<usize>().ok()?);
        }
        let astray = text.strip_prefix("astray ")?;
        self.astray.get_mut(astray.parse::<usize>().ok()?)
    }
}
