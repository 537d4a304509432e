//! The formats of a corpus: a reader for each, and how a format is recognised.

mod cirrus;
mod kilt;
mod objects;
mod passages;
mod questions;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::corpus::Reader;
use crate::documents::Documents;
use crate::error::BuildError;
use crate::input::Source;
use crate::lines::{Line, Lines};
use objects::Objects;

/// A format is recognised by one of so many first entries: the first may be broken.
const LOOKED_AT: usize = 10;

/// How a corpus is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A folder of .txt, .md and .html files, or one of them.
    Documents,
    /// Passages `{"id","title","text"}`, perhaps with a `url` and an `in_degree`.
    Jsonl,
    /// Questions of 2WikiMultihopQA or HotpotQA, with `context`.
    Wiki,
    /// Questions of `MuSiQue`, with `paragraphs`.
    Musique,
    /// Passages `{"title","text"}` without ids, as HippoRAG's corpora are.
    Hipporag,
    /// Lines of id, text and title with tabs between them, as KILT's and DPR's passages are.
    Kilt,
    /// A CirrusSearch dump of a wiki: by turns a line with the page's id, and the page.
    Cirrus,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] = [
        Self::Documents,
        Self::Jsonl,
        Self::Wiki,
        Self::Musique,
        Self::Hipporag,
        Self::Kilt,
        Self::Cirrus,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::Jsonl => "jsonl",
            Self::Wiki => "2wiki",
            Self::Musique => "musique",
            Self::Hipporag => "hipporag",
            Self::Kilt => "kilt",
            Self::Cirrus => "cirrus",
        }
    }

    /// What an entry of the corpus is called, many of them.
    pub fn entries(self) -> &'static str {
        match self {
            Self::Documents => "files",
            Self::Jsonl | Self::Kilt => "lines",
            Self::Wiki | Self::Musique => "paragraphs",
            Self::Hipporag => "entries",
            Self::Cirrus => "pages",
        }
    }

    /// Whether ids are made of the passages themselves, so that equal ids mean equal passages.
    pub(crate) fn ids_say_all(self) -> bool {
        matches!(self, Self::Wiki | Self::Musique | Self::Hipporag)
    }

    /// Whether its entries are pages, which are cut into passages.
    pub(crate) fn is_of_pages(self) -> bool {
        matches!(self, Self::Documents | Self::Cirrus)
    }

    /// The format that a corpus is written in, as far as its beginning tells.
    pub(crate) fn recognise(source: &Source) -> Result<Self, BuildError> {
        if !source.is_copy() && Documents::is_one(&source.path) {
            return Ok(Self::Documents);
        }
        let mut objects = Objects::open(source)?;
        for _ in 0..LOOKED_AT {
            match objects.next::<Value>()? {
                Some(Ok(value)) => {
                    if let Some(format) = of_value(&value) {
                        return Ok(format);
                    }
                }
                Some(Err(_)) => {}
                None => break,
            }
        }
        let mut lines = Lines::open(source)?;
        let (mut empty, mut json) = (true, false);
        for _ in 0..LOOKED_AT {
            match lines.line()? {
                Some(Line::Text { text, .. }) if kilt::fields(text).is_some() => {
                    return Ok(Self::Kilt);
                }
                Some(Line::Text { text, .. }) => json |= text.starts_with(['{', '[']),
                Some(Line::Bad(..)) => {}
                None => break,
            }
            empty = false;
        }
        // Whoever wrote JSON is told what is wrong with it.
        match (empty, json) {
            (_, true) => Ok(Self::Jsonl),
            (true, _) => Err(BuildError::Blank(source.path.clone())),
            (false, _) => Err(BuildError::Unrecognised(source.path.clone())),
        }
    }

    /// Opens a corpus as one of this format.
    pub(crate) fn open(self, source: &Source) -> Result<Box<dyn Reader>, BuildError> {
        let wrong = |problem: &str| {
            let shown = source.path.display();
            BuildError::Setting(format!(
                "{shown} is a {problem}, and the format {self} is that of a file"
            ))
        };
        let path = &source.path;
        match self {
            Self::Documents if source.is_copy() => return Err(wrong("stream")),
            Self::Documents => return Ok(Box::new(Documents::open(path)?)),
            _ if !source.is_copy() && path.is_dir() => return Err(wrong("folder")),
            _ => {}
        }
        Ok(match self {
            Self::Documents | Self::Jsonl => {
                Box::new(passages::WithIds::new(Objects::open(source)?))
            }
            Self::Hipporag => Box::new(passages::WithoutIds::new(Objects::open(source)?)),
            Self::Wiki => Box::new(questions::Questions::<questions::Wiki>::new(Objects::open(
                source,
            )?)),
            Self::Musique => Box::new(questions::Questions::<questions::Musique>::new(
                Objects::open(source)?,
            )),
            Self::Kilt => Box::new(kilt::Kilt::new(Lines::open(source)?)),
            Self::Cirrus => Box::new(cirrus::Cirrus::new(Objects::open(source)?)),
        })
    }
}

/// What has these fields is of this format.
fn of_value(value: &Value) -> Option<Format> {
    let fields = value.as_object()?;
    let has = |name: &str| fields.contains_key(name);
    if has("index") && fields["index"].is_object() {
        Some(Format::Cirrus)
    } else if has("question") && has("context") {
        Some(Format::Wiki)
    } else if has("question") && has("paragraphs") {
        Some(Format::Musique)
    } else if has("id") && has("text") {
        Some(Format::Jsonl)
    } else if has("title") && has("text") {
        Some(Format::Hipporag)
    } else {
        None
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| format!("there is no format {name}; formats are {}", names()))
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests;
