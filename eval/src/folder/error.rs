//! What can be wrong with a run folder.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The file system does not play along.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No run was begun there.
    #[error("{} holds no run: there is no run.json; give the folder that `--out` named", .0.display())]
    NoRun(PathBuf),
    /// `run.json` is not what a run begins with.
    #[error("{} describes no run: it was changed, or is of another version; take another folder", path.display())]
    BadInfo {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A line cannot be read.
    #[error("{}, line {line} cannot be read; delete the line to have it asked again", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There are more or fewer questions than were to be asked.
    #[error("{} has {holds} questions, and run.json says {said}; take another folder", path.display())]
    QuestionCount {
        /// The file of the questions.
        path: PathBuf,
        /// Its questions.
        holds: usize,
        /// What the run was begun with.
        said: usize,
    },
    /// Two lines are about the same.
    #[error("{}, line {line}: {what} is in line {first} already; delete one of them", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The later line, from 1.
        line: usize,
        /// What both are about.
        what: String,
        /// The earlier line.
        first: usize,
    },
    /// A row is about a question that the run has not.
    #[error("{}, line {line}: questions.jsonl has no question {id}; delete the line", path.display())]
    NoQuestion {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The question's id.
        id: String,
    },
    /// Rows without the description of their run.
    #[error("{} holds rows and no run.json: how they came about is not known; take another folder", .0.display())]
    RowsAlone(PathBuf),
    /// The folder's run cannot be gone on with like this.
    #[error("{} holds a run that was begun differently: {differences}; take another folder for this one", dir.display())]
    OtherCircumstances {
        /// The folder.
        dir: PathBuf,
        /// What differs, with both values.
        differences: String,
    },
    /// Somebody else writes to the folder.
    #[error("another run is writing to {}; wait for its end, or take another folder", .0.display())]
    Locked(PathBuf),
    /// A row for a question that the run has not.
    #[error("the run has no question {0}: no row was written")]
    Stray(String),
    /// A row that is there.
    #[error("there is a row for {0} already: no second one was written")]
    Again(String),
    /// Something that has no JSON.
    #[error("a row cannot be written as JSON")]
    Unwritable {
        /// Why not.
        source: serde_json::Error,
    },
}

impl RunError {
    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Io {
            doing,
            path,
            source,
        }
    }
}
