//! Data sets as their authors publish them, read without converting anything first.
//!
//! A file that has a mistake anywhere gives nothing at all: what is compared must be the same for everybody.

mod corpus;
mod deepresearch;
mod error;
mod ids;
mod musique;
mod parquet;
pub(crate) mod record;
mod wiki;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use spechop_types::QUESTION_BYTES_MAX;

use crate::{Dataset, Question};

pub use corpus::{CorpusPassage, passages};
pub use error::{At, LoadError, Place};
pub use ids::read_ids;
use record::Record;

/// Reads original records: one JSON object a line or one array of them, plain or gzip, or Parquet.
///
/// # Errors
///
/// Says which file and line, or record of an array, is not as the data set has it, and what to do.
pub fn load(dataset: Dataset, files: &[PathBuf]) -> Result<Vec<Question>, LoadError> {
    if files.is_empty() {
        return Err(LoadError::NoFiles(dataset));
    }
    let mut questions = Vec::new();
    let mut places: HashMap<String, Place> = HashMap::new();
    for file in files {
        let before = questions.len();
        record::read(file, &mut |value, place| {
            let record = Record::of(value, place)?;
            refuse_other(dataset, &record)?;
            let question = match dataset {
                Dataset::Wiki => wiki::question(&record),
                Dataset::Musique => musique::question(&record),
                Dataset::DeepResearch => deepresearch::question(&record),
            }?;
            let bytes = question.text.len();
            if bytes > QUESTION_BYTES_MAX {
                return Err(LoadError::TooLong {
                    place: place.clone(),
                    bytes,
                });
            }
            if let Some(first) = places.insert(question.id.clone(), place.clone()) {
                return Err(LoadError::Duplicate {
                    id: question.id,
                    first,
                    second: place.clone(),
                });
            }
            questions.push(question);
            Ok(())
        })?;
        if questions.len() == before {
            return Err(LoadError::NoQuestions(file.clone()));
        }
    }
    Ok(questions)
}

/// Takes the questions of these kinds: 2WikiMultihopQA's types, MuSiQue's `3hop1` and the like,
/// DeepResearch-9K's difficulties. No kinds: all questions.
///
/// # Errors
///
/// A kind that does not occur: it is a slip of the pen, and the run would be about something else.
pub fn of_kinds(questions: Vec<Question>, kinds: &[String]) -> Result<Vec<Question>, LoadError> {
    if kinds.is_empty() {
        return Ok(questions);
    }
    let known: BTreeSet<&str> = questions.iter().map(|q| q.kind.as_str()).collect();
    if let Some(kind) = kinds.iter().find(|kind| !known.contains(kind.as_str())) {
        return Err(LoadError::NoSuchKind {
            kind: kind.clone(),
            known: known.into_iter().collect::<Vec<_>>().join(", "),
        });
    }
    let mut taken = questions;
    taken.retain(|question| kinds.contains(&question.kind));
    Ok(taken)
}

/// Takes the questions whose ids are listed; see [`read_ids`]. Listed ids that are not among them are
/// no mistake: a list may be about more files than were read.
///
/// # Errors
///
/// None of them is listed.
pub fn only(questions: Vec<Question>, ids: &HashSet<String>) -> Result<Vec<Question>, LoadError> {
    let before = questions.len();
    let mut taken = questions;
    taken.retain(|question| ids.contains(&question.id));
    if taken.is_empty() {
        return Err(LoadError::NoneListed {
            questions: before,
            listed: ids.len(),
        });
    }
    Ok(taken)
}

/// Draws `count` questions, or puts all of them in order. The whole order follows from the seed, the ids and
/// the kinds: a longer sample begins with the shorter one, and the order of the files does not matter.
/// Every sample has the kinds in the shares that all questions have them in, as nearly as its size allows.
/// The validation questions of our models are drawn as likely as any others.
///
/// # Errors
///
/// A count of nothing, or of more than there are.
pub fn sample(
    questions: Vec<Question>,
    count: Option<usize>,
    seed: u64,
) -> Result<Vec<Question>, LoadError> {
    let available = questions.len();
    let wanted = count.unwrap_or(available);
    if count == Some(0) {
        return Err(LoadError::SampleOfNone);
    }
    if wanted > available {
        return Err(LoadError::TooFew { wanted, available });
    }
    let mut drawn = questions;
    // The training takes its validation questions in the order of the digests of `SEED:ID`
    // (`train/splits.py`), and thresholds are chosen on them. A sample in the same order would begin
    // with these.
    drawn.sort_by_cached_key(|question| {
        Sha256::digest(format!("sample:{seed}:{}", question.id)).to_vec()
    });
    Ok(mixed(drawn).into_iter().take(wanted).collect())
}

/// In an order of which every beginning has the mix of kinds of the whole. A kind keeps its own order.
fn mixed(questions: Vec<Question>) -> Vec<Question> {
    let mut sizes: HashMap<String, usize> = HashMap::new();
    for question in &questions {
        *sizes.entry(question.kind.clone()).or_default() += 1;
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    let place = |question: Question| {
        let before = seen.entry(question.kind.clone()).or_default();
        let size = sizes.get(&question.kind).copied().unwrap_or(1);
        // The n-th of a kind stands in the middle of the n-th of as many equal parts as it has questions.
        let share = (*before as f64 + 0.5) / size as f64;
        *before += 1;
        (share, question)
    };
    let mut placed: Vec<_> = questions.into_iter().map(place).collect();
    // Stable: of those at the same place, the seed's order.
    placed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    placed.into_iter().map(|(_, question)| question).collect()
}

/// The most common mistake gets an answer of its own: a file of another data set.
fn refuse_other(wanted: Dataset, record: &Record<'_>) -> Result<(), LoadError> {
    let has = |fields: &[&str]| fields.iter().all(|field| record.has(field));
    let looks = if has(&["question_decomposition"]) {
        Dataset::Musique.title()
    } else if has(&["supporting_facts", "level"]) {
        "HotpotQA, which there is no loader for"
    } else if has(&["supporting_facts"]) || has(&["evidences"]) {
        Dataset::Wiki.title()
    } else if has(&["final answer"]) || has(&["question", "difficulty"]) {
        Dataset::DeepResearch.title()
    } else if has(&["title", "text"]) && !has(&["question"]) {
        "a corpus: passages, not questions"
    } else {
        // Whatever is missing will be named.
        return Ok(());
    };
    if looks == wanted.title() {
        return Ok(());
    }
    Err(LoadError::OtherDataset {
        place: record.place().clone(),
        looks,
        wanted,
    })
}
