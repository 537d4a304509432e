//! The hot subset: the passages that are linked to most, or that most answers came from, as a small
//! index of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use spechop_store::{Fault, HOT, IndexWriter, Inputs, PassageIndex, Subset};

use crate::corpus::digest;
use crate::encode::copy_rows;
use crate::error::BuildError;
use crate::folder::{Folder, finished, within};
use crate::input::Source;
use crate::lines::{Lines, hex};

/// How many answers came from passages, by the ids of the passages.
pub type Traffic = BTreeMap<Arc<str>, u64>;

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

/// A hot subset that was chosen for an index that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Passages in it.
    pub rows: usize,
    /// Those of them that answers came from.
    pub by_traffic: usize,
    /// Passages that answers came from and that the index does not hold.
    pub unknown: usize,
    /// False if the subset was there already.
    pub is_new: bool,
}

#[derive(Deserialize)]
struct Ranked {
    title: String,
    mention_indegree: u64,
}

impl Hot {
    /// Refused if it shows at once that there can be no such subset.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.fraction > 0.0 && self.fraction <= 1.0 {
            return self.in_degree.as_deref().map_or(Ok(()), Source::check);
        }
        let fraction = self.fraction;
        Err(BuildError::Setting(format!(
            "the hot fraction must be above 0 and at most 1, not {fraction}"
        )))
    }

    /// Refused if the file with in-degrees cannot be used. Reads it whole.
    pub(crate) fn check_file(&self) -> Result<(), BuildError> {
        self.in_degree
            .as_deref()
            .map_or(Ok(()), |path| in_degrees(path).map(drop))
    }

    /// Refused if there are in-degrees neither in a file nor with the passages.
    pub(crate) fn check_passages(&self, have_in_degrees: bool) -> Result<(), BuildError> {
        match have_in_degrees || self.in_degree.is_some() {
            true => Ok(()),
            false => Err(unranked()),
        }
    }

    /// Chooses a hot subset for the index in `dir` and puts it to `out`, which is `DIR/hot` if it is
    /// `None`, and lies outside of `DIR` otherwise. The passages that most answers came from are in;
    /// in-degrees decide between equal counts, and fill up if answers came from fewer passages than the
    /// fraction takes. If there is `traffic`, passages without either are left out, so the subset may be smaller.
    ///
    /// The index is read whole and compared with its checksums. The subset grows beside the old one and
    /// takes its place in one step; whoever has the old one open keeps it. **Blocks.**
    ///
    /// # Errors
    ///
    /// If the index is damaged, only a part, or being changed by another program; if nothing is known of
    /// its passages, or the file with in-degrees names none of their titles; or if the subset cannot be written, such as
    /// to another place within the index, or to that of another index.
    pub fn choose_for(
        &self,
        dir: &Path,
        out: Option<&Path>,
        traffic: &Traffic,
    ) -> Result<Chosen, BuildError> {
        self.check()?;
        let folder = Folder::there(dir)?;
        let _lock = folder.lock()?;
        let out = out.map_or_else(|| dir.join(HOT), Path::to_owned);
        let within = within(&out, dir);
        if within.as_ref().is_some_and(|name| name != Path::new(HOT)) {
            return Err(BuildError::Setting(format!(
                "a hot subset cannot go to {}: in the folder of its index it is called {HOT}",
                out.display()
            )));
        }
        let hot = Folder::new(&out)?;
        // Within the index, its own lock keeps others away.
        let _hot_lock = match within {
            Some(_) => None,
            None => Some(hot.lock()?),
        };
        check_place(&out, within.is_some())?;
        let index = PassageIndex::open_verified(dir)?;
        if index.inputs().part.is_some() {
            return Err(BuildError::Setting(format!(
                "{} is a part of an index: merge the parts first",
                dir.display()
            )));
        }
        self.write(&index, &hot, traffic)
    }

    /// Writes the subset of `index` into its folder, unless it is there. Rows are copied, not encoded
    /// again. Returns the number of passages.
    pub(crate) fn build(&self, index: &PassageIndex, out: &Path) -> Result<usize, BuildError> {
        let folder = Folder::new(&out.join(HOT))?;
        let ranks = self.ranks(index)?;
        let inputs = self.inputs(index, ranks);
        if let Some(hot) = finished(&folder.out, &inputs)? {
            return Ok(hot.rows());
        }
        let rows = self.choose(index, &Traffic::new())?.rows;
        write(index, &folder, inputs, &rows)?;
        Ok(rows.len())
    }

    fn write(
        &self,
        index: &PassageIndex,
        folder: &Folder,
        traffic: &Traffic,
    ) -> Result<Chosen, BuildError> {
        let mut ranks = self.ranks(index)?;
        if !traffic.is_empty() {
            let mut all = Sha256::new();
            // Texts and numbers always serialise.
            all.update(serde_json::to_vec(&(ranks, traffic)).unwrap_or_default());
            ranks = hex(all);
        }
        let inputs = self.inputs(index, ranks);
        let choice = self.choose(index, traffic)?;
        let there = finished(&folder.out, &inputs)?;
        let chosen = Chosen {
            // What is said of a subset is read from it.
            rows: there.as_ref().map_or(choice.rows.len(), PassageIndex::rows),
            by_traffic: choice.by_traffic,
            unknown: traffic.len() - choice.known,
            is_new: there.is_none(),
        };
        if chosen.is_new {
            write(index, folder, inputs, &choice.rows)?;
        }
        Ok(chosen)
    }

    /// SHA-256 of what ranks the passages.
    fn ranks(&self, index: &PassageIndex) -> Result<String, BuildError> {
        match &self.in_degree {
            Some(path) => Lines::open(&Source::at(path))?.sha256_of_all(),
            None => Ok(index.inputs().corpus_sha256.clone()),
        }
    }

    fn inputs(&self, index: &PassageIndex, ranks: String) -> Inputs {
        Inputs {
            subset: Some(Subset {
                fraction: self.fraction,
                in_degree_sha256: ranks,
            }),
            ..index.inputs().clone()
        }
    }

    /// The rows that most answers came from, and then those of highest in-degree, in the order of the
    /// corpus. Of equal ones the earlier row is in.
    fn choose(&self, index: &PassageIndex, traffic: &Traffic) -> Result<Choice, BuildError> {
        let in_degrees = self.in_degree.as_deref().map(in_degrees).transpose()?;
        let mut ranked = Vec::with_capacity(index.rows());
        let (mut has_in_degrees, mut known) = (false, 0);
        for row in 0..index.rows() {
            let passage = index.passage(row)?;
            let passage = passage.fields();
            let in_degree = match &in_degrees {
                Some(in_degrees) => in_degrees.get(&digest(passage.title)).copied(),
                None => passage.in_degree.map(u64::from),
            };
            has_in_degrees |= in_degree.is_some();
            let answers = traffic.get(passage.id).copied().unwrap_or(0);
            known += usize::from(answers > 0);
            ranked.push((answers, in_degree.unwrap_or(0), row));
        }
        if let Some(path) = self.in_degree.as_ref().filter(|_| !has_in_degrees) {
            // That of another corpus. All passages would count 0, and the first of them would be in.
            return Err(BuildError::Setting(format!(
                "{} names the title of no passage of this index",
                path.display()
            )));
        }
        if !traffic.is_empty() {
            ranked.retain(|(answers, in_degree, _)| *answers > 0 || *in_degree > 0);
        }
        if ranked.is_empty() || (!has_in_degrees && known == 0) {
            return Err(match traffic.is_empty() {
                true => unranked(),
                false => BuildError::Setting(
                    "no answer came from a passage of this index, and no in-degrees of its passages \
                     are known: name the traffic of this index, or a file with --in-degree"
                        .into(),
                ),
            });
        }
        ranked.sort_unstable_by_key(|(answers, in_degree, row)| {
            (Reverse(*answers), Reverse(*in_degree), *row)
        });
        ranked.truncate(share(index.rows(), self.fraction).max(1));
        let by_traffic = ranked.iter().filter(|(answers, ..)| *answers > 0).count();
        let mut rows: Vec<usize> = ranked.into_iter().map(|(.., row)| row).collect();
        rows.sort_unstable();
        Ok(Choice {
            rows,
            by_traffic,
            known,
        })
    }
}

