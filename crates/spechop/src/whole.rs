//! Files that are written wholly or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces a file: the bytes are written to `NAME.new` beside it, which then takes its name. If that fails, the old
/// file stands as it was.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays, and what it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(&path).ok();
    // A device or a pipe must not become a file, and has nothing to lose.
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return fs::write(&path, bytes);
    }
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let new = PathBuf::from(new);
    let write = || {
        let mut file = File::create(&new)?;
        if let Some(old) = &old {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    let written = write();
    if written.is_err() {
        // On a full disk, half a file only takes up room.
        let _ = fs::remove_file(&new);
    }
    written
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
