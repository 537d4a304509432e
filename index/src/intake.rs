//! What became of the entries of a corpus: none is dropped in silence.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::formats::Format;

/// Names that are kept for each reason; beyond them files are only counted.
const NAMED_MAX: usize = 1000;
/// No path is longer; an id may be.
const NAME_BYTES_MAX: usize = 4096;
/// Names that [`Intake`] shows for each reason.
const SHOWN_MAX: usize = 10;

/// What became of the entries of a corpus: its files, lines, pages or paragraphs. Hidden files and
/// folders do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Intake {
    /// How the corpus was read.
    pub format: Format,
    /// Entries whose text is in the index.
    pub read: usize,
    /// Entries that say the same as an earlier one, in formats where that is usual.
    pub merged: usize,
    /// Texts of more than [`Intake::LONG_WORDS`] words that were left in one piece.
    pub long: usize,
    /// Passages whose URL was left out, because it is no address of the web, or longer than any.
    pub without_url: usize,
    /// The other entries, by reason.
    pub left_out: BTreeMap<Reason, LeftOut>,
}

/// Entries that were left out for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// How many there are.
    pub count: usize,
    /// The first thousand of them: the path in the folder, or the place in the file. That of a whole
    /// folder ends in `/`.
    pub names: Vec<String>,
}

/// Why an entry is not in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The name ends in none of the endings that are read.
    OtherKind,
    /// There is no text in it.
    NoText,
    /// It holds a zero byte, which no text does.
    Binary,
    /// It is text in another encoding, or damaged.
    NotUtf8,
    /// It is larger than 16 MiB.
    TooLarge,
    /// It is HTML that would take very long to read.
    Hostile,
    /// The system does not let it be read.
    Unreadable,
    /// It is a link to a folder, which may lead in a circle.
    LinkedFolder,
    /// It is a device, a pipe or the like.
    Special,
    /// Its name is not UTF-8, or holds control characters, and so cannot be an id.
    BadName,
    /// It is not written as its format wants it.
    Broken,
    /// It has no id.
    NoId,
    /// It is cut into passages, and its id is too long to go with each of them.
    LongId,
    /// Its id belongs to an earlier entry, or is in the index already.
    Duplicate,
    /// The file ends in the middle of it.
    Cut,
}

impl Intake {
    /// An encoder with room for 512 tokens does not read much more than so many words.
    pub const LONG_WORDS: usize = 300;

    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            read: 0,
            merged: 0,
            long: 0,
            without_url: 0,
            left_out: BTreeMap::new(),
        }
    }

    /// How many entries are not in the index.
    pub fn left_out(&self) -> usize {
        self.left_out.values().map(|left_out| left_out.count).sum()
    }

    /// How many entries were left out because what they say, or their id, is there already.
    pub(crate) fn known(&self) -> usize {
        let duplicates = self.left_out.get(&Reason::Duplicate);
        self.merged + duplicates.map_or(0, |left_out| left_out.count)
    }

    pub(crate) fn leave_out(&mut self, reason: Reason, name: String) {
        let left_out = self.left_out.entry(reason).or_default();
        left_out.count += 1;
        if left_out.names.len() < NAMED_MAX {
            let end = name.floor_char_boundary(NAME_BYTES_MAX);
            left_out.names.push(match end < name.len() {
                true => format!("{}…", &name[..end]),
                false => name,
            });
        }
    }
}

/// The entries that were left out, on one line: `2 empty (a.txt, b.md), 1 not UTF-8 (c.txt)`.
impl fmt::Display for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (reason, left_out)) in self.left_out.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            let shown = &left_out.names[..left_out.names.len().min(SHOWN_MAX)];
            write!(
                f,
                "{comma}{} {reason} ({}",
                left_out.count,
                shown.join(", ")
            )?;
            match left_out.count - shown.len() {
                0 => f.write_str(")")?,
                more => write!(f, " and {more} more)")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherKind => "of another kind than .txt, .md and .html",
            Self::NoText => "without text",
            Self::Binary => "binary",
            Self::NotUtf8 => "not UTF-8",
            Self::TooLarge => "larger than 16 MiB",
            Self::Hostile => "with an HTML tag of too many attributes",
            Self::Unreadable => "not readable",
            Self::LinkedFolder => "links to folders",
            Self::Special => "no plain files",
            Self::BadName => "with a name that is not plain UTF-8",
            Self::Broken => "broken",
            Self::NoId => "without an id",
            Self::LongId => "with an id that is too long",
            Self::Duplicate => "with an id that is there already",
            Self::Cut => "cut off at the end of the file",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_first_and_counts_the_rest() {
        let mut files = Intake::new(Format::Documents);
        assert_eq!((files.left_out(), files.to_string()), (0, String::new()));
        files.leave_out(Reason::NotUtf8, "old.txt".into());
        for n in 0..NAMED_MAX + 5 {
            files.leave_out(Reason::OtherKind, format!("{n}.png"));
        }
        assert_eq!(files.left_out(), NAMED_MAX + 6);
        assert_eq!(files.left_out[&Reason::OtherKind].names.len(), NAMED_MAX);
        files.leave_out(Reason::Duplicate, "é".repeat(1 << 20));
        let known = files.left_out.remove(&Reason::Duplicate).unwrap();
        assert_eq!(known.names[0].len(), NAME_BYTES_MAX + '…'.len_utf8());
        assert_eq!(
            files.to_string(),
            "1005 of another kind than .txt, .md and .html (0.png, 1.png, 2.png, 3.png, 4.png, 5.png, \
             6.png, 7.png, 8.png, 9.png and 995 more), 1 not UTF-8 (old.txt)"
        );
    }
}
