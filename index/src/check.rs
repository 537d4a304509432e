//! Proving that an index is whole.

use std::path::Path;

use spechop_store::{Fault, HOT, IndexError, Inputs, PassageIndex};

/// An index that was found whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Passages in the index.
    pub rows: usize,
    /// Bytes of its files, the hot subset not included.
    pub bytes: u64,
    /// What it was made of.
    pub inputs: Inputs,
    /// Passages in the hot subset, where there is one.
    pub hot_rows: Option<usize>,
}

/// Reads every byte of an index and of its hot subset, and compares them with their checksums.
pub fn check(dir: &Path) -> Result<Checked, IndexError> {
    let index = PassageIndex::open_verified(dir)?;
    for row in 0..index.rows() {
        index.passage(row)?;
    }
    let hot = dir.join(HOT);
    let hot_rows = match PassageIndex::open_verified(&hot) {
        Ok(hot) => Some(hot.rows()),
        Err(error) if matches!(error.fault, Fault::Unfinished) && !hot.exists() => None,
        Err(error) => return Err(error),
    };
    Ok(Checked {
        rows: index.rows(),
        bytes: index.bytes(),
        inputs: index.inputs().clone(),
        hot_rows,
    })
}
