//! A shard: its four files, checked and open.
//!
//! Scales and offsets, twelve bytes a row, are always held in memory. Vectors and passages are held
//! in memory, too, if the index is small; else vectors are mapped and passages are read where they
//! are needed.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use crate::error::Fault;
use crate::file::IndexFile;
use crate::layout::{EXTENDED, HEADER_BYTES, Kind, Whose, stride};
use crate::manifest::ShardEntry;

/// Stands for an in-degree that nobody knows.
const NO_IN_DEGREE: u32 = u32::MAX;

/// Bytes of the numbers that every passage's record begins with: the lengths of identifier and title,
/// and in the extended format the length of the URL and the in-degree.
fn head_bytes(format: u64) -> usize {
    match format {
        EXTENDED => 16,
        _ => 8,
    }
}

/// A passage's fields, borrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassageRef<'a> {
    /// The corpus's own identifier.
    pub id: &'a str,
    /// Title of the page it comes from.
    pub title: &'a str,
    /// The text itself.
    pub text: &'a str,
    /// Where it comes from, if that is known; an empty one counts as unknown. Stored only if
    /// [`crate::Inputs::extended`] says so, as is the next.
    pub url: Option<&'a str>,
    /// How many pages link to its page, if that is known. The largest number is stored as one less.
    pub in_degree: Option<u32>,
}

impl PassageRef<'_> {
    /// The record that stands for it in an index of this format, in pieces.
    pub(crate) fn record(&self, format: u64) -> (Vec<u8>, [&[u8]; 4]) {
        // The corpus reader keeps fields far below 4 GiB.
        let length = |field: &str| field.len() as u32;
        let mut numbers = vec![length(self.id), length(self.title)];
        let mut url = "";
        if format == EXTENDED {
            url = self.url.unwrap_or_default();
            let known = self.in_degree.map(|links| links.min(NO_IN_DEGREE - 1));
            numbers.extend([length(url), known.unwrap_or(NO_IN_DEGREE)]);
        }
        let head = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
        let fields = [self.id, self.title, url, self.text].map(str::as_bytes);
        (head, fields)
    }
}

/// A passage as it was read from an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPassage<'a> {
    /// Identifier, title, URL and text, one after the other.
    all: Cow<'a, str>,
    id_bytes: usize,
    title_bytes: usize,
    url_bytes: usize,
    in_degree: Option<u32>,
}

impl StoredPassage<'_> {
    /// What it says.
    pub fn fields(&self) -> PassageRef<'_> {
        let (id, rest) = self.all.split_at(self.id_bytes);
        let (title, rest) = rest.split_at(self.title_bytes);
        let (url, text) = rest.split_at(self.url_bytes);
        PassageRef {
            id,
            title,
            text,
            url: (!url.is_empty()).then_some(url),
            in_degree: self.in_degree,
        }
    }
}

/// Where vectors and passages are while the index is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// In memory, as a copy that nobody can change.
    InMemory,
    /// In their files.
    OnDisk,
}

pub(crate) struct Shard {
    entry: ShardEntry,
    number: usize,
    whose: Whose,
    vectors: Mmap,
    /// The file that the vectors are mapped from; `None` if they are a copy.
    mapped: Option<IndexFile>,
    scales: Mmap,
    offsets: Mmap,
    passages: Passages,
}

enum Passages {
    InMemory(Mmap),
    OnDisk(IndexFile),
}

