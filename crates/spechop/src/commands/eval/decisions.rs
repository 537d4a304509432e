//! `spechop eval decisions`: what the verifiers say of the guesses that runs have compared.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use spechop_eval::decisions::{Decision, Quality, VERIFIERS, decisions, draw};
use spechop_eval::write_whole;
use spechop_types::VerifierMode;

use crate::commands::verify::verifiers;
use crate::input;

/// The arguments of `spechop eval decisions`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Run folders: simulated, live or replayed.
    #[arg(value_name = "RUN_DIR", required_unless_present = "labelled")]
    runs: Vec<PathBuf>,
    /// Write a drawn sample to this file, one decision a line, for a person to label.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Half of the sample are guesses that this verifier accepts.
    #[arg(long, value_parser = verifiers(), default_value_t = VerifierMode::Paper)]
    verifier: VerifierMode,
    /// How many are drawn.
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
    /// The seed of the draw.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Read a labelled sample instead of runs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "out"])]
    labelled: Option<PathBuf>,
    /// Print one JSON object for each verifier instead of a table.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
A decision is a guess and the observation that it was compared with. Every verifier judges all of them:
p is the share that it accepts, precision the share of accepted guesses that are right, recall the share
of right guesses that it accepts. A guess is right if it holds the answer of a gold hop that the
observation holds, too; if the observation holds none, nobody knows.

A sample has as many accepted guesses as rejected ones. Counts are of its own lines, and each of its
shares is that of the decisions that it was drawn from.

A person knows better. Draw a sample, set `same` in each line to true or false, and read it again
(SpecHop, appendix C.3):
  spechop eval decisions eval/runs/2wiki-own/live-4150 --out sample.jsonl
  spechop eval decisions --labelled sample.jsonl";

/// Judges, writes the sample, and prints.
pub(crate) fn run(args: &Args, mut output: impl Write) -> anyhow::Result<()> {
    if let Some(file) = &args.labelled {
        let sample = read(file)?;
        return print(args.json, &sample, |one| one.same, "a person", &mut output);
    }
    let runs = super::runs(&args.runs)?;
    let found = decisions(&runs);
    ensure!(
        !found.is_empty(),
        "these runs have compared no guess: take some at k > 1 whose look-ups take their time, such as \
         eval/runs/2wiki-own/live-4150"
    );
    let mut shown: Vec<u8> = Vec::new();
    let by_gold = |one: &Decision| one.gold;
    print(args.json, &found, by_gold, "the data set", &mut shown)?;
    if let Some(path) = &args.out {
        // Somebody may have labelled what is there.
        ensure!(
            !path.exists(),
            "{} is there: give --out another file",
            path.display()
        );
        let there = found.len();
        let sample = draw(found, args.verifier, args.count, args.seed);
        write(path, &sample)?;
        say!("{} of {there} decisions to label", sample.len());
    }
    // Last: if nobody reads it, the sample is there all the same.
    Ok(output.write_all(&shown)?)
}

fn write(path: &Path, sample: &[Decision]) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for one in sample {
        serde_json::to_writer(&mut lines, one)?;
        lines.push(b'\n');
    }
    Ok(write_whole(path, &lines)?)
}

fn read(file: &Path) -> anyhow::Result<Vec<Decision>> {
    let mut sample = Vec::new();
    for (at, line) in input::open(file)?.lines().enumerate() {
        let whence = || format!("{}, line {}", file.display(), at + 1);
        let line = line.with_context(whence)?;
        if line.trim().is_empty() {
            continue;
        }
        let one: Decision = serde_json::from_str(&line).with_context(whence)?;
        if one.same.is_none() {
            bail!("{}: set \"same\" to true or false", whence());
        }
        sample.push(one);
    }
    ensure!(!sample.is_empty(), "{} holds no decision", file.display());
    Ok(sample)
}

fn print(
    json: bool,
    decisions: &[Decision],
    truth: impl Fn(&Decision) -> Option<bool>,
    judge: &str,
    mut output: impl Write,
) -> anyhow::Result<()> {
    if !json {
        writeln!(
            output,
            "{} decisions; what is right says {judge}\n",
            decisions.len()
        )?;
        writeln!(
            output,
            "{:<9} {:>8} {:>6} {:>7} {:>10} {:>7}",
            "verifier", "accepted", "p", "known", "precision", "recall"
        )?;
    }
    for (name, mode) in VERIFIERS {
        let quality = Quality::of(decisions, mode, &truth);
        if json {
            let mut line = serde_json::to_value(quality)?;
            line["verifier"] = name.into();
            line["p"] = quality.p().into();
            line["precision"] = quality.precision().into();
            line["recall"] = quality.recall().into();
            writeln!(output, "{line}")?;
            continue;
        }
        let share = |share: Option<f64>| share.map_or_else(|| "–".into(), |x| format!("{x:.3}"));
        writeln!(
            output,
            "{name:<9} {:>8} {:>6} {:>7} {:>10} {:>7}",
            quality.accepted,
            share(quality.p()),
            quality.known,
            share(quality.precision()),
            share(quality.recall())
        )?;
    }
    Ok(())
}
