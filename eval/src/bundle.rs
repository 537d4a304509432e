//! Bundles: the recorded stages of a set of questions. A folder with `bundle.json` ([`BundleInfo`]),
//! `questions.jsonl` and `stages.jsonl` ([`Stage`], each on the disk before the next begins).

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::stage::{Input, Stage};
use crate::{Dataset, Machine, Question};

const INFO: &str = "bundle.json";
const QUESTIONS: &str = "questions.jsonl";
const STAGES: &str = "stages.jsonl";

/// How a bundle came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleInfo {
    /// Who plans and reads, in a few words.
    pub system: String,
    /// Whose questions.
    pub dataset: Dataset,
    /// Of the sample.
    pub seed: u64,
    /// Passages read for each hop.
    pub passages: usize,
    /// What was used, by part: a name and a hash. Speculators may be added later.
    pub parts: BTreeMap<String, String>,
    /// The commits it was recorded at; more than one only where that was allowed.
    pub commits: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// The commands it was recorded with, oldest first.
    pub commands: Vec<String>,
}

/// Why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no bundle.
    #[error("{} is no bundle: it has no {INFO}; make one with `spechop eval record`", .0.display())]
    None(PathBuf),
    /// There are stages, and nothing says whose.
    #[error("{} has {STAGES} and no {INFO}: what they are of is not known; take another folder", .0.display())]
    Stray(PathBuf),
    /// A line is not what it should be.
    #[error("{}:{line} is no part of a bundle: {reason}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// What is to be recorded does not belong to it.
    #[error(
        "{} was recorded with another {what}: `{there}` there, `{here}` now; take another folder{}",
        dir.display(), if *what == "commit" { ", or allow it with --mix-commits" } else { "" }
    )]
    Other {
        /// The bundle.
        dir: PathBuf,
        /// What differs.
        what: String,
        /// In the bundle.
        there: String,
        /// Now.
        here: String,
    },
}

/// Recorded stages, in memory, and the folder they are kept in.
#[derive(Debug)]
pub struct Bundle {
    info: BundleInfo,
    questions: Vec<Question>,
    stages: HashMap<Input, Stage>,
    dir: PathBuf,
    /// Open while recording.
    log: Option<File>,
}

impl Bundle {
    /// A bundle of the questions, in memory alone.
    pub fn in_memory(info: BundleInfo, questions: Vec<Question>) -> Self {
        Self {
            info,
            questions,
            stages: HashMap::new(),
            dir: PathBuf::new(),
            log: None,
        }
    }

    /// Reads a bundle.
    ///
    /// # Errors
    ///
    /// Files that are not there or not whole. A torn last line, of a recording that was killed, is
    /// passed over.
    pub fn read(dir: &Path) -> Result<Self, BundleError> {
        let path = dir.join(INFO);
        if !path.exists() {
            return Err(BundleError::None(dir.to_owned()));
        }
        let info = fs::read(&path).map_err(io("read", &path))?;
        let info = serde_json::from_slice(&info).map_err(|e| line(&path, e.line(), &e))?;
        let mut questions = Vec::new();
        read_lines(&dir.join(QUESTIONS), |question: Question| {
            questions.push(question);
            Ok(())
        })?;
        let mut stages = HashMap::new();
        let path = dir.join(STAGES);
        if path.exists() {
            read_lines(&path, |stage: Stage| {
                if !stage.is_sound() {
                    return Err("its output is not of its stage, or its time is none".to_owned());
                }
                stages.insert(stage.input.clone(), stage);
                Ok(())
            })?;
        }
        Ok(Self {
            info,
            questions,
            stages,
            dir: dir.to_owned(),
            log: None,
        })
    }

    /// Begins a bundle, or goes on with one of the same circumstances.
    ///
    /// # Errors
    ///
    /// A bundle that was recorded with other questions or parts; with another commit, unless
    /// `mix_commits`; stages of nobody knows what.
    pub fn record(
        dir: &Path,
        info: BundleInfo,
        questions: &[Question],
        mix_commits: bool,
    ) -> Result<Self, BundleError> {
        let mut bundle = if dir.join(INFO).exists() {
            let mut there = Self::read(dir)?;
            there.admit(&info, questions, mix_commits)?;
            there
        } else {
            if dir.join(STAGES).exists() {
                return Err(BundleError::Stray(dir.to_owned()));
            }
            fs::create_dir_all(dir).map_err(io("make the folder", dir))?;
            let mut lines = Vec::new();
            for question in questions {
                write_line(&mut lines, question);
            }
            replace(&dir.join(QUESTIONS), &lines)?;
            Self {
                dir: dir.to_owned(),
                ..Self::in_memory(info, questions.to_vec())
            }
        };
        let mut text = serde_json::to_vec_pretty(&bundle.info).unwrap_or_default();
        text.push(b'\n');
        replace(&dir.join(INFO), &text)?;
        let path = dir.join(STAGES);
        cut_torn_line(&path)?;
        let log = OpenOptions::new().append(true).create(true).open(&path);
        bundle.log = Some(log.map_err(io("open", &path))?);
        Ok(bundle)
    }

