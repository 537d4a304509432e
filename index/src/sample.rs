//! A few passages of a corpus, to try an encoder on.

use std::path::Path;

use crate::corpus::{Corpus, Reading, Survey};
use crate::error::BuildError;
use crate::input::Source;

/// Texts of at most `count` passages, spread evenly over a corpus, as an index encodes them.
///
/// # Errors
///
/// If the corpus cannot be read, or holds no passage.
pub fn sample(corpus: &Path, reading: &Reading, count: usize) -> Result<Vec<String>, BuildError> {
    let corpus = Source::at(corpus);
    let rows = Survey::of(&corpus, reading)?.rows;
    let step = rows.div_ceil(count.max(1)).max(1);
    let mut passages = Corpus::open(&corpus, reading)?;
    let mut texts = Vec::new();
    let mut row = 0;
    while let Some(record) = passages.next()? {
        if row % step == 0 {
            texts.push(record.encoded());
        }
        row += 1;
    }
    Ok(texts)
}
