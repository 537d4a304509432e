//! DeepResearch-9K: `question`, `difficulty` and `final answer`; `search trajectory` is passed by. It is
//! published as Parquet.
//!
//! The rows have no id, so an id is made of the question. They name no pages and no hops either.

use serde_json::Value;

use super::error::LoadError;
use super::record::Record;
use crate::{Dataset, Question, short_hash};

/// Most hops of any question of this data set, as in the paper.
const HOP_BUDGET: u32 = 10;

pub(super) fn question(record: &Record<'_>) -> Result<Question, LoadError> {
    let text = record.text("question")?;
    let answer = ["final answer", "answer"]
        .into_iter()
        .find(|field| record.has(field))
        .unwrap_or("final answer");
    Ok(Question {
        id: if record.has("id") {
            record.text("id")?
        } else {
            id(&text)
        },
        dataset: Dataset::DeepResearch,
        kind: difficulty(record)?,
        answers: record.answers(answer)?,
        titles: Vec::new(),
        hops: Vec::new(),
        hop_budget: HOP_BUDGET,
        text,
    })
}

fn id(question: &str) -> String {
    format!("dr-{}", short_hash(question))
}

/// The rows say 1, 2 or 3, the paper L1, L2 or L3.
fn difficulty(record: &Record<'_>) -> Result<String, LoadError> {
    let written = record
        .get("difficulty")
        .ok_or_else(|| record.missing("difficulty"))?;
    let level = match written {
        Value::String(text) => text.trim().trim_start_matches(['L', 'l']).to_owned(),
        other => other.to_string(),
    };
    match level.as_str() {
        "1" | "2" | "3" => Ok(format!("L{level}")),
        _ => Err(record.malformed("difficulty", "1, 2 or 3")),
    }
}
