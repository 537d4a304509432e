//! `spechop simulate`: the window on a virtual clock.

use std::io::{BufRead, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use serde::{Serialize, Serializer};
use spechop_sim::{
    Chances, Draw, InvalidTrace, Rules, Shape, Simulator, Trace, draft_chance, read_shapes,
    read_traces,
};
use spechop_theory::Setting;
use spechop_types::Chance;
use spechop_window::{Policy, Width};

use super::ahead::AheadArgs;
use crate::bar::bar;
use crate::input;

/// The arguments of `spechop simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, allow_negative_numbers = true)]
pub(crate) struct Args {
    /// A file of recorded questions, in JSON lines.
    #[arg(long, value_name = "FILE", conflicts_with_all = DRAWN)]
    hops: Option<PathBuf>,
    /// Drawn questions: the share of guesses that are right, 0 to 1.
    #[arg(long, value_name = "P", required_unless_present = "hops")]
    p: Option<f64>,
    /// Drawn questions: mean time of a guess divided by the mean time of a look-up.
    #[arg(long, value_name = "A", required_unless_present = "hops")]
    alpha: Option<f64>,
    /// Drawn questions: mean time of writing a sub-question divided by the mean time of a look-up.
    #[arg(long, value_name = "B", required_unless_present = "hops")]
    beta: Option<f64>,
    /// Drawn questions: coefficient of variation of all times.
    #[arg(long, value_name = "V", default_value_t = 0.0)]
    nu: f64,
    /// Drawn questions: the number of hops. Every hop depends on all hops before it.
    #[arg(long, value_name = "N", required_unless_present_any = ["hops", "shapes"])]
    hop_count: Option<usize>,
    /// Drawn questions: a file that says which hop depends on which, in JSON lines.
    #[arg(long, value_name = "FILE", conflicts_with = "hop_count")]
    shapes: Option<PathBuf>,
    /// Drawn questions: of the hops without a right best guess, the share that has no guess at all.
    #[arg(long, value_name = "Q", default_value_t = 0.0)]
    missing: f64,
    /// Drawn questions: the chance that a later guess is right if those before it are wrong.
    #[arg(long, value_name = "Q", default_value_t = 0.0)]
    later: f64,
    /// Drawn questions: how much the confidence of a guess says, from 0 (nothing) to 1 (everything).
    #[arg(long, value_name = "S")]
    sharpness: Option<f64>,
    /// Drawn questions: the number of questions.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    trials: u64,
    /// Drawn questions: the seed. The same seed draws the same questions.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The values of k to try: numbers, or `inf`.
    #[arg(
        long,
        value_name = "K,…",
        value_delimiter = ',',
        default_value = "1,2,3,inf"
    )]
    k: Vec<K>,
    #[command(flatten)]
    ahead: AheadArgs,
    /// Play the paper's algorithm to the letter: no salvage, a guess is asked for only while the
    /// window has room, and branches are built on guesses only.
    #[arg(long, conflicts_with_all = ["no_salvage", "plan_ahead", "guesses", "chance_min", "drafts"])]
    paper: bool,
    /// For comparison: refill the window only when every branch in it is settled.
    #[arg(long)]
    rounds: bool,
    /// Begin drafted look-ups while their sub-questions are still being written.
    #[arg(long)]
    drafts: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Plays questions with the window of the live service, on a virtual clock. RelLat is the mean latency
divided by the mean latency at k = 1. Aborted calls count as calls.

