//! Documents as a corpus: a folder of .txt, .md and .html files, or one such file.
//!
//! ```text
//! walk ─▶ read one file ─▶ title and blocks of text ─▶ passages of about 100 words
//! ```
//!
//! One file is in memory at a time. The same files yield the same passages with the same ids,
//! `folder/file.txt#1` and so on, in the same order. A file that cannot be used stops nothing: it is
//! counted and named in [`Files`].

mod files;
mod markdown;
mod walk;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use spechop_text::{Document, folded, html, passages, plain};

use crate::corpus::{Identity, Record};
use crate::error::BuildError;
use crate::lines::hex;
use walk::{Found, Kind, Walk};

pub use files::{Files, LeftOut, Reason};

/// A larger file is left out, so that no single file fills the memory.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Open documents, and the hash of the passages read so far.
pub(crate) struct Documents {
    walk: Walk,
    files: Files,
    sha256: Sha256,
    /// The file that was read last, and its passages that nobody has taken yet.
    path: PathBuf,
    passages: std::vec::IntoIter<Record>,
}

impl Documents {
    /// Opens a folder or a document. `None` if `path` is neither, and so may be a file of lines.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, BuildError> {
        let walk = if path.is_dir() {
            Walk::folder(path)?
        } else if path.is_file() && Kind::of(path).is_some() {
            Walk::file(path)
        } else {
            return Ok(None);
        };
        Ok(Some(Self {
            walk,
            files: Files::default(),
            sha256: Sha256::new(),
            path: path.to_owned(),
            passages: Vec::new().into_iter(),
        }))
    }

    /// The next passage.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, BuildError> {
        loop {
            if let Some(record) = self.passages.next() {
                self.count(&record)?;
                return Ok(Some(record));
            }
            match self.walk.next() {
                None => return Ok(None),
                Some(Found::LeftOut { name, reason }) => self.files.leave_out(reason, name),
                Some(Found::Document { path, name, kind }) => self.take_in(path, name, kind),
            }
        }
    }

    /// An error about the passage that was read last.
    pub(crate) fn bad(&self, reason: String) -> BuildError {
        BuildError::Document {
            path: self.path.clone(),
            reason,
        }
    }

    /// What everything read so far comes to.
    pub(crate) fn identity(self) -> Identity {
        Identity {
            sha256: hex(self.sha256),
            files: Some(self.files),
        }
    }

    fn take_in(&mut self, path: PathBuf, name: String, kind: Kind) {
        match read(&path, kind) {
            Ok(document) => {
                self.files.read += 1;
                self.passages = records(document, &name).into_iter();
            }
            Err(reason) => self.files.leave_out(reason, name),
        }
        self.path = path;
    }

    /// Hashes the passage as the line that it would be.
    fn count(&mut self, record: &Record) -> Result<(), BuildError> {
        let line = serde_json::to_vec(record).map_err(|error| self.bad(error.to_string()))?;
        self.sha256.update(line);
        self.sha256.update(b"\n");
        Ok(())
    }
}

/// The document in a file, or why there is none.
fn read(path: &Path, kind: Kind) -> Result<Document, Reason> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|_| Reason::Unreadable)?;
    // One byte more than allowed, so that too much is seen.
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|_| Reason::Unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Reason::TooLarge);
    }
    if bytes.contains(&0) {
        return Err(Reason::Binary);
    }
    let text = String::from_utf8(bytes).map_err(|_| Reason::NotUtf8)?;
    let text = text.trim_start_matches('\u{feff}');
    let document = match kind {
        Kind::Text => plain::parse(text),
        Kind::Markdown => markdown::parse(text),
        Kind::Html => html::parse(text).map_err(|_| Reason::Hostile)?,
    };
    match document.blocks.is_empty() {
        true => Err(Reason::NoText),
        false => Ok(document),
    }
}

/// The passages of a document, whose ids and title, if it has none of its own, come from its name.
fn records(document: Document, name: &str) -> Vec<Record> {
    let title = document.title.unwrap_or_else(|| title_of(name));
    let record = |(n, text)| Record {
        id: format!("{name}#{n}"),
        title: title.clone(),
        text,
    };
    (1..)
        .zip(passages::cut(&document.blocks))
        .map(record)
        .collect()
}

/// `films/Ana_Ruiz.txt` → `Ana Ruiz`
fn title_of(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let spaced = stem.replace('_', " ");
    // A name with spaces in it has its hyphens on purpose.
    let spaced = match spaced.contains(' ') {
        true => spaced,
        false => spaced.replace('-', " "),
    };
    folded(&spaced)
}

#[cfg(test)]
mod tests;
