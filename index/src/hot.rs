//! The hot subset: the passages that are linked to most, as a small index of their own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use spechop_store::{HOT, IndexWriter, Inputs, PassageIndex, Subset};

use crate::corpus::digest;
use crate::encode::copy_rows;
use crate::error::BuildError;
use crate::folder::{Folder, finished};
use crate::lines::Lines;

/// Which passages are also written into `OUT/hot`.
#[derive(Clone, Debug, PartialEq)]
pub struct Hot {
    /// Share of all passages, in (0, 1]; at least one passage.
    pub fraction: f64,
    /// A file of lines `{"title","mention_indegree"}`, plain or packed. A title that is not in it
    /// counts 0, one that occurs twice counts its larger number. Without a file, the in-degrees that
    /// came with the passages decide.
    pub in_degree: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Ranked {
    title: String,
    mention_indegree: u64,
}

impl Hot {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.fraction > 0.0 && self.fraction <= 1.0 {
            return Ok(());
        }
        let fraction = self.fraction;
        Err(BuildError::Setting(format!(
            "the hot fraction must be above 0 and at most 1, not {fraction}"
        )))
    }

    /// Writes the subset of `index` into its folder, unless it is there. Rows are copied, not encoded
    /// again. Returns the number of passages.
    pub(crate) fn build(&self, index: &PassageIndex, out: &Path) -> Result<usize, BuildError> {
        let inputs = Inputs {
            subset: Some(Subset {
                fraction: self.fraction,
                in_degree_sha256: match &self.in_degree {
                    Some(path) => Lines::open(path)?.sha256_of_all()?,
                    None => index.inputs().corpus_sha256.clone(),
                },
            }),
            ..index.inputs().clone()
        };
        let folder = Folder::new(&out.join(HOT))?;
        if let Some(hot) = finished(&folder.out, &inputs) {
            return Ok(hot.rows());
        }
        let rows = self.choose(index)?;
        let mut writer = IndexWriter::open(&folder.partial, inputs)?;
        let missing = rows.iter().copied().skip(writer.rows());
        copy_rows(&mut writer, index, missing)?;
        writer.finish()?;
        PassageIndex::open_verified(&folder.partial)?;
        folder.swap()?;
        Ok(rows.len())
    }

    /// The rows of highest in-degree, in the order of the corpus. Of equal in-degrees the earlier
    /// row is in.
    fn choose(&self, index: &PassageIndex) -> Result<Vec<usize>, BuildError> {
        let in_degrees = self.in_degree.as_deref().map(in_degrees).transpose()?;
        let mut ranked = Vec::with_capacity(index.rows());
        let mut known = in_degrees.is_some();
        for row in 0..index.rows() {
            let passage = index.passage(row)?;
            let passage = passage.fields();
            let in_degree = match &in_degrees {
                Some(in_degrees) => in_degrees.get(&digest(passage.title)).copied(),
                None => passage.in_degree.map(u64::from),
            };
            known |= in_degree.is_some();
            ranked.push((in_degree.unwrap_or(0), row));
        }
        if !known {
            return Err(BuildError::Setting(
                "the passages of this corpus come without in-degrees: name a file with --in-degree"
                    .into(),
            ));
        }
        ranked.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let wanted = (index.rows() as f64 * self.fraction).ceil() as usize;
        ranked.truncate(wanted.max(1));
        let mut rows: Vec<usize> = ranked.into_iter().map(|(_, row)| row).collect();
        rows.sort_unstable();
        Ok(rows)
    }
}

fn in_degrees(path: &Path) -> Result<HashMap<u128, u64>, BuildError> {
    let mut lines = Lines::open(path)?;
    let mut in_degrees = HashMap::new();
    while let Some(ranked) = lines.next::<Ranked>()? {
        let known = in_degrees.entry(digest(&ranked.title)).or_insert(0);
        *known = ranked.mention_indegree.max(*known);
    }
    if in_degrees.is_empty() {
        return Err(BuildError::Empty {
            path: path.to_owned(),
            intake: None,
        });
    }
    Ok(in_degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_a_share() {
        for (fraction, sound) in [
            (0.01, true),
            (1.0, true),
            (0.0, false),
            (-0.5, false),
            (1.5, false),
            (f64::NAN, false),
        ] {
            let in_degree = None;
            let hot = Hot {
                fraction,
                in_degree,
            };
            assert_eq!(hot.check().is_ok(), sound, "{fraction}");
        }
    }
}
