//! Reading records, and their fields with a mistake named by file, line and field.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};

use super::error::{At, LoadError, Place};
use super::parquet;

/// What takes a record.
type Take<'a> = &'a mut dyn FnMut(&Value, &Place) -> Result<(), LoadError>;

/// Gives every record of a file to `take`, until it refuses one.
pub(crate) fn read(file: &Path, take: Take<'_>) -> Result<(), LoadError> {
    let place = |at| Place {
        file: file.to_owned(),
        at,
    };
    if parquet::is_meant(file)? {
        return parquet::read(file, &mut |row, record| {
            take(record, &place(At::Record(row)))
        });
    }
    let text = text(file)?;
    if text.trim_start().starts_with('[') {
        let records: Vec<Value> =
            serde_json::from_str(&text).map_err(|source| LoadError::Json {
                place: place(At::File),
                source,
            })?;
        for (index, record) in records.iter().enumerate() {
            take(record, &place(At::Record(index + 1)))?;
        }
        return Ok(());
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = place(At::Line(index + 1));
        match serde_json::from_str(line) {
            Ok(record) => take(&record, &place)?,
            Err(source) => return Err(LoadError::Json { place, source }),
        }
    }
    Ok(())
}

/// A file's text, unpacked where it is gzip: its first bytes say so, whatever it is called.
pub(crate) fn text(file: &Path) -> Result<String, LoadError> {
    let unreadable = |source| LoadError::Read {
        file: file.to_owned(),
        source,
    };
    let mut bytes = std::fs::read(file).map_err(unreadable)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut bytes);
        MultiGzDecoder::new(packed.as_slice())
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
    }
    // Some editors put a mark in front that is no part of the text.
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|_| LoadError::NotText(file.to_owned()))
}

/// A record, or an object inside one.
pub(crate) struct Record<'a> {
    fields: &'a Map<String, Value>,
    place: &'a Place,
    /// The way here from the record, with a dot behind it.
    path: String,
}

impl<'a> Record<'a> {
    pub(crate) fn of(value: &'a Value, place: &'a Place) -> Result<Self, LoadError> {
        let fields = value
            .as_object()
            .ok_or_else(|| LoadError::NotARecord(place.clone()))?;
        Ok(Self {
            fields,
            place,
            path: String::new(),
        })
    }

    pub(crate) fn place(&self) -> &Place {
        self.place
    }

    /// Whether a field is there and says something.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// A field, unless it is null.
    pub(crate) fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A text that may not be empty, without blanks around it.
    pub(crate) fn text(&self, field: &str) -> Result<String, LoadError> {
        let text = self
            .require(field)?
            .as_str()
            .ok_or_else(|| self.malformed(field, "text"))?
            .trim();
        if text.is_empty() {
            return Err(self.empty(field));
        }
        Ok(text.to_owned())
    }

    /// A list.
    pub(crate) fn list(&self, field: &str) -> Result<&'a [Value], LoadError> {
        self.require(field)?
            .as_array()
            .map(Vec::as_slice)
            .ok_or_else(|| self.malformed(field, "a list"))
    }

    /// A list of objects that may not be empty.
    pub(crate) fn parts(&self, field: &str) -> Result<Vec<Self>, LoadError> {
        let parts = self.list(field)?;
        if parts.is_empty() {
            return Err(self.empty(field));
        }
        let part = |(index, value): (usize, &'a Value)| {
            let path = format!("{}{field}[{index}]", self.path);
            match value.as_object() {
                Some(fields) => Ok(Self {
                    fields,
                    place: self.place,
                    path: path + ".",
                }),
                None => Err(self.malformed(&path, "an object")),
            }
        };
        parts.iter().enumerate().map(part).collect()
    }

    /// The answer in `field`, then those of `answer_aliases`, each once. Records need not have any.
    pub(crate) fn answers(&self, field: &str) -> Result<Vec<String>, LoadError> {
        let mut answers = vec![self.text(field)?];
        if !self.has("answer_aliases") {
            return Ok(answers);
        }
        for alias in self.list("answer_aliases")? {
            let alias = alias
                .as_str()
                .ok_or_else(|| self.malformed("answer_aliases", "a list of texts"))?
                .trim();
            if !alias.is_empty() && !answers.iter().any(|known| known == alias) {
                answers.push(alias.to_owned());
            }
        }
        Ok(answers)
    }

    pub(crate) fn missing(&self, field: &str) -> LoadError {
        LoadError::Missing {
            place: self.place.clone(),
            field: format!("{}{field}", self.path),
        }
    }

    pub(crate) fn malformed(&self, field: &str, wanted: &'static str) -> LoadError {
        LoadError::Malformed {
            place: self.place.clone(),
            field: format!("{}{field}", self.path),
            wanted,
        }
    }

    pub(crate) fn empty(&self, field: &str) -> LoadError {
        LoadError::Empty {
            place: self.place.clone(),
            field: format!("{}{field}", self.path),
        }
    }

    fn require(&self, field: &str) -> Result<&'a Value, LoadError> {
        self.get(field).ok_or_else(|| self.missing(field))
    }
}

/// Adds a title unless it is there already.
pub(crate) fn add_once(titles: &mut Vec<String>, title: &str) {
    if !titles.iter().any(|known| known == title) {
        titles.push(title.to_owned());
    }
}

/// The most hops that the paper allows a question which needs `steps`.
pub(crate) fn hop_budget(steps: usize) -> u32 {
    u32::try_from(steps).unwrap_or(u32::MAX).saturating_add(2)
}
