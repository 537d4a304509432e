//! Recorded questions: what each stage of each hop took, and what came of it.

use std::collections::HashSet;
use std::io::BufRead;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::Shape;

/// Longest time that is taken for one: ten days. Longer ones are mistakes of unit.
const MS_MAX: f64 = 864_000_000.0;
/// Most hops of a question.
const HOPS_MAX: usize = 10_000;

/// One question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Names it in messages.
    pub id: String,
    /// Its hops, in their order.
    pub hops: Vec<Hop>,
    /// The last segment, which writes the answer, in milliseconds.
    pub final_ms: f64,
}

/// What the stages of a hop took, in milliseconds, and what the speculator knew.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// Writing the sub-question; comes first.
    pub segment_ms: f64,
    /// The look-up and its reading; starts when the segment ends.
    pub target_ms: f64,
    /// The guess; starts when the segment ends.
    pub speculation_ms: f64,
    /// Whether the best guess is right.
    pub accepted: bool,
    /// How likely the speculator said it was to be, from 0 to 1, where it did.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// Whether there is a guess at all.
    #[serde(default = "yes")]
    pub guessed: bool,
    /// Which guess is right where the best one is not: 2 is the second best.
    #[serde(default)]
    pub right_guess: Option<u32>,
    /// Whether its sub-question was drafted word for word, or something else was. `None`: nothing was.
    #[serde(default)]
    pub draft_held: Option<bool>,
    /// The earlier hops, counted from 1, whose answers the sub-question is made of. `None`: all of
    /// them, so that nothing of a branch that was rolled back can be salvaged.
    #[serde(default, deserialize_with = "shared")]
    pub depends_on: Option<Arc<[u32]>>,
}

fn yes() -> bool {
    true
}

fn shared<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Arc<[u32]>>, D::Error> {
    Ok(Option::<Vec<u32>>::deserialize(input)?.map(Into::into))
}

/// Why a line is no trace.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTrace {
    /// The stream could not be read.
    #[error("line {line} cannot be read")]
    Io {
        /// Counted from 1.
        line: usize,
        /// Why.
        source: std::io::Error,
    },
    /// The line is not what the format says.
    #[error("line {line} is no trace")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A number makes no sense.
    #[error(
        "line {line}: {what} is {value:?}; it must be a time in milliseconds, from 0 to {MS_MAX}"
    )]
    Time {
        /// Counted from 1.
        line: usize,
        /// Which number, e.g. `hops[2].target_ms`.
        what: String,
        /// What it is.
        value: f64,
    },
    /// A confidence makes no sense.
    #[error("line {line}: hops[{hop}].confidence is {value:?}; it must be a share from 0 to 1")]
    Confidence {
        /// Counted from 1.
        line: usize,
        /// Counted from 0, as in the other messages.
        hop: usize,
        /// What it is.
        value: f64,
    },
    /// A shape makes no sense.
    #[error(
        "line {line} is no shape: its count must be from 1, its hops at most {HOPS_MAX}, and \
             each of them may depend on earlier ones only, counted from 1"
    )]
    Shape {
        /// Counted from 1.
        line: usize,
    },
    /// A hop contradicts itself.
    #[error("line {line}: hops[{hop}] {reason}")]
    Hop {
        /// Counted from 1.
        line: usize,
        /// Counted from 0, as in the other messages.
        hop: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// Too many hops.
    #[error("line {line} has {hops} hops; the most is {HOPS_MAX}")]
    Hops {
        /// Counted from 1.
        line: usize,
        /// How many.
        hops: usize,
    },
    /// An id stands twice.
    #[error("line {line}: the id {id:?} has stood before")]
    Twice {
        /// Counted from 1.
        line: usize,
        /// The id.
        id: String,
    },
    /// There is no trace at all.
    #[error("there is not a single record")]
    Empty,
}

/// Reads every line, or says what is wrong with the first bad one. Blank lines are passed over.
pub fn read_traces(input: impl BufRead) -> Result<Vec<Trace>, InvalidTrace> {
    let mut ids = HashSet::new();
    read_lines(input, |trace: &Trace, line| {
        check(trace, line)?;
        if !ids.insert(trace.id.clone()) {
            let id = trace.id.clone();
            return Err(InvalidTrace::Twice { line, id });
        }
        Ok(())
    })
}

/// Reads the shapes of questions, or says what is wrong with the first bad line.
pub fn read_shapes(input: impl BufRead) -> Result<Vec<Shape>, InvalidTrace> {
    read_lines(input, |shape: &Shape, line| {
        if shape.is_sensible() && shape.depends_on.len() <= HOPS_MAX {
            return Ok(());
        }
        Err(InvalidTrace::Shape { line })
    })
}

/// A record on each line that is not blank; at least one.
fn read_lines<T: DeserializeOwned>(
    input: impl BufRead,
    mut check: impl FnMut(&T, usize) -> Result<(), InvalidTrace>,
) -> Result<Vec<T>, InvalidTrace> {
    let mut records = Vec::new();
    for (text, line) in input.lines().zip(1..) {
        let text = text.map_err(|source| InvalidTrace::Io { line, source })?;
        if text.trim().is_empty() {
            continue;
        }
        let syntax = |source| InvalidTrace::Syntax { line, source };
        let record: T = serde_json::from_str(&text).map_err(syntax)?;
        check(&record, line)?;
        records.push(record);
    }
    if records.is_empty() {
        return Err(InvalidTrace::Empty);
    }
    Ok(records)
}

fn check(trace: &Trace, line: usize) -> Result<(), InvalidTrace> {
    let sensible = |what: &dyn Fn() -> String, value: f64| {
        if (0.0..=MS_MAX).contains(&value) {
            return Ok(());
        }
        let what = what();
        Err(InvalidTrace::Time { line, what, value })
    };
    if trace.hops.len() > HOPS_MAX {
        let hops = trace.hops.len();
        return Err(InvalidTrace::Hops { line, hops });
    }
    for (i, hop) in trace.hops.iter().enumerate() {
        sensible(&|| format!("hops[{i}].segment_ms"), hop.segment_ms)?;
        sensible(&|| format!("hops[{i}].target_ms"), hop.target_ms)?;
        sensible(&|| format!("hops[{i}].speculation_ms"), hop.speculation_ms)?;
        if let Some(value) = hop.confidence.filter(|share| !(0.0..=1.0).contains(share)) {
            let hop = i;
            return Err(InvalidTrace::Confidence { line, hop, value });
        }
        if let Some(reason) = contradiction(hop, i) {
            let hop = i;
            return Err(InvalidTrace::Hop { line, hop, reason });
        }
    }
    sensible(&|| "final_ms".into(), trace.final_ms)
}

/// Whether hops, counted from 1, come before the one at this place, counted from 0.
pub(crate) fn are_before(at: usize, hops: &[u32]) -> bool {
    hops.iter().all(|hop| (1..=at).contains(&(*hop as usize)))
}

fn contradiction(hop: &Hop, at: usize) -> Option<&'static str> {
    if hop.accepted && !hop.guessed {
        return Some("accepts a guess that was not made");
    }
    if hop.confidence.is_some() && !hop.guessed {
        return Some("is confident of a guess that was not made");
    }
    if hop.right_guess.is_some() && (hop.accepted || !hop.guessed) {
        return Some("has a right_guess beside the best one, or without any");
    }
    if hop.right_guess.is_some_and(|rank| rank < 2) {
        return Some("has a right_guess below 2, which is the second best");
    }
    if !hop.depends_on.iter().all(|hops| are_before(at, hops)) {
        return Some("depends on a hop that is not an earlier one, counted from 1");
    }
    None
}
