//! Hops and what they are made of.

use std::sync::Arc;

use crate::{Chance, Passage, canonical_name};

/// One sub-question, with the folded form under which two askings of it are the same.
#[derive(Clone, Debug)]
pub struct SubQuestion {
    text: Arc<str>,
    key: Arc<str>,
}

impl SubQuestion {
    /// Takes the planner's text as it is.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            key: canonical_name(text).into(),
        }
    }

    /// The planner's text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The planner's text, shared.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// [`canonical_name`] of the text: equal keys mean the same sub-question.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether a look-up of the other one is a look-up of this one: the same words, whatever the
    /// white space. Stricter than `==`, since retrieval and reading see case and punctuation, and
    /// a look-up that is reused must give what a new one would have given.
    pub fn has_words_of(&self, other: &Self) -> bool {
        self.key == other.key
            && (self.text == other.text
                || self
                    .text
                    .split_whitespace()
                    .eq(other.text.split_whitespace()))
    }
}

impl PartialEq for SubQuestion {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for SubQuestion {}

/// What a segment of the planner ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next thing to look up.
    Ask(SubQuestion),
    /// The final answer.
    Answer(Arc<str>),
}

/// What the target tool found out about one sub-question.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The sub-answer that the reader took from the evidence, or its words for "not there".
    pub answer: Arc<str>,
    /// False where the reader found no relevant information.
    pub found: bool,
    /// How likely the best reading of the evidence is to be right, even if it was too unlikely to be the
    /// answer. `None` if the reader cannot tell.
    pub confidence: Option<Chance>,
    /// The passages read, best first.
    pub evidence: Arc<[Passage]>,
}

impl Observation {
    /// What an observation says if its reader found nothing.
    pub const NOTHING: &str = "No relevant information found";

    /// What was read from the evidence; `None`, or [`Observation::NOTHING`]: it does not hold the answer.
    pub fn read(answer: Option<Arc<str>>, evidence: impl Into<Arc<[Passage]>>) -> Self {
        let answer = answer.filter(|answer| !Self::is_nothing(answer));
        Self {
            found: answer.is_some(),
            answer: answer.unwrap_or_else(|| Self::NOTHING.into()),
            confidence: None,
            evidence: evidence.into(),
        }
    }

    /// Whether a text says, in the words of [`Observation::read`], that nothing was found. A guess may say
    /// so, too: it is right if nothing is found.
    pub fn is_nothing(text: &str) -> bool {
        text == Self::NOTHING
    }

    /// Whether a guess can be right at all: that something is found if it is, or that nothing is.
    pub fn is_like(&self, guess: &str) -> bool {
        self.found != Self::is_nothing(guess)
    }

    /// The same, of a reader that can tell how likely it is to be right.
    #[must_use]
    pub fn read_with(self, confidence: Option<Chance>) -> Self {
        Self { confidence, ..self }
    }
}

/// How the answer of a committed hop came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitKind {
    /// The observation. Nothing was built on a guess of it.
    Observed,
    /// A guess was verified and stands.
    Accepted,
    /// A guess was refuted; the observation stands.
    Rejected,
}

/// A committed hop: final, and part of the answer's trajectory.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// What was asked.
    pub sub_question: SubQuestion,
    /// The sub-answer that later hops build on: the verified guess where
    /// [`CommitKind::Accepted`], else the observation's.
    pub answer: Arc<str>,
    /// How it came about.
    pub kind: CommitKind,
    /// What the speculator had guessed, if it was in time: the guess that was right, else the best.
    pub guess: Option<Arc<str>>,
    /// What the target tool found: the only source of citations.
    pub observation: Arc<Observation>,
}
