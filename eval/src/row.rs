//! What a run leaves behind: a row for each question and variant, the same whether it was simulated or
//! went over the wire, and a description of how it came about.
//!
//! A run is a folder: `run.json` ([`RunInfo`]), `questions.jsonl` ([`crate::Question`]), and
//! `rows.jsonl` ([`Row`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spechop_sim::InjectedLatency as Injected;

use crate::{Dataset, Variant};

/// How a run came about: everything that its rows may depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInfo {
    /// Simulated from a bundle, or live.
    pub source: Source,
    /// Who planned and read, in a few words for tables, e.g. `gold planner`.
    pub system: String,
    /// Whose questions.
    pub dataset: Dataset,
    /// How many questions were to be asked. Fewer in the rows of some variant: the run is not whole.
    pub questions: usize,
    /// Of the sample.
    pub seed: u64,
    /// Latency that was added to every look-up on purpose.
    pub injected: Option<Injected>,
    /// How many times faster than recorded the stages went; 1 but for replays. The rows' times are
    /// multiplied by it already: they are comparable.
    pub speed: f64,
    /// What was used, by part (`planner`, `reader`, `encoder`, `index`, `speculator hot`, …): a name and a hash.
    pub parts: BTreeMap<String, String>,
    /// The commit that is checked out where the run is asked for, which says nothing of a program that was built
    /// before. If files had been changed, a `+` and a hash of the changes to the program stand behind it.
    /// `unknown` outside a repository.
    pub commit: String,
    /// The machine.
    pub machine: Machine,
    /// The command that makes the run again. If the run grew, the commands, joined by `&&`.
    pub command: String,
    /// The variants in which every question was to be asked once. May grow when the run is resumed.
    #[serde(default)]
    pub wanted: Vec<Wanted>,
}

/// A way in which every question was to be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// How.
    pub variant: Variant,
    /// Questions under way at once.
    pub concurrency: u32,
}

impl Wanted {
    /// Every variant at every concurrency.
    pub fn all(variants: &[Variant], concurrency: &[u32]) -> Vec<Self> {
        let at = |level: &u32| {
            let concurrency = *level;
            variants.iter().map(move |variant| Self {
                variant: variant.clone(),
                concurrency,
            })
        };
        concurrency.iter().flat_map(at).collect()
    }
}

/// Where rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The window on a virtual clock, over recorded stages.
    Simulated,
    /// A running server, over gRPC, that computes.
    Live,
    /// A running server, over gRPC, whose tools wait for as long as recorded and give what was recorded.
    Replayed,
}

/// What a run was made on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Cores that the process may use.
    pub cores: usize,
    /// The processor's name.
    pub cpu: String,
}

/// One question, answered once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The question's id.
    pub id: String,
    /// How it was answered.
    pub variant: Variant,
    /// Questions that were under way at once.
    pub concurrency: u32,
    /// The answer. One that was withheld is scored as any other, so it stands here.
    pub answer: String,
    /// What the answer says of itself. `None` in simulated rows, and in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// From the question to the answer, in milliseconds.
    pub latency_ms: f64,
    /// From the question to the moment at which the answer was first written, in milliseconds; it was
    /// confirmed at the end. `None` in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_answer_ms: Option<f64>,
    /// How likely that answer was to stand, as it was estimated then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_answer_chance: Option<f64>,
    /// How long the question waited for observations, with the next sub-question written and the hop before
    /// committed, in milliseconds. `None` in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ms: Option<f64>,
    /// The committed hops, in their order.
    pub hops: Vec<RowHop>,
    /// The segment that wrote the answer, in milliseconds.
    pub final_ms: f64,
    /// Segments, the final one included.
    pub segments: Calls,
    /// Target calls.
    pub targets: Calls,
    /// Guesses.
    pub speculations: Calls,
    /// Drafts of sub-questions that a language model was asked for. None in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Calls::is_none")]
    pub drafts: Calls,
    /// Look-ups that were taken over from rolled-back branches.
    pub salvaged: u32,
    /// Look-ups that were begun while their sub-question was still being written.
    #[serde(default, skip_serializing_if = "Drafted::is_none")]
    pub drafted: Drafted,
    /// How often the way to the answer left the recording: an accepted guess has other words than the
    /// observation, and nothing was recorded behind it. If it ever did, the answer is not known and
    /// [`Row::answer`] is empty. Only guesses and verdicts that were brought can lead there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unrecorded: u32,
}

impl Row {
    /// Whether the answer is what the question would have been answered with.
    pub fn is_answer_known(&self) -> bool {
        self.unrecorded == 0
    }
}

/// What an answer says of itself, before anybody has looked whether it is right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confidence {
    /// How likely it is to be right, from 0 to 1. `None` if planner or reader cannot tell how sure they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
    /// How likely the question is to be of a form that the planner was trained on, from 0 to 1. `None` as `chance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_form: Option<f64>,
    /// Whether it was found in what a committed hop read, or is one of the things that the question offers.
    pub supported: bool,
    /// Whether the server withheld it: by its bounds of `chance` and `of_form`, or as it says that it does not know.
    pub withheld: bool,
}

/// Look-ups of a question that were drafted. They are among its target calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drafted {
    /// Those that were begun.
    pub begun: u32,
    /// Those of them that the planner then asked for.
    pub foreseen: u32,
    /// How long these had run by then, one after the other, in milliseconds.
    pub hidden_ms: f64,
}

impl Drafted {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A committed hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowHop {
    /// What was asked.
    pub sub_question: String,
    /// The answer that later hops build on.
    pub answer: String,
    /// How that answer came about.
    pub kind: HopKind,
    /// The guess, if one was in time: the right one, else the best.
    pub guess: Option<String>,
    /// Which of the speculator's guesses is the first that says what was observed, from 1. `None` if none
    /// does or none came before the observation, and in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_guess: Option<u32>,
    /// What the target tool found.
    pub observed: String,
    /// False where it found nothing.
    pub found: bool,
    /// Titles of the passages that were read, best first.
    pub titles: Vec<String>,
    /// Writing the sub-question, in milliseconds.
    pub segment_ms: f64,
    /// Looking up and reading, in milliseconds.
    pub target_ms: f64,
    /// The guess, in milliseconds, where it came to an end.
    pub speculation_ms: Option<f64>,
}

/// How the answer of a committed hop came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopKind {
    /// No guess was compared.
    Observed,
    /// The guess was accepted and stands.
    Accepted,
    /// The guess was rejected; the observation stands.
    Rejected,
}

impl Calls {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Calls of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// Started, aborted ones included.
    pub started: u32,
    /// Started, and of no use to the committed hops.
    pub wasted: u32,
    /// Tokens read and written by calls that came to an end.
    pub tokens: u64,
    /// Of them, those of wasted calls.
    pub wasted_tokens: u64,
    /// By the server's prices, in millionths of its currency; 0 in simulated rows.
    pub money_micros: u64,
    /// Of it, that of wasted calls.
    pub wasted_money_micros: u64,
}
