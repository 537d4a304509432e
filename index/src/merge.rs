//! Joining the parts of an index, each of which was built on its own.

use std::fs;
use std::path::{Path, PathBuf};

use spechop_store::{IndexWriter, Inputs, Part, PassageIndex};

use crate::encode::copy_rows;
use crate::error::BuildError;
use crate::folder::{Folder, finished, must_be_there};
use crate::hot::Hot;

/// An index that was joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Passages in it.
    pub rows: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Passages in the hot subset, if one was asked for.
    pub hot_rows: Option<usize>,
}

/// Joins parts into the index `out`, which has the same bytes as if it had been built at once. They
/// may be given in any order, and stay as they are.
pub fn merge(parts: &[PathBuf], out: &Path, hot: Option<&Hot>) -> Result<Merged, BuildError> {
    if let Some(hot) = hot {
        hot.check()?;
        hot.check_file()?;
    }
    let (inputs, parts) = complete(parts)?;
    if let Some(hot) = hot {
        // Passages of an extended index may have URLs alone, which shows when the subset is chosen.
        hot.check_passages(inputs.extended)?;
    }
    let folder = Folder::at(out)?;
    if let Some(part) = parts.iter().find(|part| is_same(part.dir(), &folder.out)) {
        return Err(BuildError::Setting(format!(
            "the index would replace its part {}: choose another folder",
            part.dir().display()
        )));
    }
    let _lock = folder.lock()?;
    let index = match finished(&folder.out, &inputs)? {
        Some(index) => index,
        None => {
            if !folder.is_grown(&inputs)? {
                join(&folder, inputs, &parts)?;
            }
            folder.publish(hot)?
        }
    };
    let hot_rows = hot.map(|hot| hot.build(&index, &folder.out)).transpose()?;
    Ok(Merged {
        rows: index.rows(),
        bytes: index.bytes(),
        hot_rows,
    })
}

/// Whether both are the same folder, however they are written.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |dir: &Path| fs::canonicalize(dir).ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

fn join(folder: &Folder, inputs: Inputs, parts: &[PassageIndex]) -> Result<(), BuildError> {
    let mut writer = IndexWriter::open(&folder.partial, inputs)?;
    // Of what a merge that was killed had joined.
    let mut there = writer.rows();
    for part in parts {
        let begin = there.min(part.rows());
        there -= begin;
        // Whatever is copied has been proven.
        part.verify()?;
        copy_rows(&mut writer, part, begin..part.rows())?;
        writer.checkpoint()?;
    }
    writer.finish()?;
    Ok(())
}

/// The parts in their order, and what the whole is made of; refused if they are not all of one index.
fn complete(dirs: &[PathBuf]) -> Result<(Inputs, Vec<PassageIndex>), BuildError> {
    let refused = |dir: &Path, reason: String| {
        Err(BuildError::Setting(format!("{}: {reason}", dir.display())))
    };
    let whole = |inputs: &Inputs| Inputs {
        part: None,
        ..inputs.clone()
    };
    let mut found: Vec<(Part, PassageIndex)> = Vec::with_capacity(dirs.len());
    for dir in dirs {
        must_be_there(dir)?;
        let index = PassageIndex::open(dir)?;
        let Some(part) = index.inputs().part else {
            return refused(dir, "this is a whole index, and no part of one".into());
        };
        if let Some((first, other)) = found.first()
            && (whole(other.inputs()) != whole(index.inputs()) || first.of != part.of)
        {
            let other = other.dir().display();
            let reason = format!(
                "this part and {other} were not built from the same corpus, by the same encoder, in \
                 the same number of parts"
            );
            return refused(dir, reason);
        }
        found.push((part, index));
    }
    found.sort_by_key(|(part, _)| part.number);
    let Some((first, index)) = found.first() else {
        return Err(BuildError::Setting("there is no part to merge".into()));
    };
    let (of, inputs) = (first.of, whole(index.inputs()));
    for number in 0..of {
        let count = found
            .iter()
            .filter(|(part, _)| part.number == number)
            .count();
        if count != 1 {
            let what = if count == 0 {
                "is missing"
            } else {
                "was given twice"
            };
            return Err(BuildError::Setting(format!("part {number}/{of} {what}")));
        }
    }
    Ok((inputs, found.into_iter().map(|(_, index)| index).collect()))
}
