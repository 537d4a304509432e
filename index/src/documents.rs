//! Documents as a corpus: a folder of .txt, .md and .html files, or one such file.
//!
//! ```text
//! walk ─▶ read one file ─▶ title and blocks of text ─▶ passages of about 100 words
//! ```
//!
//! One file is in memory at a time. The same files yield the same passages with the same ids,
//! `folder/file.txt#1` and so on, in the same order. A file that cannot be used stops nothing: it is
//! counted and named in [`crate::Intake`].

mod markdown;
mod walk;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use spechop_text::{Document, folded, html, plain};

use crate::corpus::{Entry, Reader, Record};
use crate::error::BuildError;
use crate::intake::Reason;
use walk::{Found, Kind, Walk};

/// A larger file is left out, so that no single file fills the memory.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// How text of UTF-16 and UTF-32 begins, which is full of zero bytes.
const WIDE: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"];

/// Open documents.
pub(crate) struct Documents {
    walk: Walk,
    /// Name of the file that was read last.
    name: String,
}

impl Documents {
    /// Whether `path` is a folder or a document, and no file of lines.
    pub(crate) fn is_one(path: &Path) -> bool {
        path.is_dir() || (path.is_file() && Kind::of(path).is_some())
    }

    /// Opens a folder or a document.
    pub(crate) fn open(path: &Path) -> Result<Self, BuildError> {
        let walk = match path.is_dir() {
            true => Walk::folder(path)?,
            false => Walk::file(path),
        };
        let name = String::new();
        Ok(Self { walk, name })
    }
}

impl Reader for Documents {
    fn next(&mut self) -> Result<Option<Entry>, BuildError> {
        let (path, name, kind) = match self.walk.next() {
            None => return Ok(None),
            Some(Found::LeftOut { name, reason }) => {
                return Ok(Some(Entry::LeftOut(reason, name)));
            }
            Some(Found::Document { path, name, kind }) => (path, name, kind),
        };
        self.name.clone_from(&name);
        Ok(Some(match read(&path, kind) {
            Ok(document) => Entry::Page(head(&document, name), document.blocks),
            Err(reason) => Entry::LeftOut(reason, name),
        }))
    }

    fn place(&self) -> String {
        self.name.clone()
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
    if bytes.contains(&0) && !WIDE.iter().any(|mark| bytes.starts_with(mark)) {
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

/// What the passages of a document share: its name, and its title, which comes from the name if the
/// document has none of its own.
fn head(document: &Document, name: String) -> Record {
    let title = document.title.clone();
    Record {
        title: title.unwrap_or_else(|| title_of(&name)),
        id: name,
        ..Record::default()
    }
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