A recorded question is one line, times in milliseconds:
  {\"id\":\"q1\",\"hops\":[{\"segment_ms\":330,\"target_ms\":4150,\"speculation_ms\":180,\"accepted\":true}],\"final_ms\":300}
A hop may have further fields:
  \"guessed\":false    there was no guess
  \"right_guess\":2    which later guess was right
  \"depends_on\":[1]   the earlier hops that its sub-question is made of. Without it, the hop depends
                       on all of them, and nothing of a rolled-back branch can be salvaged
  \"draft_held\":true  its sub-question was drafted word for word, for --drafts. False: something else
                       was drafted. Without it, nothing was
  \"confidence\":0.8   the speculator's own estimate that the guess is right, for --chance-min.
                       Without it, a guess is as likely as the share of right guesses. A draft
                       always is as likely as the share of right drafts

The confidence of drawn guesses is calibrated: of the guesses that say 0.3, 30 % are right.
--sharpness is the share of the variance of right and wrong that the confidence explains. Without
it, guesses have no confidence.

A file of shapes has lines like this, with one list for each hop:
  {\"type\":\"comparison\",\"depends_on\":[[],[]],\"count\":189}

Examples:
  spechop simulate --hops recorded.jsonl --k 1,2,3,inf
  spechop simulate --p 0.68 --alpha 0.19 --beta 0.10 --nu 0.4 --hop-count 5 --trials 100000 --json
  spechop simulate --p 0.28 --alpha 0.03 --beta 0.10 --hop-count 6 --sharpness 0.4 --chance-min 0.15 --k 4";

/// What says how questions are drawn. Beside recorded ones it would mean nothing.
const DRAWN: [&str; 11] = [
    "p",
    "alpha",
    "beta",
    "nu",
    "hop_count",
    "shapes",
    "missing",
    "later",
    "sharpness",
    "trials",
    "seed",
];
/// Most hops of a drawn question.
const HOPS_MAX: usize = 10_000;
/// Most questions that are drawn.
const TRIALS_MAX: u64 = 1_000_000_000;
/// Largest coefficient of variation. Beyond it hardly any time differs from 0, and a few make up the mean.
const NU_MAX: f64 = 10.0;
/// Most branches of one question.
const BRANCHES_MAX: usize = 100_000;
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
    /// Mean look-ups of rolled-back branches that were taken over.
    mean_salvaged: f64,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    latency_ms: f64,
    calls: [u64; 3],
    salvaged: u64,
}

/// Simulates, and prints what came of it.
pub(crate) fn run(args: &Args, output: impl Write) -> anyhow::Result<()> {
    let said = match args.paper {
        true => Policy::PAPER,
        false => Policy::default().with(&args.ahead.options()),
    };
    let policy = Policy {
        continuous: !args.rounds,
        // A recorded hop has one draft at most.
        drafts_max: usize::from(args.drafts),
        ..said
    };
    let rules = |guess_chance: f64, draft_chance: Chance| -> Vec<Rules> {
        let rules = |k: &K| Rules {
            guess_chance: Chance::of(guess_chance),
            draft_chance,
            ..Rules::new(k.0, policy)
        };
        args.k.iter().map(rules).collect()
    };
    let (questions, one, sums) = match &args.hops {
        Some(path) => {
            let traces = read(path, read_traces)?;
            let hops = traces.iter().flat_map(|trace| &trace.hops);
            let drafts = draft_chance(hops.map(|hop| hop.draft_held));
            let rules = rules(share_of_right(&traces), drafts);
            let longest = traces.iter().map(|trace| trace.hops.len()).max();
            check_branches(&rules, longest.unwrap_or(0))?;
            play(&rules, traces.len() as u64, traces.into_iter())
        }
        None => {
            anyhow::ensure!(args.trials > 0, "--trials must be at least 1");
            anyhow::ensure!(
                args.trials <= TRIALS_MAX,
                "--trials must be at most {TRIALS_MAX}"
            );
            let (draw, guess_chance) = draw(args)?;
            let traces = draw.traces(args.seed, args.trials);
            // Of drawn questions nothing is drafted.
            let rules = rules(guess_chance, Chance::EVEN);
            check_branches(&rules, draw.hops_max())?;
            play(&rules, args.trials, traces)
        }
    };
    anyhow::ensure!(
        one.is_finite() && sums.iter().all(|sums| sums.latency_ms.is_finite()),
        "the times are too large to add up"
    );
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
        mean_salvaged: sums.salvaged as f64 / n,
    };
    let answer = Answer {
        questions,
        results: args.k.iter().zip(&sums).map(row).collect(),
    };
    Ok(print(&answer, args.json, output)?)
}

/// How many of the recorded best guesses are right.
fn share_of_right(traces: &[Trace]) -> f64 {
    let guessed = || {
        traces
            .iter()
            .flat_map(|trace| &trace.hops)
            .filter(|hop| hop.guessed)
    };
    let right = guessed().filter(|hop| hop.accepted).count();
    right as f64 / guessed().count().max(1) as f64
}