impl Shard {
    /// Opens the files: lengths, headers, and all that stands in scales and offsets are right then.
    pub(crate) fn open(
        dir: &Path,
        number: usize,
        entry: ShardEntry,
        whose: Whose,
        held: Held,
    ) -> Result<Self, Fault> {
        let open = |kind: Kind| {
            let name = kind.file_name(number);
            let bytes = entry.files[kind as usize].bytes;
            let derived = kind.length(entry.rows, whose.width);
            if bytes < HEADER_BYTES as u64 || derived.is_some_and(|derived| derived != bytes) {
                return Err(Fault::Manifest(format!(
                    "it gives {name} no length that can be"
                )));
            }
            let file = IndexFile::open(dir, name.clone(), bytes)?;
            let mut header = [0; HEADER_BYTES];
            file.read(&mut header, 0)?;
            if header != kind.header(number, &whose) {
                return Err(Fault::Foreign(name));
            }
            Ok(file)
        };
        let (vectors, scales) = (open(Kind::Vectors)?, open(Kind::Scales)?);
        let (offsets, passages) = (open(Kind::Offsets)?, open(Kind::Passages)?);
        let (vectors, mapped, passages) = match held {
            Held::InMemory => {
                let passages = Passages::InMemory(passages.copy()?);
                (vectors.copy()?, None, passages)
            }
            Held::OnDisk => (vectors.map()?, Some(vectors), Passages::OnDisk(passages)),
        };
        let shard = Self {
            scales: scales.copy()?,
            offsets: offsets.copy()?,
            entry,
            number,
            whose,
            vectors,
            mapped,
            passages,
        };
        shard.prove(Kind::Scales, crc32fast::hash(&shard.scales))?;
        shard.prove(Kind::Offsets, crc32fast::hash(&shard.offsets))?;
        shard.check_scales()?;
        shard.check_offsets()?;
        Ok(shard)
    }

    /// A right checksum says that nothing has changed since; this, that it made sense then.
    fn check_scales(&self) -> Result<(), Fault> {
        let sound = |scale: f32| scale.is_finite() && scale >= 0.0;
        match (0..self.rows()).find(|row| !sound(self.scale(*row))) {
            Some(row) => Err(self.senseless(Kind::Scales, row)),
            None => Ok(()),
        }
    }

    /// Records lie one behind the other, each has room for its numbers, and the last one ends where
    /// the file ends.
    fn check_offsets(&self) -> Result<(), Fault> {
        let head = head_bytes(self.whose.format) as u64;
        let mut start = 0;
        for row in 0..self.rows() {
            let end = self.end_of_record(row);
            match end.checked_sub(start) {
                Some(bytes) if bytes >= head => start = end,
                Some(_) | None => return Err(self.senseless(Kind::Offsets, row)),
            }
        }
        let passages = self.entry.files[Kind::Passages as usize].bytes;
        if start == passages - HEADER_BYTES as u64 {
            Ok(())
        } else {
            Err(self.senseless(Kind::Offsets, self.rows() - 1))
        }
    }

    fn senseless(&self, kind: Kind, row: usize) -> Fault {
        Fault::Senseless {
            file: kind.file_name(self.number),
            row,
        }
    }

    fn prove(&self, kind: Kind, crc32: u32) -> Result<(), Fault> {
        if crc32 == self.entry.files[kind as usize].crc32 {
            Ok(())
        } else {
            Err(Fault::Checksum(kind.file_name(self.number)))
        }
    }

    /// Compares vectors and passages with the manifest's checksums; scales and offsets were compared
    /// when they were read. Stops early, without a fault, once `go_on` says no.
    pub(crate) fn verify(&self, go_on: &dyn Fn() -> bool) -> Result<(), Fault> {
        let vectors = match &self.mapped {
            Some(file) => file.crc32(go_on)?,
            None => Some(crc32fast::hash(&self.vectors)),
        };
        let Some(vectors) = vectors else {
            return Ok(());
        };
        self.prove(Kind::Vectors, vectors)?;
        let passages = match &self.passages {
            Passages::OnDisk(file) => file.crc32(go_on)?,
            Passages::InMemory(copy) => Some(crc32fast::hash(copy)),
        };
        let Some(passages) = passages else {
            return Ok(());
        };
        self.prove(Kind::Passages, passages)
    }

