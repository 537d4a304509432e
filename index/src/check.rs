//! What an index is, and whether it is whole.

use std::path::Path;

use spechop_store::{Fault, HOT, IndexError, Inputs, PassageIndex};

/// An index that can be opened.
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

/// What an index says of itself. Only its size decides how much of it is read.
pub fn look(dir: &Path) -> Result<Checked, IndexError> {
    describe(dir, PassageIndex::open)
}

/// Reads every byte of an index and of its hot subset, and compares them with their checksums.
pub fn check(dir: &Path) -> Result<Checked, IndexError> {
    let checked = describe(dir, PassageIndex::open_verified)?;
    let index = PassageIndex::open(dir)?;
    for row in 0..index.rows() {
        index.passage(row)?;
    }
    Ok(checked)
}

fn describe(
    dir: &Path,
    open: impl Fn(&Path) -> Result<PassageIndex, IndexError>,
) -> Result<Checked, IndexError> {
    let index = open(dir)?;
    let hot = dir.join(HOT);
    let hot_rows = match open(&hot) {
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
