//! JSON values one after another: one a line, or as the elements of an array, behind which others may
//! stand: `cat train.json dev.json`.

use std::io::{self, BufRead};
use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::error::BuildError;
use crate::input::{self, Source};
use crate::intake::Reason;
use crate::lines::{ENTRY_BYTES_MAX, Line, Lines, describe};

/// A value that cannot be used: why, and where it stands.
pub(crate) type Bad = (Reason, String);

/// A file of JSON values.
pub(crate) enum Objects {
    /// One a line.
    Lines(Lines),
    /// The elements of arrays.
    Array(Array),
}

impl Objects {
    pub(crate) fn open(source: &Source) -> Result<Self, BuildError> {
        let mut array = Array::open(source)?;
        Ok(match array.begins()? {
            true => Self::Array(array),
            false => Self::Lines(Lines::open(source)?),
        })
    }

    /// The next value.
    pub(crate) fn next<T: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<Result<T, Bad>>, BuildError> {
        let (parsed, whole) = match self {
            Self::Lines(lines) => match lines.line()? {
                None => return Ok(None),
                Some(Line::Bad(reason, place)) => return Ok(Some(Err((reason, place)))),
                Some(Line::Text { text, ended }) => (serde_json::from_str(text), ended),
            },
            Self::Array(array) => match array.element()? {
                None => return Ok(None),
                Some(Err(bad)) => return Ok(Some(Err(bad))),
                Some(Ok(element)) => (serde_json::from_slice(element), true),
            },
        };
        Ok(Some(parsed.map_err(|error| {
            let place = self.place();
            match error.is_eof() && !whole {
                // The last line, without its end: the file goes no further.
                true => (Reason::Cut, place),
                false => (Reason::Broken, format!("{place}: {}", describe(&error))),
            }
        })))
    }

    /// Where the value stands that was read last.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Lines(lines) => lines.place(),
            Self::Array(array) => array.place(),
        }
    }

    /// The hash of the file as far as it was read, if it is a file of lines.
    pub(crate) fn sha256(&self) -> Option<String> {
        match self {
            Self::Lines(lines) => Some(lines.sha256()),
            Self::Array(_) => None,
        }
    }
}

/// What an array comes to next.
enum Step {
    Element,
    /// The file ends behind the array.
    End,
    /// Behind the array stands something that is no array.
    Behind,
}

/// Arrays, element by element; one element is in memory at a time.
pub(crate) struct Array {
    path: PathBuf,
    file: Box<dyn BufRead + Send>,
    element: Vec<u8>,
    number: u64,
    ended: bool,
}

impl Array {
    fn open(source: &Source) -> Result<Self, BuildError> {
        Ok(Self {
            path: source.path.clone(),
            file: input::open(source)?,
            element: Vec::new(),
            number: 0,
            ended: false,
        })
    }

    /// Takes in the bracket that an array begins with; false if there is none.
    fn begins(&mut self) -> Result<bool, BuildError> {
        let first = self.skip(is_around);
        let first = match first {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            first => first.map_err(BuildError::io("reading", &self.path))?,
        };
        if first == Some(b'[') {
            self.file.consume(1);
        }
        Ok(first == Some(b'['))
    }

    fn place(&self) -> String {
        format!("entry {}", self.number)
    }

    fn element(&mut self) -> Result<Option<Result<&[u8], Bad>>, BuildError> {
        if self.ended {
            return Ok(None);
        }
        self.number += 1;
        match self.read() {
            Ok(Step::Element) if self.element.len() > ENTRY_BYTES_MAX => {
                Ok(Some(Err((Reason::TooLarge, self.place()))))
            }
            Ok(Step::Element) => Ok(Some(Ok(&self.element))),
            Ok(Step::End) => {
                self.ended = true;
                Ok(None)
            }
            Ok(Step::Behind) => {
                self.ended = true;
                let name = format!("{}: something stands behind the array", self.place());
                Ok(Some(Err((Reason::Broken, name))))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.ended = true;
                Ok(Some(Err((Reason::Cut, self.place()))))
            }
            Err(error) => Err(BuildError::io("reading", &self.path)(error)),
        }
    }

