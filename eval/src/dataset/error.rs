//! Why there are no questions, or no passages.

use std::fmt;
use std::path::PathBuf;

use spechop_types::QUESTION_BYTES_MAX;

use crate::Dataset;

/// Where something stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub at: At,
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Anywhere.
    File,
    /// On this line, counted from 1.
    Line(usize),
    /// In this record of the file's array, or in this row, counted from 1.
    Record(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.at {
            At::File => write!(f, "{file}"),
            At::Line(line) => write!(f, "{file}, line {line}"),
            At::Record(record) => write!(f, "{file}, record {record}"),
        }
    }
}

/// Why there are no questions, or no passages. Nothing is ever loaded in part.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No file was given.
    #[error("no file of {} is given: name at least one", .0.title())]
    NoFiles(Dataset),
    /// A file cannot be read or unpacked.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A Parquet file cannot be read to its end, or is none.
    #[error("{} cannot be read as Parquet: download it again, or give its rows as JSON, one object a line", file.display())]
    Parquet {
        /// The file.
        file: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// A file is in some other format.
    #[error(
        "{} is not text in UTF-8: give JSON, one object a line or one array, plain or gzip, or Parquet",
        .0.display()
    )]
    NotText(PathBuf),
    /// What stands there is not JSON.
    #[error("{place} is not JSON: give one object a line, or one array of objects")]
    Json {
        /// Where.
        place: Place,
        /// Why.
        source: serde_json::Error,
    },
    /// What stands there is JSON, but no record.
    #[error("{0} is not an object: give one record a line, or one array of records")]
    NotARecord(Place),
    /// The file is empty, or its array is.
    #[error("{} holds no questions: give another file", .0.display())]
    NoQuestions(PathBuf),
    /// The file is empty.
    #[error("{} holds no passages: give another file", .0.display())]
    NoPassages(PathBuf),
    /// A record of another data set.
    #[error("{place} looks like {looks}; {} was asked for: name the right data set, or give another file", wanted.title())]
    OtherDataset {
        /// Where.
        place: Place,
        /// What it looks like.
        looks: &'static str,
        /// What was asked for.
        wanted: Dataset,
    },
    /// A record of MuSiQue-Full that has no answer by design.
    #[error("{0} is not answerable, so the file is of MuSiQue-Full: give MuSiQue-Ans")]
    Unanswerable(Place),
    /// A field is missing.
    #[error("{place} has no `{field}`: give the data set's original records")]
    Missing {
        /// Where.
        place: Place,
        /// Which, with the way to it.
        field: String,
    },
    /// A field holds something else than the data set has there.
    #[error("{place}: `{field}` is not {wanted}: give the data set's original records")]
    Malformed {
        /// Where.
        place: Place,
        /// Which, with the way to it.
        field: String,
        /// What the data set has there.
        wanted: &'static str,
    },
    /// A field is empty that nothing can be asked or judged without.
    #[error("{place}: `{field}` is empty: take a part of the data set that has it")]
    Empty {
        /// Where.
        place: Place,
        /// Which, with the way to it.
        field: String,
    },
    /// A question is too long to be one.
    #[error("{place}: the question has {bytes} bytes; at most {QUESTION_BYTES_MAX} are allowed")]
    TooLong {
        /// Where.
        place: Place,
        /// Its length.
        bytes: usize,
    },
    /// An id stands twice.
    #[error("`{id}` stands twice, at {first} and at {second}: take one of them out")]
    Duplicate {
        /// The id.
        id: String,
        /// Where it stands first.
        first: Place,
        /// Where it stands again.
        second: Place,
    },
    /// A kind that does not occur.
    #[error("no question is of the kind `{kind}`; there are: {known}")]
    NoSuchKind {
        /// What was asked for.
        kind: String,
        /// What there is.
        known: String,
    },
    /// What stands there is no look-up.
    #[error("{place} is no look-up ({why}): make the file with eval/datasets/make_look_ups.py")]
    NotLookUps {
        /// Where.
        place: Place,
        /// What is wrong with it.
        why: String,
    },
    /// A list of ids has no such key.
    #[error("{} has no `{key}`; there are: {known}", file.display())]
    NoSuchPart {
        /// The list.
        file: PathBuf,
        /// What was asked for.
        key: String,
        /// What there is.
        known: String,
    },
    /// A file is no list of ids.
    #[error(
        "{} is no list of ids: give [\"id\", …] or {{\"2wiki\": [\"id\", …]}}; a data set may also have parts, \
         {{\"2wiki\": {{\"validation\": [\"id\", …]}}}}",
        .0.display()
    )]
    NotIds(PathBuf),
    /// No question's id is listed.
    #[error(
        "none of the {questions} questions is among the {listed} ids listed: the list is about others"
    )]
    NoneListed {
        /// How many questions there are.
        questions: usize,
        /// How many ids are listed.
        listed: usize,
    },
    /// More questions are wanted than there are.
    #[error("{wanted} questions are asked for, and there are {available}: ask for fewer")]
    TooFew {
        /// How many were wanted.
        wanted: usize,
        /// How many there are.
        available: usize,
    },
    /// No question is wanted.
    #[error("a sample of 0 questions says nothing: ask for at least 1")]
    SampleOfNone,
}
