//! Recorded stages: what went in, what came out, how long it took.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A hop as the models see it: sub-question and answer.
pub type HopTexts = (Arc<str>, Arc<str>);

/// Everything that a stage's output depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "lowercase", deny_unknown_fields)]
pub enum Input {
    /// The planner writes the next step.
    Segment {
        /// The question.
        question: Arc<str>,
        /// The trajectory so far.
        hops: Vec<HopTexts>,
        /// The step must be the answer.
        must_answer: bool,
    },
    /// The target's retriever looks up. Injected latency is not in its time.
    Retrieval {
        /// The sub-question.
        query: Arc<str>,
        /// Most passages.
        limit: usize,
    },
    /// The target's reader reads.
    Reading {
        /// The sub-question.
        sub_question: Arc<str>,
        /// Ids of the passages.
        passages: Vec<Arc<str>>,
    },
    /// A speculator guesses.
    Speculation {
        /// Which one.
        speculator: Arc<str>,
        /// The question.
        question: Arc<str>,
        /// The trajectory so far.
        hops: Vec<HopTexts>,
        /// The sub-question.
        sub_question: Arc<str>,
        /// Most guesses.
        limit: usize,
    },
}

impl Input {
    /// The stage's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Segment { .. } => "segment",
            Self::Retrieval { .. } => "retrieval",
            Self::Reading { .. } => "reading",
            Self::Speculation { .. } => "speculation",
        }
    }

    /// In a line, for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Segment { question, hops, .. } => {
                format!("the segment after {} hops of “{question}”", hops.len())
            }
            Self::Retrieval { query, limit } => {
                format!("the look-up of “{query}” ({limit} passages)")
            }
            Self::Reading { sub_question, .. } => format!("the reading for “{sub_question}”"),
            Self::Speculation {
                speculator,
                sub_question,
                limit,
                ..
            } => format!("{limit} guess(es) of `{speculator}` for “{sub_question}”"),
        }
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// The planner asks.
    Ask(Arc<str>),
    /// The planner answers.
    Answer(Arc<str>),
    /// What was retrieved, best first.
    Passages(Vec<PassageName>),
    /// What was read; `None`: the passages do not hold it.
    Read(Option<Arc<str>>),
    /// What was guessed, best first.
    Guesses(Vec<RecordedGuess>),
}

/// Which passage. Its text is the corpus's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassageName {
    /// The corpus's id.
    pub id: Arc<str>,
    /// The page's title.
    pub title: Arc<str>,
}

/// A guess.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedGuess {
    /// The text.
    pub text: Arc<str>,
    /// How likely the speculator says it is to be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f32>,
}

/// One line of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// What went in.
    pub input: Input,
    /// What came out.
    pub output: Output,
    /// Wall time with nothing else running, in milliseconds.
    pub ms: f64,
    /// Tokens that language models read and wrote for it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// How sure whoever wrote or read was, 0 to 1: `Planned::certainty` or `Reading::confidence` of the ports.
    /// `None` if nobody could tell, or it was recorded before anybody could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sure: Option<f32>,
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl Stage {
    /// Whether the output is of the input's kind, the time is one, and every confidence is a share.
    pub(crate) fn is_sound(&self) -> bool {
        let kind = matches!(
            (&self.input, &self.output),
            (
                Input::Segment {
                    must_answer: false,
                    ..
                },
                Output::Ask(_)
            ) | (Input::Segment { .. }, Output::Answer(_))
                | (Input::Retrieval { .. }, Output::Passages(_))
                | (Input::Reading { .. }, Output::Read(_))
                | (Input::Speculation { .. }, Output::Guesses(_))
        );
        let is_share = |of: Option<f32>| of.is_none_or(|share| (0.0..=1.0).contains(&share));
        let guesses: &[RecordedGuess] = match &self.output {
            Output::Guesses(guesses) => guesses.as_slice(),
            _ => &[],
        };
        let shares = guesses.iter().map(|guess| guess.confidence);
        let time = self.ms.is_finite() && self.ms >= 0.0;
        kind && time && shares.chain([self.sure]).all(is_share)
    }
}
