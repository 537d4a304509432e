//! `spechop eval questions`: what was asked at each hop of a bundle.

use std::io::Write;
use std::path::PathBuf;

use anyhow::ensure;
use spechop_eval::{AskedHop, Bundle, HopCounts, Variant, asked, write_whole};
use spechop_sim::Clock;

use super::record::{Latency, latency};

/// The arguments of `spechop eval questions`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The folder of the bundle that `spechop eval record` made.
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    /// The speculator whose guesses are given beside, as `ours` [default: hot].
    #[arg(long, value_name = "NAME")]
    speculator: Option<String>,
    /// The latency that is added to every look-up. `0` adds none.
    #[arg(long, value_name = "MEAN:SIGMA:SEED|0", value_parser = latency, default_value = "0")]
    inject: Latency,
    /// Skip questions that lack a stage, instead of stopping.
    #[arg(long)]
    whole_only: bool,
    /// Write to this file instead of stdout.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const HELP: &str = "\
Writes a JSON object for each hop of each question, as the agent at k = 1 came through it. Fields:
question (id), dataset, kind, text, hop (from 1), sub_question, observed (what the target found), found,
target_ms, and ours (guess, ms, confidence), which is null if no guess was recorded.
Answer them with a program of your own, and play the answers with
`spechop eval simulate --guesses FILE`.

Example:
  spechop eval questions --bundle eval/runs/2wiki-own/bundle --out hops.jsonl";

/// Writes them.
pub(crate) fn run(args: &Args, output: impl Write) -> anyhow::Result<()> {
    let bundle = Bundle::read(&args.bundle)?;
    let usual = Variant::standard();
    let speculator = args.speculator.as_deref().unwrap_or(usual.speculator());
    let recorded = bundle.speculators();
    if args.speculator.is_some() {
        must_guess(&bundle, speculator)?;
    } else if !recorded.is_empty() && !recorded.contains(speculator) {
        say!(
            "the bundle has no guesses of `{speculator}`, so `ours` is null; --speculator takes {}",
            Vec::from_iter(recorded).join(", ")
        );
    }
    let (mut clock, mut hops, mut whole) = (Clock::new(), Vec::new(), 0);
    for question in bundle.questions() {
        match asked(&mut clock, &bundle, question, speculator, args.inject.0) {
            Ok(found) => {
                hops.extend(found);
                whole += 1;
            }
            Err(_) if args.whole_only => {}
            Err(error) => {
                let id = &question.id;
                return Err(
                    anyhow::Error::new(error).context(format!("question {id} is not whole"))
                );
            }
        }
    }
    let questions = bundle.questions().len();
    if whole < questions {
        say!("of {questions} questions, {whole} are whole; the others are left out");
    }
    match &args.out {
        None => write(output, &hops),
        Some(path) => {
            let mut lines = Vec::new();
            write(&mut lines, &hops)?;
            Ok(write_whole(path, &lines)?)
        }
    }
}

fn write(mut output: impl Write, hops: &[AskedHop]) -> anyhow::Result<()> {
    for hop in hops {
        writeln!(output, "{}", serde_json::to_string(hop)?)?;
    }
    Ok(output.flush()?)
}

/// Refuses a speculator whose guesses were not recorded: played, it would never guess.
pub(super) fn must_guess(bundle: &Bundle, speculator: &str) -> anyhow::Result<()> {
    let known = bundle.speculators();
    ensure!(
        !known.is_empty(),
        "the bundle has no guesses of `{speculator}`, nor of anybody else"
    );
    ensure!(
        known.contains(speculator),
        "the bundle has no guesses of `{speculator}`; it has those of: {}",
        Vec::from_iter(known).join(", ")
    );
    Ok(())
}

/// How many hops each question of the bundle has.
pub(super) fn counts(bundle: &Bundle) -> HopCounts {
    let mut clock = Clock::new();
    let questions = bundle.questions().iter();
    let counts = questions.map(|question| {
        let hops = asked(&mut clock, bundle, question, "", None);
        let count = hops.ok().and_then(|hops| u32::try_from(hops.len()).ok());
        (question.id.clone(), count)
    });
    counts.collect()
}
