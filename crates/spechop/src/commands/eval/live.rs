//! `spechop eval live`: the same questions in several ways, over gRPC.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use spechop_config::Env;
use spechop_eval::{
    Bundle, Failure, LiveOptions, Means, Progress, Question, Row, Run, RunInfo, RunWriter, Source,
    Summary, Variant, Wanted, commit, live, machine, probe,
};

use super::means;
use super::questions::QuestionArgs;
use super::variants::VariantArgs;
use crate::bar::bar;
use crate::commands::ask::seconds;
use crate::commands::configured::name_value;
use crate::output::stdout;

/// The arguments of `spechop eval live`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The output folder. If it already holds this run, the run is resumed.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The address of the server.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    addr: String,
    /// The address of a server whose look-ups are the guesses, e.g. one whose index is the hot subset.
    /// Variants with target=off are asked there.
    #[arg(long, value_name = "HOST:PORT")]
    target_off: Option<String>,
    #[command(flatten)]
    variants: VariantArgs,
    /// Do not ask at k = 1 as well. The run has no RelLat then. For servers that learn from what they are
    /// asked: a memory would know every question from k = 1.
    #[arg(long)]
    without_standard: bool,
    /// How many questions run at once. Several values are measured one after the other.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1")]
    concurrency: Vec<u32>,
    /// The name of the system in tables: who plans and reads, in a few words.
    #[arg(long, value_name = "TEXT", required_unless_present = "of")]
    system: Option<String>,
    /// The bundle that the server replays, or whose models it uses. The run takes its system and its
    /// parts from the bundle.
    #[arg(long, value_name = "DIR")]
    of: Option<PathBuf>,
    /// The server is a replay (`spechop eval replay`) that is N times faster than recorded. The run
    /// holds the times at the recorded speed.
    #[arg(long, value_name = "N")]
    speed: Option<f64>,
    /// A part that the server uses, e.g. planner=NAME@HASH. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_value)]
    part: Vec<(String, String)>,
    /// How long the server may be unreachable or busy before the run stops, in seconds.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "120")]
    retry_for: Duration,
    /// The most time for one question, in seconds. A question that takes longer gets no answer.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "600")]
    deadline: Duration,
    // Last, for its heading goes for all that follows.
    #[command(flatten)]
    questions: QuestionArgs,
}

const HELP: &str = "\
Every question is asked once with each variant, at each concurrency, after a warm-up. The variants
take turns: all other questions are asked between two askings of one question. Latency is measured by
the server, from the question to its answer. The means are printed at the end, in the columns of
`spechop eval simulate`.

The run may be killed. Every answer is written to the disk before the next question, and the same
command resumes the run if the circumstances are the same. The server may be restarted meanwhile.

Variants that only the simulator knows (verifier=none, rounds=on, guess-at-once=off,
on-observations=off, algorithm=paper) need `spechop eval simulate`. Full speculation
(k=1,verifier=none,target=off) never looks anything up: it is the standard agent of a server whose
look-ups are the guesses, which --target-off names.

Examples:
  spechop serve --config deploy/demo.toml &   # until `ready on ADDRESS`
  spechop eval live --dataset 2wiki --questions eval/datasets/2wikimultihopqa/questions.jsonl.gz \\
      --count 100 --k 1,2,3,inf --system \"own planner, own reader\" --out eval/runs/2wiki-live
  spechop eval live --dataset musique --questions musique.jsonl --variant k=1 --variant k=3 \\
      --variant k=3,salvage=off --concurrency 1,8 --system \"own planner\" \\
      --part planner=qwen2.5-coder-1.5b@1f2e --out eval/runs/musique-live";

/// Questions that are named at most where some have no answer.
const NAMED_MAX: usize = 5;

