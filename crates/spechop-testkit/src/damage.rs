//! What befalls files: damages drawn from a seed, for tests that nothing damaged is used in silence.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Bytes that a disk loses at once.
const PAGE_BYTES: u64 = 4096;

/// One file, and what happens to it. Its `Debug` tells a failed test's reader everything.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The file's name within its folder.
    pub file: String,
    /// What happens to it.
    pub accident: Accident,
}

/// What happens to a file. Places are shares of its length, in 1/65536.
#[derive(Clone, Debug)]
pub enum Accident {
    /// One bit turns over.
    Flip {
        /// Where.
        at: u16,
        /// Which bit.
        bit: u8,
    },
    /// Bytes become random, as many as a page at most.
    Scramble {
        /// Where they begin.
        at: u16,
        /// What they become.
        bytes: Vec<u8>,
    },
    /// A page becomes zeros.
    Zero {
        /// The page that holds this place.
        at: u16,
    },
    /// What stands behind a place is gone.
    Cut {
        /// The place.
        at: u16,
    },
    /// Bytes are appended.
    Grow {
        /// Which.
        bytes: Vec<u8>,
    },
    /// Another file of the folder is copied over it.
    Swap {
        /// The other file.
        with: String,
    },
    /// The file is removed.
    Delete,
}

/// Whether the time of last change gives the damage away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// It stays as it was: a disk that decays, a copy that keeps times.
    Hidden,
    /// It is now.
    Left,
}

impl Damage {
    /// Draws a damage to one of these files.
    ///
    /// # Panics
    ///
    /// If there are no files.
    pub fn draw(seed: u64, files: &[&str]) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let file = files[random.random_range(0..files.len())];
        let at = random.random();
        let length = random.random_range(1..300);
        let bytes: Vec<u8> = (0..length).map(|_| random.random()).collect();
        let accident = match random.random_range(0..10) {
            0..3 => Accident::Flip {
                at,
                bit: random.random_range(0..8),
            },
            3..5 => Accident::Scramble { at, bytes },
            5 => Accident::Zero { at },
            6 | 7 => Accident::Cut { at },
            8 => match random.random_range(0..4) {
                0 => Accident::Delete,
                _ => Accident::Grow { bytes },
            },
            _ => Accident::Swap {
                with: files[random.random_range(0..files.len())].to_owned(),
            },
        };
        Self {
            file: file.to_owned(),
            accident,
        }
    }

    /// Does it to the file in `dir`, in place. Says whether the file's content is another one now.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    #[expect(clippy::unwrap_used, reason = "for tests, which have no better answer")]
    pub fn apply(&self, dir: &Path, trace: Trace) -> bool {
        let path = dir.join(&self.file);
        let before = fs::read(&path).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let length = before.len() as u64;
        let place = |at: u16| length.saturating_sub(1) * u64::from(at) / u64::from(u16::MAX);
        match &self.accident {
            Accident::Flip { at, bit } => {
                let at = place(*at);
                let byte = before.get(at as usize).copied().unwrap_or(0);
                file.write_all_at(&[byte ^ (1 << bit)], at).unwrap();
            }
            Accident::Scramble { at, bytes } => {
                let at = place(*at);
                let room = (length - at).min(bytes.len() as u64) as usize;
                file.write_all_at(&bytes[..room], at).unwrap();
            }
            Accident::Zero { at } => {
                let from = place(*at) / PAGE_BYTES * PAGE_BYTES;
                let bytes = PAGE_BYTES.min(length - from) as usize;
                file.write_all_at(&vec![0; bytes], from).unwrap();
            }
            Accident::Cut { at } => file.set_len(place(*at)).unwrap(),
            Accident::Grow { bytes } => file.write_all_at(bytes, length).unwrap(),
            Accident::Swap { with } if *with == self.file => {}
            Accident::Swap { with } => drop(fs::copy(dir.join(with), &path).unwrap()),
            Accident::Delete => {
                fs::remove_file(&path).unwrap();
                return true;
            }
        }
        if trace == Trace::Hidden {
            file.set_modified(modified).unwrap();
        }
        fs::read(&path).unwrap() != before
    }
}

/// Copies the files of a folder into another. The copies were changed an hour ago, so that whatever
/// happens to them now has another time.
///
/// # Panics
///
/// If a file cannot be copied.
#[expect(clippy::unwrap_used, reason = "for tests, which have no better answer")]
pub fn copy_files(from: &Path, to: &Path) {
    let hour = Duration::from_secs(3600);
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let copy = to.join(file.file_name());
        fs::copy(file.path(), &copy).unwrap();
        let copy = File::options().write(true).open(copy).unwrap();
        copy.set_modified(SystemTime::now() - hour).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every kind occurs, does what it says, and tells whether it did anything.
    #[test]
    fn damages_are_drawn_and_done() {
        let whole: Vec<u8> = (0..10_000u32).map(|at| (at % 253 + 1) as u8).collect();
        let mut kinds = BTreeSet::new();
        for seed in 0..200 {
            let dir = tempfile::tempdir().unwrap();
            for name in ["a", "b"] {
                fs::write(dir.path().join(name), &whole).unwrap();
            }
            let damage = Damage::draw(seed, &["a", "b"]);
            let path = dir.path().join(&damage.file);
            let modified = || fs::metadata(&path).and_then(|found| found.modified()).ok();
            let before = modified();
            let changed = damage.apply(dir.path(), Trace::Hidden);
            let swapped = matches!(damage.accident, Accident::Swap { .. });
            assert_eq!(changed, !swapped, "{damage:?}: both files are the same");
            let there = fs::read(&path).ok();
            assert_eq!(there.as_ref() != Some(&whole), changed, "{damage:?}");
            assert!(there.is_none() || modified() == before, "{damage:?}");
            let kind = format!("{:?}", damage.accident);
            kinds.insert(kind.split(' ').next().unwrap_or_default().to_owned());
        }
        assert_eq!(kinds.len(), 7, "{kinds:?}");
    }
}
