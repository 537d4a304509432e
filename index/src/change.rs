//! Passages are added to an index and removed from it.
//!
//! The new generation is written beside the old one and takes its place in one step. Rows that stay
//! are copied and not encoded again. Whoever has the old generation open keeps it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use spechop_ports::Encoder;
use spechop_store::{HOT, IndexWriter, Inputs, PassageIndex, Subset};

use crate::build::Progress;
use crate::corpus::{Corpus, Reading, Survey, digest};
use crate::encode::{Encoding, copy_rows};
use crate::error::BuildError;
use crate::folder::Folder;
use crate::input::Source;
use crate::intake::Intake;
use crate::lines::hex;

/// Ids that are kept of those that no passage has.
const UNKNOWN_MAX: usize = 1000;

/// What an index is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Passages in it.
    pub rows: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Passages that are new.
    pub added: usize,
    /// Passages that are gone.
    pub removed: usize,
    /// Passages in the hot subset, if there is one. Passages that were added are not in it.
    pub hot_rows: Option<usize>,
    /// Ids to remove that no passage has; the first thousand of them.
    pub unknown: Vec<String>,
    /// How many ids to remove no passage has.
    pub unknown_count: usize,
    /// What became of the entries of the corpus, if one was added.
    pub intake: Option<Intake>,
}

/// Removes passages by their ids. The id of a page, or of a text that was cut, stands for all its
/// passages, unless a passage has it itself. Nothing is changed if no passage has one of these ids.
pub fn remove(index: &Path, ids: &[String]) -> Result<Changed, BuildError> {
    let folder = Folder::there(index)?;
    let _lock = folder.lock()?;
    let old = Old::open(&folder)?;
    let wanted: HashSet<u128> = ids.iter().map(|id| digest(id)).collect();
    // Those of passages. What only looks like a piece of one of them is another passage.
    let mut own: HashSet<u128> = HashSet::new();
    old.rows_where(|id| {
        own.extend(wanted.get(&digest(id)));
        true
    })?;
    let mut met: HashSet<u128> = HashSet::new();
    let kept = old.rows_where(|id| {
        let mut names = names(id, true);
        let itself = names.next();
        let page = names.filter(|page| !own.contains(page));
        let named: Vec<u128> = (itself.into_iter().chain(page))
            .filter(|name| wanted.contains(name))
            .collect();
        met.extend(&named);
        named.is_empty()
    })?;
    let unknown = || ids.iter().filter(|id| !met.contains(&digest(id)));
    let (unknown_count, unknown) = (unknown().count(), unknown().take(UNKNOWN_MAX).cloned());
    let unknown: Vec<String> = unknown.collect();
    if kept.len() == old.index.rows() {
        return Ok(Changed {
            unknown,
            unknown_count,
            ..old.unchanged(None)
        });
    }
    if kept.is_empty() {
        return Err(BuildError::Setting(
            "this would remove every passage, and an index is never empty: remove its folder instead"
                .into(),
        ));
    }
    let inputs = old.inputs(&kept, "", old.index.inputs().extended);
    if !folder.is_grown(&inputs)? {
        let mut writer = IndexWriter::open(&folder.partial, inputs.clone())?;
        let missing = kept.iter().copied().skip(writer.rows());
        copy_rows(&mut writer, &old.index, missing)?;
        writer.finish()?;
    }
    Ok(Changed {
        unknown,
        unknown_count,
        ..old.replace(&folder, &kept, inputs, None)?
    })
}

/// A corpus that is to be added to an index.
#[derive(Clone, Debug)]
pub struct Addition {
    /// The folder of the index.
    pub index: PathBuf,
    /// The corpus, as for a build.
    pub corpus: PathBuf,
    /// How it is read.
    pub reading: Reading,
    /// Passages take the place of passages of the same id, and texts that are cut take that of all
    /// passages that the text of this id was cut into. Otherwise those that are there stay, and the new
    /// ones are left out and counted.
    pub replace: bool,
}

