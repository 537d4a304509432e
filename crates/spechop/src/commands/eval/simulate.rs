//! `spechop eval simulate`: any policy over a bundle, on the virtual clock.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::Serialize;
use spechop_eval::{
    Bundle, Injected, Question, Row, Run, RunInfo, Source, Variant, Wanted, commit, exact_match,
    play,
};
use spechop_server::Env;
use spechop_sim::Clock;

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
}

const HELP: &str = "\
Plays the questions of a bundle with the window of the live service, on a virtual clock. It needs no
model. RelLat is the mean latency divided by the mean latency at k = 1.

Examples:
  spechop eval simulate --bundle runs/2wiki --k 1,2,3,inf
  spechop eval simulate --bundle runs/2wiki --suite --inject 4150:1680:1 --out runs/2wiki-web-simulated
  spechop eval simulate --bundle runs/2wiki --variant k=3,rounds=on --variant k=3,salvage=off";

const STDOUT: &str = "cannot write to stdout";

/// What a variant came to.
#[derive(Serialize)]
struct Means {
    variant: Variant,
    questions: usize,
    latency_ms: f64,
    rel_lat: f64,
    segments: f64,
    targets: f64,
    speculations: f64,
    salvaged: f64,
    exact_match: f64,
}

/// Plays, keeps the rows, prints the means.
pub(crate) fn run(args: &Args, env: &Env, mut output: impl Write) -> anyhow::Result<()> {
    let variants = args.variants.played()?;
    let bundle = Bundle::read(&args.bundle)?;
    let injected = args.inject.0;
    let (questions, rows) = play_all(&bundle, &variants, injected, args.whole_only)?;
    if let Some(dir) = &args.out {
        let command = super::command(env);
        keep(dir, &bundle, &variants, &rows, injected, command)?;
    }
    let all = bundle.questions().len();
    if questions.len() < all {
        eprintln!(
            "of {} questions, {} are whole; the others are left out",
            all,
            questions.len()
        );
    }
    let means: Vec<Means> = variants
        .iter()
        .map(|v| means(v, &questions, &rows))
        .collect();
    if args.json {
        for mean in &means {
            writeln!(output, "{}", serde_json::to_string(mean)?).context(STDOUT)?;
        }
        return Ok(());
    }
    let heading = "variant                            mean s  RelLat   segments   targets  guesses  salvaged     EM";
    writeln!(output, "{heading}").context(STDOUT)?;
    for mean in &means {
        writeln!(
            output,
            "{:33} {:7.2}  {:6.3}  {:9.2} {:9.2} {:8.2} {:9.2}  {:5.1}",
            mean.variant.to_string(),
            mean.latency_ms / 1000.0,
            mean.rel_lat,
            mean.segments,
            mean.targets,
            mean.speculations,
            mean.salvaged,
            100.0 * mean.exact_match
        )
        .context(STDOUT)?;
    }
    Ok(())
}

/// The rows of every question, variants in their order. Whole questions only, or none at all.
fn play_all(
    bundle: &Bundle,
    variants: &[Variant],
    injected: Option<Injected>,
    whole_only: bool,
) -> anyhow::Result<(Vec<Question>, Vec<Row>)> {
    let mut clock = Clock::new();
    let (mut whole, mut rows, mut missing) = (Vec::new(), Vec::new(), None);
    for question in bundle.questions() {
        let played: Result<Vec<Row>, _> = variants
            .iter()
            .map(|variant| play(&mut clock, bundle, question, variant, injected))
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
    variants: &[Variant],
    rows: &[Row],
    injected: Option<Injected>,
    command: String,
) -> anyhow::Result<()> {
    let about = bundle.info();
    let info = RunInfo {
        source: Source::Simulated,
        system: about.system.clone(),
        dataset: about.dataset,
        questions: bundle.questions().len(),
        seed: about.seed,
        injected,
        speed: 1.0,
        parts: about.parts.clone(),
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

fn means(variant: &Variant, questions: &[Question], rows: &[Row]) -> Means {
    let n = questions.len() as f64;
    let of = |variant: &Variant, value: &dyn Fn(&Row, &Question) -> f64| {
        let own = rows.iter().filter(|row| row.variant == *variant);
        let sum: f64 = own.zip(questions).map(|(row, q)| value(row, q)).sum();
        sum / n
    };
    let standard = of(&Variant::standard(), &|row, _| row.latency_ms);
    let latency_ms = of(variant, &|row, _| row.latency_ms);
    Means {
        variant: variant.clone(),
        questions: questions.len(),
        latency_ms,
        rel_lat: latency_ms / standard,
        segments: of(variant, &|row, _| f64::from(row.segments.started)),
        targets: of(variant, &|row, _| f64::from(row.targets.started)),
        speculations: of(variant, &|row, _| f64::from(row.speculations.started)),
        salvaged: of(variant, &|row, _| f64::from(row.salvaged)),
        exact_match: of(variant, &|row, q| {
            f64::from(u8::from(exact_match(&row.answer, &q.answers)))
        }),
    }
}
