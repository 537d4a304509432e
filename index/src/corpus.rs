//! The corpus, whatever it is written in: passage after passage, checked, counted and hashed.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spechop_text::{Block, passages, plain};
use spechop_types::{Passage, is_web};

use crate::error::BuildError;
use crate::formats::Format;
use crate::input::Source;
use crate::intake::{Intake, Reason};
use crate::lines::hex;

/// Each passage of a page has its title and its id, so that long ones would take the memory.
const TITLE_CHARS_MAX: usize = 300;
const ID_BYTES_MAX: usize = 4096;

/// How a corpus is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The format; if nobody says it, it is recognised.
    pub format: Option<Format>,
    /// Cut long texts into passages of about 100 words also in formats that hold passages already.
    pub cut_long: bool,
    /// Take what there is of a file that ends in the middle of an entry; otherwise it is refused.
    pub accept_cut_off: bool,
}

/// A passage of the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) in_degree: Option<u32>,
}

impl Record {
    /// How [`Record::encoded`] is made, for the index's inputs.
    pub(crate) const ENCODED: &str = "title, newline, text";

    /// The text that is encoded. A BERT-like tokeniser sees no difference between a newline and a
    /// space; models with a finer one know the newline as the end of a title.
    pub(crate) fn encoded(&self) -> String {
        match self.title.trim() {
            "" => self.text.clone(),
            title => format!("{title}\n{}", self.text),
        }
    }

    /// A passage of a corpus that has no ids.
    pub(crate) fn named_after_itself(title: String, text: String) -> Self {
        let digest = digest(&format!("{title}\n{text}"));
        Self {
            // Eighty bits: passages would have to be made for it to share an id.
            id: format!("{:020x}", digest >> 48),
            title,
            text,
            ..Self::default()
        }
    }
}

/// An entry of a corpus.
pub(crate) enum Entry {
    /// A passage, which is left in one piece unless somebody wishes otherwise.
    Passage(Record),
    /// A page, which is cut into passages. The record has no text; passage n of page `id` is `id#n`.
    Page(Record, Vec<Block>),
    /// It cannot be used: why, and which it is.
    LeftOut(Reason, String),
}

/// Reads one format: entry after entry, always in the same order.
pub(crate) trait Reader: Send {
    /// The next entry.
    fn next(&mut self) -> Result<Option<Entry>, BuildError>;

    /// Where the entry stands that was read last: the line, or the file.
    fn place(&self) -> String;

    /// The hash of the file as far as it was read, if that stands for the passages.
    fn sha256(&self) -> Option<String> {
        None
    }
}

/// An open corpus. It gives out good passages, and keeps count of the others.
pub(crate) struct Corpus {
    reader: Box<dyn Reader>,
    reading: Reading,
    intake: Intake,
    ids: HashSet<u128>,
    /// Passages of the entry that was read last.
    pieces: std::vec::IntoIter<Record>,
    sha256: Sha256,
    /// Whether texts were cut that would otherwise be passages.
    cut: bool,
}

impl Corpus {
    pub(crate) fn open(source: &Source, reading: &Reading) -> Result<Self, BuildError> {
        let format = match reading.format {
            Some(format) => format,
            None => Format::recognise(source)?,
        };
        Ok(Self {
            reader: format.open(source)?,
            reading: reading.clone(),
            intake: Intake::new(format),
            ids: HashSet::new(),
            pieces: Vec::new().into_iter(),
            sha256: Sha256::new(),
            cut: false,
        })
    }

    /// Whether it cuts texts into passages, if they are long enough.
    pub(crate) fn cuts(&self) -> bool {
        self.reading.cut_long || self.intake.format.is_of_pages()
    }

    /// The same corpus, for a place that has entries of these ids already.
    pub(crate) fn knowing(self, ids: HashSet<u128>) -> Self {
        Self { ids, ..self }
    }

    /// Whether an entry that was read, or was there before, has an id with this digest.
    pub(crate) fn knows(&self, id: u128) -> bool {
        self.ids.contains(&id)
    }