    /// Reads one element, of the next array if this one has ended.
    fn read(&mut self) -> io::Result<Step> {
        self.element.clear();
        let between = |byte: u8| byte.is_ascii_whitespace() || byte == b',';
        loop {
            match self.skip(between)? {
                Some(b']') => self.file.consume(1),
                Some(_) => break,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            match self.skip(is_around)? {
                Some(b'[') => self.file.consume(1),
                Some(_) => return Ok(Step::Behind),
                None => return Ok(Step::End),
            }
        }
        let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
        while let Some(byte) = self.file.fill_buf()?.first().copied() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b',' | b']' if depth == 0 => return Ok(Step::Element),
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            // One byte more than allowed shows that it was too long.
            if self.element.len() <= ENTRY_BYTES_MAX {
                self.element.push(byte);
            }
            self.file.consume(1);
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// The next byte that is not skipped; it is not taken in.
    fn skip(&mut self, skipped: impl Fn(u8) -> bool) -> io::Result<Option<u8>> {
        while let Some(byte) = self.file.fill_buf()?.first().copied() {
            if !skipped(byte) {
                return Ok(Some(byte));
            }
            self.file.consume(1);
        }
        Ok(None)
    }
}

/// What may stand before an array, and behind it. A file may begin with a mark of its encoding.
fn is_around(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("values");
        std::fs::write(&path, text).unwrap();
        let mut objects = Objects::open(&Source::at(&path)).unwrap();
        let mut read = Vec::new();
        while let Some(value) = objects.next::<serde_json::Value>().unwrap() {
            read.push(match value {
                Ok(value) => value.to_string(),
                Err((reason, place)) => format!("{reason}: {place}"),
            });
        }
        read
    }

    #[test]
    fn values_stand_in_lines_or_in_an_array() {
        for (text, expected) in [
            ("", &[][..]),
            ("[]", &[]),
            (
                " [ ] rest",
                &["broken: entry 1: something stands behind the array"],
            ),
            (
                "[1] {\"a\":1}\n[2]",
                &["1", "broken: entry 2: something stands behind the array"],
            ),
            ("[1]\n[2]", &["1", "2"]),
            ("[1,2][]\u{feff}[3] \n", &["1", "2", "3"]),
            ("[1][2", &["1", "cut off at the end of the file: entry 2"]),
            ("{\"a\":1}\n\n{\"a\":2}", &["{\"a\":1}", "{\"a\":2}"]),
            (
                "\u{feff}[{\"a\":1},{\"a\":\"],[\\\"\"}]",
                &["{\"a\":1}", "{\"a\":\"],[\\\"\"}"],
            ),
            ("[1,\n[2,[3]],\"x\"]\n", &["1", "[2,[3]]", "\"x\""]),
            (
                "[1,{\"a\"},2]",
                &["1", "broken: entry 2: expected `:` (column 5)", "2"],
            ),
            ("[1,2", &["1", "cut off at the end of the file: entry 2"]),
            (
                "[1,{\"a\":",
                &["1", "cut off at the end of the file: entry 2"],
            ),
            (
                "1\n{\"a\":",
                &["1", "cut off at the end of the file: line 2"],
            ),
            (
                "1\n{\"a\":\n2",
                &[
                    "1",
                    "broken: line 2: EOF while parsing a value (column 5)",
                    "2",
                ],
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let long = "x".repeat(ENTRY_BYTES_MAX + 10);
        let too_long = |place: &str| format!("larger than 16 MiB: {place}");
        let expected = ["1".to_owned(), too_long("entry 2"), "2".to_owned()];
        assert_eq!(read(&format!("[1,\"{long}\",2]")), expected);
        let expected = ["1".to_owned(), too_long("line 2"), "2".to_owned()];
        assert_eq!(read(&format!("1\n\"{long}\"\n2")), expected);
    }
}
