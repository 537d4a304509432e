//! `spechop index merge`.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use serde::Serialize;
use spechop_index::merge;

use super::build::HotArgs;
use super::{hot_rows, say};

/// The arguments of `spechop index merge`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folders of all parts, in any order. They stay as they are.
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,
    /// The folder of the index. An index in it is replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    hot: HotArgs,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let hot = args.hot.hot();
    let merged = merge(&args.parts, &args.out, hot.as_ref())?;
    let sentence = format!(
        "index {} joined of {} parts; {} passages{}, {}",
        args.out.display(),
        args.parts.len(),
        merged.rows,
        hot_rows(merged.hot_rows),
        HumanBytes(merged.bytes)
    );
    let summary = Summary {
        index: &args.out,
        rows: merged.rows,
        bytes: merged.bytes,
        hot_rows: merged.hot_rows,
    };
    say(args.json, &summary, &sentence)
}

/// What the command says on stdout, for programs.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(serialize_with = "crate::output::lossy")]
    index: &'a Path,
    rows: usize,
    bytes: u64,
    hot_rows: Option<usize>,
}
