//! The files of a folder, in an order that does not depend on the system.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BuildError;
use crate::intake::Reason;

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Markdown,
    Html,
}

impl Kind {
    /// The kind that the ending of the name stands for.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match &*ending {
            "txt" => Some(Self::Text),
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }
}

/// What the walk comes by.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A file to read.
    Document {
        path: PathBuf,
        /// Its path in the folder, with `/` between the parts.
        name: String,
        kind: Kind,
    },
    /// A file that is not even opened, or a whole folder, whose name ends in `/`.
    LeftOut { name: String, reason: Reason },
}

/// Goes through a folder and the folders in it, names in the order of their bytes. Of each open
/// folder it holds the names.
pub(super) struct Walk {
    open: Vec<Level>,
    file: Option<Found>,
}

/// A folder, and the entries that are still to come.
struct Level {
    path: PathBuf,
    /// Empty, or ends in `/`.
    prefix: String,
    entries: std::vec::IntoIter<OsString>,
}

impl Walk {
    pub(super) fn folder(path: &Path) -> Result<Self, BuildError> {
        let top = Level::open(path.to_owned(), String::new());
        Ok(Self {
            open: vec![top.map_err(BuildError::io("reading", path))?],
            file: None,
        })
    }

    /// One file, which may be hidden.
    pub(super) fn file(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_owned();
        Self {
            open: Vec::new(),
            file: Some(found(path.to_owned(), name.to_str())),
        }
    }

    pub(super) fn next(&mut self) -> Option<Found> {
        if let Some(file) = self.file.take() {
            return Some(file);
        }
        loop {
            let level = self.open.last_mut()?;
            let Some(entry) = level.entries.next() else {
                self.open.pop();
                continue;
            };
            if entry.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = level.path.join(&entry);
            let is_folder = path.symlink_metadata().is_ok_and(|entry| entry.is_dir());
            let Some(name) = plain(&entry).map(|name| format!("{}{name}", level.prefix)) else {
                let slash = if is_folder { "/" } else { "" };
                let name = format!("{}{}{slash}", level.prefix, entry.to_string_lossy());
                let name = name.replace(char::is_control, "\u{fffd}");
                let reason = Reason::BadName;
                return Some(Found::LeftOut { name, reason });
            };
            if !is_folder {
                return Some(found(path, Some(&name)));
            }
            let name = format!("{name}/");
            match Level::open(path, name.clone()) {
                Ok(inner) => self.open.push(inner),
                Err(_) => {
                    let reason = Reason::Unreadable;
                    return Some(Found::LeftOut { name, reason });
                }
            }
        }
    }
}

impl Level {
    fn open(path: PathBuf, prefix: String) -> std::io::Result<Self> {
        let entries = fs::read_dir(&path)?.map(|entry| Ok(entry?.file_name()));
        let mut entries = entries.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_unstable();
        Ok(Self {
            path,
            prefix,
            entries: entries.into_iter(),
        })
    }
}

/// The name, if it can be part of an id.
fn plain(name: &std::ffi::OsStr) -> Option<&str> {
    name.to_str()
        .filter(|name| !name.contains(char::is_control))
}

fn found(path: PathBuf, name: Option<&str>) -> Found {
    let kind = Kind::of(&path);
    let reason = match (fs::metadata(&path), name) {
        (_, None) => Reason::BadName,
        (Ok(file), Some(_)) if file.is_dir() => Reason::LinkedFolder,
        (Ok(file), Some(_)) if !file.is_file() => Reason::Special,
        (Ok(_), Some(name)) => match kind {
            Some(kind) => {
                let name = name.to_owned();
                return Found::Document { path, name, kind };
            }
            None => Reason::OtherKind,
        },
        (Err(_), Some(_)) => Reason::Unreadable,
    };
    let mut name = name.unwrap_or_default().to_owned();
    if reason == Reason::LinkedFolder {
        name.push('/');
    }
    Found::LeftOut { name, reason }
}
