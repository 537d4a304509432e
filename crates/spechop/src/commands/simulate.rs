//! `spechop simulate`: the window on a virtual clock.

use std::fs::File;
use std::io::{BufReader, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Serialize, Serializer};
use spechop_sim::{Draw, Simulator, Trace, read_traces};
use spechop_window::Width;

/// What is written after `spechop simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Recorded questions, JSON lines.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["p", "alpha", "beta", "hop_count"])]
    hops: Option<PathBuf>,
    /// Drawn questions: share of guesses that are right, 0 to 1.
    #[arg(long, value_name = "P", required_unless_present = "hops")]
    p: Option<f64>,
    /// Drawn questions: mean time of a guess over that of a look-up.
    #[arg(long, value_name = "A", required_unless_present = "hops")]
    alpha: Option<f64>,
    /// Drawn questions: mean time of writing a sub-question over that of a look-up.
    #[arg(long, value_name = "B", required_unless_present = "hops")]
    beta: Option<f64>,
    /// Drawn questions: coefficient of variation of all times.
    #[arg(long, value_name = "V", default_value_t = 0.0)]
    nu: f64,
    /// Drawn questions: hops of each.
    #[arg(long, value_name = "N", required_unless_present = "hops")]
    hop_count: Option<usize>,
    /// Drawn questions: how many.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    trials: u64,
    /// Drawn questions: the same seed draws the same ones.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Windows to try: numbers, or inf.
    #[arg(
        long,
        value_name = "K,…",
        value_delimiter = ',',
        default_value = "1,2,3,inf"
    )]
    k: Vec<K>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Plays questions with the window of the live service, on a virtual clock. RelLat is the mean latency
relative to k = 1. Calls that were started and then aborted count.

A recorded question is one line, times in milliseconds:
  {\"id\":\"q1\",\"hops\":[{\"segment_ms\":330,\"target_ms\":4150,\"speculation_ms\":180,\"accepted\":true}],\"final_ms\":300}

Examples:
  spechop simulate --hops recorded.jsonl --k 1,2,3,inf
  spechop simulate --p 0.68 --alpha 0.19 --beta 0.10 --nu 0.4 --hop-count 5 --trials 100000 --json";

/// Most hops of a drawn question.
const HOPS_MAX: usize = 10_000;
/// Questions between two looks at the progress bar.
const PROGRESS_STEP: u64 = 4096;

/// A width as it is written: a number, or `inf`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct K(Width);

#[derive(Serialize)]
struct Answer {
    questions: u64,
    results: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    k: K,
    /// Over all questions, in milliseconds.
    mean_latency_ms: f64,
    /// Mean latency over mean latency at k = 1.
    rel_lat: f64,
    /// Mean calls to M: segments, the final one included.
    mean_calls_m: f64,
    /// Mean calls to T.
    mean_calls_t: f64,
    /// Mean calls to S.
    mean_calls_s: f64,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    latency_ms: f64,
    calls: [u64; 3],
}

/// Simulates, and prints what came of it.
pub(crate) fn run(args: &Args, mut output: impl Write) -> anyhow::Result<()> {
    let (questions, one, sums) = match &args.hops {
        Some(path) => {
            let file =
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            let traces = read_traces(BufReader::new(file))
                .with_context(|| format!("in {}", path.display()))?;
            let count = traces.len() as u64;
            play(&args.k, count, traces.into_iter())
        }
        None => {
            let hop_count = args.hop_count.unwrap_or_default();
            anyhow::ensure!(
                hop_count <= HOPS_MAX,
                "--hop-count must be at most {HOPS_MAX}"
            );
            anyhow::ensure!(args.trials > 0, "--trials must be at least 1");
            let [p, alpha, beta] = [args.p, args.alpha, args.beta].map(Option::unwrap_or_default);
            let draw = Draw::new(p, alpha, beta, args.nu, hop_count).context(
                "p must lie between 0 and 1, and alpha, beta and nu must be finite and not negative",
            )?;
            play(&args.k, args.trials, draw.traces(args.seed, args.trials))
        }
    };
    let n = questions as f64;
    let row = |(k, sums): (&K, &Sums)| Row {
        k: *k,
        mean_latency_ms: sums.latency_ms / n,
        rel_lat: if one > 0.0 {
            sums.latency_ms / one
        } else {
            1.0
        },
        mean_calls_m: sums.calls[0] as f64 / n,
        mean_calls_t: sums.calls[1] as f64 / n,
        mean_calls_s: sums.calls[2] as f64 / n,
    };
    let answer = Answer {
        questions,
        results: args.k.iter().zip(&sums).map(row).collect(),
    };
    if args.json {
        serde_json::to_writer(&mut output, &answer)?;
        writeln!(output)?;
        return Ok(());
    }
    writeln!(output, "{questions} questions")?;
    writeln!(
        output,
        "{:>5} {:>14} {:>8} {:>9} {:>9} {:>9}",
        "k", "mean latency", "RelLat", "calls M", "calls T", "calls S"
    )?;
    for row in &answer.results {
        writeln!(
            output,
            "{:>5} {:>11.1} ms {:>8.4} {:>9.3} {:>9.3} {:>9.3}",
            row.k.0.to_string(),
            row.mean_latency_ms,
            row.rel_lat,
            row.mean_calls_m,
            row.mean_calls_t,
            row.mean_calls_s
        )?;
    }
    Ok(())
}

/// Plays every question at every k; returns their number, the total latency at k = 1, and the sums.
fn play(ks: &[K], count: u64, traces: impl Iterator<Item = Trace>) -> (u64, f64, Vec<Sums>) {
    let mut simulator = Simulator::new();
    let mut sums = vec![Sums::default(); ks.len()];
    let (mut questions, mut one) = (0, 0.0);
    let bar = progress(count);
    for trace in traces {
        let standard = simulator.run(&trace, Width::STANDARD);
        one += standard.latency_ms;
        for (k, sums) in ks.iter().zip(&mut sums) {
            let outcome = match k.0 {
                Width::STANDARD => standard,
                width => simulator.run(&trace, width),
            };
            sums.latency_ms += outcome.latency_ms;
            let calls = outcome.calls;
            for (sum, calls) in
                sums.calls
                    .iter_mut()
                    .zip([calls.segments, calls.targets, calls.speculations])
            {
                *sum += calls;
            }
        }
        questions += 1;
        if questions % PROGRESS_STEP == 0 {
            bar.set_position(questions);
        }
    }
    bar.finish_and_clear();
    (questions, one, sums)
}

fn progress(count: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len} questions, {per_sec}, {eta} left");
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl FromStr for K {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "inf" {
            return Ok(Self(Width::UNBOUNDED));
        }
        let k: NonZeroUsize = text
            .parse()
            .map_err(|_| "expected a number from 1, or inf")?;
        Ok(Self(Width::bounded(k)))
    }
}

impl Serialize for K {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.get() {
            Some(k) => serializer.serialize_u64(k.get() as u64),
            None => serializer.serialize_str("inf"),
        }
    }
}
