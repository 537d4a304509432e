//! Trajectories as lines of JSON, and the bundles of `spechop eval record`.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use spechop_ports::KnownHop;
use spechop_types::{Observation, Question, SubQuestion, one_line};

use crate::check::Segment;
use crate::{Lookup, Trajectory};

/// Longest line, in bytes: a question with all its hops has a few thousand.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system's reason.
    #[error("cannot read line {line}")]
    Io {
        /// From 1.
        line: usize,
        /// What it said.
        source: io::Error,
    },
    /// No JSON, or other fields.
    #[error("line {line} is not {wanted}")]
    Line {
        /// From 1.
        line: usize,
        /// What it should be.
        wanted: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Longer than any trajectory.
    #[error("line {line} has more than {LINE_BYTES_MAX} bytes: give one JSON object a line")]
    TooLong {
        /// From 1.
        line: usize,
    },
    /// A question that cannot be asked.
    #[error("line {line} has no question that could be asked")]
    Question {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        source: spechop_types::InvalidQuestion,
    },
    /// A segment of a question that is not in the bundle.
    #[error("line {line} is of a question that is not in questions.jsonl: `{question}`")]
    Stray {
        /// From 1.
        line: usize,
        /// The question.
        question: String,
    },
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// The trajectories that have hops.
    pub trajectories: Vec<Trajectory>,
    /// How many had none, and were left out.
    pub without_hops: usize,
}

#[derive(Deserialize)]
struct RawTrajectory {
    question: String,
    hops: Vec<RawHop>,
}

#[derive(Deserialize)]
struct RawHop {
    sub_question: String,
    answer: String,
    found: Option<bool>,
}

/// Reads `{"question","hops":[{"sub_question","answer","found"?}]}`, one a line. Other fields may stand
/// beside these. Without `found`, a hop has found something unless its answer says otherwise.
///
/// # Errors
///
/// The first line that is something else.
pub fn read_trajectories(input: impl BufRead) -> Result<Traces, ReadError> {
    let wanted = r#"{"question":…,"hops":[{"sub_question":…,"answer":…}]}"#;
    let mut traces = Traces::default();
    each::<RawTrajectory>(input, wanted, Last::Whole, |line, raw| {
        let question = question(line, &raw.question)?;
        if raw.hops.is_empty() {
            traces.without_hops += 1;
            return Ok(());
        }
        let hops = raw.hops.into_iter().map(|hop| Lookup {
            found: hop
                .found
                .unwrap_or_else(|| !Observation::is_nothing(&hop.answer)),
            sub_question: hop.sub_question,
            answer: hop.answer,
        });
        traces.trajectories.push(Trajectory {
            question: question.as_str().to_owned(),
            hops: hops.collect(),
        });
        Ok(())
    })?;
    Ok(traces)
}

#[derive(Deserialize)]
struct RawQuestion {
    text: String,
    kind: String,
}

#[derive(Deserialize)]
struct RawStage {
    input: serde_json::Map<String, serde_json::Value>,
    output: serde_json::Value,
}

#[derive(Deserialize)]
struct RawInput {
    question: String,
    hops: Vec<(String, String)>,
    must_answer: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawOutput {
    Ask(String),
    #[expect(dead_code, reason = "only tells the two outputs apart")]
    Answer(String),
}

/// Reads the segments of a bundle: its `questions.jsonl` and its `stages.jsonl`. Segments that had to be an
/// answer are left out, since nobody drafts them. So is a torn last stage: its recording was stopped.
///
/// # Errors
///
/// The first line that is something else.
pub fn read_bundle(
    questions: impl BufRead,
    stages: impl BufRead,
) -> Result<Vec<Segment>, ReadError> {
    let mut kinds = HashMap::new();
    let wanted = r#"{"text":…,"kind":…}"#;
    each::<RawQuestion>(questions, wanted, Last::Whole, |_, raw| {
        // Stages have the question as it was asked, on one line.
        kinds.insert(one_line(&raw.text), raw.kind);
        Ok(())
    })?;
    let wanted = "a stage of `spechop eval record`";
    let mut segments = Vec::new();
    each::<RawStage>(stages, wanted, Last::MayBeTorn, |line, raw| {
        if raw.input.get("stage").and_then(|stage| stage.as_str()) != Some("segment") {
            return Ok(());
        }
        let bad = |source| ReadError::Line {
            line,
            wanted: "a segment of the planner",
            source,
        };
        let input: RawInput = serde_json::from_value(raw.input.into()).map_err(bad)?;
        let output: RawOutput = serde_json::from_value(raw.output).map_err(bad)?;
        if input.must_answer {
            return Ok(());
        }
        let Some(kind) = kinds.get(&input.question) else {
            return Err(ReadError::Stray {
                line,
                question: input.question,
            });
        };
        let hops = input.hops.iter().map(|(asked, answer)| KnownHop {
            sub_question: SubQuestion::new(asked),
            answer: answer.as_str().into(),
        });
        segments.push(Segment {
            question: question(line, &input.question)?,
            hops: hops.collect(),
            next: match output {
                RawOutput::Ask(text) => Some(SubQuestion::new(&text)),
                RawOutput::Answer(_) => None,
            },
            kind: kind.clone(),
        });
        Ok(())
    })?;
    Ok(segments)
}

fn question(line: usize, text: &str) -> Result<Question, ReadError> {
    Question::new(text).map_err(|source| ReadError::Question { line, source })
}

/// What a last line without a line feed is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A line like any other.
    Whole,
    /// Nothing: whoever wrote it was killed.
    MayBeTorn,
}

/// Calls back with every line that is not blank.
fn each<T: for<'de> Deserialize<'de>>(
    mut input: impl BufRead,
    wanted: &'static str,
    last: Last,
    mut take: impl FnMut(usize, T) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let mut bounded = input.by_ref().take(LINE_BYTES_MAX + 1);
        let read = bounded.read_until(b'\n', &mut text);
        let read = read.map_err(|source| ReadError::Io { line, source })?;
        if read == 0 {
            break;
        }
        if text.len() as u64 > LINE_BYTES_MAX {
            return Err(ReadError::TooLong { line });
        }
        let is_torn = last == Last::MayBeTorn && !text.ends_with(b"\n");
        let trimmed = text.trim_ascii();
        if trimmed.is_empty() || is_torn {
            continue;
        }
        let value = serde_json::from_slice(trimmed).map_err(|source| ReadError::Line {
            line,
            wanted,
            source,
        })?;
        take(line, value)?;
    }
    Ok(())
}
