//! An index that is open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spechop_ports::{Call, PortError};
use spechop_types::Passage;
use tokio::sync::oneshot;

use crate::error::{Fault, IndexError};
use crate::layout::stride;
use crate::manifest::{Inputs, Manifest};
use crate::scan::{Hit, Query, Top, scan};
use crate::search::{Job, Searcher};
use crate::shard::{PassageRef, Shard};

/// An index of up to this size is checksummed whole when it is opened, which takes milliseconds.
const VERIFIED_AT_OPEN_BYTES_MAX: u64 = 32 << 20;

/// Passages and their vectors, read from memory-mapped files and searched exactly.
pub struct PassageIndex {
    rows: Arc<Rows>,
    searcher: Searcher,
}

impl PassageIndex {
    /// Opens an index. Lengths, headers and the manifest are checked always, checksums where the
    /// index is no larger than 32 MiB; see [`PassageIndex::verify`] for the rest.
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        Self::open_checked(dir, VERIFIED_AT_OPEN_BYTES_MAX)
    }

    /// Opens an index and checks every checksum, whatever its size: about a second per 4 GiB that
    /// are in memory already.
    pub fn open_verified(dir: &Path) -> Result<Self, IndexError> {
        Self::open_checked(dir, u64::MAX)
    }

    pub(crate) fn open_checked(dir: &Path, verified_bytes_max: u64) -> Result<Self, IndexError> {
        let refused = |fault| IndexError::new(dir, fault);
        let rows = Rows::open(dir).map_err(refused)?;
        if rows.bytes() <= verified_bytes_max {
            rows.verify().map_err(refused)?;
        }
        let rows = Arc::new(rows);
        let searcher = Searcher::spawn(Arc::clone(&rows))
            .map_err(|error| Fault::Io {
                action: "starting its search thread".into(),
                error,
            })
            .map_err(refused)?;
        Ok(Self { rows, searcher })
    }

    /// Reads everything and compares it with the checksums of the manifest.
    pub fn verify(&self) -> Result<(), IndexError> {
        self.rows
            .verify()
            .map_err(|fault| IndexError::new(&self.rows.dir, fault))
    }

    /// The folder it was opened from.
    pub fn dir(&self) -> &Path {
        &self.rows.dir
    }

    /// What it was made of.
    pub fn inputs(&self) -> &Inputs {
        &self.rows.manifest.inputs
    }

    /// Number of passages; never 0.
    pub fn rows(&self) -> usize {
        self.rows.manifest.rows
    }

    /// Components of a vector.
    pub fn width(&self) -> usize {
        self.rows.manifest.inputs.width
    }

    /// Bytes of all files but the manifest.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes()
    }

    /// The passages nearest to a vector: at most `limit`, best first, equal scores in the order of
    /// the corpus. Runs on the index's own thread, together with the searches that wait with it.
    pub async fn search(
        &self,
        call: &Call,
        vector: &[f32],
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let refused = |detail: String| PortError::Refused {
            what: "passage index".into(),
            detail,
        };
        if vector.len() != self.width() {
            let (found, wanted) = (vector.len(), self.width());
            return Err(refused(format!(
                "a query of {found} components instead of {wanted}"
            )));
        }
        let query = Query::new(vector, limit.min(self.rows()))
            .ok_or_else(|| refused("a query with a component that is no finite number".into()))?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        self.searcher.submit(Job {
            query,
            call: call.clone(),
            reply,
        });
        answer.await.unwrap_or_else(|_| {
            Err(PortError::Unavailable {
                what: "passage index (its search thread has ended)".into(),
                source: None,
            })
        })
    }

    /// Searches on the calling thread, all queries in one pass: for tools, which have no one to hold
    /// up. Results are in the order of the queries.
    pub fn scan(&self, queries: &[Query]) -> Vec<Vec<Hit>> {
        // A query of another width finds nothing.
        let fits = |query: &Query| query.stride() == stride(self.width());
        let queries: Vec<&Query> = queries.iter().collect();
        let mut tops: Vec<Top> = queries
            .iter()
            .map(|query| Top::new(query.limit()))
            .collect();
        if queries.iter().all(|query| fits(query)) {
            for (shard, first_row) in self.rows.shards() {
                scan(shard, 0..shard.rows(), first_row, &queries, &mut tops);
            }
        }
        tops.into_iter().map(Top::into_hits).collect()
    }

    /// The passage of a row.
    ///
    /// # Panics
    ///
    /// Where `row` is not below [`PassageIndex::rows`].
    pub fn passage(&self, row: usize) -> Result<PassageRef<'_>, IndexError> {
        self.rows.passage(row)
    }

    /// The vector of a row as it is stored: [`PassageIndex::width`] int8 components, padded with
    /// zeros, and their scale.
    ///
    /// # Panics
    ///
    /// Where `row` is not below [`PassageIndex::rows`].
    pub fn vector(&self, row: usize) -> (&[i8], f32) {
        let (shard, at) = self.rows.locate(row);
        (shard.vectors(at..at + 1), shard.scale(at))
    }
}

/// What is on disk.
pub(crate) struct Rows {
    dir: PathBuf,
    manifest: Manifest,
    shards: Vec<Shard>,
}

impl Rows {
    fn open(dir: &Path) -> Result<Self, Fault> {
        let manifest = Manifest::read(dir)?;
        let identity = manifest.inputs.identity();
        let width = manifest.inputs.width;
        // All shards but the last are full, which makes finding a row a division.
        let full = manifest.inputs.shard_rows;
        let last = manifest.shards.len().saturating_sub(1);
        let uneven = manifest.shards.iter().take(last).any(|s| s.rows != full);
        if uneven || manifest.shards.iter().any(|s| s.rows > full) {
            return Err(Fault::Manifest("its shards are of uneven length".into()));
        }
        let shards = manifest
            .shards
            .iter()
            .enumerate()
            .map(|(number, entry)| Shard::open(dir, number, entry.clone(), width, &identity))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            dir: dir.to_owned(),
            manifest,
            shards,
        })
    }

    fn verify(&self) -> Result<(), Fault> {
        self.shards.iter().try_for_each(Shard::verify)
    }

    fn bytes(&self) -> u64 {
        let files = self.manifest.shards.iter().flat_map(|shard| &shard.files);
        files.map(|file| file.bytes).sum()
    }

    /// Every shard with the number of its first row.
    pub(crate) fn shards(&self) -> impl Iterator<Item = (&Shard, usize)> {
        let shard_rows = self.manifest.inputs.shard_rows;
        let shards = self.shards.iter().enumerate();
        shards.map(move |(number, shard)| (shard, number * shard_rows))
    }

    fn locate(&self, row: usize) -> (&Shard, usize) {
        let shard_rows = self.manifest.inputs.shard_rows;
        (&self.shards[row / shard_rows], row % shard_rows)
    }

    fn passage(&self, row: usize) -> Result<PassageRef<'_>, IndexError> {
        let (shard, at) = self.locate(row);
        shard
            .passage(at)
            .map_err(|fault| IndexError::new(&self.dir, fault))
    }

    /// The passages of hits. Only here is their text read from disk.
    pub(crate) fn passages(&self, hits: &[Hit]) -> Result<Vec<Passage>, IndexError> {
        let passage = |hit: &Hit| {
            let passage = self.passage(hit.row)?;
            Ok(Passage {
                id: passage.id.into(),
                title: passage.title.into(),
                text: passage.text.into(),
                score: hit.score,
            })
        };
        hits.iter().map(passage).collect()
    }
}

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;
