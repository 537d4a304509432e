//! The manifest: what an index is made of, and what its files must look like.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Fault, IndexError};
use crate::layout::{EXTENDED, FORMATS, PLAIN, Whose};
use crate::sealed::{self, Readers};

/// Name of the manifest within the folder of an index.
pub const MANIFEST: &str = "manifest.json";

/// Most rows: postings number them with 32 bits.
const ROWS_MAX: usize = u32::MAX as usize;
/// Most components of a vector: products of two with more might not fit into 32 bits.
const WIDTH_MAX: usize = 1 << 16;

/// Everything that decides what an index holds: two indexes of equal inputs are equal byte for
/// byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// SHA-256 of the corpus, uncompressed, in hexadecimal.
    pub corpus_sha256: String,
    /// Fingerprint of the encoder.
    pub encoder: String,
    /// Components of a vector.
    pub width: usize,
    /// How the text that is encoded is made of a passage's fields, in words.
    pub text: String,
    /// Passages encoded at once; the company of a batch may touch a vector's last bits.
    pub batch_rows: usize,
    /// Most rows of a shard.
    pub shard_rows: usize,
    /// Where only part of the corpus is in: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<Subset>,
    /// Whether the URL and the in-degree of passages are stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extended: bool,
    /// If the index is one part of several that are still to be merged: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// One of several parts of an index, each built on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its number, from 0.
    pub number: usize,
    /// How many parts make the whole.
    pub of: usize,
}

/// The rule by which a hot subset was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subset {
    /// Share of the passages that is in, in (0, 1].
    pub fraction: f64,
    /// SHA-256 of what ranks the passages, in hexadecimal: of the file with in-degrees, of the corpus
    /// that they came with, or of one of these and the counts of answers.
    pub in_degree_sha256: String,
}

impl Inputs {
    /// Those of the index in `dir`, whatever has become of its other files.
    ///
    /// # Errors
    ///
    /// If its manifest is missing, damaged, or of a newer format.
    pub fn of_index(dir: &Path) -> Result<Self, IndexError> {
        match Manifest::read(dir) {
            Ok(manifest) => Ok(manifest.inputs),
            Err(fault) => Err(IndexError::new(dir, fault)),
        }
    }

    /// The format that an index of these inputs is written in.
    pub(crate) fn format(&self) -> u64 {
        match self.extended || self.part.is_some() {
            true => EXTENDED,
            false => PLAIN,
        }
    }

    pub(crate) fn whose(&self) -> Whose {
        let format = self.format();
        // A struct of strings and numbers always serialises.
        let json = serde_json::to_vec(&(format, self)).unwrap_or_default();
        Whose {
            format,
            width: self.width,
            identity: Sha256::digest(json).into(),
        }
    }
}

/// The manifest's content, apart from its own checksum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) format: u64,
    pub(crate) rows: usize,
    pub(crate) inputs: Inputs,
    pub(crate) shards: Vec<ShardEntry>,
}

/// What one shard's files must look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardEntry {
    pub(crate) rows: usize,
    /// In the order of [`crate::layout::Kind::ALL`].
    pub(crate) files: [FileEntry; 4],
}

/// What a file must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

impl Manifest {
    pub(crate) fn read(dir: &Path) -> Result<Self, Fault> {
        let path = dir.join(MANIFEST);
        let json = match fs::read(&path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Fault::Unfinished),
            Err(error) => return Err(Fault::io("reading", &path)(error)),
        };
        if let Some(found) = sealed::format(&json)
            && !FORMATS.contains(&found)
        {
            return Err(Fault::Version {
                found,
                newest: EXTENDED,
            });
        }
        let manifest: Self = sealed::open(&json)
            .ok_or_else(|| Fault::Manifest("its checksum does not match".into()))?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Bytes of all files that it names.
    pub(crate) fn bytes(&self) -> u64 {
        let files = self.shards.iter().flat_map(|shard| &shard.files);
        files.fold(0_u64, |all, file| all.saturating_add(file.bytes))
    }

    /// Written last, and in one step: an index with a manifest is whole.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), Fault> {
        write_sealed(&dir.join(MANIFEST), self)
    }

    /// What a reader takes for granted. The checksum rules out accidents, this rules out writers
    /// with other ideas.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let mut rows = self.shards.iter().map(|shard| shard.rows);
        let sound = rows.try_fold(0, usize::checked_add) == Some(self.rows)
            && (1..=ROWS_MAX).contains(&self.rows)
            && (1..=WIDTH_MAX).contains(&self.inputs.width)
            && self.format == self.inputs.format();
        if !sound || self.shards.iter().any(|shard| shard.rows == 0) {
            return Err(Fault::Manifest("its numbers contradict each other".into()));
        }
        Ok(())
    }
}

/// Replaces a file of the index, wholly or not at all.
pub(crate) fn write_sealed<T: Serialize>(path: &Path, value: &T) -> Result<(), Fault> {
    sealed::write(path, value, Readers::Usual).map_err(Fault::io("writing", path))
}
