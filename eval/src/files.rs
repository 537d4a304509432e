//! Files that a kill cannot harm: written whole or not at all, or a line at a time, of which the last may
//! be torn.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use spechop_store::sealed;

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file system does not play along.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A line cannot be read.
    #[error("{}:{line} cannot be read: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Somebody else writes to it.
    #[error("another process is writing to {}; wait for its end, or take another folder", .0.display())]
    Locked(PathBuf),
    /// Something that has no JSON.
    #[error("what was to be written has no JSON")]
    Unwritable(#[source] serde_json::Error),
}

impl FileError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// The same with what may be the reason, or the remedy, of a line that cannot be read.
    pub(crate) fn because(self, hint: &str) -> Self {
        match self {
            Self::Line { path, line, reason } => Self::Line {
                path,
                line,
                reason: format!("{reason}; {hint}"),
            },
            other => other,
        }
    }

    fn line(path: &Path, line: usize, reason: impl Into<String>) -> Self {
        Self::Line {
            path: path.to_owned(),
            line,
            reason: reason.into(),
        }
    }
}

/// Writes a file that is there whole or not at all: the bytes go to `NAME.new` beside it, which then takes
/// its name.
///
/// # Errors
///
/// Those of the file system. If there was such a file, it stands as it was, unless all that failed was to
/// write the change of the folder to the disk.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    replace(path, bytes).map_err(FileError::io("write", path))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays, and what it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(&path).ok();
    // A device or a pipe must not become a file, and has nothing to lose.
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return fs::write(&path, bytes);
    }
    sealed::replace(&path, bytes, old.map(|old| old.mode()))
}

/// A value, for people to read.
pub(crate) fn json(value: &impl Serialize) -> Result<Vec<u8>, FileError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(FileError::Unwritable)?;
    text.push(b'\n');
    Ok(text)
}

/// Values, one a line.
pub(crate) fn json_lines<T: Serialize>(values: &[T]) -> Result<Vec<u8>, FileError> {
    let mut lines = Vec::new();
    for value in values {
        serde_json::to_writer(&mut lines, value).map_err(FileError::Unwritable)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// What a file holds; `None` where there is none.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(FileError::io("read", path)(source)),
    };
    let value = serde_json::from_slice(&bytes);
    value
        .map(Some)
        .map_err(|e| FileError::line(path, e.line(), e.to_string()))
}

/// Every line of a file that was written whole.
pub(crate) fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, FileError> {
    let bytes = fs::read(path).map_err(FileError::io("read", path))?;
    parsed(path, &bytes, |_| Ok(()))
}

/// The lines of a [`Log`] that are whole, and the bytes that they take. None where there is no file: begun,
/// and killed before the first.
pub(crate) fn read_log<T: DeserializeOwned>(
    path: &Path,
    check: impl Fn(&T) -> Result<(), &'static str>,
) -> Result<(Vec<T>, u64), FileError> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(FileError::io("read", path)(source)),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    bytes.truncate(whole.map_or(0, |at| at + 1));
    let lines = parsed(path, &bytes, check)
        .map_err(|error| error.because("delete the line, and it will be made again"));
    Ok((lines?, bytes.len() as u64))
}

fn parsed<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    check: impl Fn(&T) -> Result<(), &'static str>,
) -> Result<Vec<T>, FileError> {
    let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let read = |(at, line)| {
        let value = serde_json::from_slice(line)
            .map_err(|e| FileError::line(path, at + 1, e.to_string()))?;
        check(&value).map_err(|reason| FileError::line(path, at + 1, reason))?;
        Ok(value)
    };
    lines.split(|b| *b == b'\n').enumerate().map(read).collect()
}

/// How often a lock is asked for, and how long between. While this process starts another one (`git`), that
/// has a copy of every open file, and with it the lock of a log that was closed just now.
const LOCK_TRIES: u32 = 20;
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// A file of lines, each on the disk before the next begins. Holding one keeps every other writer out.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    /// Length of the lines that are whole; what lies behind it is torn.
    length: u64,
}

impl Log {
    /// Opens it, or makes it.
    #[expect(
        clippy::disallowed_methods,
        reason = "who else holds a lock, and for how long, is nothing that a test could control"
    )]
    pub(crate) fn open(path: PathBuf) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(FileError::io("open", &path))?;
        let mut tries = LOCK_TRIES;
        while let Err(error) = file.try_lock() {
            tries -= 1;
            match error {
                TryLockError::WouldBlock if tries > 0 => std::thread::sleep(LOCK_WAIT),
                TryLockError::WouldBlock => return Err(FileError::Locked(path)),
                TryLockError::Error(source) => return Err(FileError::io("lock", &path)(source)),
            }
        }
        let length = file.metadata().map_err(FileError::io("read", &path))?.len();
        Ok(Self { file, path, length })
    }

    /// Whether nothing was ever written to it.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Cuts it off behind the lines that [`read_log`] found whole.
    pub(crate) fn cut(&mut self, length: u64) -> Result<(), FileError> {
        let cut = self.file.set_len(length);
        cut.map_err(FileError::io("cut the torn line off", &self.path))?;
        self.length = length;
        Ok(())
    }

    /// Writes a line, and waits until it is on the disk.
    pub(crate) fn append(&mut self, value: &impl Serialize) -> Result<(), FileError> {
        let mut line = serde_json::to_vec(value).map_err(FileError::Unwritable)?;
        line.push(b'\n');
        let written = self.file.write_all(&line);
        if let Err(source) = written.and_then(|()| self.file.sync_data()) {
            // Half a line would spoil the next one. Should this fail as well, the next reader passes it over.
            let _ = self.file.set_len(self.length);
            return Err(FileError::io("write to", &self.path)(source));
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        write_whole(&file, b"old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(dir.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn a_pipe_is_written_to() {
        let (reader, writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", writer.as_raw_fd());
        write_whole(Path::new(&path), b"text").unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(reader).unwrap(), "text");
    }

    #[test]
    fn what_cannot_be_renamed_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_whole(dir.path(), b"text").is_err());
        assert!(write_whole(&dir.path().join("no/file"), b"text").is_err());
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
