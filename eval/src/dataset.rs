// STUB: overwritten at merge by the loaders themselves, which have these signatures. It reads
// `questions.jsonl` files, plain, of the harness's own form only.
//! Data sets.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::{Dataset, Question};

/// Why there are no questions.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(String);

/// Reads questions.
pub fn load(_: Dataset, files: &[PathBuf]) -> Result<Vec<Question>, LoadError> {
    let mut questions = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|e| LoadError(e.to_string()))?;
        for line in text.lines() {
            questions.push(serde_json::from_str(line).map_err(|e| LoadError(e.to_string()))?);
        }
    }
    Ok(questions)
}

/// Takes the questions of these kinds.
pub fn of_kinds(questions: Vec<Question>, _: &[String]) -> Result<Vec<Question>, LoadError> {
    Ok(questions)
}

/// Takes the questions whose ids are listed.
pub fn only(
    mut questions: Vec<Question>,
    ids: &HashSet<String>,
) -> Result<Vec<Question>, LoadError> {
    questions.retain(|question| ids.contains(&question.id));
    Ok(questions)
}

/// Draws `count` questions.
pub fn sample(
    mut questions: Vec<Question>,
    count: Option<usize>,
    _: u64,
) -> Result<Vec<Question>, LoadError> {
    questions.truncate(count.unwrap_or(usize::MAX));
    Ok(questions)
}

/// Reads a list of ids.
pub fn read_ids(file: &Path, _: Dataset, _: Option<&str>) -> Result<HashSet<String>, LoadError> {
    let text = std::fs::read_to_string(file).map_err(|e| LoadError(e.to_string()))?;
    serde_json::from_str(&text).map_err(|e| LoadError(e.to_string()))
}
