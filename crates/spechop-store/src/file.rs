//! A file of an index that is open.
//!
//! Others may write to it, cut it or delete it at any time. Deleting harms nobody: the content stays
//! for as long as the file is open. Whoever reads here notices the rest, because length and time of
//! last change are compared with those at opening, and because reads have an end. Only
//! [`IndexFile::map`] gives out memory that others can take away.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memmap2::{Mmap, MmapMut};

use crate::error::Fault;

/// Read at once where a whole file is checksummed: large enough that system calls do not count,
/// small enough that somebody else gets the core soon.
const BLOCK_BYTES: usize = 1 << 20;

pub(crate) struct IndexFile {
    name: String,
    path: PathBuf,
    file: File,
    stamp: Stamp,
}

/// How a file looks from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self {
            bytes: found.len(),
            modified: found.modified().ok(),
        }
    }
}

impl IndexFile {
    /// Opens a file that must be `bytes` long.
    pub(crate) fn open(dir: &Path, name: String, bytes: u64) -> Result<Self, Fault> {
        let path = dir.join(&name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Fault::Missing(name));
            }
            Err(error) => return Err(Fault::io("opening", &path)(error)),
        };
        let found = file.metadata().map_err(Fault::io("reading", &path))?;
        let stamp = Stamp::of(&found);
        if stamp.bytes != bytes {
            return Err(Fault::Length {
                file: name,
                found: stamp.bytes,
                expected: bytes,
            });
        }
        Ok(Self {
            name,
            path,
            file,
            stamp,
        })
    }

    /// Refused if anybody has written to the file since it was opened. Takes less than a microsecond.
    pub(crate) fn unchanged(&self) -> Result<(), Fault> {
        let found = self.file.metadata();
        let found = found.map_err(Fault::io("reading", &self.path))?;
        if Stamp::of(&found) == self.stamp {
            Ok(())
        } else {
            Err(Fault::Changed(self.name.clone()))
        }
    }

    /// Fills `bytes` with what stands at `at`.
    pub(crate) fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), Fault> {
        match self.file.read_exact_at(bytes, at) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Fault::Changed(self.name.clone()))
            }
            Err(error) => Err(Fault::io("reading", &self.path)(error)),
        }
    }

    /// A copy of the whole file, which nobody can change.
    pub(crate) fn copy(&self) -> Result<Mmap, Fault> {
        let failed = || Fault::io("reading", &self.path);
        // Begins at a page, as a mapped file does: rows that lie across cache lines are slower.
        let mut copy = MmapMut::map_anon(self.stamp.bytes as usize).map_err(failed())?;
        self.read(&mut copy, 0)?;
        copy.make_read_only().map_err(failed())
    }

    /// CRC-32 of the file, read piece by piece. `None` once `go_on`, which is asked before each
    /// piece, says no.
    pub(crate) fn crc32(&self, go_on: &dyn Fn() -> bool) -> Result<Option<u32>, Fault> {
        let mut block = vec![0; BLOCK_BYTES.min(self.stamp.bytes as usize)];
        let mut hasher = crc32fast::Hasher::new();
        let mut at = 0;
        while at < self.stamp.bytes {
            if !go_on() {
                return Ok(None);
            }
            let left = self.stamp.bytes - at;
            let length = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.read(&mut block[..length], at)?;
            hasher.update(&block[..length]);
            at += length as u64;
        }
        // Longer by now, perhaps.
        self.unchanged()?;
        Ok(Some(hasher.finalize()))
    }

    /// The file as memory. **Whoever reads it asks [`IndexFile::unchanged`] right before, and again
    /// before anything read is believed.**
    #[expect(
        unsafe_code,
        reason = "memory-mapping a file: an index may be larger than memory"
    )]
    pub(crate) fn map(&self) -> Result<Mmap, Fault> {
        // SAFETY: the mapping is read-only. What could break it is another process that writes to the
        // file. If it overwrites, bytes change while they are read. They are vectors and nothing else:
        // every value of a byte is a valid component, no length or index is derived from one, and
        // scores that were computed from changed bytes are thrown away (`unchanged`, which the search
        // asks once more at the end). If it cuts the file, a read of a page beyond the new end would
        // end the process. No page is read behind a cut that `unchanged` can see. What is left is a
        // cut between that look and the read, which is a few hundred microseconds of a running search;
        // the documentation of the crate says so. Our own builder never writes to a finished index.
        unsafe { Mmap::map(&self.file) }.map_err(Fault::io("mapping", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    /// A file of 3 MiB and a bit that was written an hour ago, open.
    fn open(dir: &Path) -> (IndexFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES + 5)
            .map(|at| (at % 251) as u8)
            .collect();
        let path = dir.join("file");
        fs::write(&path, &bytes).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        let hour = Duration::from_secs(3600);
        file.set_modified(SystemTime::now() - hour).unwrap();
        let file = IndexFile::open(dir, "file".into(), bytes.len() as u64).unwrap();
        (file, bytes)
    }

    #[test]
    fn a_file_is_read_whole_however_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, bytes) = open(dir.path());
        assert!(*file.copy().unwrap() == *bytes);
        assert!(*file.map().unwrap() == *bytes);
        let whole = crc32fast::hash(&bytes);
        assert_eq!(file.crc32(&|| true).unwrap(), Some(whole));
        assert_eq!(file.crc32(&|| false).unwrap(), None);
        file.unchanged().unwrap();
    }

    #[test]
    fn whoever_writes_to_it_is_noticed() {
        let overwrite = |path: &Path| {
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(b"x", 7).unwrap();
        };
        let cut = |path: &Path| {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(BLOCK_BYTES as u64).unwrap();
        };
        let replace = |path: &Path| {
            let other = path.with_extension("new");
            fs::write(&other, "another").unwrap();
            fs::rename(other, path).unwrap();
        };
        let delete = |path: &Path| fs::remove_file(path).unwrap();
        type Accident<'a> = &'a dyn Fn(&Path);
        let cases: [(Accident<'_>, bool); 4] = [
            (&overwrite, true),
            (&cut, true),
            (&replace, false),
            (&delete, false),
        ];
        for (number, (accident, noticed)) in cases.into_iter().enumerate() {
            let dir = tempfile::tempdir().unwrap();
            let (file, bytes) = open(dir.path());
            let copy = file.copy().unwrap();
            accident(&dir.path().join("file"));
            assert_eq!(file.unchanged().is_err(), noticed, "case {number}");
            assert_eq!(file.crc32(&|| true).is_err(), noticed, "case {number}");
            assert!(*copy == *bytes, "a copy is a copy");
        }
    }
}
