//! What language models do for the agent: plan, read, guess.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use spechop_types::{Chance, Draft, Passage, Question, Step, SubQuestion, Tokens};

use crate::{Call, PortError};

/// A hop as the models see it: no difference between verified and guessed.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownHop {
    /// What was asked.
    pub sub_question: SubQuestion,
    /// The answer that is taken to be right.
    pub answer: Arc<str>,
}

/// Everything that the next step may depend on.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The question as asked.
    pub question: Question,
    /// The trajectory so far, oldest first.
    pub hops: Vec<KnownHop>,
    /// No more look-ups: the step must be the final answer.
    pub must_answer: bool,
    /// What the step may be, the likeliest first. A planner may write it sooner for that, but it writes
    /// what it would have written.
    pub drafts: Vec<Draft>,
}

/// A step, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The next sub-question or the final answer; never empty. With
    /// [`PlanRequest::must_answer`] always an answer.
    pub step: Step,
    /// How sure the planner was of its words: the geometric mean, over their tokens, of the chance against
    /// the token that was next likeliest, 0.5 to 1; of a step that was drawn it may be less. `None` if it
    /// cannot tell.
    pub certainty: Option<Chance>,
    /// Tokens spent on it, repairs included.
    pub tokens: Tokens,
}

/// Writes sub-questions and the final answer (the generator's first half).
#[async_trait]
pub trait Planner: Send + Sync {
    /// The next step. Returns the moment the step is complete, not when the model falls silent.
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError>;

    /// Does what makes a later [`Planner::plan`] of the same request faster and changes nothing
    /// anywhere: a connection, a prompt that is processed. Nothing, where there is nothing of the kind.
    async fn warm(&self, _call: &Call, _request: PlanRequest) -> Result<(), PortError> {
        Ok(())
    }
}

/// A sub-question and the passages to answer it from.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// What to answer.
    pub sub_question: SubQuestion,
    /// Where to look, best first. May be empty.
    pub passages: Arc<[Passage]>,
}

/// What a reader found, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The sub-answer, never empty; `None` where the passages do not hold it.
    pub answer: Option<Arc<str>>,
    /// How likely the best reading is to be right, even if it was too unlikely to be the answer. `None` if
    /// the reader cannot tell.
    pub confidence: Option<Chance>,
    /// Tokens spent on it, repairs included.
    pub tokens: Tokens,
}

/// A text that may be the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// The text.
    pub text: Arc<str>,
    /// How likely it is to be right, if whoever guesses can tell.
    pub confidence: Option<Chance>,
    /// Whose guess it is, if whoever was asked has asked others: a name from the configuration.
    pub by: Option<&'static str>,
}

impl<T: Into<Arc<str>>> From<T> for Guess {
    /// Nobody can tell how likely it is.
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            confidence: None,
            by: None,
        }
    }
}

/// What a reader found and might have found, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Best first, none of them empty, no two the same. None where the passages do not hold the
    /// answer; else the first is what [`Reader::read`] finds.
    pub answers: Vec<Guess>,
    /// Tokens spent on them.
    pub tokens: Tokens,
}

/// Reads passages into a sub-answer (the generator's second half).
#[async_trait]
pub trait Reader: Send + Sync {
    /// The answer that the passages give to the sub-question.
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError>;

    /// At most `limit` answers that the passages may give, for the price of one: a reader that sees
    /// no alternatives in one reading gives its one answer.
    async fn read_ranked(
        &self,
        call: &Call,
        request: ReadRequest,
        limit: NonZeroUsize,
    ) -> Result<Ranked, PortError> {
        let reading = self.read(call, request).await?;
        Ok(Ranked {
            answers: reading
                .answer
                .into_iter()
                .take(limit.get())
                .map(Guess::from)
                .collect(),
            tokens: reading.tokens,
        })
    }
}

/// What a speculator may look at.
#[derive(Clone, Debug)]
pub struct GuessRequest {
    /// The question as asked.
    pub question: Question,
    /// The trajectory so far, oldest first.
    pub hops: Vec<KnownHop>,
    /// What to guess the answer of.
    pub sub_question: SubQuestion,
    /// Most passages that the target reads for it.
    pub passages: NonZeroUsize,
    /// Most guesses that are of use.
    pub limit: NonZeroUsize,
}

/// Guesses, and what they cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Guessed {
    /// Guessed sub-answers, best first, none of them empty, no two the same, at most
    /// [`GuessRequest::limit`]. None where the speculator has no idea.
    pub guesses: Vec<Guess>,
    /// Tokens spent on them.
    pub tokens: Tokens,
}

/// Guesses a sub-answer, fast and without promise.
#[async_trait]
pub trait Speculator: Send + Sync {
    /// Guesses, or none. A wrong guess costs time and money, never the answer.
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError>;

    /// As [`Speculator::guess`], for who can begin with some guesses while better ones are looked for:
    /// what there is before the end is given to `early`, none of them twice. What is returned begins with
    /// them, in that order.
    async fn guess_streaming(
        &self,
        call: &Call,
        request: GuessRequest,
        _early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        self.guess(call, request).await
    }
}
