//! `spechop eval record`: stages of real parts, once each.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use spechop_eval::{Bundle, BundleInfo, Injected, Parts, Recorder, commit, machine};
use spechop_server::config::Config;
use spechop_server::{Env, Toolbox};

use super::parts;
use super::questions::QuestionArgs;
use super::variants::{VariantArgs, injected};
use crate::commands::configured::{ConfigArgs, key_value};

/// What is written after `spechop eval record`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    questions: QuestionArgs,
    #[command(flatten)]
    variants: VariantArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// Latency that will be added to look-ups when the bundle is played; which stages a variant needs
    /// depends on it. May be repeated; without any, none is added. `0` is none, beside others.
    #[arg(long, value_name = "MEAN:SIGMA:SEED|0", value_parser = latency)]
    inject: Vec<Latency>,
    /// Call a speculator of the configuration by another name, e.g. `hot=hot-0.05`, so that one bundle
    /// holds several of a kind. May be repeated.
    #[arg(long, value_name = "NAME=NAME", value_parser = key_value)]
    rename: Vec<(String, String)>,
    /// Who plans and reads, in a few words for the tables.
    #[arg(long, value_name = "TEXT", default_value = "embedded default")]
    system: String,
    /// Go on with a bundle that another commit of this program began.
    #[arg(long)]
    mix_commits: bool,
    /// The bundle's folder. One that is there is gone on with: what it holds is not run again.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

const HELP: &str = "\
Every stage that a variant can need (a segment, a look-up, a reading, a guess) is run once, with nothing
beside it, and kept with its input, its output and its wall time. `spechop eval simulate` then plays any of
these variants without any model. Stop it at any time: the same command goes on.

Example:
  spechop eval record --dataset 2wiki --questions eval/datasets/2wikimultihopqa/questions.jsonl.gz \\
    --count 20 --suite --inject 0 --inject 4150:1680:1 --out runs/2wiki";

/// Questions between two lines of a log.
const LOGGED_EVERY: usize = 20;

/// Added latency, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency(pub(crate) Option<Injected>);

/// `MEAN:SIGMA:SEED` or `0`.
pub(crate) fn latency(text: &str) -> Result<Latency, String> {
    match text {
        "0" => Ok(Latency(None)),
        text => injected(text).map(|injected| Latency(Some(injected))),
    }
}

/// Records until every variant can be played.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let variants = args.variants.variants()?;
    let questions = args.questions.select()?;
    let written = args.config.written(env)?;
    let config = Arc::new(Config::read(written, env)?);
    ensure!(
        config.injected_latency.is_none(),
        "the configuration injects latency: stages are recorded without; say --inject instead"
    );
    let opening = Arc::clone(&config);
    let toolbox = tokio::task::spawn_blocking(move || Toolbox::open(&opening));
    let toolbox = toolbox.await.context("cannot open the models")??;

    let renamed = |name: &str| {
        let to = args.rename.iter().find(|(from, _)| from == name);
        to.map_or_else(|| name.to_owned(), |(_, to)| to.clone())
    };
    let mut known = parts::of(&config)?;
    let mut speculators = std::collections::BTreeMap::new();
    for (kind, speculator) in toolbox.speculators {
        let name = renamed(kind.as_str());
        if !variants.iter().any(|variant| variant.speculator == name) {
            continue;
        }
        let about = match kind.as_str() {
            "hot" => parts::hot(&config)?.unwrap_or_default(),
            _ => parts::from_memory(&config)?,
        };
        known.insert(format!("speculator {name}"), about);
        speculators.insert(name, speculator);
    }
    let info = BundleInfo {
        system: args.system,
        dataset: args.questions.dataset,
        seed: args.questions.seed,
        passages: config.questions.passages.get(),
        parts: known,
        commits: vec![commit()],
        machine: machine(),
        commands: vec![super::command(env)],
    };
    let mut recorder = Recorder::new(Parts {
        planner: toolbox.planner,
        retriever: toolbox.retriever,
        reader: toolbox.reader,
        speculators,
    });
    recorder.check(&variants)?;
    let latencies = match args.inject.as_slice() {
        [] => vec![None],
        some => some.iter().map(|latency| latency.0).collect(),
    };
    let mut bundle = Bundle::record(&args.out, info, &questions, args.mix_commits)?;
    let before = bundle.len();
    // Fixed prompts are read and buffers taken before anything is measured.
    recorder.warm_up(&bundle).await;
    let bar = bar(questions.len() as u64);
    for at in 0..questions.len() {
        for variant in &variants {
            for latency in &latencies {
                recorder
                    .record(&mut bundle, at, variant, *latency, &mut |stage| {
                        bar.set_message(format!("{} took {:.0} ms", stage.input.name(), stage.ms));
                        bar.tick();
                    })
                    .await
                    .with_context(|| {
                        let done = at;
                        format!(
                            "{done} of {} questions are recorded; the same command goes on",
                            questions.len()
                        )
                    })?;
            }
        }
        bar.inc(1);
        // A log has no bar.
        if bar.is_hidden() && (at + 1) % LOGGED_EVERY == 0 {
            eprintln!("{} of {} questions are recorded", at + 1, questions.len());
        }
    }
    bar.finish_and_clear();
    eprintln!(
        "{}: {} questions, {} variants; {} stages run, {} in all",
        args.out.display(),
        questions.len(),
        variants.len(),
        bundle.len() - before,
        bundle.len()
    );
    Ok(())
}

fn bar(questions: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} questions, {eta} left; {wide_msg}");
    ProgressBar::new(questions).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
