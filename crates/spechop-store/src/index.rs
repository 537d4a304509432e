//! An index that is open.

use std::path::Path;
use std::sync::Arc;

use spechop_lexical::Bm25;
use spechop_ports::{Call, PortError, Vitals};
use spechop_types::{Activity, Passage};
use tokio::sync::oneshot;

use crate::check::Checker;
use crate::error::{Fault, IndexError};
use crate::layout::stride;
use crate::lexical::{LexicalWeight, ranking};
use crate::manifest::Inputs;
use crate::rows::{PART, Rows};
use crate::scan::{Hit, Query, Top, scan};
use crate::search::{Job, Searcher};
use crate::shard::{Held, StoredPassage};

/// An index of up to this size is read into memory and checksummed when it is opened, which takes
/// milliseconds.
const COPIED_BYTES_MAX: u64 = 32 << 20;

/// Passages and their vectors, searched exactly.
pub struct PassageIndex {
    /// `None` if everything was compared before, or is to be compared on demand only. Nobody asks it;
    /// it ends with the index.
    _checker: Option<Checker>,
    rows: Arc<Rows>,
    searcher: Searcher,
}

/// When the checksums of an index are compared that is not held in memory. One that is held there
/// was read just now, and is compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Not at all.
    OnDemand,
    /// Before it is opened.
    Before,
    /// Behind that, in the background.
    Behind,
}