/// Asks, and keeps the answers.
pub(super) async fn run(args: &Args, env: &Env) -> anyhow::Result<()> {
    let questions = args.questions.select()?;
    let options = args.checked_options(&questions)?;
    let info = args.run_info(&options, &questions, env).await?;
    let (mut run, there) = RunWriter::open(&args.out, &info, &questions)?;
    let bar = bar(0, TEMPLATE);
    let mut show = |progress: Progress| show(&bar, progress);
    let result = live(&options, &questions, &mut run, &there, &mut show).await;
    bar.finish_and_clear();
    let summary = result?;
    if summary.busy > 0 {
        say!(
            "the server was too busy for a question, or had it wait in line, {} times: it takes fewer at once than \
             --concurrency says, and the latencies are those of fewer",
            summary.busy
        );
    }
    if summary.fewer > 0 {
        say!(
            "{} answers were asked for while fewer questions were left than --concurrency says: their latencies \
             are those of fewer",
            summary.fewer
        );
    }
    if summary.anew > 0 {
        say!(
            "{} answers at k = auto go on where an earlier call was stopped: if the server was started since, it has \
             learnt anew. Give --out a folder of its own to ask them all of one server",
            summary.anew
        );
    }
    if !summary.failures.is_empty() {
        bail!(unanswered(&summary));
    }
    let mut output = stdout();
    print_means(&options, &Run::read(&args.out)?, &mut output)?;
    let (rows, dir) = (summary.there + summary.added, args.out.display());
    let added = summary.added;
    Ok(writeln!(
        output,
        "{rows} answers are in {dir}, {added} of them new"
    )?)
}

impl Args {
    fn checked_options(&self, questions: &[Question]) -> anyhow::Result<LiveOptions> {
        let mut variants = self.variants.variants()?;
        if self.without_standard {
            variants.retain(|variant| !variant.is_standard());
            ensure!(
                !variants.is_empty(),
                "--without-standard leaves nothing to ask"
            );
        }
        let options = LiveOptions {
            variants,
            address: self.addr.clone(),
            target_off: self.target_off.clone(),
            concurrency: self.concurrency.clone(),
            retry_for: self.retry_for,
            deadline: self.deadline,
        };
        options.check(questions)?;
        let is_off = |variant: &Variant| variant.target_off;
        ensure!(
            options.target_off.is_none() || options.variants.iter().any(is_off),
            "--target-off names a server that nothing is asked of: add --variant k=1,verifier=none,target=off"
        );
        Ok(options)
    }

    /// The circumstances of the run. Unless it is resumed, the server is asked what it adds to latencies.
    async fn run_info(
        &self,
        options: &LiveOptions,
        questions: &[Question],
        env: &Env,
    ) -> anyhow::Result<RunInfo> {
        let source = match self.speed {
            Some(_) => Source::Replayed,
            None => Source::Live,
        };
        let probing =
            Question::before_a_run(source, questions).context("there are no questions")?;
        let speed = self.speed.unwrap_or(1.0);
        ensure!(
            (0.01..=100.0).contains(&speed),
            "--speed must lie between 0.01 and 100, not {speed}"
        );
        // A run that is resumed says what its server adds; else the server does.
        let injected = match Run::read(&self.out) {
            Ok(begun) => begun.info.injected,
            Err(_) => {
                let adds = probe(&options.address, &probing).await?;
                adds.map(|adds| adds.times(speed))
            }
        };
        let bundle = self.of.as_deref().map(Bundle::read).transpose()?;
        let recorded = bundle.as_ref().map(Bundle::info);
        let mut parts = recorded.map_or_else(Default::default, |info| info.parts.clone());
        parts.extend(self.part.iter().cloned());
        let system = self.system.as_ref().or(recorded.map(|info| &info.system));
        Ok(RunInfo {
            source,
            system: system.context("say --system or --of")?.clone(),
            dataset: self.questions.dataset,
            questions: questions.len(),
            seed: self.questions.seed,
            injected,
            speed,
            parts,
            commit: commit(),
            machine: machine(),
            command: super::command(env),
            wanted: Wanted::all(&options.variants, &options.concurrency),
        })
    }
}