/// Several guesses of each hop make a tree of branches. Only k bounds it.
fn check_branches(rules: &[Rules], hops: usize) -> anyhow::Result<()> {
    let hops_max = u32::try_from(hops).unwrap_or(u32::MAX);
    for rules in rules.iter().filter(|rules| rules.width.get().is_none()) {
        let guesses = rules.policy.guesses_max.get();
        anyhow::ensure!(
            guesses.saturating_pow(hops_max) <= BRANCHES_MAX,
            "--guesses {guesses} on {hops} hops is more than {BRANCHES_MAX} branches at k = inf: give --k numbers"
        );
    }
    Ok(())
}

/// Where drawn questions come from, and how many of their best guesses are right.
fn draw(args: &Args) -> anyhow::Result<(Draw, f64)> {
    let [p, alpha, beta] = [args.p, args.alpha, args.beta].map(Option::unwrap_or_default);
    // It says which of them makes no sense.
    Setting::new(p, alpha, beta, args.nu)?;
    anyhow::ensure!(args.nu <= NU_MAX, "--nu must be at most {NU_MAX}");
    let sharpness = args.sharpness.unwrap_or_default();
    for (flag, share) in [
        ("--missing", args.missing),
        ("--later", args.later),
        ("--sharpness", sharpness),
    ] {
        let is_share = (0.0..=1.0).contains(&share);
        anyhow::ensure!(is_share, "{flag} must lie between 0 and 1, not {share}");
    }
    let shapes = match &args.shapes {
        Some(path) => read(path, read_shapes)?,
        None => {
            let hop_count = args.hop_count.unwrap_or_default();
            anyhow::ensure!(
                hop_count <= HOPS_MAX,
                "--hop-count must be at most {HOPS_MAX}"
            );
            vec![Shape::chain(hop_count)]
        }
    };
    let chances = Chances {
        p,
        alpha,
        beta,
        nu: args.nu,
        missing: args.missing,
        later: args.later,
        sharpness: args.sharpness,
    };
    let draw = Draw::new(chances, &shapes).context(
        "alpha, beta, nu or the counts of the shapes are too large or too small to draw from",
    )?;
    Ok((draw, chances.guess_chance()))
}

/// Reads a whole file, or says which line of it is wrong.
fn read<T>(
    path: &Path,
    lines: impl FnOnce(Box<dyn BufRead>) -> Result<T, InvalidTrace>,
) -> anyhow::Result<T> {
    lines(input::open(path)?)
        .map_err(in_one_line)
        .with_context(|| format!("in {}", path.display()))
}

fn print(answer: &Answer, json: bool, mut output: impl Write) -> std::io::Result<()> {
    if json {
        serde_json::to_writer(&mut output, answer)?;
        return writeln!(output);
    }
    writeln!(output, "{} questions", answer.questions)?;
    writeln!(
        output,
        "{:>5} {:>14} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "k", "mean latency", "RelLat", "calls M", "calls T", "calls S", "salvaged"
    )?;
    for row in &answer.results {
        writeln!(
            output,
            "{:>5} {:>11.1} ms {:>8.4} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
            row.k.0.to_string(),
            row.mean_latency_ms,
            row.rel_lat,
            row.mean_calls_m,
            row.mean_calls_t,
            row.mean_calls_s,
            row.mean_salvaged
        )?;
    }
    Ok(())
}

/// What is wrong with a file, in one line whatever stands in the file: control characters are escaped.
/// The parser's `line 1` is the line that is named already.
fn in_one_line(error: InvalidTrace) -> anyhow::Error {
    let text = format!("{:#}", anyhow::Error::new(error));
    let text = text.replace(" at line 1 column ", " at column ");
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    anyhow::Error::msg(line)
}

/// Plays every question by all rules; returns their number, the total latency at k = 1, and the sums.
fn play(rules: &[Rules], count: u64, traces: impl Iterator<Item = Trace>) -> (u64, f64, Vec<Sums>) {
    let mut simulator = Simulator::new();
    let mut sums = vec![Sums::default(); rules.len()];
    let (mut questions, mut one) = (0, 0.0);
    let bar = bar(
        count,
        "{bar:40} {pos}/{len} questions, {per_sec}, {eta} left",
    );
    for trace in traces {
        let standard = simulator.run(&trace, Rules::paper(Width::STANDARD));
        one += standard.latency_ms;
        for (rules, sums) in rules.iter().zip(&mut sums) {
            let outcome = match rules.width {
                Width::STANDARD => standard,
                _ => simulator.run(&trace, *rules),
            };
            sums.salvaged += outcome.salvaged;
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
