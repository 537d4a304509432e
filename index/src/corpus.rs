//! The corpus, whatever it is written in: passage after passage, checked and hashed.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::documents::{Documents, Files};
use crate::error::BuildError;
use crate::lines::Lines;

/// A passage of the corpus.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
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

/// An open corpus.
pub(crate) enum Corpus {
    /// One passage a line.
    Lines(Lines),
    /// A folder of documents, or one document.
    Documents(Documents),
}

/// What a reading to the end tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Stands for the passages, in hexadecimal: of a file of lines its bytes, uncompressed; of
    /// documents the passages that were cut from them.
    pub(crate) sha256: String,
    /// What became of the documents, if the corpus is made of documents.
    pub(crate) files: Option<Files>,
}

impl Corpus {
    pub(crate) fn open(path: &Path) -> Result<Self, BuildError> {
        Ok(match Documents::open(path)? {
            Some(documents) => Self::Documents(documents),
            None => Self::Lines(Lines::open(path)?),
        })
    }

    /// The next passage. It is not checked yet.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, BuildError> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Documents(documents) => documents.next(),
        }
    }

    /// An error about the passage that was read last.
    fn bad(&self, reason: String) -> BuildError {
        match self {
            Self::Lines(lines) => lines.bad(reason),
            Self::Documents(documents) => documents.bad(reason),
        }
    }

    /// What everything read so far comes to.
    pub(crate) fn identity(self) -> Identity {
        match self {
            Self::Lines(lines) => Identity {
                sha256: lines.sha256(),
                files: None,
            },
            Self::Documents(documents) => documents.identity(),
        }
    }
}

/// What one reading of the whole corpus tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) identity: Identity,
    pub(crate) rows: usize,
}

/// Reads a corpus and checks every passage, before anything is spent on encoding.
pub(crate) fn survey(path: &Path) -> Result<Survey, BuildError> {
    let mut corpus = Corpus::open(path)?;
    let mut ids = HashSet::new();
    let mut rows = 0;
    while let Some(record) = corpus.next()? {
        let blank = |text: &str| text.trim().is_empty();
        if blank(&record.id) {
            return Err(corpus.bad("the id is empty".into()));
        }
        if blank(&record.text) {
            return Err(corpus.bad("the text is empty".into()));
        }
        if !ids.insert(digest(&record.id)) {
            let reason = format!("the id {:?} occurs a second time", record.id);
            return Err(corpus.bad(reason));
        }
        rows += 1;
    }
    let identity = corpus.identity();
    if rows == 0 {
        return Err(BuildError::Empty {
            path: path.to_owned(),
            files: identity.files,
        });
    }
    Ok(Survey { identity, rows })
}

/// Reads a corpus only to know which it is, and whether an index of it is there already.
pub(crate) fn identify(path: &Path) -> Result<Identity, BuildError> {
    match Corpus::open(path)? {
        Corpus::Lines(lines) => Ok(Identity {
            sha256: lines.sha256_of_all()?,
            files: None,
        }),
        Corpus::Documents(mut documents) => {
            while documents.next()?.is_some() {}
            Ok(documents.identity())
        }
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
        let mut endless = vec![b' '; (16 << 20) + 1];
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
