//! `spechop eval live`: the same questions in several ways, over gRPC.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use spechop_eval::{
    Failure, LiveOptions, Progress, RunInfo, RunWriter, Source, Summary, Variant, commit, live,
    machine, probe,
};

use spechop_server::Env;

use super::questions::QuestionArgs;
use crate::commands::ask::seconds;

/// What is written after `spechop eval live`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The folder of the run. One that holds the same run is gone on with.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The server.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    addr: String,
    /// Windows to compare, everything else as usual: numbers, or inf [default: 1,2,3,inf, where no
    /// --variant is named].
    #[arg(long, value_name = "K,…", value_delimiter = ',', value_parser = at_k)]
    k: Vec<Variant>,
    /// A way to answer, e.g. k=3,salvage=off,verifier=exact; may be given several times.
    #[arg(long, value_name = "K=…")]
    variant: Vec<Variant>,
    /// Questions under way at once; one level after the other.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1")]
    concurrency: Vec<u32>,
    /// Who plans and reads, in a few words for tables.
    #[arg(long, value_name = "TEXT")]
    system: String,
    /// The server is a replay (`spechop eval replay`), so many times faster than recorded: times are given
    /// as they were recorded.
    #[arg(long, value_name = "N")]
    speed: Option<f64>,
    /// What the server uses, e.g. planner=NAME@HASH; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = part)]
    part: Vec<(String, String)>,
    /// How long the server may be away or busy before the run stops, in seconds.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "120")]
    retry_for: Duration,
    /// Most time of one question, in seconds; what takes longer has no answer.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "600")]
    deadline: Duration,
    // Last, for its heading goes for all that follows.
    #[command(flatten)]
    questions: QuestionArgs,
}

const HELP: &str = "\
Every question is asked once with each variant, at each concurrency. The variants take turns, so that all
the other questions lie between two askings of one question; a warm-up comes first. Latency is the wall
clock of the server, from the question to its answer.

The run may be killed: every answer is on the disk before the next, and the same command goes on, as long
as the circumstances are the same. The server may be restarted meanwhile.

What only the simulator can do (verifier=none, rounds=on) is left to `spechop eval simulate`.

Examples:
  spechop serve --config deploy/demo.toml &
  spechop eval live --dataset 2wiki --questions eval/datasets/2wikimultihopqa/questions.jsonl.gz \\
      --count 100 --k 1,2,3,inf --system \"own planner, own reader\" --out eval/runs/2wiki-live
  spechop eval live --dataset musique --questions musique.jsonl --variant k=1 --variant k=3 \\
      --variant k=3,salvage=off --concurrency 1,8 --system \"own planner\" \\
      --part planner=qwen2.5-coder-1.5b@1f2e --out eval/runs/musique-live";

/// Questions that are named at most where some have no answer.
const NAMED_MAX: usize = 5;

/// Asks, and keeps the answers.
pub(super) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let questions = args.questions.select()?;
    let options = LiveOptions {
        variants: variants(args.k, args.variant),
        address: args.addr,
        concurrency: args.concurrency,
        retry_for: args.retry_for,
        deadline: args.deadline,
    };
    options.check(&questions)?;
    let first = questions.first().context("there are no questions")?;
    let speed = args.speed.unwrap_or(1.0);
    ensure!(
        (0.01..=100.0).contains(&speed),
        "--speed must lie between 0.01 and 100, not {speed}"
    );
    let adds = probe(&options.address, first).await?;
    let info = RunInfo {
        source: match args.speed {
            Some(_) => Source::Replayed,
            None => Source::Live,
        },
        system: args.system,
        dataset: args.questions.dataset,
        questions: questions.len(),
        seed: args.questions.seed,
        injected: adds.map(|adds| adds.as_recorded(speed)),
        speed,
        parts: args.part.into_iter().collect(),
        commit: commit(),
        machine: machine(),
        command: super::command(env),
    };
    let (mut run, there) = RunWriter::open(&args.out, &info, &questions)?;
    let bar = bar();
    let mut show = |progress: Progress| show(&bar, progress);
    let result = live(&options, &questions, &mut run, &there, &mut show).await;
    bar.finish_and_clear();
    let summary = result?;
    if summary.busy > 0 {
        eprintln!(
            "the server was too busy for a question {} times: it takes fewer at once than --concurrency says, \
             and the latencies are those of fewer",
            summary.busy
        );
    }
    if !summary.failures.is_empty() {
        bail!(unanswered(&summary));
    }
    let rows = summary.there + summary.added;
    let dir = args.out.display();
    writeln!(
        std::io::stdout(),
        "{rows} answers are in {dir}, {} of them new",
        summary.added
    )
    .context("cannot write to stdout")
}

fn variants(ks: Vec<Variant>, named: Vec<Variant>) -> Vec<Variant> {
    if ks.is_empty() && named.is_empty() {
        return [Some(1), Some(2), Some(3), None].map(Variant::at).to_vec();
    }
    ks.into_iter().chain(named).collect()
}

/// What is missing, in a line.
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
        "{rows} of {of} answers are there; not answered: {named}; the same command asks them again"
    )
}

fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(TEMPLATE);
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
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

fn at_k(text: &str) -> Result<Variant, String> {
    let variant = format!("k={text}").parse();
    variant.map_err(|_| "expected numbers from 1 to 64, or inf".to_owned())
}

fn part(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_a_template_that_can_be_read() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn variants_are_the_ks_and_then_the_named_ones() {
        let names = |ks: &[&str], named: &[&str]| {
            let ks = ks.iter().map(|k| at_k(k).unwrap()).collect();
            let named = named.iter().map(|v| v.parse().unwrap()).collect();
            let all = variants(ks, named).into_iter().map(|v| v.to_string());
            all.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&[], &[]), "k=1 k=2 k=3 k=inf");
        assert_eq!(
            names(&["1", "inf"], &["k=3,salvage=off"]),
            "k=1 k=inf k=3,salvage=off"
        );
        assert_eq!(names(&[], &["k=2"]), "k=2");
        assert!(at_k("0").is_err() && at_k("3,salvage=off,k=65").is_err());
        assert!(part("=x").is_err() && part("reader").is_err());
        assert_eq!(part("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
    }

    #[test]
    fn what_was_not_answered_is_named() {
        let failure = |n: usize| Failure {
            id: format!("q{n}"),
            variant: Variant::at(Some(3)),
            concurrency: 1,
            code: "INTERNAL".into(),
            message: "no tag".into(),
        };
        let summary = Summary {
            there: 1,
            added: 2,
            busy: 0,
            failures: (0..7).map(failure).collect(),
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
