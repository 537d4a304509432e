//! MuSiQue-Ans: `id`, `question`, `answer`, `answer_aliases`, `question_decomposition`, and `paragraphs`, or at
//! least those that a step names.

use serde_json::Value;

use super::error::LoadError;
use super::record::{Record, add_once, hop_budget};
use crate::{Dataset, GoldHop, Question};

pub(super) fn question(record: &Record<'_>) -> Result<Question, LoadError> {
    if record.get("answerable") == Some(&Value::Bool(false)) {
        return Err(LoadError::Unanswerable(record.place().clone()));
    }
    let id = record.text("id")?;
    let Some((kind, _)) = id.split_once("__") else {
        return Err(record.malformed("id", "like `2hop__1_2`, with its kind in front"));
    };
    let steps = record.parts("question_decomposition")?;
    let hop = |step: &Record<'_>| {
        Ok(GoldHop {
            asks: step.text("question")?,
            answer: step.text("answer")?,
        })
    };
    Ok(Question {
        kind: kind.to_owned(),
        dataset: Dataset::Musique,
        text: record.text("question")?,
        answers: record.answers("answer")?,
        titles: titles(record, &steps)?,
        hops: steps.iter().map(hop).collect::<Result<_, LoadError>>()?,
        hop_budget: hop_budget(steps.len()),
        id,
    })
}

/// The pages that the steps name. A record without paragraphs says `Title_3`: a page and the number of
/// its paragraph.
fn titles(record: &Record<'_>, steps: &[Record<'_>]) -> Result<Vec<String>, LoadError> {
    let mut titles = Vec::new();
    if record
        .get("paragraphs")
        .is_none_or(|all| all.as_array().is_some_and(Vec::is_empty))
    {
        for step in steps {
            let document = step.text("document_id")?;
            let title = document.rsplit_once('_').map(|(title, _)| title);
            let title = title.ok_or_else(|| step.malformed("document_id", "like `Title_3`"))?;
            add_once(&mut titles, title);
        }
        return Ok(titles);
    }
    let paragraphs = record.parts("paragraphs")?;
    for step in steps {
        let support = step
            .get("paragraph_support_idx")
            .ok_or_else(|| step.missing("paragraph_support_idx"))?;
        let page = paragraphs
            .iter()
            .find(|paragraph| paragraph.get("idx") == Some(support))
            .ok_or_else(|| {
                step.malformed(
                    "paragraph_support_idx",
                    "the `idx` of a paragraph of the record",
                )
            })?;
        add_once(&mut titles, &page.text("title")?);
    }
    Ok(titles)
}
