//! `spechop index info`.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use serde::Serialize;
use spechop_index::look;

use super::{hot_rows, say};

/// The arguments of `spechop index info`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the index.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print one JSON object on stdout instead of sentences.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let found = look(&args.dir)?;
    let inputs = &found.inputs;
    let mut text = format!(
        "index {}: {} passages{}, {}\nencoder {} ({} components), of {}\ncorpus SHA-256 {}",
        args.dir.display(),
        found.rows,
        hot_rows(found.hot_rows),
        HumanBytes(found.bytes),
        inputs.encoder,
        inputs.width,
        inputs.text,
        inputs.corpus_sha256,
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
    let info = Info {
        index: &args.dir,
        rows: found.rows,
        bytes: found.bytes,
        hot_rows: found.hot_rows,
        inputs,
    };
    say(args.json, &info, &text)
}

/// What the command says on stdout, for programs.
#[derive(Serialize)]
struct Info<'a> {
    #[serde(serialize_with = "crate::output::lossy")]
    index: &'a Path,
    rows: usize,
    bytes: u64,
    hot_rows: Option<usize>,
    inputs: &'a spechop_index::Inputs,
}
