//! Bundles: the recorded stages of a set of questions. A folder with `bundle.json` ([`BundleInfo`]),
//! `questions.jsonl` and `stages.jsonl` ([`Stage`], each on the disk before the next begins).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{
    FileError, Log, json, json_lines, read_json, read_lines, read_log, write_whole,
};
use crate::stage::{Input, Stage};
use crate::{Dataset, Machine, Question, folder};

/// A folder that has this file is a bundle's.
pub(crate) const INFO: &str = "bundle.json";
const QUESTIONS: &str = "questions.jsonl";
const STAGES: &str = "stages.jsonl";
/// The beginning of the names of parts that guess.
const SPECULATOR: &str = "speculator ";

/// How a bundle came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleInfo {
    /// Who plans and reads, in a few words.
    pub system: String,
    /// Whose questions.
    pub dataset: Dataset,
    /// How many there are; filled in when a bundle is begun.
    pub questions: usize,
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
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no bundle.
    #[error("{} is no bundle: it has no {INFO}; make one with `spechop eval record`", .0.display())]
    None(PathBuf),
    /// There are stages, and nothing says whose.
    #[error("{} has {STAGES} and no {INFO}: what they are of is not known; take another folder", .0.display())]
    Stray(PathBuf),
    /// The folder is a run's, and the questions in it are the run's.
    #[error("{} holds a run; take another folder for the bundle", .0.display())]
    Run(PathBuf),
    /// There are more or fewer questions than it was begun with, or one twice.
    #[error("{} does not hold the {said} different questions that it was begun with; take another folder", dir.display())]
    Questions {
        /// The bundle.
        dir: PathBuf,
        /// How many it was begun with.
        said: usize,
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
    log: Option<Log>,
}

impl Bundle {
    /// A bundle of the questions, in memory alone.
    pub fn in_memory(info: BundleInfo, questions: Vec<Question>) -> Self {
        Self {
            info: BundleInfo {
                questions: questions.len(),
                ..info
            },
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
        Ok(Self::open(dir)?.0)
    }

    /// And the bytes that its whole stages take.
    fn open(dir: &Path) -> Result<(Self, u64), BundleError> {
        let info: Option<BundleInfo> = read_json(&dir.join(INFO)).map_err(of_a_version)?;
        let info = info.ok_or_else(|| BundleError::None(dir.to_owned()))?;
        let questions: Vec<Question> = read_lines(&dir.join(QUESTIONS)).map_err(of_a_version)?;
        let ids: HashSet<&str> = questions.iter().map(|question| &*question.id).collect();
        if ids.len() != info.questions || questions.len() != info.questions {
            return Err(BundleError::Questions {
                dir: dir.to_owned(),
                said: info.questions,
            });
        }
        let (stages, length) = read_log(&dir.join(STAGES), |stage: &Stage| {
            let sound = stage.is_sound().then_some(());
            sound.ok_or("its output is not of its stage, or its time or a confidence cannot be")
        })?;
        let bundle = Self {
            info,
            questions,
            stages: stages
                .into_iter()
                .map(|stage| (stage.input.clone(), stage))
                .collect(),
            dir: dir.to_owned(),
            log: None,
        };
        Ok((bundle, length))
    }

    /// Begins a bundle, or resumes one that was begun in the same circumstances.
    ///
    /// # Errors
    ///
    /// A bundle that was recorded with other questions or parts; with another commit, unless
    /// `mix_commits`; stages of nobody knows what; a run.
    pub fn record(
        dir: &Path,
        info: BundleInfo,
        questions: &[Question],
        mix_commits: bool,
    ) -> Result<Self, BundleError> {
        if dir.join(folder::INFO).exists() && !dir.join(INFO).exists() {
            return Err(BundleError::Run(dir.to_owned()));
        }
        fs::create_dir_all(dir).map_err(FileError::io("make the folder", dir))?;
        let mut log = Log::open(dir.join(STAGES))?;
        let mut bundle = if dir.join(INFO).exists() {
            let (mut there, length) = Self::open(dir)?;
            there.admit(&info, questions, mix_commits)?;
            log.cut(length)?;
            there
        } else {
            if !log.is_empty() {
                return Err(BundleError::Stray(dir.to_owned()));
            }
            write_whole(&dir.join(QUESTIONS), &json_lines(questions)?)?;
            Self {
                dir: dir.to_owned(),
                ..Self::in_memory(info, questions.to_vec())
            }
        };
        write_whole(&dir.join(INFO), &json(&bundle.info)?)?;
        bundle.log = Some(log);
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
        let names: BTreeSet<&String> = there.parts.keys().chain(now.parts.keys()).collect();
        for name in names {
            let (before, here) = (there.parts.get(name), now.parts.get(name));
            // Speculators are recorded one after the other; all else is used by each of them.
            let is_new = before.is_none() || here.is_none();
            if before != here && !(is_new && name.starts_with(SPECULATOR)) {
                let said = |part: Option<&String>| part.cloned().unwrap_or_else(|| "none".into());
                return Err(other(name, &said(before), &said(here)));
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

    /// Who was recorded to guess, by name.
    pub fn speculators(&self) -> BTreeSet<&str> {
        let inputs = self.stages.keys();
        let names = inputs.filter_map(|input| match input {
            Input::Speculation { speculator, .. } => Some(&**speculator),
            _ => None,
        });
        names.collect()
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
            log.append(&stage)?;
        }
        self.stages.insert(stage.input.clone(), stage);
        Ok(())
    }
}

/// These files are written whole, so one that cannot be read was written by another version.
fn of_a_version(error: FileError) -> FileError {
    error.because("another version of spechop may have recorded it: record it again with this one")
}
