//! The file in which what was learnt survives a restart.
//!
//! Sealed JSON ([`spechop_store::sealed`]), readable by its owner alone. It holds the names of tenants,
//! and of each its times, hit rates and which hops depend on which: no word of any question or answer.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spechop_sim::{History, Past};
use spechop_store::sealed;
use spechop_theory::Learnt;
use spechop_types::Tenant;

use super::identity::Identity;

/// Changes whenever an older program would misread a new file, or the other way round.
/// 2: what was learnt is each tenant's own.
const FORMAT: u64 = 2;
/// Longer files are not ours: all that is kept takes less, as a test computes.
pub(super) const BYTES_MAX: u64 = 64 << 20;
/// Most hops of all questions that are kept; a hop is up to 450 bytes. Of each earlier hop that a hop
/// depends on there is a number, which counts as much.
pub(super) const HOPS_KEPT: usize = 60_000;

/// Everything in the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    format: u64,
    /// What the estimates of each speculator are about, by its name.
    pub(super) identities: BTreeMap<String, Identity>,
    /// The least recently used first.
    pub(super) tunings: Vec<KeptSpeculator>,
}

/// What was learnt of one speculator for one tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptSpeculator {
    /// Whose questions it was learnt from.
    pub(super) tenant: Tenant,
    /// The speculator's name.
    pub(super) speculator: String,
    /// Hops that were learnt from.
    pub(super) hops: u64,
    pub(super) learnt: Learnt,
    /// The last questions, oldest first.
    pub(super) questions: Vec<Past>,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum Useless {
    /// The file system's reason.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// A folder, a pipe, a device.
    #[error("it is not a file")]
    NotAFile,
    /// Nothing that this program has written.
    #[error("it has {0} bytes, more than {BYTES_MAX}")]
    TooLong(u64),
    /// Written by another version of this program.
    #[error("it is of format {found}, not {FORMAT}")]
    Version {
        /// Its format.
        found: u64,
    },
    /// Its checksum does not match, or it is not JSON.
    #[error("it is damaged")]
    Damaged,
}

impl Useless {
    /// Whether this program, or another version of it, may have written the file: then it may be
    /// replaced.
    pub(super) fn may_be_ours(&self) -> bool {
        match self {
            Self::TooLong(_) | Self::Version { .. } | Self::Damaged => true,
            Self::Io(_) | Self::NotAFile => false,
        }
    }
}

impl Kept {
    /// To be written.
    pub(super) fn new(
        identities: BTreeMap<String, Identity>,
        tunings: Vec<KeptSpeculator>,
    ) -> Self {
        Self {
            format: FORMAT,
            identities,
            tunings,
        }
    }

    /// What the file holds; nothing if there is no file. **Blocks.**
    pub(super) fn read(path: &Path) -> Result<Self, Useless> {
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
        };
        // Opening a pipe would wait for somebody to write into it.
        if !found.is_file() {
            return Err(Useless::NotAFile);
        }
        if found.len() > BYTES_MAX {
            return Err(Useless::TooLong(found.len()));
        }
        let mut json = Vec::new();
        // It may have grown since.
        File::open(path)?.take(BYTES_MAX).read_to_end(&mut json)?;
        Self::parse(&json)
    }

    pub(super) fn parse(json: &[u8]) -> Result<Self, Useless> {
        match sealed::format(json) {
            Some(FORMAT) => sealed::open(json).ok_or(Useless::Damaged),
            Some(found) => Err(Useless::Version { found }),
            None => Err(Useless::Damaged),
        }
    }

    /// Replaces the file, wholly or not at all; its folder is made if there is none. **Blocks.**
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        sealed::write(path, self, sealed::Readers::Owner)
    }
}

/// The last of these questions, as far as there is room for their hops.
pub(super) fn last_questions(history: &History, room: &mut usize) -> Vec<Past> {
    let fits = |past: &&Past| {
        let numbers = |of: &std::sync::Arc<[u32]>| of.len();
        let size = past.hops.iter();
        let size = size.map(|hop| 1 + hop.depends_on.as_ref().map_or(0, numbers));
        let left = room.checked_sub(size.sum::<usize>().max(1));
        *room = left.unwrap_or(0);
        left.is_some()
    };
    let mut last: Vec<Past> = history
        .questions()
        .rev()
        .take_while(fits)
        .cloned()
        .collect();
    last.reverse();
    last
}

/// Puts a file aside that is of no use, so that somebody can look at it: `tuning.json` becomes
/// `tuning.json.damaged`, in place of an earlier one. **Blocks.**
pub(super) fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    fs::rename(path, &aside)?;
    Ok(aside)
}
