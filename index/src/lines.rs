//! Reading files of one JSON object a line, plain or gzipped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::BuildError;

/// A longer line is refused: one bad file must not fill the memory.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A file, line by line, and the hash of what was read so far.
pub(crate) struct Lines {
    path: PathBuf,
    file: Box<dyn BufRead + Send>,
    sha256: Sha256,
    number: u64,
    line: Vec<u8>,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, BuildError> {
        let failed = || BuildError::io("reading", path);
        let file = File::open(path).map_err(failed())?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        // What a file is shows in its first bytes, whatever it is called.
        let gzipped = file
            .fill_buf()
            .map_err(failed())?
            .starts_with(&[0x1f, 0x8b]);
        let file: Box<dyn BufRead + Send> = if gzipped {
            Box::new(BufReader::new(MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            sha256: Sha256::new(),
            number: 0,
            line: Vec::new(),
        })
    }

    /// The value of the next line that is not blank.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, BuildError> {
        while self.advance()? {
            let line = match str::from_utf8(&self.line) {
                Ok(line) => line.trim(),
                Err(error) => return Err(self.bad(format!("no UTF-8 ({error})"))),
            };
            if line.is_empty() {
                continue;
            }
            return match serde_json::from_str(line) {
                Ok(value) => Ok(Some(value)),
                Err(error) => Err(self.bad(describe(&error))),
            };
        }
        Ok(None)
    }

    /// An error about the line that was read last.
    pub(crate) fn bad(&self, reason: impl Into<String>) -> BuildError {
        BuildError::Line {
            path: self.path.clone(),
            line: self.number,
            reason: reason.into(),
        }
    }

    /// Of everything read so far, in hexadecimal.
    pub(crate) fn sha256(self) -> String {
        hex(self.sha256)
    }

    /// Of the whole file, in hexadecimal; what is left of it is read for that.
    pub(crate) fn sha256_of_all(mut self) -> Result<String, BuildError> {
        while self.advance()? {}
        Ok(self.sha256())
    }

    /// Reads one line; false at the end of the file.
    fn advance(&mut self) -> Result<bool, BuildError> {
        self.line.clear();
        let mut rest = Read::by_ref(&mut self.file).take(LINE_BYTES_MAX);
        let read = rest.read_until(b'\n', &mut self.line);
        let bytes = read.map_err(BuildError::io("reading", &self.path))?;
        if bytes == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.sha256.update(&self.line);
        if bytes as u64 == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            return Err(self.bad(format!("longer than {} MiB", LINE_BYTES_MAX >> 20)));
        }
        Ok(true)
    }
}

/// Ends a hash, as hexadecimal digits.
pub(crate) fn hex(sha256: Sha256) -> String {
    let bytes: [u8; 32] = sha256.finalize().into();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What serde_json says, less its own count of lines, which is always 1.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    format!("{reason} (column {})", error.column())
}
