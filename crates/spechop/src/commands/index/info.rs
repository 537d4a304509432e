//! `spechop index info` and `spechop index verify`.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use serde::Serialize;
use spechop_index::{Checked, Inputs, check, look, must_be_there};

use super::{hot_rows, say};
use crate::commands::clean::clean;

/// The arguments of both commands.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the index.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print one JSON object on stdout instead of sentences.
    #[arg(long)]
    json: bool,
}

/// Runs `spechop index info`.
pub(super) fn info(args: &Args) -> anyhow::Result<()> {
    must_be_there(&args.dir)?;
    let found = look(&args.dir)?;
    let inputs = &found.inputs;
    let mut text = format!(
        "index {}: {} passages{}, {}\nencoder {} ({} components), of {}\ncorpus SHA-256 {}",
        args.dir.display(),
        found.rows,
        hot_rows(found.hot_rows),
        HumanBytes(found.bytes),
        clean(&inputs.encoder),
        inputs.width,
        clean(&inputs.text),
        clean(&inputs.corpus_sha256),
    );
    if inputs.extended {
        text += "\npassages may have URLs and numbers of links";
    }
    if let Some(part) = inputs.part {
        text += &format!(
            "\npart {} of {}: join the parts with `spechop index merge`",
            part.number, part.of
        );
    }
    say(args.json, &Info::of(&args.dir, &found), &text)
}

/// Runs `spechop index verify`.
pub(super) fn verify(args: &Args) -> anyhow::Result<()> {
    must_be_there(&args.dir)?;
    let checked = check(&args.dir)?;
    let (rows, hot, shown) = (checked.rows, hot_rows(checked.hot_rows), args.dir.display());
    let (encoder, width) = (clean(&checked.inputs.encoder), checked.inputs.width);
    let bytes = HumanBytes(checked.bytes);
    let sentence = format!(
        "index {shown} is whole; {rows} passages{hot}, {bytes}, encoder {encoder} ({width})"
    );
    say(args.json, &Info::of(&args.dir, &checked), &sentence)
}

/// What the commands say on stdout, for programs.
#[derive(Serialize)]
struct Info<'a> {
    #[serde(serialize_with = "crate::output::lossy")]
    index: &'a Path,
    rows: usize,
    bytes: u64,
    hot_rows: Option<usize>,
    inputs: &'a Inputs,
}

impl<'a> Info<'a> {
    fn of(index: &'a Path, checked: &'a Checked) -> Self {
        Self {
            index,
            rows: checked.rows,
            bytes: checked.bytes,
            hot_rows: checked.hot_rows,
            inputs: &checked.inputs,
        }
    }
}
