//! `spechop eval report`: tables and figures of runs.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use spechop_eval::{report, write_whole};

/// The arguments of `spechop eval report`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Run folders: simulated, live or replayed, of any system and data set.
    #[arg(required = true, value_name = "RUN_DIR")]
    runs: Vec<PathBuf>,
    /// The folder for report.html and report.md. It is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Also print the tables as one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Runs of the same system, data set and injected latency are shown side by side. Each variant is shown
beside k=1 of its own run, over the questions that both have answered. The page needs neither network
nor scripts.

Example:
  spechop eval report eval/runs/2wiki-simulated eval/runs/2wiki-live --out report";

/// Reads the runs, and writes the page and the Markdown.
pub(crate) fn run(args: &Args, mut output: impl Write) -> anyhow::Result<()> {
    let runs = super::runs(&args.runs)?;
    let report = report(&runs)?;
    let out = &args.out;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    for (name, text) in [
        ("report.html", &report.html),
        ("report.md", &report.markdown),
    ] {
        write_whole(&out.join(name), text.as_bytes())?;
    }
    say!(
        "{} and report.md beside it",
        out.join("report.html").display()
    );
    if args.json {
        serde_json::to_writer(&mut output, &report.data).map_err(io::Error::from)?;
        writeln!(output)?;
    }
    for warning in &report.data.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}
