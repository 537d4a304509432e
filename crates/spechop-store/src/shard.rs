//! A shard: its four files, mapped into memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use crate::error::Fault;
use crate::layout::{HEADER_BYTES, Identity, Kind, stride};
use crate::manifest::ShardEntry;

/// A passage's fields, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassageRef<'a> {
    /// The corpus's own identifier.
    pub id: &'a str,
    /// Title of the page it comes from.
    pub title: &'a str,
    /// The text itself.
    pub text: &'a str,
}

pub(crate) struct Shard {
    entry: ShardEntry,
    number: usize,
    width: usize,
    /// In the order of [`Kind::ALL`].
    files: [Mmap; 4],
}

impl Shard {
    /// Maps the files after a look at their lengths and headers, not at their content.
    pub(crate) fn open(
        dir: &Path,
        number: usize,
        entry: ShardEntry,
        width: usize,
        identity: &Identity,
    ) -> Result<Self, Fault> {
        let open = |kind: Kind| {
            let name = kind.file_name(number);
            let bytes = entry.files[kind as usize].bytes;
            let derived = kind.length(entry.rows, width);
            if bytes < HEADER_BYTES as u64 || derived.is_some_and(|derived| derived != bytes) {
                return Err(Fault::Manifest(format!(
                    "it gives {name} no length that can be"
                )));
            }
            let map = map(&dir.join(&name), &name, bytes)?;
            if map[..HEADER_BYTES] != kind.header(number, width, identity) {
                return Err(Fault::Foreign(name));
            }
            Ok(map)
        };
        let files = [
            open(Kind::Vectors)?,
            open(Kind::Scales)?,
            open(Kind::Offsets)?,
            open(Kind::Passages)?,
        ];
        Ok(Self {
            entry,
            number,
            width,
            files,
        })
    }

    /// Reads everything and compares it with the manifest's checksums.
    pub(crate) fn verify(&self) -> Result<(), Fault> {
        for kind in Kind::ALL {
            let found = crc32fast::hash(&self.files[kind as usize]);
            if found != self.entry.files[kind as usize].crc32 {
                return Err(Fault::Checksum(kind.file_name(self.number)));
            }
        }
        Ok(())
    }

    pub(crate) fn rows(&self) -> usize {
        self.entry.rows
    }

    fn body(&self, kind: Kind) -> &[u8] {
        &self.files[kind as usize][HEADER_BYTES..]
    }

    /// The given rows one after another, each padded with zeros to [`stride`].
    pub(crate) fn vectors(&self, rows: Range<usize>) -> &[i8] {
        let stride = stride(self.width);
        as_i8(&self.body(Kind::Vectors)[rows.start * stride..rows.end * stride])
    }

    pub(crate) fn scale(&self, row: usize) -> f32 {
        f32::from_le_bytes(number_at(self.body(Kind::Scales), row))
    }

    /// The passage of a row. Bounds and UTF-8 are checked: a large index may be damaged without
    /// anyone having looked.
    pub(crate) fn passage(&self, row: usize) -> Result<PassageRef<'_>, Fault> {
        self.record(row).ok_or_else(|| Fault::Record {
            file: Kind::Passages.file_name(self.number),
            record: row,
        })
    }

    fn record(&self, row: usize) -> Option<PassageRef<'_>> {
        let offsets = self.body(Kind::Offsets);
        let end = u64::from_le_bytes(number_at(offsets, row));
        let start = match row.checked_sub(1) {
            Some(before) => u64::from_le_bytes(number_at(offsets, before)),
            None => 0,
        };
        let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
        let record = self.body(Kind::Passages).get(range)?;
        let (lengths, record) = record.split_at_checked(8)?;
        let id_bytes = u32::from_le_bytes(number_at(lengths, 0)) as usize;
        let title_bytes = u32::from_le_bytes(number_at(lengths, 1)) as usize;
        let (id, rest) = record.split_at_checked(id_bytes)?;
        let (title, text) = rest.split_at_checked(title_bytes)?;
        Some(PassageRef {
            id: str::from_utf8(id).ok()?,
            title: str::from_utf8(title).ok()?,
            text: str::from_utf8(text).ok()?,
        })
    }
}

/// The `at`-th of the numbers of `N` bytes each that `bytes` holds.
fn number_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut number = [0; N];
    number.copy_from_slice(&bytes[at * N..][..N]);
    number
}

#[expect(
    unsafe_code,
    reason = "memory-mapping a file; an index must open in milliseconds"
)]
fn map(path: &Path, name: &str, bytes: u64) -> Result<Mmap, Fault> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Fault::Missing(name.to_owned()));
        }
        Err(error) => return Err(Fault::io("opening", path)(error)),
    };
    let found = file.metadata().map_err(Fault::io("reading", path))?.len();
    if found != bytes {
        return Err(Fault::Length {
            file: name.to_owned(),
            found,
            expected: bytes,
        });
    }
    // SAFETY: the mapping is read-only and stays sound as long as nobody truncates or rewrites the
    // file. The builder never writes into a published index: it replaces the folder by a new one,
    // and a mapped file lives on after its name is gone.
    unsafe { Mmap::map(&file) }.map_err(Fault::io("mapping", path))
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
