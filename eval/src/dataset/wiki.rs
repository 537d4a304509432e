//! 2WikiMultihopQA: `_id`, `type`, `question`, `answer`, `supporting_facts` and `evidences`; `context` is not read.

use serde_json::Value;

use super::error::LoadError;
use super::record::{Record, add_once, hop_budget};
use crate::{Dataset, GoldHop, Question};

pub(super) fn question(record: &Record<'_>) -> Result<Question, LoadError> {
    let titles = titles(record)?;
    Ok(Question {
        id: record.text("_id")?,
        dataset: Dataset::Wiki,
        kind: record.text("type")?,
        text: record.text("question")?,
        answers: record.answers("answer")?,
        hop_budget: hop_budget(titles.len()),
        titles,
        hops: hops(record)?,
    })
}

/// The pages of the supporting facts, each once: a fact is a sentence, and a page may have several.
fn titles(record: &Record<'_>) -> Result<Vec<String>, LoadError> {
    let facts = record.list("supporting_facts")?;
    if facts.is_empty() {
        return Err(record.empty("supporting_facts"));
    }
    let mut titles = Vec::new();
    for fact in facts {
        let title = fact
            .get(0)
            .and_then(Value::as_str)
            .ok_or_else(|| record.malformed("supporting_facts", "a list of [title, sentence]"))?;
        add_once(&mut titles, title);
    }
    Ok(titles)
}

fn hops(record: &Record<'_>) -> Result<Vec<GoldHop>, LoadError> {
    let wanted = "a list of [subject, relation, object]";
    let hop = |evidence: &Value| {
        let words: Option<Vec<&str>> = evidence
            .as_array()
            .and_then(|triple| triple.iter().map(Value::as_str).collect());
        match words.as_deref() {
            Some(&[subject, relation, object]) => Ok(GoldHop {
                asks: format!("{subject} >> {relation}"),
                answer: object.to_owned(),
            }),
            _ => Err(record.malformed("evidences", wanted)),
        }
    };
    record.list("evidences")?.iter().map(hop).collect()
}