    /// Refused if anybody has written to a file that is still read from.
    pub(crate) fn unchanged(&self) -> Result<(), Fault> {
        if let Some(file) = &self.mapped {
            file.unchanged()?;
        }
        match &self.passages {
            Passages::OnDisk(file) => file.unchanged(),
            Passages::InMemory(_) => Ok(()),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.entry.rows
    }

    /// The given rows one after another, each padded with zeros to [`stride`]. Read them at once:
    /// that they are there was looked at just now.
    pub(crate) fn vectors(&self, rows: Range<usize>) -> Result<&[i8], Fault> {
        if let Some(file) = &self.mapped {
            file.unchanged()?;
        }
        let stride = stride(self.whose.width);
        let body = &self.vectors[HEADER_BYTES..];
        Ok(as_i8(&body[rows.start * stride..rows.end * stride]))
    }

    pub(crate) fn scale(&self, row: usize) -> f32 {
        f32::from_le_bytes(number_at(&self.scales[HEADER_BYTES..], row))
    }

    pub(crate) fn scales(&self, rows: Range<usize>) -> impl Iterator<Item = f32> {
        let (numbers, _) = self.scales[HEADER_BYTES..].as_chunks();
        numbers[rows].iter().copied().map(f32::from_le_bytes)
    }

    fn end_of_record(&self, row: usize) -> u64 {
        u64::from_le_bytes(number_at(&self.offsets[HEADER_BYTES..], row))
    }

    /// The passage of a row. Lengths and UTF-8 are checked: the passages of a large index may be
    /// damaged without anyone having looked.
    pub(crate) fn passage(&self, row: usize) -> Result<StoredPassage<'_>, Fault> {
        let senseless = || Fault::Record {
            file: Kind::Passages.file_name(self.number),
            record: row,
        };
        let end = self.end_of_record(row);
        let start = row.checked_sub(1).map_or(0, |row| self.end_of_record(row));
        let header = HEADER_BYTES as u64;
        let range = (start + header) as usize..(end + header) as usize;
        let record = match &self.passages {
            Passages::InMemory(copy) => Cow::Borrowed(&copy[range]),
            Passages::OnDisk(file) => {
                file.unchanged()?;
                let mut record = vec![0; range.len()];
                file.read(&mut record, range.start as u64)?;
                Cow::Owned(record)
            }
        };
        stored(record, self.whose.format).ok_or_else(senseless)
    }
}

/// A record's fields; `None` if they do not fit into it or are not UTF-8.
fn stored(record: Cow<'_, [u8]>, format: u64) -> Option<StoredPassage<'_>> {
    let head_bytes = head_bytes(format);
    let head = record.get(..head_bytes)?;
    let number = |at: usize| u32::from_le_bytes(number_at(head, at));
    let (id_bytes, title_bytes) = (number(0) as usize, number(1) as usize);
    let (url_bytes, in_degree) = match format {
        EXTENDED => (number(2) as usize, Some(number(3))),
        _ => (0, None),
    };
    let all: Cow<'_, str> = match record {
        Cow::Borrowed(record) => str::from_utf8(&record[head_bytes..]).ok()?.into(),
        Cow::Owned(mut record) => String::from_utf8(record.split_off(head_bytes)).ok()?.into(),
    };
    let (_, rest) = all.split_at_checked(id_bytes)?;
    let (_, rest) = rest.split_at_checked(title_bytes)?;
    rest.split_at_checked(url_bytes)?;
    Some(StoredPassage {
        all,
        id_bytes,
        title_bytes,
        url_bytes,
        in_degree: in_degree.filter(|number| *number != NO_IN_DEGREE),
    })
}

/// The `at`-th of the numbers of `N` bytes each that `bytes` holds.
fn number_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut number = [0; N];
    number.copy_from_slice(&bytes[at * N..][..N]);
    number
}

#[expect(
    unsafe_code,
    reason = "the standard library has no safe view of &[u8] as &[i8]"
)]
fn as_i8(bytes: &[u8]) -> &[i8] {
    // SAFETY: u8 and i8 have the same size and alignment, every bit pattern is valid for both, and
    // the lifetime is that of `bytes`.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<i8>(), bytes.len()) }
}
