//! `spechop eval simulate`: any policy over a bundle, on the virtual clock.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use spechop_config::Env;
use spechop_eval::{
    Brought, Bundle, Injected, Means, Question, Row, Run, RunInfo, Source, Variant, Wanted, commit,
    play_brought,
};
use spechop_sim::Clock;

use super::brought::{self, BroughtArgs};
use super::means;
use super::record::{Latency, latency};
use super::variants::VariantArgs;

/// The arguments of `spechop eval simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The folder of the bundle that `spechop eval record` made.
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    #[command(flatten)]
    variants: VariantArgs,
    /// The latency that is added to every look-up. `0` adds none.
    #[arg(long, value_name = "MEAN:SIGMA:SEED|0", value_parser = latency, default_value = "0")]
    inject: Latency,
    /// Skip questions that lack a stage, instead of stopping. The command says how many remain.
    #[arg(long)]
    whole_only: bool,
    /// Write the rows to this run folder, for `spechop eval report`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the means as JSON, one line for each variant.
    #[arg(long)]
    json: bool,
    // Last, for its heading goes for all that follows.
    #[command(flatten)]
    brought: BroughtArgs,
}

const HELP: &str = "\
Plays the questions of a bundle with the window of the live service, on a virtual clock. It needs no
model. RelLat is the mean latency divided by the mean latency at k = 1. p is the share of hops whose
guess was accepted. Compared hops had a guess in time. `differ` counts accepted guesses that are not
word for word the observation. If nothing was recorded behind such a guess, the answer is not known:
EM then says of how many questions it is.

--guesses and --verdicts play a speculator or a verifier of your own; eval/README.md has an example.
If the bundle has no guesses of `hot`, name yours in a variant, as in the last example.
--control plays one that knows nothing: what the window gains with it is not owed to prediction.
--cascade plays several that were recorded as one.

Examples:
  spechop eval simulate --bundle runs/2wiki --k 1,2,3,inf
  spechop eval simulate --bundle runs/2wiki --suite --inject 4150:1680:1 --out runs/2wiki-web-simulated
  spechop eval simulate --bundle runs/2wiki --variant k=3,rounds=on --variant k=3,salvage=off
  spechop eval simulate --bundle runs/2wiki --k 3 --guesses mine.jsonl --out runs/2wiki-mine
  spechop eval simulate --bundle runs/2wiki --variant k=3,speculator=mine --guesses mine.jsonl";

/// Plays, keeps the rows, prints the means.
pub(crate) fn run(args: &Args, env: &Env, mut output: impl Write) -> anyhow::Result<()> {
    let variants = args.variants.played()?;
    let bundle = Bundle::read(&args.bundle)?;
    let injected = args.inject.0;
    let read = args.brought.read(&bundle, injected)?;
    let variants = read.brought.beside(&variants)?;
    let (questions, rows) = play_all(&bundle, &variants, injected, &read.brought, args.whole_only)?;
    if let Some(dir) = &args.out {
        let command = super::command(env);
        keep(dir, &bundle, &read, &variants, &rows, injected, command)?;
    }
    let all = bundle.questions().len();
    if questions.len() < all {
        say!(
            "of {} questions, {} are whole; the others are left out",
            all,
            questions.len()
        );
    }
    let means: Vec<Means> = variants
        .iter()
        .map(|v| Means::of(v, &questions, &rows))
        .collect();
    if args.json {
        for mean in &means {
            writeln!(output, "{}", serde_json::to_string(mean)?)?;
        }
        return Ok(());
    }
    write!(output, "{}", means::table(&means))?;
    for told in &read.told {
        writeln!(output, "{told}")?;
    }
    Ok(())
}

/// The rows of every question, variants in their order. Whole questions only, or none at all.
fn play_all(
    bundle: &Bundle,
    variants: &[Variant],
    injected: Option<Injected>,
    brought: &Brought,
    whole_only: bool,
) -> anyhow::Result<(Vec<Question>, Vec<Row>)> {
    let mut clock = Clock::new();
    let (mut whole, mut rows, mut missing) = (Vec::new(), Vec::new(), None);
    for question in bundle.questions() {
        let played: Result<Vec<Row>, _> = variants
            .iter()
            .map(|variant| play_brought(&mut clock, bundle, question, variant, injected, brought))
            .collect();
        match played {
            Ok(played) => {
                whole.push(question.clone());
                rows.extend(played);
            }
            Err(error) => {
                missing.get_or_insert((question.id.clone(), error));
            }
        }
    }
    match missing {
        Some((id, error)) if !whole_only || whole.is_empty() => {
            let (of, all) = (
                bundle.questions().len() - whole.len(),
                bundle.questions().len(),
            );
            Err(anyhow::Error::new(error).context(format!(
                "stages of {of} of {all} questions are missing, the first of {id}"
            )))
        }
        _ if whole.is_empty() => bail!("the bundle has no question"),
        _ => Ok((whole, rows)),
    }
}

fn keep(
    dir: &std::path::Path,
    bundle: &Bundle,
    read: &brought::Read,
    variants: &[Variant],
    rows: &[Row],
    injected: Option<Injected>,
    command: String,
) -> anyhow::Result<()> {
    let about = bundle.info();
    let mut parts = about.parts.clone();
    parts.extend(read.parts.clone());
    // A bundle of several commits, or of another one than plays it, is said to be.
    parts.insert("recorded at".into(), about.commits.join(", "));
    let info = RunInfo {
        source: Source::Simulated,
        system: about.system.clone(),
        dataset: about.dataset,
        questions: bundle.questions().len(),
        seed: about.seed,
        injected,
        speed: 1.0,
        parts,
        commit: commit(),
        machine: about.machine.clone(),
        command,
        wanted: Wanted::all(variants, &[1]),
    };
    // Where questions were left out, the run is not whole, and says so.
    let run = Run {
        info,
        questions: bundle.questions().to_vec(),
        rows: rows.to_vec(),
    };
    Ok(run.write(dir)?)
}
