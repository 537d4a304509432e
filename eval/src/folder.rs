//! Run folders: `run.json` ([`RunInfo`]), `questions.jsonl` ([`Question`]) and `rows.jsonl` ([`Row`]).
//!
//! A run may be killed at any moment and resumed. `run.json` is the last file that the beginning of a
//! run writes, so a folder that has one has its questions. A row counts once its line has an end.

mod differences;
mod error;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::files::{
    FileError, Log, json, json_lines, read_json, read_lines, read_log, write_whole,
};
use crate::{Question, Row, RunInfo, Source, Wanted, bundle};
use differences::differences;
pub use error::RunError;

/// A folder that has this file is a run's.
pub(crate) const INFO: &str = "run.json";
const QUESTIONS: &str = "questions.jsonl";
const ROWS: &str = "rows.jsonl";

/// A run, whole or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How it came about.
    pub info: RunInfo,
    /// What was to be asked.
    pub questions: Vec<Question>,
    /// What came of it, in the order in which it came.
    pub rows: Vec<Row>,
}

/// What one way of asking lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The way.
    pub way: Wanted,
    /// The questions without a row, in the order of the questions. None: it is whole.
    pub ids: Vec<String>,
}

impl Run {
    /// Reads a run. A row whose line has no end is one that was being written: it is left out.
    ///
    /// # Errors
    ///
    /// A file is not there or damaged; rows that are there twice or belong to no question.
    pub fn read(dir: &Path) -> Result<Self, RunError> {
        let info: RunInfo = read_info(dir)?.ok_or_else(|| RunError::NoRun(dir.to_owned()))?;
        let questions = read_questions(dir, &info)?;
        let (rows, _) = read_rows(dir, &questions)?;
        Ok(Self {
            info,
            questions,
            rows,
        })
    }

    /// Writes a run that is made at once, in place of a simulated one that is there.
    ///
    /// # Errors
    ///
    /// The folder holds a run that was asked of a server, or a bundle, or cannot be written to.
    pub fn write(&self, dir: &Path) -> Result<(), RunError> {
        refuse_bundle(dir)?;
        if read_info(dir)?.is_some_and(|there| there.source != Source::Simulated) {
            return Err(RunError::Precious(dir.to_owned()));
        }
        fs::create_dir_all(dir).map_err(FileError::io("make the folder", dir))?;
        // Whoever is stopped on the way leaves no rows under another run's description.
        match fs::remove_file(dir.join(INFO)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(FileError::io("replace the run in", dir)(error).into());
            }
            _ => {}
        }
        write_whole(&dir.join(ROWS), &json_lines(&self.rows)?)?;
        begin(dir, &self.info, &self.questions)
    }

    /// The missing answers of every variant that was wanted or has rows.
    pub fn missing(&self) -> Vec<Missing> {
        let mut ways = self.info.wanted.clone();
        for row in &self.rows {
            let is_known =
                |way: &Wanted| way.concurrency == row.concurrency && way.variant == row.variant;
            if !ways.iter().any(is_known) {
                ways.push(Wanted {
                    variant: row.variant.clone(),
                    concurrency: row.concurrency,
                });
            }
        }
        let there: HashSet<Key> = self.rows.iter().map(key).collect();
        let missing = ways.into_iter().map(|way| {
            let name = way.variant.to_string();
            let ids = self.questions.iter().map(|question| question.id.clone());
            let lacks = |id: &String| !there.contains(&(id.clone(), name.clone(), way.concurrency));
            let ids = ids.filter(lacks).collect();
            Missing { way, ids }
        });
        missing.collect()
    }
}

/// Appends rows to a run folder: every row is on the disk before the next begins. Holding one keeps
/// every other writer out of the folder.
#[derive(Debug)]
pub struct RunWriter {
    info: RunInfo,
    log: Log,
    known: HashSet<String>,
    there: HashSet<Key>,
}