    /// Takes in what is to be recorded now, if it belongs here.
    fn admit(
        &mut self,
        now: &BundleInfo,
        questions: &[Question],
        mix_commits: bool,
    ) -> Result<(), BundleError> {
        let there = &self.info;
        let same = [
            ("system", there.system.clone(), now.system.clone()),
            (
                "data set",
                there.dataset.to_string(),
                now.dataset.to_string(),
            ),
            ("seed", there.seed.to_string(), now.seed.to_string()),
            (
                "number of passages",
                there.passages.to_string(),
                now.passages.to_string(),
            ),
            (
                "number of questions",
                self.questions.len().to_string(),
                questions.len().to_string(),
            ),
            (
                "machine",
                format!("{} × {}", there.machine.cores, there.machine.cpu),
                format!("{} × {}", now.machine.cores, now.machine.cpu),
            ),
        ];
        let other = |what: &str, there: &str, here: &str| BundleError::Other {
            dir: self.dir.clone(),
            what: what.to_owned(),
            there: there.to_owned(),
            here: here.to_owned(),
        };
        for (what, there, here) in &same {
            if there != here {
                return Err(other(what, there, here));
            }
        }
        for (there, here) in self.questions.iter().zip(questions) {
            if there != here {
                return Err(other("question", &there.id, &here.id));
            }
        }
        for (name, here) in &now.parts {
            match there.parts.get(name) {
                Some(there) if there != here => return Err(other(name, there, here)),
                _ => {}
            }
        }
        let commit = now.commits.last().cloned().unwrap_or_default();
        if there.commits.last() != Some(&commit) {
            if !mix_commits {
                let there = there.commits.last().cloned().unwrap_or_default();
                return Err(other("commit", &there, &commit));
            }
            self.info.commits.push(commit);
        }
        self.info.parts.extend(now.parts.clone());
        for command in &now.commands {
            if !self.info.commands.contains(command) {
                self.info.commands.push(command.clone());
            }
        }
        Ok(())
    }

    /// How it came about.
    pub fn info(&self) -> &BundleInfo {
        &self.info
    }

    /// Its questions.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// How many stages are recorded.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// The stage of this input, if it was recorded.
    pub fn get(&self, input: &Input) -> Option<&Stage> {
        self.stages.get(input)
    }

    /// Keeps a stage.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn push(&mut self, stage: Stage) -> Result<(), BundleError> {
        if let Some(log) = &mut self.log {
            let mut text = Vec::new();
            write_line(&mut text, &stage);
            log.write_all(&text)
                .map_err(io("write", &self.dir.join(STAGES)))?;
        }
        self.stages.insert(stage.input.clone(), stage);
        Ok(())
    }
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BundleError {
    let path = path.to_owned();
    move |source| BundleError::Io { what, path, source }
}

fn line(path: &Path, line: usize, reason: &dyn std::fmt::Display) -> BundleError {
    BundleError::Line {
        path: path.to_owned(),
        line,
        reason: reason.to_string(),
    }
}

fn write_line(out: &mut Vec<u8>, value: &impl Serialize) {
    // Plain data: it cannot fail.
    out.extend(serde_json::to_vec(value).unwrap_or_default());
    out.push(b'\n');
}

/// Whole or not at all.
fn replace(path: &Path, text: &[u8]) -> Result<(), BundleError> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text).map_err(io("write", &partial))?;
    fs::rename(&partial, path).map_err(io("write", path))
}

/// Every line, the last one only if it is whole: it ends with a line break.
fn read_lines<T: serde::de::DeserializeOwned>(
    path: &Path,
    mut take: impl FnMut(T) -> Result<(), String>,
) -> Result<(), BundleError> {
    let file = File::open(path).map_err(io("read", path))?;
    let mut lines = BufReader::new(file);
    // Bytes, no text: what is torn may be torn within a letter.
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let read = lines.read_until(b'\n', &mut text);
        read.map_err(io("read", path))?;
        if text.last() != Some(&b'\n') {
            break;
        }
        let value = serde_json::from_slice(&text).map_err(|e| line(path, number, &e))?;
        take(value).map_err(|reason| line(path, number, &reason))?;
    }
    Ok(())
}

fn cut_torn_line(path: &Path) -> Result<(), BundleError> {
    let Ok(text) = fs::read(path) else {
        return Ok(());
    };
    let whole = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    if whole < text.len() {
        let file = OpenOptions::new().write(true).open(path);
        let file = file.map_err(io("open", path))?;
        file.set_len(whole as u64).map_err(io("cut", path))?;
    }
    Ok(())
}