fn print_means(options: &LiveOptions, run: &Run, mut output: impl Write) -> anyhow::Result<()> {
    for at_once in &options.concurrency {
        if options.concurrency.len() > 1 {
            writeln!(output, "{at_once} at once")?;
        }
        let table = means::table(&of_each(&options.variants, *at_once, run));
        write!(output, "{table}")?;
    }
    Ok(())
}

/// The means of each variant with so many questions under way at once.
fn of_each(variants: &[Variant], at_once: u32, run: &Run) -> Vec<Means> {
    let mut rows: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in run.rows.iter().filter(|row| row.concurrency == at_once) {
        rows.entry(&row.id).or_default().push(row.clone());
    }
    let in_order = |question: &Question| rows.remove(&*question.id).unwrap_or_default();
    let rows: Vec<Row> = run.questions.iter().flat_map(in_order).collect();
    let means = |variant| Means::of(variant, &run.questions, &rows);
    variants.iter().map(means).collect()
}

/// The missing answers, in one line.
fn unanswered(summary: &Summary) -> String {
    let failures = &summary.failures;
    let named = failures.iter().take(NAMED_MAX).map(
        |Failure {
             id,
             variant,
             concurrency,
             code,
             message,
         }| format!("{id} with {variant} at concurrency {concurrency} ({code}: {message})"),
    );
    let mut named = named.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = failures.len().checked_sub(NAMED_MAX) {
        named = format!("{named}, and {more} more");
    }
    let rows = summary.there + summary.added;
    let of = rows + failures.len();
    format!(
        "{rows} of {of} answers are there; not answered: {named}; run the same command again to ask them"
    )
}

const TEMPLATE: &str = "{bar:40} {pos}/{len} answers, {per_sec}, {eta} left{msg}";

fn show(bar: &ProgressBar, progress: Progress) {
    let Progress { done, of, failed } = progress;
    if bar.length() == Some(0) {
        // What is there from earlier says nothing about the pace.
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_secs(1));
    }
    bar.set_position(done as u64);
    if failed > 0 {
        bar.set_message(format!(", {failed} without an answer"));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use spechop_types::K;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn flags_by_which_nothing_is_asked_are_refused() {
        let question = Question::before_a_run(Source::Live, &[]).unwrap();
        for (flags, refused) in [
            ("--k 3", None),
            ("--k 3 --without-standard", None),
            ("--k 1 --without-standard", Some("--without-standard")),
            ("--k 3 --target-off there:1", Some("--target-off")),
            (
                "--variant k=1,verifier=none,target=off --target-off there:1",
                None,
            ),
        ] {
            let all = format!("live --out o --dataset 2wiki --questions q --system s {flags}");
            let args = Command::parse_from(all.split(' ')).args;
            let options = args.checked_options(std::slice::from_ref(&question));
            let said = options.err().map(|error| error.to_string());
            let begins = said.as_deref().and_then(|said| said.split(' ').next());
            assert_eq!(begins, refused, "{flags}: {said:?}");
        }
    }

    #[test]
    fn what_was_not_answered_is_named() {
        let failure = |n: usize| Failure {
            id: format!("q{n}"),
            variant: Variant::at(K::of(3).unwrap()),
            concurrency: 1,
            code: "INTERNAL".into(),
            message: "no tag".into(),
        };
        let summary = Summary {
            there: 1,
            added: 2,
            failures: (0..7).map(failure).collect(),
            ..Summary::default()
        };
        let said = unanswered(&summary);
        assert!(
            said.starts_with("3 of 10 answers are there; not answered: q0 with k=3"),
            "{said}"
        );
        assert!(
            said.contains("q4") && !said.contains("q5") && said.contains("and 2 more"),
            "{said}"
        );
    }
}