impl RunWriter {
    /// Begins a run, or resumes one that was begun in the same circumstances; returns the rows that
    /// are there. A torn last line (killed while writing) is cut off. Only the command may differ.
    ///
    /// # Errors
    ///
    /// The folder holds a run of other circumstances, or a damaged one, or a bundle, or cannot be written to.
    pub fn open(
        dir: &Path,
        info: &RunInfo,
        questions: &[Question],
    ) -> Result<(Self, Vec<Row>), RunError> {
        check_questions(&dir.join(QUESTIONS), questions, info)?;
        if !dir.join(INFO).exists() {
            refuse_bundle(dir)?;
        }
        fs::create_dir_all(dir).map_err(FileError::io("make the folder", dir))?;
        let mut log = Log::open(dir.join(ROWS))?;
        let begun = read_info(dir)?;
        if begun.is_none() && !log.is_empty() {
            return Err(RunError::RowsAlone(dir.to_owned()));
        }
        let mut info = info.clone();
        match begun {
            Some(begun) => {
                let there = read_questions(dir, &begun)?;
                let differences = differences((&begun, &there), (&info, questions));
                if !differences.is_empty() {
                    return Err(RunError::OtherCircumstances {
                        dir: dir.to_owned(),
                        differences: differences.join("; "),
                    });
                }
                let mut wanted = begun.wanted.clone();
                let more = info.wanted.iter().filter(|way| !begun.wanted.contains(way));
                wanted.extend(more.cloned());
                if wanted.len() > begun.wanted.len() {
                    // No single one of them makes all rows.
                    let command = format!("{} && {}", begun.command, info.command);
                    let grown = RunInfo {
                        wanted,
                        command,
                        ..begun
                    };
                    write_whole(&dir.join(INFO), &json(&grown)?)?;
                    info = grown;
                }
            }
            None => begin(dir, &info, questions)?,
        }
        let (rows, length) = read_rows(dir, questions)?;
        log.cut(length)?;
        let writer = Self {
            info,
            log,
            known: questions
                .iter()
                .map(|question| question.id.clone())
                .collect(),
            there: rows.iter().map(key).collect(),
        };
        Ok((writer, rows))
    }

    /// How the run comes about.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Writes a row, and waits until it is on the disk.
    ///
    /// # Errors
    ///
    /// The disk does not take it, the row is there already, or it belongs to no question of the run.
    pub fn append(&mut self, row: &Row) -> Result<(), RunError> {
        if !self.known.contains(&row.id) {
            return Err(RunError::Stray(row.id.clone()));
        }
        if self.there.contains(&key(row)) {
            return Err(RunError::Again(name(row)));
        }
        self.log.append(row)?;
        self.there.insert(key(row));
        Ok(())
    }
}

/// The questions of a bundle would be replaced, and with others it cannot be read any more.
fn refuse_bundle(dir: &Path) -> Result<(), RunError> {
    match dir.join(bundle::INFO).exists() {
        true => Err(RunError::Bundle(dir.to_owned())),
        false => Ok(()),
    }
}

/// What there is one row of. Variants are told apart by how they are written.
type Key = (String, String, u32);

fn key(row: &Row) -> Key {
    (row.id.clone(), row.variant.to_string(), row.concurrency)
}

fn name(row: &Row) -> String {
    let Row {
        id,
        variant,
        concurrency,
        ..
    } = row;
    format!("question {id} with {variant} at concurrency {concurrency}")
}

fn begin(dir: &Path, info: &RunInfo, questions: &[Question]) -> Result<(), RunError> {
    write_whole(&dir.join(QUESTIONS), &json_lines(questions)?)?;
    Ok(write_whole(&dir.join(INFO), &json(info)?)?)
}

/// The description of the run in this folder, if one was begun.
fn read_info(dir: &Path) -> Result<Option<RunInfo>, RunError> {
    Ok(read_json(&dir.join(INFO))?)
}

fn read_questions(dir: &Path, info: &RunInfo) -> Result<Vec<Question>, RunError> {
    let path = dir.join(QUESTIONS);
    let questions: Vec<Question> = read_lines(&path)?;
    check_questions(&path, &questions, info)?;
    Ok(questions)
}

fn check_questions(path: &Path, questions: &[Question], info: &RunInfo) -> Result<(), RunError> {
    if questions.len() != info.questions {
        return Err(RunError::QuestionCount {
            path: path.to_owned(),
            holds: questions.len(),
            said: info.questions,
        });
    }
    let mut first = HashMap::new();
    for (at, question) in questions.iter().enumerate() {
        if let Some(before) = first.insert(question.id.as_str(), at) {
            return Err(RunError::Twice {
                path: path.to_owned(),
                line: at + 1,
                what: format!("question {}", question.id),
                first: before + 1,
            });
        }
    }
    Ok(())
}

/// The rows that are whole, and the bytes that they take.
fn read_rows(dir: &Path, questions: &[Question]) -> Result<(Vec<Row>, u64), RunError> {
    let path = dir.join(ROWS);
    let (rows, length) = read_log(&path, |_: &Row| Ok(()))?;
    let known: HashSet<&str> = questions.iter().map(|question| &*question.id).collect();
    let mut first = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        let line = at + 1;
        if !known.contains(row.id.as_str()) {
            let id = row.id.clone();
            return Err(RunError::NoQuestion { path, line, id });
        }
        if let Some(first) = first.insert(key(row), line) {
            let what = name(row);
            return Err(RunError::Twice {
                path,
                line,
                what,
                first,
            });
        }
    }
    Ok((rows, length))
}
