//! Reading files of one JSON object a line, plain or gzipped.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::BuildError;

/// A longer line is refused: one bad file must not fill the memory.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A passage of the corpus.
#[derive(Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) text: String,
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
}

/// What one reading of the whole corpus tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Of the bytes, uncompressed, in hexadecimal.
    pub(crate) sha256: String,
    pub(crate) rows: usize,
}

/// Reads a corpus and checks every line, before anything is spent on encoding.
pub(crate) fn survey(path: &Path) -> Result<Survey, BuildError> {
    let mut corpus = Lines::open(path)?;
    let mut ids = HashSet::new();
    let mut rows = 0;
    while let Some(record) = corpus.next::<Record>()? {
        let blank = |text: &str| text.trim().is_empty();
        if blank(&record.id) {
            return Err(corpus.bad("the id is empty"));
        }
        if blank(&record.text) {
            return Err(corpus.bad("the text is empty"));
        }
        if !ids.insert(digest(&record.id)) {
            let reason = format!("the id {:?} occurs a second time", record.id);
            return Err(corpus.bad(reason));
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(BuildError::Empty(path.to_owned()));
    }
    Ok(Survey {
        sha256: corpus.sha256(),
        rows,
    })
}

/// The SHA-256 of a file's bytes, uncompressed, in hexadecimal.
pub(crate) fn sha256(path: &Path) -> Result<String, BuildError> {
    let mut lines = Lines::open(path)?;
    while lines.advance()? {}
    Ok(lines.sha256())
}

/// Stands for a string where holding the string itself would take too much memory: two different
/// ones would have to be found on purpose.
pub(crate) fn digest(text: &str) -> u128 {
    let sha256: [u8; 32] = Sha256::digest(text).into();
    let mut half = [0; 16];
    half.copy_from_slice(&sha256[..16]);
    u128::from_le_bytes(half)
}

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
        let bytes: [u8; 32] = self.sha256.finalize().into();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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

/// What serde_json says, less its own count of lines, which is always 1.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    format!("{reason} (column {})", error.column())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn surveyed(bytes: &[u8]) -> Result<Survey, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus.jsonl");
        std::fs::write(&path, bytes).unwrap();
        survey(&path).map_err(|error| {
            let mut text = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                text = format!("{text}: {source}");
            }
            text.replace(&dir.path().display().to_string(), "DIR")
        })
    }

    #[test]
    fn bad_lines_are_named_with_the_reason() {
        let good = r#"{"id":"a","title":"T","text":"x"}"#;
        let after_good = |line: &[u8]| [good.as_bytes(), b"\n\n", line].concat();
        for (line, reason) in [
            (&b"{"[..], "EOF while parsing an object (column 1)"),
            (b"nonsense", "expected ident (column 2)"),
            (
                b"[1]",
                "invalid type: integer `1`, expected a string (column 2)",
            ),
            (
                br#"{"id":"b","title":"T"}"#,
                "missing field `text` (column 22)",
            ),
            (
                br#"{"id":"b","text":"T"}"#,
                "missing field `title` (column 21)",
            ),
            (
                br#"{"title":"b","text":"T"}"#,
                "missing field `id` (column 24)",
            ),
            (
                br#"{"id":7,"title":"T","text":"x"}"#,
                "invalid type: integer `7`, expected a string (column 7)",
            ),
            (br#"{"id":"b","title":"T","text":" "}"#, "the text is empty"),
            (br#"{"id":"","title":"T","text":"x"}"#, "the id is empty"),
            (
                br#"{"id":"a","title":"U","text":"y"}"#,
                "the id \"a\" occurs a second time",
            ),
            (
                b"{\"id\":\"\xff\"}",
                "no UTF-8 (invalid utf-8 sequence of 1 bytes from index 7)",
            ),
        ] {
            let expected = format!("DIR/corpus.jsonl, line 3: {reason}");
            assert_eq!(surveyed(&after_good(line)), Err(expected));
        }
        assert_eq!(
            surveyed(b"\n \n"),
            Err("DIR/corpus.jsonl holds no passage".into())
        );
        let mut endless = vec![b' '; LINE_BYTES_MAX as usize + 1];
        endless.extend(good.as_bytes());
        assert_eq!(
            surveyed(&endless),
            Err("DIR/corpus.jsonl, line 1: longer than 16 MiB".into())
        );
        let missing = survey(Path::new("/nowhere/corpus.jsonl")).unwrap_err();
        assert_eq!(missing.to_string(), "reading /nowhere/corpus.jsonl failed");
    }

    #[test]
    fn gzipped_or_not_is_the_same_corpus() {
        let plain = "{\"id\":\"a\",\"title\":\"\",\"text\":\"x\",\"url\":\"ignored\"}\r\n{\"id\":\"b\",\"title\":\"T\",\"text\":\"x\"}";
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(plain.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        let survey = surveyed(plain.as_bytes()).unwrap();
        assert_eq!(survey.rows, 2);
        assert_eq!(surveyed(&gzip).unwrap(), survey);
        let cut = surveyed(&gzip[..gzip.len() - 6]).unwrap_err();
        assert!(cut.starts_with("reading DIR/corpus.jsonl failed"), "{cut}");
    }

    #[test]
    fn a_passage_without_a_title_is_its_text() {
        for (title, encoded) in [("T", "T\nx"), (" ", "x")] {
            let record = Record {
                id: "a".into(),
                title: title.into(),
                text: "x".into(),
            };
            assert_eq!(record.encoded(), encoded);
        }
    }
}
