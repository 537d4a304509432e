//! `spechop index verify`.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use serde::Serialize;
use spechop_index::check;

use super::{hot_rows, say};

/// The arguments of `spechop index verify`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the index.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let checked = check(&args.dir)?;
    let (rows, hot, shown) = (checked.rows, hot_rows(checked.hot_rows), args.dir.display());
    let (encoder, width) = (&checked.inputs.encoder, checked.inputs.width);
    let bytes = HumanBytes(checked.bytes);
    let sentence = format!(
        "index {shown} is whole; {rows} passages{hot}, {bytes}, encoder {encoder} ({width})"
    );
    let proof = Proof {
        index: &args.dir,
        rows,
        bytes: checked.bytes,
        hot_rows: checked.hot_rows,
        inputs: checked.inputs,
    };
    say(args.json, &proof, &sentence)
}

/// What the check says on stdout, for programs.
#[derive(Serialize)]
struct Proof<'a> {
    #[serde(serialize_with = "crate::output::lossy")]
    index: &'a Path,
    rows: usize,
    bytes: u64,
    hot_rows: Option<usize>,
    inputs: spechop_index::Inputs,
}
