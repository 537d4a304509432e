//! Recorded questions: what each stage of each hop took.

use std::collections::HashSet;
use std::io::BufRead;

use serde::Deserialize;

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

/// What the stages of a hop took, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// Writing the sub-question; comes first.
    pub segment_ms: f64,
    /// The look-up and its reading; starts when the segment ends.
    pub target_ms: f64,
    /// The guess; starts when the segment ends.
    pub speculation_ms: f64,
    /// Whether the guess is right.
    pub accepted: bool,
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
        "line {line}: {what} is {value}; it must be a time in milliseconds, from 0 to {MS_MAX}"
    )]
    Time {
        /// Counted from 1.
        line: usize,
        /// Which number, e.g. `hops[2].target_ms`.
        what: String,
        /// What it is.
        value: f64,
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
    #[error("there is not a single trace")]
    Empty,
}

/// Reads every line, or says what is wrong with the first bad one. Blank lines are passed over.
pub fn read_traces(input: impl BufRead) -> Result<Vec<Trace>, InvalidTrace> {
    let mut traces = Vec::new();
    let mut ids = HashSet::new();
    for (text, line) in input.lines().zip(1..) {
        let text = text.map_err(|source| InvalidTrace::Io { line, source })?;
        if text.trim().is_empty() {
            continue;
        }
        let trace: Trace =
            serde_json::from_str(&text).map_err(|source| InvalidTrace::Syntax { line, source })?;
        check(&trace, line)?;
        if !ids.insert(trace.id.clone()) {
            return Err(InvalidTrace::Twice { line, id: trace.id });
        }
        traces.push(trace);
    }
    if traces.is_empty() {
        return Err(InvalidTrace::Empty);
    }
    Ok(traces)
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
    }
    sensible(&|| "final_ms".into(), trace.final_ms)
}
