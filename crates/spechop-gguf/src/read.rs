//! The header of a GGUF file: its keys, and where the numbers of each tensor lie.
//!
//! The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

use std::collections::HashSet;

use crate::error::ReadError;

const MAGIC: &[u8; 4] = b"GGUF";
/// Behind the magic and the version.
pub(crate) const TENSOR_COUNT_AT: usize = 8;
/// Where numbers begin, unless the file says otherwise.
const ALIGNMENT: usize = 32;
/// Each tensor is padded to it: a page of memory is a few kilobytes, and nothing that computes wants more.
const ALIGNMENT_MAX: u32 = 64 << 10;
/// llama.cpp allows four dimensions.
const DIMENSIONS_MAX: u32 = 4;

/// `GGUF_TYPE_…`.
const UINT32: u32 = 4;
const FLOAT32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// A file, read in place.
pub(crate) struct Gguf<'a> {
    pub(crate) bytes: &'a [u8],

    /// Where the list of tensors begins.
    pub(crate) tensors_at: usize,
    /// Names of the keys and where their values begin, the type left out.
    keys: Vec<(&'a [u8], u32, usize)>,
    pub(crate) alignment: usize,
    pub(crate) tensors: Vec<Tensor<'a>>,
}

/// A tensor of a file.
#[derive(Clone)]
pub(crate) struct Tensor<'a> {
    pub(crate) name: &'a str,
    /// How many lengths.
    pub(crate) dimensions: u32,
    /// Lengths, that of a row first.
    pub(crate) shape: Vec<usize>,
    /// `GGML_TYPE_…`.
    pub(crate) kind: u32,
    /// All its numbers.
    pub(crate) data: &'a [u8],
}

/// Tensors' numbers in bytes: how many numbers share a block, and how long it is.
fn block_of(kind: u32) -> Option<(usize, usize)> {
    // ggml's table; only those that a header can be read without are left out.
    Some(match kind {
        0 => (1, 4),
        1 | 30 => (1, 2),
        2 | 20 => (32, 18),
        3 => (32, 20),
        6 => (32, 22),
        7 => (32, 24),
        8 => (32, 34),
        10 => (256, 84),
        11 => (256, 110),
        12 => (256, 144),
        13 => (256, 176),
        14 => (256, 210),
        _ => return None,
    })
}

impl<'a> Gguf<'a> {
    /// Reads the header, and checks that every tensor lies within the file.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, ReadError> {
        let mut cursor = Cursor { bytes, at: 0 };
        if cursor.take(4).ok() != Some(MAGIC.as_slice()) {
            return Err(ReadError::NotGguf);
        }
        let version = cursor.int()?;
        if !(2..=3).contains(&version) {
            return Err(ReadError::Version { found: version });
        }
        let (tensor_count, key_count) = (cursor.long()?, cursor.long()?);
        let mut keys = Vec::new();
        for _ in 0..key_count {
            let name = cursor.text()?;
            let kind = cursor.int()?;
            keys.push((name, kind, cursor.at));
            cursor.skip_value(kind, true)?;
        }
        let tensors_at = cursor.at;
        let mut file = Self {
            bytes,
            tensors_at,
            keys,
            alignment: ALIGNMENT,
            tensors: Vec::new(),
        };
        if let Some(found) = file.int("general.alignment") {
            if !found.is_power_of_two() || found > ALIGNMENT_MAX {
                return Err(ReadError::Alignment { found });
            }
            file.alignment = found as usize;
        }
        let mut described = Vec::new();
        for _ in 0..tensor_count {
            let at = cursor.at;
            let name = std::str::from_utf8(cursor.text()?).map_err(|_| ReadError::Header { at })?;
            let dimensions = cursor.int()?;
            if dimensions == 0 || dimensions > DIMENSIONS_MAX {
                return Err(ReadError::Header { at });
            }
            let shape = (0..dimensions).map(|_| cursor.long());
            let shape = shape.collect::<Result<Vec<_>, _>>()?;
            described.push((name, dimensions, shape, cursor.int()?, cursor.long()?));
        }
        let data = bytes
            .get(cursor.at.next_multiple_of(file.alignment)..)
            .unwrap_or_default();
        let mut names = HashSet::with_capacity(described.len());
        for (name, dimensions, shape, kind, offset) in described {
            let damaged = |detail| ReadError::Tensor {
                name: name.to_owned(),
                detail,
            };
            if !names.insert(name) {
                return Err(damaged("another one has its name"));
            }
            let count = shape
                .iter()
                .try_fold(1_usize, |all, &one| all.checked_mul(one));
            let count = count.ok_or_else(|| damaged("its lengths are too large"))?;
            let (numbers, length) = block_of(kind).ok_or_else(|| ReadError::Kind {
                name: name.to_owned(),
                kind,
            })?;
            if count == 0 {
                return Err(damaged("it is empty"));
            }
            if shape[0] % numbers != 0 {
                return Err(damaged("its rows are no whole blocks"));
            }
            let end = (count / numbers)
                .checked_mul(length)
                .and_then(|bytes| bytes.checked_add(offset));
            let data = end.and_then(|end| data.get(offset..end));
            file.tensors.push(Tensor {
                name,
                dimensions,
                shape,
                kind,
                data: data.ok_or_else(|| damaged("the file ends before its last number"))?,
            });
        }
        Ok(file)
    }

    /// Where the four bytes of an unsigned integer lie, if there is such a key.
    pub(crate) fn int_at(&self, key: &str) -> Option<usize> {
        self.value_at(key, UINT32)
    }

    pub(crate) fn float(&self, key: &str) -> Option<f32> {
        let at = self.value_at(key, FLOAT32)?;
        let bytes = self.bytes.get(at..at + 4)?;
        Some(f32::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'a [u8]> {
        let at = self.value_at(key, STRING)?;
        let bytes = self.bytes;
        Cursor { bytes, at }.text().ok()
    }

    pub(crate) fn int(&self, key: &str) -> Option<u32> {
        let at = self.int_at(key)?;
        let bytes = self.bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn value_at(&self, key: &str, kind: u32) -> Option<usize> {
        let mut found = self.keys.iter();
        found
            .find(|&&(name, its, _)| name == key.as_bytes() && its == kind)
            .map(|&(_, _, at)| at)
    }
}

/// Reads on from a place in the header.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], ReadError> {
        let end = self.at.checked_add(length);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(ReadError::Header { at: self.at })?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let at = self.at;
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| ReadError::Header { at })
    }

    fn int(&mut self) -> Result<u32, ReadError> {
        self.array().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Result<usize, ReadError> {
        let at = self.at;
        let long = self.array().map(u64::from_le_bytes)?;
        usize::try_from(long).map_err(|_| ReadError::Header { at })
    }

    fn text(&mut self) -> Result<&'a [u8], ReadError> {
        let length = self.long()?;
        self.take(length)
    }

    /// Passes a value by. A list holds no lists.
    fn skip_value(&mut self, kind: u32, lists: bool) -> Result<(), ReadError> {
        let at = self.at;
        match kind {
            STRING => self.text().map(drop),
            ARRAY if lists => {
                let (of, count) = (self.int()?, self.long()?);
                for _ in 0..count {
                    self.skip_value(of, false)?;
                }
                Ok(())
            }
            0 | 1 | 7 => self.take(1).map(drop),
            2 | 3 => self.take(2).map(drop),
            UINT32 | 5 | FLOAT32 => self.take(4).map(drop),
            10..=12 => self.take(8).map(drop),
            _ => Err(ReadError::Header { at }),
        }
    }
}
