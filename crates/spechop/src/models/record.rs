//! What is known about a model's folder without reading it again.
//!
//! Hashing a gigabyte takes seconds, so a folder that has been checked carries a small `.ok` file: size, time of
//! last change and SHA-256 of each file. A file that is as it was then is not read again.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::catalogue::{Model, ModelFile};
use super::digest;
use super::parts::Parts;

const RECORD: &str = ".ok";
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

#[derive(Default, Serialize, Deserialize)]
struct Record {
    files: Vec<Seen>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Seen {
    path: String,
    bytes: u64,
    modified_ns: u128,
    sha256: String,
}

/// The state of `model` under `models_dir`; reads no model file.
pub(crate) fn state(models_dir: &Path, model: &Model) -> State {
    let dir = models_dir.join(&model.name);
    let partial = models_dir.join(format!("{}.partial", model.name));
    if dir.is_dir() {
        let record = read(&dir);
        let seen: Result<Vec<bool>, _> = model
            .files
            .iter()
            .map(|file| look(&dir, file).map(|seen| record.files.contains(&seen)))
            .collect();
        return match seen {
            Ok(seen) if seen.iter().all(|&known| known) => State::Present,
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

/// Succeeds where `dir` holds exactly the files of `model`; the error says what is wrong.
///
/// Reads only what has changed since the last check, everything with `rehash`.
pub(crate) fn check(dir: &Path, model: &Model, rehash: bool) -> anyhow::Result<()> {
    let record = if rehash { Record::default() } else { read(dir) };
    let mut hashed = false;
    for file in &model.files {
        let seen = look(dir, file)?;
        if !record.files.contains(&seen) {
            if let Err(why) = digest::of_file(&dir.join(&file.path))?.require(file) {
                // Whatever was noted about this folder no longer holds.
                let _ = fs::remove_file(dir.join(RECORD));
                return Err(why);
            }
            hashed = true;
        }
    }
    if hashed || !dir.join(ENCODER_FILE).exists() {
        // A folder that cannot be written to (a shared one, say) is as good; it is only read again next time.
        let _ = write(dir, model);
    }
    Ok(())
}

/// Writes what belongs beside the files of a checked folder.
pub(crate) fn write(dir: &Path, model: &Model) -> anyhow::Result<()> {
    if let Some(encoder) = model.encoder_toml()?
        && !dir.join(ENCODER_FILE).exists()
    {
        fs::write(dir.join(ENCODER_FILE), encoder)?;
    }
    let files = model
        .files
        .iter()
        .map(|file| look(dir, file))
        .collect::<anyhow::Result<_>>()?;
    let text = serde_json::to_string(&Record { files })?;
    let fresh = dir.join(format!("{RECORD}.{}", std::process::id()));
    fs::write(&fresh, text)?;
    fs::rename(&fresh, dir.join(RECORD))?;
    Ok(())
}

/// The record of a folder; an unreadable one is no record.
fn read(dir: &Path) -> Record {
    fs::read_to_string(dir.join(RECORD))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

/// What the record says of `file` if it was checked as it is now. A wrong size is an error.
fn look(dir: &Path, file: &ModelFile) -> anyhow::Result<Seen> {
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
    let modified = found
        .modified()?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(Seen {
        path: file.path.clone(),
        bytes: found.len(),
        modified_ns: modified.as_nanos(),
        sha256: file.sha256.clone(),
    })
}