impl Addition {
    /// Refuses what shows at once, as [`Build::check`](crate::Build::check) does.
    ///
    /// # Errors
    ///
    /// Those of [`Self::run`].
    pub fn check(&self) -> Result<(), BuildError> {
        Folder::there(&self.index)?;
        Source::check(&self.corpus)
    }

    /// Adds what is not there yet. An addition that was killed is resumed by the same call.
    pub async fn run(
        &self,
        encoder: &dyn Encoder,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Changed, BuildError> {
        self.check()?;
        let folder = Folder::there(&self.index)?;
        let _lock = folder.lock()?;
        let old = Old::open(&folder)?;
        old.check_encoder(encoder)?;
        let source = Source::of(&self.corpus, &folder.spool())?;
        let corpus = Corpus::open(&source, &self.reading)?;
        // Only if it cuts texts itself, the id of a text stands for passages that were cut. Otherwise an
        // id that looks like that of a piece is an id like any other.
        let cuts = corpus.cuts();
        let known = match self.replace {
            true => HashSet::new(),
            false => old.names(cuts)?,
        };
        let mut corpus = corpus.knowing(known.clone());
        let survey = Survey::read(&mut corpus)?;
        if survey.rows == 0 {
            // A corpus that is in the index already is as good as added; one that cannot be used is not.
            return match survey.intake.known() {
                0 => Err(BuildError::Empty {
                    path: source.path,
                    intake: survey.intake,
                }),
                _ => Ok(old.unchanged(Some(survey.intake))),
            };
        }
        let kept = match self.replace {
            true => old.rows_where(|id| !names(id, cuts).any(|name| corpus.knows(name)))?,
            false => (0..old.index.rows()).collect(),
        };
        drop(corpus);
        let extended = old.index.inputs().extended || survey.extended;
        let inputs = old.inputs(&kept, &survey.sha256, extended);
        if !folder.is_grown(&inputs)? {
            let encoding = Encoding {
                encoder,
                copied: Some((&old.index, kept.as_slice())),
                first: 0,
                total: survey.rows,
                batch_rows: inputs.batch_rows,
            };
            loop {
                let mut writer = IndexWriter::open(&folder.partial, inputs.clone())?;
                let missing = kept.iter().copied().skip(writer.rows());
                copy_rows(&mut writer, &old.index, missing)?;
                writer.checkpoint()?;
                let mut corpus = Corpus::open(&source, &self.reading)?.knowing(known.clone());
                if !encoding.run(&mut writer, &mut corpus, progress).await? {
                    // From the beginning: no row is left to compare then.
                    writer.abandon()?;
                    continue;
                }
                while corpus.next()?.is_some() {}
                if !survey.is_of(&corpus) {
                    writer.abandon()?;
                    return Err(BuildError::Changed(self.corpus.clone()));
                }
                writer.finish()?;
                break;
            }
        }
        old.replace(&folder, &kept, inputs, Some(survey.intake))
    }
}

/// The generation that is there.
struct Old {
    index: PassageIndex,
    hot: Option<PassageIndex>,
}

impl Old {
    fn open(folder: &Folder) -> Result<Self, BuildError> {
        // What is copied is proven before.
        let index = PassageIndex::open_verified(&folder.out)?;
        if index.inputs().part.is_some() {
            return Err(BuildError::Setting(format!(
                "{} is a part of an index: merge the parts first",
                folder.out.display()
            )));
        }
        let hot = folder.out.join(HOT);
        let hot = match hot.exists() {
            true => Some(PassageIndex::open_verified(&hot)?),
            false => None,
        };
        Ok(Self { index, hot })
    }

    fn check_encoder(&self, encoder: &dyn Encoder) -> Result<(), BuildError> {
        let inputs = self.index.inputs();
        if inputs.encoder == encoder.fingerprint() && inputs.width == encoder.width() {
            return Ok(());
        }
        Err(BuildError::Setting(format!(
            "the index {} was built with encoder {}, and this is {}: name its encoder with --model",
            self.index.dir().display(),
            inputs.encoder,
            encoder.fingerprint()
        )))
    }

