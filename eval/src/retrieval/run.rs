//! The folder of a run: `run.json`, `rows.jsonl`, `results.json` and `report.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Fit, Found, LookUps, RetrievalError, tables};
use crate::files::{json, json_lines, read_json, write_whole};
use crate::report::{Cell, Table};
use crate::{FileError, Machine};

/// How a run came about: everything that its rows may depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrievalInfo {
    /// The name of the data set.
    pub set: String,
    /// What was used, by part (`encoder`, `index`, `look-ups`, `corpus`, …): a name and a hash.
    pub parts: BTreeMap<String, String>,
    /// Passages of each corpus that was searched.
    pub passages: BTreeMap<String, usize>,
    /// How much words counted in the mixture.
    pub weight: Option<f32>,
    /// The commit of this program.
    pub commit: String,
    /// The machine.
    pub machine: Machine,
    /// The command that makes the run again.
    pub command: String,
}

/// What the tables show, for scripts.
#[derive(Serialize)]
struct Results<'a> {
    about: &'a RetrievalInfo,
    tables: &'a [Table],
}

/// Writes the run's files, and returns the report.
///
/// # Errors
///
/// The folder or a file cannot be written.
pub fn keep(
    dir: &Path,
    info: &RetrievalInfo,
    look_ups: &[LookUps],
    rows: &[Found],
) -> Result<String, RetrievalError> {
    let tables = tables(look_ups, rows);
    let report = report(info, &tables);
    fs::create_dir_all(dir).map_err(RetrievalError::Folder)?;
    let results = Results {
        about: info,
        tables: &tables,
    };
    write_whole(&dir.join("run.json"), &json(info)?)?;
    write_whole(&dir.join("rows.jsonl"), &json_lines(rows)?)?;
    write_whole(&dir.join("results.json"), &json(&results)?)?;
    write_whole(&dir.join("report.md"), report.as_bytes())?;
    Ok(report)
}

fn report(info: &RetrievalInfo, tables: &[Table]) -> String {
    let mut out = format!("# Retrieval: {}\n\n", info.set);
    for table in tables {
        out += &table.markdown();
        out.push('\n');
    }
    let parts = info.parts.iter();
    let parts = parts.map(|(part, what)| vec![Cell::text(part.clone()), Cell::text(what.clone())]);
    let circumstances = Table {
        name: "circumstances",
        title: "Circumstances".to_owned(),
        about: format!("Commit {}; {}.", info.commit, info.machine.cpu),
        columns: ["part", "name and hash"].map(str::to_owned).to_vec(),
        rows: parts.collect(),
    };
    out + &circumstances.markdown() + "\n```\n" + &info.command + "\n```\n"
}

/// Writes a fit.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_fit(path: &Path, fit: &Fit) -> Result<(), RetrievalError> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(RetrievalError::Folder)?;
    }
    Ok(write_whole(path, &json(fit)?)?)
}

/// Reads a fit that held out the questions of the given list, with the encoder of this fingerprint.
///
/// # Errors
///
/// The file is no fit, or one that held out others or is of another encoder.
pub fn read_fit(path: &Path, held_out_sha256: &str, encoder: &str) -> Result<Fit, RetrievalError> {
    let fit: Option<Fit> = read_json(path)?;
    let missing = || FileError::Io {
        doing: "read",
        path: path.to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    };
    let fit = fit.ok_or_else(missing)?;
    if fit.info.held_out_sha256 != held_out_sha256 {
        return Err(RetrievalError::OtherHeldOut);
    }
    if fit.info.encoder != encoder {
        return Err(RetrievalError::OtherEncoder {
            fitted: fit.info.encoder,
            in_use: encoder.to_owned(),
        });
    }
    Ok(fit)
}
