//! A JSON value in a file of its own, with its checksum: replaced wholly or not at all.
//!
//! Whoever reads the file finds the value that was written last, or the one before it, never a
//! mixture. A writer that is killed leaves at most a file `NAME.new` behind, which the next writer
//! takes over. Several processes may write the same file: they take turns, and the last one's value
//! stays.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Who may read a sealed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone.
    Owner,
    /// Whoever the process lets read its new files.
    Usual,
}

/// What stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<T> {
    content: T,
    /// Of `content`, written compactly.
    crc32: u32,
}

/// Replaces `path` by `value`. **Blocks** until it is on the disk.
///
/// # Errors
///
/// Those of the file system. The old file then stands as it was, unless all that failed was to write the change of
/// the folder to the disk.
pub fn write<T: Serialize>(path: &Path, value: &T, readers: Readers) -> io::Result<()> {
    let crc32 = crc32fast::hash(&serde_json::to_vec(value)?);
    let content = value;
    let mut json = serde_json::to_vec_pretty(&Sealed { content, crc32 })?;
    json.push(b'\n');
    replace(path, &json, (readers == Readers::Owner).then_some(0o600))
}

/// Replaces `path` by these bytes, without a checksum. `mode` has the permissions of the new file; without it, they are
/// those of any new file of the process. **Blocks** until it is on the disk.
///
/// # Errors
///
/// Those of [`write()`], of which this is a part.
pub fn replace(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    let unnamed = new_name(path);
    let mut file = turn(&unnamed, mode)?;
    let written = fill(&mut file, bytes, mode).and_then(|()| fs::rename(&unnamed, path));
    if let Err(error) = written {
        // On a full disk, what there is of it only takes up room. It is ours: we hold its lock.
        let _ = fs::remove_file(&unnamed);
        return Err(error);
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

/// The value of a sealed file; `None` if it is not what was sealed.
///
/// Numbers are proven to the last bit, which takes a `serde_json` that reads them so
/// (`float_roundtrip`).
pub fn open<T: Serialize + for<'de> Deserialize<'de>>(json: &[u8]) -> Option<T> {
    let sealed: Sealed<T> = serde_json::from_slice(json).ok()?;
    let crc32 = crc32fast::hash(&serde_json::to_vec(&sealed.content).ok()?);
    (crc32 == sealed.crc32).then_some(sealed.content)
}

/// Another format may have other fields, so its number, the content's `format`, is looked at before
/// anything else. `None` if there is no such number.
pub fn format(json: &[u8]) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    value["content"]["format"].as_u64()
}

/// `manifest.json` → `manifest.json.new`
fn new_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// The file that is to be renamed, locked. Two writers in one file would make a mixture of it.
fn turn(unnamed: &Path, mode: Option<u32>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Not truncated yet: another writer may be at it.
    options.write(true).create(true).truncate(false);
    if let Some(mode) = mode {
        options.mode(mode);
    }
    loop {
        let file = options.open(unnamed)?;
        file.lock()?;
        let ours = file.metadata()?;
        // The writer before may have given it its name, or removed it, while we waited.
        match fs::metadata(unnamed) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => return Ok(file),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

fn fill(file: &mut File, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    if let Some(mode) = mode {
        // Whoever left it may have let others read it.
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.set_len(0)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Value {
        format: u64,
        numbers: Vec<f64>,
        name: String,
    }

    fn value(numbers: Vec<f64>) -> Value {
        Value {
            format: 7,
            numbers,
            name: "ä\u{1}\"".to_owned(),
        }
    }

    fn sealed(value: &Value) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value");
        write(&path, value, Readers::Usual).unwrap();
        fs::read(path).unwrap()
    }

    #[test]
    fn a_killed_writer_leaves_the_old_value_and_nothing_that_stands_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value.json");
        let (old, fresh) = (value(vec![1.0]), value(vec![2.0]));
        write(&path, &old, Readers::Owner).unwrap();
        // Killed before the rename, after half of the bytes.
        let unnamed = dir.path().join("value.json.new");
        fs::write(&unnamed, "x".repeat(10_000)).unwrap();
        assert_eq!(open(&fs::read(&path).unwrap()), Some(old));
        write(&path, &fresh, Readers::Owner).unwrap();
        assert_eq!(open(&fs::read(&path).unwrap()), Some(fresh));
        assert!(!unnamed.exists());
        // Also where the one that was killed let everybody read it.
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_renamed_is_removed_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value");
        fs::create_dir(&path).unwrap();
        write(&path, &value(vec![]), Readers::Usual).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn writers_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value");
        write(&path, &value(vec![]), Readers::Usual).unwrap();
        thread::scope(|scope| {
            for writer in 0..4_u32 {
                let path = &path;
                scope.spawn(move || {
                    // Of different lengths: the end of a longer one must not show.
                    let value = value(vec![f64::from(writer); 500 * writer as usize]);
                    for _ in 0..20 {
                        write(path, &value, Readers::Usual).unwrap();
                    }
                });
            }
            for _ in 0..200 {
                let json = fs::read(&path).unwrap();
                assert!(open::<Value>(&json).is_some(), "{} bytes", json.len());
            }
        });
    }

    proptest! {
        #[test]
        fn any_damage_is_seen_or_harmless(
            numbers in prop::collection::vec(0.0..1e9_f64, 0..8), at: prop::sample::Index, bit in 0..8_u8,
        ) {
            let value = value(numbers);
            let whole = sealed(&value);
            prop_assert_eq!(open(&whole), Some(value.clone()));
            let mut flipped = whole.clone();
            let place = at.index(whole.len());
            flipped[place] ^= 1 << bit;
            prop_assert!(open(&flipped).is_none_or(|read: Value| read == value));
            let cut = open(&whole[..place]);
            prop_assert!(cut.is_none_or(|read: Value| read == value));
        }
    }
}
