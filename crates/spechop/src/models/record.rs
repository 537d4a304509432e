//! What is known about a model's folder without reading it again.
//!
//! Hashing a gigabyte takes seconds, so a folder that has been checked carries a note
//! ([`spechop_server::model_note`]): size, time of last change and hashes of each file. A file that is as it was
//! then is not hashed again. A server compares the files with the same note.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Context, bail};
use serde::Serialize;
use sha2::{Digest, Sha256};
use spechop_eval::write_whole;
use spechop_server::model_note::{FileNote, ModelNote, NOTE};

use super::catalogue::{Model, ModelFile};
use super::digest;
use super::parts::Parts;

const ENCODER_FILE: &str = "encoder.toml";

/// How a model's folder looks from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub(crate) enum State {
    /// Checked, and unchanged since.
    Present,
    /// All files are there in their sizes; nobody has hashed them yet.
    Unchecked,
    /// The folder is there and not what it should be.
    Damaged {
        why: String,
    },
    /// A pull was interrupted; so many parts of the package are fetched.
    Partial {
        parts: usize,
    },
    Absent,
}

/// The state of `model` under `models_dir`; reads no large file.
pub(crate) fn state(models_dir: &Path, model: &Model) -> State {
    let dir = models_dir.join(&model.name);
    let partial = models_dir.join(format!("{}.partial", model.name));
    if dir.is_dir() {
        let note = read(&dir);
        let seen: anyhow::Result<Vec<bool>> = model
            .files
            .iter()
            .map(|file| Ok(known(note.as_ref(), file, look(&dir, file)?).is_some()))
            .collect();
        return match seen {
            Ok(seen) if seen.iter().all(|&known| known) && is_described(&dir, model) => {
                State::Present
            }
            Ok(_) => State::Unchecked,
            Err(why) => State::Damaged {
                why: format!("{why:#}"),
            },
        };
    }
    if partial.is_dir() {
        let parts = |package| Parts::new(model, package, &partial).present();
        return State::Partial {
            parts: model.package.as_ref().map_or(0, parts),
        };
    }
    State::Absent
}

/// Succeeds where `dir` holds exactly the files of `model`; the error says what is wrong. What belongs beside them is
/// another question ([`is_described`]): it is mended without loading anything.
///
/// Reads only what has changed since the last check, everything with `rehash`.
pub(crate) fn check(dir: &Path, model: &Model, rehash: bool) -> anyhow::Result<()> {
    let note = if rehash { None } else { read(dir) };
    let (mut files, mut news) = (Vec::new(), false);
    for file in &model.files {
        let modified_ns = look(dir, file)?;
        let noted = match known(note.as_ref(), file, modified_ns) {
            Some(noted) => noted.clone(),
            None => {
                news = true;
                prove(dir, file).inspect_err(|_| {
                    // Whatever was noted about this folder no longer holds.
                    let _ = fs::remove_file(dir.join(NOTE));
                })?
            }
        };
        files.push(noted);
    }
    // Notes of earlier releases do not name it.
    if let Some(settings) = model.encoder_toml()?
        && let Some(noted) = described(dir, &settings)
    {
        news |= note.as_ref().and_then(|note| note.file(ENCODER_FILE)) != Some(&noted);
        files.push(noted);
    }
    if news {
        // A folder that cannot be written to (a shared one, say) is as good; it is only read again next time.
        let _ = ModelNote::new(&model.name, files).write(dir);
    }
    Ok(())
}

/// What lies in `dir` and is neither of `model` nor of what was pulled there before. To be asked before a check, which
/// throws away the note of a folder that has changed.
pub(crate) fn strangers(dir: &Path, model: &Model) -> Vec<String> {
    let note = read(dir);
    let is_ours = |name: &str| {
        let mut files = model.files.iter();
        let is_of_model = files.any(|file| file.path.split('/').next() == Some(name));
        let was_noted = note.as_ref().is_some_and(|note| note.file(name).is_some());
        is_of_model || was_noted || [NOTE, ENCODER_FILE].contains(&name)
    };
    others(dir, is_ours)
}

/// What lies in `dir` and is not ours.
pub(crate) fn others(dir: &Path, is_ours: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !is_ours(name)).collect()
}

/// Whether what belongs beside the files of `model` is there: of an encoder, how it wants its texts. That is short, and
/// so it is read each time.
pub(crate) fn is_described(dir: &Path, model: &Model) -> bool {
    match model.encoder_toml() {
        Ok(Some(settings)) => described(dir, &settings).is_some(),
        Ok(None) => true,
        // Whoever writes it says why.
        Err(_) => false,
    }
}

/// Writes what belongs beside the files of a folder that was checked just now. Only one at a time may do that.
pub(crate) fn write(dir: &Path, model: &Model) -> anyhow::Result<()> {
    let files = model.files.iter();
    let files = files.map(|file| FileNote::of(dir, &file.path, &file.sha256));
    let mut files = files.collect::<Result<Vec<_>, _>>()?;
    if let Some(settings) = model.encoder_toml()? {
        let noted = match described(dir, &settings) {
            Some(noted) => Some(noted),
            None => {
                write_whole(&dir.join(ENCODER_FILE), settings.as_bytes())?;
                described(dir, &settings)
            }
        };
        files.extend(noted);
    }
    Ok(ModelNote::new(&model.name, files).write(dir)?)
}

/// What is to be noted of the encoder's settings, if they are as the catalogue says.
fn described(dir: &Path, settings: &str) -> Option<FileNote> {
    let sha256 = digest::hex(Sha256::new_with_prefix(settings));
    // In this order, as in `prove`.
    let noted = FileNote::of(dir, ENCODER_FILE, &sha256).ok()?;
    let found = fs::read(dir.join(ENCODER_FILE)).ok()?;
    (found == settings.as_bytes()).then_some(noted)
}

/// Hashes a file, which must be that of the catalogue.
fn prove(dir: &Path, file: &ModelFile) -> anyhow::Result<FileNote> {
    // In this order, so that nothing is noted that was not proven.
    let noted = FileNote::of(dir, &file.path, &file.sha256)?;
    digest::of_file(&dir.join(&file.path))?.require(file)?;
    Ok(noted)
}

/// The note of a folder; an unreadable one is no note.
fn read(dir: &Path) -> Option<ModelNote> {
    ModelNote::read(dir).ok().flatten()
}

/// What is noted of `file`, if it was checked as it is now.
fn known<'a>(
    note: Option<&'a ModelNote>,
    file: &ModelFile,
    modified_ns: u64,
) -> Option<&'a FileNote> {
    let noted = note?.file(&file.path)?;
    let same = noted.bytes == file.bytes
        && noted.modified_ns == modified_ns
        && noted.sha256 == file.sha256;
    same.then_some(noted)
}

/// When `file` was changed last. A wrong size is an error.
fn look(dir: &Path, file: &ModelFile) -> anyhow::Result<u64> {
    let path = dir.join(&file.path);
    let found = fs::metadata(&path).with_context(|| format!("{} is missing", path.display()))?;
    if found.len() != file.bytes {
        bail!(
            "{} has {} bytes, not {}",
            file.path,
            found.len(),
            file.bytes
        );
    }
    let modified = found.modified()?.duration_since(UNIX_EPOCH);
    Ok(u64::try_from(modified.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX))
}