    /// What passages of the index are called.
    fn names(&self, with_pages: bool) -> Result<HashSet<u128>, BuildError> {
        let mut all = HashSet::new();
        for row in 0..self.index.rows() {
            all.extend(names(self.index.passage(row)?.fields().id, with_pages));
        }
        Ok(all)
    }

    /// The rows whose passages are to stay, by their ids.
    fn rows_where(&self, mut stays: impl FnMut(&str) -> bool) -> Result<Vec<usize>, BuildError> {
        let mut rows = Vec::new();
        for row in 0..self.index.rows() {
            if stays(self.index.passage(row)?.fields().id) {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// What the next generation is made of: this one, less what is gone, and what is added.
    fn inputs(&self, kept: &[usize], added: &str, extended: bool) -> Inputs {
        let inputs = self.index.inputs();
        let mut all = Sha256::new();
        let json = serde_json::to_vec(&(inputs, added)).unwrap_or_default();
        all.update(json);
        let mut kept = kept.iter().copied().peekable();
        for row in 0..self.index.rows() {
            if kept.next_if_eq(&row).is_none() {
                all.update(row.to_le_bytes());
            }
        }
        Inputs {
            corpus_sha256: hex(all),
            extended,
            ..inputs.clone()
        }
    }

    fn unchanged(&self, intake: Option<Intake>) -> Changed {
        Changed {
            rows: self.index.rows(),
            bytes: self.index.bytes(),
            added: 0,
            removed: 0,
            hot_rows: self.hot.as_ref().map(PassageIndex::rows),
            unknown: Vec::new(),
            unknown_count: 0,
            intake,
        }
    }

    /// Puts the generation that was finished in `partial` in the place of this one.
    fn replace(
        &self,
        folder: &Folder,
        kept: &[usize],
        inputs: Inputs,
        intake: Option<Intake>,
    ) -> Result<Changed, BuildError> {
        let fresh = folder.read_back()?;
        let hot_rows = match &self.hot {
            Some(hot) => self.carry_over(hot, folder, kept, inputs)?,
            None => None,
        };
        let changed = Changed {
            rows: fresh.rows(),
            bytes: fresh.bytes(),
            added: fresh.rows() - kept.len(),
            removed: self.index.rows() - kept.len(),
            hot_rows,
            unknown: Vec::new(),
            unknown_count: 0,
            intake,
        };
        drop(fresh);
        folder.swap()?;
        Ok(changed)
    }

    /// The hot subset, less what is gone.
    fn carry_over(
        &self,
        hot: &PassageIndex,
        folder: &Folder,
        kept: &[usize],
        inputs: Inputs,
    ) -> Result<Option<usize>, BuildError> {
        let mut ids = HashSet::new();
        for &row in kept {
            ids.insert(digest(self.index.passage(row)?.fields().id));
        }
        let mut rows = Vec::new();
        for row in 0..hot.rows() {
            if ids.contains(&digest(hot.passage(row)?.fields().id)) {
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let subset = hot.inputs().subset.as_ref().map(carried_over);
        let inputs = Inputs { subset, ..inputs };
        let mut writer = IndexWriter::open(&folder.partial.join(HOT), inputs)?;
        let missing = rows.iter().copied().skip(writer.rows());
        copy_rows(&mut writer, hot, missing)?;
        writer.finish()?;
        Ok(Some(rows.len()))
    }
}

/// The rule of a subset that was chosen for the generation before. A choice by the same rule may come
/// to other passages now, so the two must not be taken for one another.
fn carried_over(subset: &Subset) -> Subset {
    let mut ranks = Sha256::new();
    ranks.update(&subset.in_degree_sha256);
    ranks.update(", carried over");
    Subset {
        in_degree_sha256: hex(ranks),
        ..subset.clone()
    }
}

/// What a passage is called: `page#3`, and perhaps also `page`.
fn names(id: &str, with_page: bool) -> impl Iterator<Item = u128> {
    let page = id.rsplit_once('#').and_then(|(page, number)| {
        let piece = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (with_page && piece).then(|| digest(page))
    });
    std::iter::once(digest(id)).chain(page)
}