impl PassageIndex {
    /// Opens an index. Lengths, headers, the manifest, and the order of records are always checked.
    /// Checksums are compared if the index is no larger than 32 MiB; it is held in memory then. See
    /// [`PassageIndex::verify`] for larger ones.
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        Self::open_as(dir, COPIED_BYTES_MAX, Proof::OnDemand, Vitals::default())
    }

    /// Opens an index and compares every checksum, whatever its size: it reads every byte.
    pub fn open_verified(dir: &Path) -> Result<Self, IndexError> {
        Self::open_as(dir, COPIED_BYTES_MAX, Proof::Before, Vitals::default())
    }

    /// Opens an index for as long as a server runs. Checksums that are not compared at once are
    /// compared in the background. If the index turns out to be damaged, or somebody writes to its
    /// files, the vital signs tell, and from then on every search is [`PortError::Unavailable`].
    pub fn open_watched(dir: &Path, vitals: &Vitals) -> Result<Self, IndexError> {
        Self::open_as(dir, COPIED_BYTES_MAX, Proof::Behind, vitals.clone())
    }

    pub(crate) fn open_as(
        dir: &Path,
        copied_bytes_max: u64,
        proof: Proof,
        vitals: Vitals,
    ) -> Result<Self, IndexError> {
        let refused = |fault| IndexError::new(dir, fault);
        let no_thread = |action: &str| {
            let action = action.to_owned();
            move |error| refused(Fault::Io { action, error })
        };
        let rows = Rows::open(dir, copied_bytes_max, vitals).map_err(refused)?;
        if rows.held() == Held::InMemory || proof == Proof::Before {
            rows.verify(&|| true).map_err(refused)?;
        }
        let rows = Arc::new(rows);
        let searcher = Searcher::spawn(Arc::clone(&rows));
        let searcher = searcher.map_err(no_thread("starting its search thread"))?;
        let checker = match (rows.held(), proof) {
            (Held::OnDisk, Proof::Behind) => {
                let checker = Checker::spawn(Arc::clone(&rows));
                Some(checker.map_err(no_thread("starting the thread that checks it"))?)
            }
            (Held::OnDisk | Held::InMemory, _) => None,
        };
        Ok(Self {
            _checker: checker,
            rows,
            searcher,
        })
    }

    /// The same index, in which the words of a query count beside its vector: the weight times the
    /// passage's share of the highest BM25 score that the query could have. Only searches by
    /// [`PassageIndex::search_text`] know words. Reads every passage, unless the weight is 0.
    ///
    /// # Errors
    ///
    /// If a passage cannot be read, or makes no sense.
    pub fn with_words(self, weight: LexicalWeight) -> Result<Self, IndexError> {
        let weight = weight.over(self.rows());
        if weight > 0.0 {
            let mixed = self.rows.mix_words(weight);
            mixed.map_err(|fault| self.rows.error(fault))?;
        }
        Ok(self)
    }

    /// BM25 over the passages, numbered as their rows, for tools. Reads every passage.
    ///
    /// # Errors
    ///
    /// If a passage cannot be read, or makes no sense.
    pub fn ranking(&self) -> Result<Bm25, IndexError> {
        ranking(&self.rows).map_err(|fault| self.rows.error(fault))
    }

    /// Reads everything that is still on disk and compares it with the checksums of the manifest.
    pub fn verify(&self) -> Result<(), IndexError> {
        let verified = self.rows.verify(&|| true);
        verified.map_err(|fault| self.rows.error(fault))
    }

    /// The folder it was opened from.
    pub fn dir(&self) -> &Path {
        self.rows.dir()
    }

    /// What it was made of.
    pub fn inputs(&self) -> &Inputs {
        self.rows.inputs()
    }

    /// Number of passages; never 0.
    pub fn rows(&self) -> usize {
        self.rows.count()
    }

    /// Components of a vector.
    pub fn width(&self) -> usize {
        self.rows.inputs().width
    }

    /// Bytes of all files but the manifest.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes()
    }

    /// The passages nearest to a vector: at most `limit`, best first, equal scores in the order of
    /// the corpus. Runs on the index's own thread, together with the searches that wait with it.
    ///
    /// # Errors
    ///
    /// [`PortError::Unavailable`] if the index has turned out to be damaged.
    pub async fn search(
        &self,
        call: &Call,
        vector: &[f32],
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        self.search_text(call, "", vector, limit).await
    }

    /// The same, with the text that the vector stands for. Its words count if the index was opened
    /// [`PassageIndex::with_words`]; the scores are mixed then.
    ///
    /// # Errors
    ///
    /// As [`PassageIndex::search`].
    pub async fn search_text(
        &self,
        call: &Call,
        text: &str,
        vector: &[f32],
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let refused = |detail: String| PortError::refused(PART, detail);
        if vector.len() != self.width() {
            let (found, wanted) = (vector.len(), self.width());
            return Err(refused(format!(
                "a query of {found} components instead of {wanted}"
            )));
        }
        let mut query = Query::new(vector, limit.min(self.rows()))
            .ok_or_else(|| refused("a query with a component that is no finite number".into()))?;
        if self.rows.lexical().is_some() {
            query = query.of_text(text);
        }
        self.rows.usable()?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let _waiting = call.doing(Activity::Queue);
        let (reply, answer) = oneshot::channel();
        self.searcher.submit(Job {
            query,
            call: call.clone(),
            reply,
        });
        answer.await.unwrap_or_else(|_| {
            let ended = "its search thread has ended";
            Err(PortError::unavailable(PART, ended))
        })
    }

    /// Searches on the calling thread, all queries in one pass: for tools, which have no one to hold
    /// up. Results are in the order of the queries.
    ///
    /// # Errors
    ///
    /// Where somebody has written to the files of the index.
    pub fn scan(&self, queries: &[Query]) -> Result<Vec<Vec<Hit>>, IndexError> {
        // A query of another width finds nothing.
        let fits = |query: &Query| query.stride() == stride(self.width());
        let queries: Vec<&Query> = queries.iter().collect();
        let mut tops: Vec<Top> = queries
            .iter()
            .map(|query| Top::new(query.limit()))
            .collect();
        if queries.iter().all(|query| fits(query)) {
            let mut shards = self.rows.shards();
            shards
                .try_for_each(|(shard, first_row)| {
                    scan(shard, 0..shard.rows(), first_row, &queries, &mut tops)
                })
                .and_then(|()| self.rows.unchanged())
                .map_err(|fault| self.rows.error(fault))?;
        }
        Ok(tops.into_iter().map(Top::into_hits).collect())
    }

    /// The passage of a row.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or makes no sense.
    ///
    /// # Panics
    ///
    /// Where `row` is not below [`PassageIndex::rows`].
    pub fn passage(&self, row: usize) -> Result<StoredPassage<'_>, IndexError> {
        let passage = self.rows.passage(row);
        passage.map_err(|fault| self.rows.error(fault))
    }

    /// What callers are told, if the index has turned out to be damaged.
    pub(crate) fn usable(&self) -> Result<(), PortError> {
        self.rows.usable()
    }

    /// The vector of a row as it is stored: [`PassageIndex::width`] int8 components, padded with
    /// zeros, and their scale.
    ///
    /// # Errors
    ///
    /// Where somebody has written to the files of the index.
    ///
    /// # Panics
    ///
    /// Where `row` is not below [`PassageIndex::rows`].
    pub fn vector(&self, row: usize) -> Result<(&[i8], f32), IndexError> {
        let (shard, at) = self.rows.locate(row);
        let vector = shard.vectors(at..at + 1);
        let vector = vector.map_err(|fault| self.rows.error(fault))?;
        Ok((vector, shard.scale(at)))
    }
}

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod sweep_tests;
#[cfg(test)]
mod tests;
