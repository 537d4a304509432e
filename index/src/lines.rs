//! A file line by line.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::BuildError;
use crate::input::{self, Source};
use crate::intake::Reason;

/// Nothing that is longer is taken in, so that one bad file does not fill the memory.
pub(crate) const ENTRY_BYTES_MAX: usize = 16 << 20;
/// Of the beginning and of the end of a reason that is too long to be told.
const QUOTED_BYTES_MAX: usize = 100;

/// A file, line by line, and the hash of what was read so far.
pub(crate) struct Lines {
    path: PathBuf,
    file: Box<dyn BufRead + Send>,
    sha256: Sha256,
    number: u64,
    line: Vec<u8>,
    ended: bool,
}

/// A line that is not blank.
pub(crate) enum Line<'a> {
    /// What it says, without white space around it.
    Text {
        text: &'a str,
        /// Whether its end was there; only the last line of a file may lack it.
        ended: bool,
    },
    /// It cannot be used: why, and where it stands.
    Bad(Reason, String),
}

/// What [`Lines::advance`] came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Line,
    TooLong,
    Cut,
    End,
}

impl Lines {
    pub(crate) fn open(source: &Source) -> Result<Self, BuildError> {
        Ok(Self {
            path: source.path.clone(),
            file: input::open(source)?,
            sha256: Sha256::new(),
            number: 0,
            line: Vec::new(),
            ended: false,
        })
    }

    /// The next line that is not blank.
    pub(crate) fn line(&mut self) -> Result<Option<Line<'_>>, BuildError> {
        let step = loop {
            let step = self.advance()?;
            if step != Step::Line || !self.line.trim_ascii().is_empty() {
                break step;
            }
        };
        let place = self.place();
        let ended = self.line.last() == Some(&b'\n');
        Ok(match step {
            Step::End => None,
            Step::TooLong => Some(Line::Bad(Reason::TooLarge, place)),
            Step::Cut => Some(Line::Bad(Reason::Cut, place)),
            Step::Line => Some(match str::from_utf8(&self.line) {
                Ok(text) => Line::Text {
                    text: text
                        .trim_start_matches('\u{feff}')
                        .trim_matches(|c: char| c.is_whitespace() && c != '\t'),
                    ended,
                },
                // The last line, without its end, stops within a character.
                Err(error) if !ended && error.error_len().is_none() => {
                    Line::Bad(Reason::Cut, place)
                }
                Err(error) => Line::Bad(Reason::NotUtf8, format!("{place}: {error}")),
            }),
        })
    }

    /// The value of the next line that is not blank; a line that has none is an error.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, BuildError> {
        let reason = match self.line()? {
            None => return Ok(None),
            Some(Line::Text { text, .. }) => match serde_json::from_str(text) {
                Ok(value) => return Ok(Some(value)),
                Err(error) => describe(&error),
            },
            Some(Line::Bad(reason, _)) => reason.to_string(),
        };
        Err(BuildError::Line {
            path: self.path.clone(),
            line: self.number,
            reason,
        })
    }

    /// Where the line stands that was read last.
    pub(crate) fn place(&self) -> String {
        format!("line {}", self.number)
    }

    /// Of everything read so far, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hex(self.sha256.clone())
    }

    /// Of the whole file, in hexadecimal; what is left of it is read for that.
    pub(crate) fn sha256_of_all(mut self) -> Result<String, BuildError> {
        while self.advance()? != Step::End {}
        Ok(self.sha256())
    }

    fn advance(&mut self) -> Result<Step, BuildError> {
        self.line.clear();
        if self.ended {
            return Ok(Step::End);
        }
        self.number += 1;
        let read = self.read();
        match read {
            Ok(Step::End) => {
                self.number -= 1;
                self.ended = true;
                Ok(Step::End)
            }
            Ok(step) => Ok(step),
            // What is packed ends before its end.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.ended = true;
                Ok(Step::Cut)
            }
            Err(error) => Err(BuildError::io("reading", &self.path)(error)),
        }
    }

    fn read(&mut self) -> io::Result<Step> {
        let mut rest = Read::by_ref(&mut self.file).take(ENTRY_BYTES_MAX as u64);
        let bytes = rest.read_until(b'\n', &mut self.line)?;
        self.sha256.update(&self.line);
        if bytes == 0 {
            return Ok(Step::End);
        }
        if bytes < ENTRY_BYTES_MAX || self.line.last() == Some(&b'\n') {
            return Ok(Step::Line);
        }
        // The rest of the line is nobody's.
        loop {
            let more = self.file.fill_buf()?;
            let end = more.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(more.len(), |end| end + 1);
            self.sha256.update(&more[..taken]);
            self.file.consume(taken);
            if end.is_some() || taken == 0 {
                return Ok(Step::TooLong);
            }
        }
    }
}

/// Ends a hash, as hexadecimal digits.
pub fn hex(sha256: Sha256) -> String {
    let bytes: [u8; 32] = sha256.finalize().into();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What serde_json says, less its own count of lines, which is always 1.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let reason = text.rsplit_once(" at line ");
    let reason = reason.map_or(&*text, |(reason, _)| reason);
    // It quotes what it has found, which may be a book, before it says what it expected.
    let head = reason.floor_char_boundary(QUOTED_BYTES_MAX);
    let tail = reason.ceil_char_boundary(reason.len().saturating_sub(QUOTED_BYTES_MAX));
    match head < tail {
        true => format!("{}…{} (column {column})", &reason[..head], &reason[tail..]),
        false => format!("{reason} (column {column})"),
    }
}
