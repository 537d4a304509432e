//! `spechop eval record`: stages of real parts, once each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use spechop_config::{Config, Env};
use spechop_eval::{
    Bundle, BundleInfo, Injected, LeftOut, Parts, RecordEvent, Recorder, Variant, commit, machine,
};
use spechop_server::Toolbox;
use spechop_types::with_causes;

use super::parts;
use super::questions::QuestionArgs;
use super::variants::{VariantArgs, injected};
use crate::bar::bar;
use crate::commands::configured::{ConfigArgs, name_value};

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
    #[arg(long, value_name = "NAME=NAME", value_parser = name_value)]
    rename: Vec<(String, String)>,
    /// The model behind an endpoint, e.g. `planner=NAME HASH`, instead of the name in the
    /// configuration. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_value)]
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
    let config = Arc::new(configured(&args.config, env)?);
    let (parts, known) = open_parts(&args, &variants, &config).await?;
    let info = describe(&args, questions.len(), &config, known, env);
    let mut recorder = Recorder::new(parts);
    recorder.check(&variants)?;
    let latencies = match args.inject.as_slice() {
        [] => vec![None],
        some => some.iter().map(|latency| latency.0).collect(),
    };
    let mut bundle = Bundle::record(&args.out, info, &questions, args.mix_commits)?;
    let before = bundle.len();
    // Fixed prompts are read and buffers taken before anything is measured.
    recorder.warm_up(&bundle).await;
    let bar = bar(
        questions.len() as u64,
        "{bar:30} {pos}/{len} questions, {eta} left; {wide_msg}",
    );
    let mut tell = |event: RecordEvent<'_>| say(&bar, &event);
    let recording = recorder.record_all(&mut bundle, &variants, &latencies, &mut tell);
    let left_out = recording.await?;
    bar.finish_and_clear();
    say!(
        "{}: {} questions, {} variants; {} stages run, {} in all",
        args.out.display(),
        questions.len(),
        variants.len(),
        bundle.len() - before,
        bundle.len()
    );
    whole(left_out, questions.len())
}

/// The configuration, as stages are recorded with it.
fn configured(args: &ConfigArgs, env: &Env) -> anyhow::Result<Config> {
    let mut written = args.clone().written(env)?;
    // No query cache: a guess must not reuse the vector that its own look-up just computed.
    let forget = ["encoder.queries_kept", "eval record", "0"].map(str::to_owned);
    written.flags.push(forget.into());
    let config = Config::read(written, env)?;
    ensure!(
        config.injected_latency.is_none(),
        "the configuration injects latency: stages are recorded without; say --inject instead"
    );
    Ok(config)
}

/// Opens the parts that the variants need; and says what each is, by its name.
async fn open_parts(
    args: &Args,
    variants: &[Variant],
    config: &Arc<Config>,
) -> anyhow::Result<(Parts, BTreeMap<String, String>)> {
    let opening = Arc::clone(config);
    let toolbox = tokio::task::spawn_blocking(move || Toolbox::open(&opening));
    let toolbox = toolbox.await.context("cannot open the models")??;
    check_renamed(&args.rename, &toolbox)?;
    let mut known = parts::of(config)?;
    let mut speculators = BTreeMap::new();
    for (kind, speculator) in toolbox.speculators {
        let name = renamed(&args.rename, kind.as_str());
        if !variants.iter().any(|variant| variant.speculator() == name) {
            continue;
        }
        let about = match kind.as_str() {
            "hot" => parts::hot(config)?.unwrap_or_default(),
            "index" => parts::index(config)?,
            _ => parts::from_memory(config)?,
        };
        known.insert(format!("speculator {name}"), about);
        if speculators.insert(name.clone(), speculator).is_some() {
            bail!("--rename: two speculators would be called `{name}`");
        }
    }
    let parts = Parts {
        planner: toolbox.planner,
        retriever: toolbox.retriever,
        reader: toolbox.reader,
        speculators,
    };
    Ok((parts, known))
}

/// Whether there is a speculator of every name that is replaced.
fn check_renamed(rename: &[(String, String)], toolbox: &Toolbox) -> anyhow::Result<()> {
    let kinds = toolbox.speculators.keys();
    let offered: Vec<_> = kinds.map(|kind| kind.as_str()).collect();
    let unknown = |(name, _): &&(String, String)| !offered.contains(&&**name);
    match rename.iter().find(unknown) {
        None => Ok(()),
        Some((name, _)) => bail!(
            "--rename: there is no speculator `{name}`; there are: {}",
            offered.join(", ")
        ),
    }
}

/// What variants call a speculator.
fn renamed(rename: &[(String, String)], name: &str) -> String {
    let to = rename.iter().find(|(from, _)| from == name);
    to.map_or_else(|| name.to_owned(), |(_, to)| to.clone())
}

/// The circumstances, as the bundle keeps them.
fn describe(
    args: &Args,
    questions: usize,
    config: &Config,
    mut parts: BTreeMap<String, String>,
    env: &Env,
) -> BundleInfo {
    parts.extend(args.part.iter().cloned());
    BundleInfo {
        system: args.system.clone(),
        dataset: args.questions.dataset,
        questions,
        seed: args.questions.seed,
        passages: config.questions.passages().get(),
        parts,
        commits: vec![commit()],
        machine: machine(),
        commands: vec![super::command(env)],
    }
}

/// Shows how far the recording is.
fn say(bar: &ProgressBar, event: &RecordEvent<'_>) {
    match event {
        RecordEvent::Ran(stage) => {
            bar.set_message(format!("{} took {:.0} ms", stage.input.name(), stage.ms));
        }
        RecordEvent::LeftOut(LeftOut { id, error }) => {
            let reason = with_causes(error);
            tracing::warn!(question = id, reason, "left out");
        }
        RecordEvent::Done(done) => {
            bar.inc(1);
            // A log has no bar.
            if bar.is_hidden() && done % LOGGED_EVERY == 0 {
                let of = bar.length().unwrap_or_default();
                say!("{done} of {of} questions are recorded");
            }
        }
    }
}

/// Whether no question was left out; else the last one is named.
fn whole(mut left_out: Vec<LeftOut>, of: usize) -> anyhow::Result<()> {
    let Some(LeftOut { id, error }) = left_out.pop() else {
        return Ok(());
    };
    let more = left_out.len();
    let others = match more {
        0 => "",
        _ => " (the others are in the log)",
    };
    Err(anyhow::Error::new(error).context(format!(
        "{} of {of} questions are not whole, {id} among them{others}; the same command tries them again",
        more + 1,
    )))
}