    /// The next passage.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, BuildError> {
        loop {
            if let Some(record) = self.pieces.next() {
                // A struct of strings and numbers always serialises.
                let line = serde_json::to_vec(&record).unwrap_or_default();
                self.sha256.update(line);
                self.sha256.update(b"\n");
                return Ok(Some(record));
            }
            match self.reader.next()? {
                None => return Ok(None),
                Some(Entry::Passage(record)) => self.take_passage(record),
                Some(Entry::Page(head, blocks)) => self.take_pieces(head, &blocks),
                Some(Entry::LeftOut(Reason::Cut, place)) if !self.reading.accept_cut_off => {
                    return Err(BuildError::CutOff(place));
                }
                Some(Entry::LeftOut(reason, name)) => self.intake.leave_out(reason, name),
            }
        }
    }

    /// What became of the entries read so far.
    #[cfg(test)]
    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Stands for the passages given out so far, in hexadecimal.
    fn sha256(&self) -> String {
        // Of passages as they stand in a file its hash is enough, as it always was.
        let of_the_file = self.reader.sha256().filter(|_| !self.cut);
        of_the_file.unwrap_or_else(|| hex(self.sha256.clone()))
    }

    fn take_passage(&mut self, mut record: Record) {
        if self.reading.cut_long && passages::weight(&record.text) > passages::WORDS_MAX {
            self.cut = true;
            let blocks = plain::paragraphs(&record.text);
            record.text.clear();
            return self.take_pieces(record, &blocks);
        }
        let has_text = !record.text.trim().is_empty();
        if self.is_good(&mut record, has_text) {
            self.intake.long += usize::from(passages::weight(&record.text) > Intake::LONG_WORDS);
            self.pieces = vec![record].into_iter();
        }
    }

    fn take_pieces(&mut self, mut head: Record, blocks: &[Block]) {
        let texts = passages::cut(blocks);
        head.title.truncate(short(&head.title).len());
        if !self.is_good(&mut head, !texts.is_empty()) {
            return;
        }
        let pieces = (1..).zip(texts).map(|(n, text)| Record {
            id: format!("{}#{n}", head.id),
            text,
            ..head.clone()
        });
        let (mut pieces, place) = (pieces.collect::<Vec<_>>(), self.reader.place());
        // An entry of its own can have the id of a piece.
        pieces.retain(|piece| {
            let is_new = self.ids.insert(digest(&piece.id));
            if !is_new {
                let name = format!("{place}: id {:?}", piece.id);
                self.intake.leave_out(Reason::Duplicate, name);
            }
            is_new
        });
        self.pieces = pieces.into_iter();
    }

    /// Whether an entry can be used; if not, it is counted.
    fn is_good(&mut self, record: &mut Record, has_text: bool) -> bool {
        let named = |corpus: &Self| match &*record.id {
            "" => corpus.reader.place(),
            id => format!("{}: id {id:?}", corpus.reader.place()),
        };
        let reason = if record.id.trim().is_empty() {
            Reason::NoId
        } else if !has_text {
            Reason::NoText
        } else if record.text.is_empty() && record.id.len() > ID_BYTES_MAX {
            // Of a page: a passage has it once.
            Reason::LongId
        } else if self.ids.insert(digest(&record.id)) {
            self.intake.read += 1;
            if record.url.as_deref().is_some_and(|url| !is_of_the_web(url)) {
                record.url = None;
                self.intake.without_url += 1;
            }
            return true;
        } else if self.intake.format.ids_say_all() {
            self.intake.merged += 1;
            return false;
        } else {
            Reason::Duplicate
        };
        let name = match self.intake.format {
            Format::Documents => self.reader.place(),
            _ => named(self),
        };
        self.intake.leave_out(reason, name);
        false
    }
}

/// What one reading of the whole corpus tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Stands for the passages, in hexadecimal: of a file of passages its bytes, unpacked; else the
    /// passages that were read.
    pub(crate) sha256: String,
    pub(crate) rows: usize,
    /// Whether a passage has a URL or an in-degree.
    pub(crate) extended: bool,
    /// Whether a passage has an in-degree.
    pub(crate) in_degrees: bool,
    pub(crate) intake: Intake,
}

impl Survey {
    /// Reads a corpus to its end, before anything is spent on encoding.
    pub(crate) fn of(source: &Source, reading: &Reading) -> Result<Self, BuildError> {
        let survey = Self::read(&mut Corpus::open(source, reading)?)?;
        match survey.rows {
            0 => Err(BuildError::Empty {
                path: source.path.clone(),
                intake: survey.intake,
            }),
            _ => Ok(survey),
        }
    }

    /// The same of an open corpus, which may hold nothing.
    pub(crate) fn read(corpus: &mut Corpus) -> Result<Self, BuildError> {
        let (mut rows, mut urls, mut in_degrees) = (0, false, false);
        while let Some(record) = corpus.next()? {
            rows += 1;
            urls |= record.url.is_some();
            in_degrees |= record.in_degree.is_some();
        }
        Ok(Self {
            sha256: corpus.sha256(),
            rows,
            extended: urls || in_degrees,
            in_degrees,
            intake: corpus.intake.clone(),
        })
    }

    /// Whether a corpus that was read to its end is the one that was surveyed.
    pub(crate) fn is_of(&self, corpus: &Corpus) -> bool {
        corpus.sha256() == self.sha256
    }
}

/// Stands for a string where holding the string itself would take too much memory: two different
/// ones would have to be found on purpose.
pub(crate) fn digest(text: &str) -> u128 {
    let sha256: [u8; 32] = Sha256::digest(text).into();
    let mut half = [0; 16];
    half.copy_from_slice(&sha256[..16]);
    u128::from_le_bytes(half)
}

/// A title, cut between two words if it is too long to go with every passage.
fn short(title: &str) -> &str {
    let Some((end, next)) = title.char_indices().nth(TITLE_CHARS_MAX) else {
        return title;
    };
    // A word may end just there.
    let gap = title[..end + next.len_utf8()].rfind(char::is_whitespace);
    // Some scripts have no gaps.
    let end = gap.filter(|gap| *gap > end / 2).unwrap_or(end);
    title[..end].trim_end()
}

/// Whether a URL can be shown as one: citations become links.
fn is_of_the_web(url: &str) -> bool {
    is_web(url)
        && url.len() <= Passage::URL_BYTES_MAX
        && !url.contains(|c: char| c.is_control() || c.is_whitespace())
}

#[cfg(test)]
mod tests;
