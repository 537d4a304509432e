//! What can be wrong with a run folder.

use std::path::PathBuf;

use crate::files::FileError;

/// Why a run folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// No run was begun there.
    #[error("{} holds no run: there is no run.json; give the folder that `--out` named", .0.display())]
    NoRun(PathBuf),
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
    /// The run in the folder cannot be resumed in these circumstances.
    #[error("{} holds a run that was begun differently: {differences}; take another folder for this one", dir.display())]
    OtherCircumstances {
        /// The folder.
        dir: PathBuf,
        /// What differs, with both values.
        differences: String,
    },
    /// A simulation would replace a run that was asked of a server.
    #[error("{} holds a run that was asked of a server; take another folder for the simulation", .0.display())]
    Precious(PathBuf),
    /// A run would replace the questions of a bundle.
    #[error("{} holds a bundle; take another folder for the run", .0.display())]
    Bundle(PathBuf),
    /// A row for a question that the run has not.
    #[error("the run has no question {0}: no row was written")]
    Stray(String),
    /// A row that is there.
    #[error("there is a row for {0} already: no second one was written")]
    Again(String),
}