/// Which rows are in, in the order of the corpus.
struct Choice {
    rows: Vec<usize>,
    /// Those that answers came from.
    by_traffic: usize,
    /// Rows of the whole index that answers came from.
    known: usize,
}

/// How many rows the fraction takes; a part of a row counts as one.
fn share(rows: usize, fraction: f64) -> usize {
    // 7 % of 100 come out as 7.000000000000001.
    (rows as f64 * fraction * (1.0 - 1e-12)).ceil() as usize
}

/// Refused if a whole index lies at `out`, or what may be one. What cannot be read is none if it lies within the index
/// that it is a subset of (`is_within`).
fn check_place(out: &Path, is_within: bool) -> Result<(), BuildError> {
    let whole = match Inputs::of_index(out) {
        Ok(inputs) if inputs.subset.is_some() => return Ok(()),
        Ok(_) => "is a whole index".to_owned(),
        Err(error) if is_within || matches!(error.fault, Fault::Unfinished) => return Ok(()),
        Err(error) => format!("may be a whole index ({})", error.fault),
    };
    Err(BuildError::Setting(format!(
        "{} {whole}, which a hot subset would replace: choose another folder",
        out.display()
    )))
}

fn unranked() -> BuildError {
    BuildError::Setting(
        "the passages of this corpus come without in-degrees: name a file with --in-degree".into(),
    )
}

fn write(
    index: &PassageIndex,
    folder: &Folder,
    inputs: Inputs,
    rows: &[usize],
) -> Result<(), BuildError> {
    let mut writer = IndexWriter::open(&folder.partial, inputs)?;
    let missing = rows.iter().copied().skip(writer.rows());
    copy_rows(&mut writer, index, missing)?;
    writer.finish()?;
    PassageIndex::open_verified(&folder.partial)?;
    folder.swap()
}

fn in_degrees(path: &Path) -> Result<HashMap<u128, u64>, BuildError> {
    let mut lines = Lines::open(&Source::at(path))?;
    let mut in_degrees = HashMap::new();
    while let Some(ranked) = lines.next::<Ranked>()? {
        let known = in_degrees.entry(digest(&ranked.title)).or_insert(0);
        *known = ranked.mention_indegree.max(*known);
    }
    if in_degrees.is_empty() {
        return Err(BuildError::Blank(path.to_owned()));
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
        for (rows, fraction, wanted) in [
            (100, 0.07, 7),
            (100, 0.0701, 8),
            (100, 0.55, 55),
            (100, 1.0, 100),
            (3, 0.01, 1),
        ] {
            assert_eq!(share(rows, fraction), wanted, "{rows} {fraction}");
        }
    }
}
