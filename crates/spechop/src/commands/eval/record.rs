//! `spechop eval record`: stages of real parts, once each.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use spechop_eval::{
    Bundle, BundleInfo, Injected, Parts, RecordError, Recorder, Stage, commit, machine,
};
use spechop_server::config::Config;
use spechop_server::{Env, Toolbox};

use super::parts;
use super::questions::QuestionArgs;
use super::variants::{VariantArgs, injected};
use crate::commands::configured::{ConfigArgs, key_value};

/// The arguments of `spechop eval record`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    variants: VariantArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// The latency that will be added to look-ups when the bundle is played. Which stages a variant
    /// needs depends on it. May be repeated; `0` means without added latency [default: 0].
    #[arg(long, value_name = "MEAN:SIGMA:SEED|0", value_parser = latency)]
    inject: Vec<Latency>,
    /// Record a speculator under another name, e.g. `hot=hot-0.05`, so that one bundle can hold
    /// several of a kind. May be repeated.
    #[arg(long, value_name = "NAME=NAME", value_parser = key_value)]
    rename: Vec<(String, String)>,
    /// The model behind an endpoint, e.g. `planner=NAME HASH`, instead of the name in the
    /// configuration. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    part: Vec<(String, String)>,
    /// The name of the system in tables: who plans and reads, in a few words.
    #[arg(long, value_name = "TEXT")]
    system: String,
    /// Resume a bundle even if another commit of this program began it.
    #[arg(long)]
    mix_commits: bool,
    /// The folder of the bundle. If it exists, recording is resumed: stored stages are not run again.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    // Last, for its heading goes for all that follows.
    #[command(flatten)]
    questions: QuestionArgs,
}

const HELP: &str = "\
Every stage that a variant can need (a segment, a look-up, a reading, a guess) is run once, while
nothing else runs. It is stored with its input, its output and its wall time. `spechop eval simulate`
then plays any of these variants without a model. You can stop the recording at any time: the same
command resumes it.

Example:
  spechop eval record --system \"embedded default\" --dataset 2wiki \\
    --questions eval/datasets/2wikimultihopqa/questions.jsonl.gz --count 20 --suite --inject 0 --inject 4150:1680:1 --out runs/2wiki";

/// Questions that fail one after the other before none of them is to blame any more.
const FAILURES_IN_A_ROW_MAX: usize = 3;
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
    let variants = args.variants.played()?;
    let questions = args.questions.select()?;
    let mut written = args.config.written(env)?;
    // No query cache: a guess must not reuse the vector that its own look-up just computed.
    let forget = ["encoder.queries_kept", "eval record", "0"].map(str::to_owned);
    written.flags.push(forget.into());
    let config = Arc::new(Config::read(written, env)?);
    ensure!(
        config.injected_latency.is_none(),
        "the configuration injects latency: stages are recorded without; say --inject instead"
    );
    let opening = Arc::clone(&config);
    let toolbox = tokio::task::spawn_blocking(move || Toolbox::open(&opening));
    let toolbox = toolbox.await.context("cannot open the models")??;

    let offered: Vec<_> = toolbox
        .speculators
        .keys()
        .map(|kind| kind.as_str())
        .collect();
    if let Some((name, _)) = args
        .rename
        .iter()
        .find(|(name, _)| !offered.contains(&&**name))
    {
        bail!(
            "--rename: there is no speculator `{name}`; there are: {}",
            offered.join(", ")
        );
    }
    let renamed = |name: &str| {
        let to = args.rename.iter().find(|(from, _)| from == name);
        to.map_or_else(|| name.to_owned(), |(_, to)| to.clone())
    };
    let mut known = parts::of(&config)?;
    let mut speculators = std::collections::BTreeMap::new();
    for (kind, speculator) in toolbox.speculators {
        let name = renamed(kind.as_str());
        if !variants.iter().any(|variant| variant.speculator() == name) {
            continue;
        }
        let about = match kind.as_str() {
            "hot" => parts::hot(&config)?.unwrap_or_default(),
            "index" => parts::index(&config)?,
            _ => parts::from_memory(&config)?,
        };
        known.insert(format!("speculator {name}"), about);
        if speculators.insert(name.clone(), speculator).is_some() {
            bail!("--rename: two speculators would be called `{name}`");
        }
    }
    known.extend(args.part);
    let info = BundleInfo {
        system: args.system,
        dataset: args.questions.dataset,
        questions: questions.len(),
        seed: args.questions.seed,
        passages: config.questions.passages().get(),
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
    let mut failed: Vec<(String, anyhow::Error)> = Vec::new();
    let mut in_a_row = 0;
    for (at, question) in questions.iter().enumerate() {
        let ways = variants
            .iter()
            .flat_map(|variant| latencies.iter().map(move |latency| (variant, *latency)));
        let mut result = Ok(());
        for (variant, latency) in ways {
            let mut ran = |stage: &Stage| {
                bar.set_message(format!("{} took {:.0} ms", stage.input.name(), stage.ms));
            };
            let recorded = recorder.record(&mut bundle, at, variant, latency, &mut ran);
            if let Err(error) = recorded.await {
                result = Err(error);
                break;
            }
        }
        match result {
            Ok(()) => in_a_row = 0,
            // One question may be to blame for what a part cannot do; the disk is not.
            Err(error @ RecordError::Stage { .. }) if in_a_row < FAILURES_IN_A_ROW_MAX => {
                in_a_row += 1;
                tracing::warn!(question = question.id, %error, "left out");
                failed.push((question.id.clone(), error.into()));
            }
            Err(error) => {
                let of = questions.len();
                return Err(anyhow::Error::new(error).context(format!(
                    "{at} of {of} questions are done; run the same command again to resume"
                )));
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
    if let Some((id, error)) = failed.pop() {
        let (more, of) = (failed.len(), questions.len());
        return Err(error.context(format!(
            "{} of {of} questions are not whole, {id} among them{}; the same command tries them again",
            more + 1,
            if more > 0 { " (the others are in the log)" } else { "" },
        )));
    }
    Ok(())
}

fn bar(questions: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} questions, {eta} left; {wide_msg}");
    ProgressBar::new(questions).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
