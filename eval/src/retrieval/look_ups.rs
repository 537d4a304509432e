//! What retrievers are asked, and the passages that they should find.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::LoadError;
use crate::dataset::record::{self, Record};

/// The file of a data set that holds the questions of HippoRAG's sample.
const SAMPLE: &str = "questions.jsonl";

/// The look-ups of a question, as `eval/datasets/make_look_ups.py` writes them, one question a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookUps {
    /// The data set's own id; unique in a file.
    pub id: String,
    /// What kind of question it is.
    pub kind: String,
    /// The file that it is from.
    pub from: String,
    /// The multi-hop question.
    pub question: String,
    /// The gold pages: for each the ids of the passages that count as that page. Never empty.
    pub gold: Vec<Vec<String>>,
    /// The hops in good words. Empty if the question's structure is not known.
    pub hops: Vec<AskedHop>,
}

/// A hop, asked in good words with the gold answers of earlier hops filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedHop {
    /// The sub-question.
    pub asks: String,
    /// The ids of the passages that answer it, as far as the data set says. Never empty.
    pub gold: Vec<String>,
}

/// Reads look-ups, plain or gzip.
///
/// # Errors
///
/// Says which file and line is no look-up.
pub fn look_ups(file: &Path) -> Result<Vec<LookUps>, LoadError> {
    let mut all: Vec<LookUps> = Vec::new();
    let mut seen = HashSet::new();
    record::read(file, &mut |value, place| {
        let refused = |why: String| LoadError::NotLookUps {
            place: place.clone(),
            why,
        };
        let one: LookUps =
            serde_json::from_value(value.clone()).map_err(|error| refused(error.to_string()))?;
        let empty =
            one.gold.iter().any(Vec::is_empty) || one.hops.iter().any(|h| h.gold.is_empty());
        if one.gold.is_empty() || empty {
            return Err(refused("a look-up has no gold passage".to_owned()));
        }
        if !seen.insert(one.id.clone()) {
            return Err(refused(format!("`{}` stands twice", one.id)));
        }
        all.push(one);
        Ok(())
    })?;
    if all.is_empty() {
        return Err(LoadError::NoQuestions(file.to_owned()));
    }
    Ok(all)
}

/// The ids of the passages of a corpus: one `{"id", …}` a line, plain or gzip.
///
/// # Errors
///
/// Says which file and line is no passage.
pub fn passage_ids(file: &Path) -> Result<HashSet<String>, LoadError> {
    let mut ids = HashSet::new();
    record::read(file, &mut |value, place| {
        ids.insert(Record::of(value, place)?.text("id")?);
        Ok(())
    })?;
    if ids.is_empty() {
        return Err(LoadError::NoPassages(file.to_owned()));
    }
    Ok(ids)
}

/// The questions of HippoRAG's sample whose gold passages are all among these.
pub fn of_sample(all: &[LookUps], passages: &HashSet<String>) -> Vec<LookUps> {
    let covered = |look_ups: &&LookUps| {
        let pages = &look_ups.gold;
        look_ups.from == SAMPLE
            && pages
                .iter()
                .all(|page| page.iter().any(|id| passages.contains(id)))
    };
    all.iter().filter(covered).cloned().collect()
}
