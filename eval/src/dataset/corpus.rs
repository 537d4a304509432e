//! Passages, as the corpora of the data sets have them.

use std::path::PathBuf;

use super::error::LoadError;
use super::record::{self, Record};

/// A passage of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusPassage {
    /// The page that it is from. Several passages may have the same.
    pub title: String,
    /// What it says.
    pub text: String,
}

/// Reads corpora: one `{"id", "title", "text"}` a line, plain or gzip.
///
/// # Errors
///
/// Says which file and line is no passage.
pub fn passages(files: &[PathBuf]) -> Result<Vec<CorpusPassage>, LoadError> {
    let mut passages = Vec::new();
    for file in files {
        let before = passages.len();
        record::read(file, &mut |value, place| {
            let record = Record::of(value, place)?;
            passages.push(CorpusPassage {
                title: record.text("title")?,
                text: record.text("text")?,
            });
            Ok(())
        })?;
        if passages.len() == before {
            return Err(LoadError::NoPassages(file.clone()));
        }
    }
    Ok(passages)
}
