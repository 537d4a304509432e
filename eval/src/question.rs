//! Questions as the harness sees them: one shape for every data set.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Source;

/// A data set that there is a loader for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dataset {
    /// 2WikiMultihopQA (Ho et al., arXiv 2011.01060).
    #[serde(rename = "2wiki")]
    Wiki,
    /// MuSiQue-Ans (Trivedi et al., arXiv 2108.00573).
    Musique,
    /// DeepResearch-9K.
    DeepResearch,
}

impl Dataset {
    /// Every data set.
    pub const ALL: [Self; 3] = [Self::Wiki, Self::Musique, Self::DeepResearch];

    /// The name on the command line and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wiki => "2wiki",
            Self::Musique => "musique",
            Self::DeepResearch => "deepresearch",
        }
    }

    /// The name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Wiki => "2WikiMultihopQA",
            Self::Musique => "MuSiQue",
            Self::DeepResearch => "DeepResearch-9K",
        }
    }

    /// Most look-ups of a trajectory that may find nothing, as in the paper: one more, and the
    /// planner must answer.
    pub fn not_found_max(self) -> u32 {
        match self {
            Self::Wiki | Self::Musique => 1,
            Self::DeepResearch => 2,
        }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A question and what is known of its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The data set's own id; unique in a run.
    pub id: String,
    /// Where it comes from.
    pub dataset: Dataset,
    /// What kind it is: 2WikiMultihopQA's `type`, MuSiQue's `3hop1` and the like, DeepResearch's difficulty.
    pub kind: String,
    /// The question.
    pub text: String,
    /// The answer first, then other ways to write it. Never empty.
    pub answers: Vec<String>,
    /// Titles of the pages that hold the answer, each once. Empty where the data set does not say.
    pub titles: Vec<String>,
    /// How the data set takes the question apart. Empty where it does not.
    pub hops: Vec<GoldHop>,
    /// Most hops, as in the paper.
    pub hop_budget: u32,
}

impl Question {
    /// A question of no run, and its first sub-question. A server or a part is asked it before a run, so that models
    /// take their buffers and read the prompts that all questions share. Its film is invented: what a server's memory
    /// learns of it guesses nothing of a data set's.
    pub(crate) const OF_NO_RUN: (&str, &str) = (
        "Who is the mother of the director of film The Lanterns Of Quillmore Abbey?",
        "Who is the director of the film The Lanterns Of Quillmore Abbey?",
    );

    /// The question to ask a server before a run of these, which counts for nothing. A replay knows the questions of
    /// its run and no others, so there it is the last one: of all it is asked again the latest.
    ///
    /// `None`: a replay of no question.
    pub fn before_a_run(source: Source, questions: &[Self]) -> Option<Self> {
        if source == Source::Replayed {
            return questions.last().cloned();
        }
        Some(Self {
            id: "before-the-run".to_owned(),
            dataset: Dataset::Wiki,
            kind: "compositional".to_owned(),
            text: Self::OF_NO_RUN.0.to_owned(),
            answers: vec![String::new()],
            titles: Vec::new(),
            hops: Vec::new(),
            hop_budget: 6,
        })
    }
}

/// A hop of the data set's own decomposition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldHop {
    /// What it asks, in the data set's words: MuSiQue's sub-question with `#1` for an earlier answer,
    /// or `subject >> relation` of 2WikiMultihopQA's evidence.
    pub asks: String,
    /// Its answer.
    pub answer: String,
}
