//! What an index holds, and whether it can still be believed.

use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use spechop_ports::{PortError, Vitals};
use spechop_types::Passage;

use crate::error::{Fault, IndexError};
use crate::lexical::Lexical;
use crate::manifest::{Inputs, Manifest};
use crate::scan::Hit;
use crate::shard::{Held, Shard, StoredPassage};

/// What errors call an index.
pub(crate) const PART: &str = "passage index";

pub(crate) struct Rows {
    dir: PathBuf,
    manifest: Manifest,
    held: Held,
    shards: Vec<Shard>,
    /// Set once, if the words of passages count.
    lexical: OnceLock<Lexical>,
    /// Set once, by whoever finds it first: from then on nothing is found here.
    broken: OnceLock<Arc<str>>,
    vitals: Vitals,
}

impl Rows {
    /// Opens an index, and holds it in memory if it is no longer than `copied_bytes_max`. Lengths,
    /// headers, manifest, scales and offsets are right then.
    pub(crate) fn open(dir: &Path, copied_bytes_max: u64, vitals: Vitals) -> Result<Self, Fault> {
        let opened = loop {
            let pinned = Pinned::open(dir);
            match Opened::at(&pinned.path, copied_bytes_max) {
                // Another index has taken its place, and this one may have been removed meanwhile.
                Err(_) if pinned.is_no_longer(dir) => {}
                opened => break opened?,
            }
        };
        Ok(Self {
            dir: dir.to_owned(),
            manifest: opened.manifest,
            held: opened.held,
            shards: opened.shards,
            lexical: OnceLock::new(),
            broken: OnceLock::new(),
            vitals,
        })
    }

    /// Compares everything with the manifest's checksums. Stops early, without a fault, once `go_on`
    /// says no.
    pub(crate) fn verify(&self, go_on: &dyn Fn() -> bool) -> Result<(), Fault> {
        self.shards.iter().try_for_each(|shard| shard.verify(go_on))
    }

    /// Refused if anybody has written to a file that is still read from.
    pub(crate) fn unchanged(&self) -> Result<(), Fault> {
        self.shards.iter().try_for_each(Shard::unchanged)
    }

    /// From now on nothing is found here: what was found might be wrong, and reading on might end
    /// the process. Returns the reason that callers are told.
    pub(crate) fn break_down(&self, fault: Fault) -> Arc<str> {
        self.give_up(self.error(fault).to_string())
    }

    /// As [`Rows::break_down`], for a reason that is not in the files.
    pub(crate) fn give_up(&self, reason: String) -> Arc<str> {
        let reason = self.broken.get_or_init(|| {
            // Told first: whoever is refused for it finds it told.
            let part = format!("{PART} {}", self.dir.display());
            self.vitals.fail(&part, &*reason);
            reason.into()
        });
        Arc::clone(reason)
    }

    /// What callers are told, if nothing is found here any more.
    pub(crate) fn usable(&self) -> Result<(), PortError> {
        match self.broken.get() {
            Some(reason) => Err(PortError::unavailable(PART, &**reason)),
            None => Ok(()),
        }
    }

    /// From now on the words of passages count so much. The first call decides.
    pub(crate) fn mix_words(&self, weight: f32) -> Result<(), Fault> {
        let lexical = Lexical::of(self, weight)?;
        // A second one of the same rows would be the same.
        let _ = self.lexical.set(lexical);
        Ok(())
    }

    pub(crate) fn lexical(&self) -> Option<&Lexical> {
        self.lexical.get()
    }

    pub(crate) fn error(&self, fault: Fault) -> IndexError {
        IndexError::new(&self.dir, fault)
    }

    pub(crate) fn held(&self) -> Held {
        self.held
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.manifest.inputs
    }

    pub(crate) fn count(&self) -> usize {
        self.manifest.rows
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.manifest.bytes()
    }

    /// Every shard with the number of its first row.
    pub(crate) fn shards(&self) -> impl Iterator<Item = (&Shard, usize)> {
        let shard_rows = self.manifest.inputs.shard_rows;
        let shards = self.shards.iter().enumerate();
        shards.map(move |(number, shard)| (shard, number * shard_rows))
    }

    pub(crate) fn locate(&self, row: usize) -> (&Shard, usize) {
        let shard_rows = self.manifest.inputs.shard_rows;
        (&self.shards[row / shard_rows], row % shard_rows)
    }

    pub(crate) fn passage(&self, row: usize) -> Result<StoredPassage<'_>, Fault> {
        let (shard, at) = self.locate(row);
        shard.passage(at)
    }

    /// The passages of hits. Only here is their text read from disk.
    pub(crate) fn passages(&self, hits: &[Hit]) -> Result<Vec<Passage>, Fault> {
        let passage = |hit: &Hit| {
            let stored = self.passage(hit.row)?;
            let fields = stored.fields();
            Ok(Passage {
                id: fields.id.into(),
                title: fields.title.into(),
                text: fields.text.into(),
                url: fields.url.map(Into::into),
                score: hit.score,
            })
        };
        hits.iter().map(passage).collect()
    }
}

/// The files of an index.
struct Opened {
    manifest: Manifest,
    held: Held,
    shards: Vec<Shard>,
}

impl Opened {
    fn at(dir: &Path, copied_bytes_max: u64) -> Result<Self, Fault> {
        let manifest = Manifest::read(dir)?;
        let whose = manifest.inputs.whose();
        // All shards but the last are full, which makes finding a row a division.
        let full = manifest.inputs.shard_rows;
        let last = manifest.shards.len().saturating_sub(1);
        let uneven = manifest.shards.iter().take(last).any(|s| s.rows != full);
        if uneven || manifest.shards.iter().any(|s| s.rows > full) {
            return Err(Fault::Manifest("its shards are of uneven length".into()));
        }
        let held = if manifest.bytes() <= copied_bytes_max {
            Held::InMemory
        } else {
            Held::OnDisk
        };
        let shards = manifest.shards.iter().enumerate();
        let shards = shards
            .map(|(number, entry)| Shard::open(dir, number, entry.clone(), whose, held))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            manifest,
            held,
            shards,
        })
    }
}

/// A folder that stays the same one while its files are opened, whatever takes its place.
struct Pinned {
    /// Held for the sake of `path`.
    folder: Option<File>,
    path: PathBuf,
}

impl Pinned {
    /// If the folder or the system does not allow it, the folder's own path has to do.
    fn open(dir: &Path) -> Self {
        let folder = File::open(dir).ok();
        let path = folder.as_ref().map(|folder| {
            let number = folder.as_raw_fd();
            PathBuf::from(format!("/proc/self/fd/{number}"))
        });
        let path = path.filter(|path| path.exists());
        Self {
            folder,
            path: path.unwrap_or_else(|| dir.to_owned()),
        }
    }

    /// Whether another folder lies at `dir` by now.
    fn is_no_longer(&self, dir: &Path) -> bool {
        let before = self
            .folder
            .as_ref()
            .and_then(|folder| folder.metadata().ok());
        let which = |found: &Metadata| (found.dev(), found.ino());
        match (before, fs::metadata(dir)) {
            (Some(before), Ok(now)) => which(&before) != which(&now),
            (None, _) | (_, Err(_)) => false,
        }
    }
}
