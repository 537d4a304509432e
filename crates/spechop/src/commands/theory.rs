//! `spechop theory`: what speculation can gain in a setting, in closed form.

mod calls;
mod table;

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;

use serde::Serialize;
use spechop_theory::{Setting, k_deterministic, k_epsilon, k_epsilon_closed};

/// The arguments of `spechop theory`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = HELP,
    allow_negative_numbers = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    of: Option<Of>,
    #[command(flatten)]
    hops: Option<HopArgs>,
    /// Print all rows of the paper's Tables 1 and 3 beside what formulas and simulator say of them.
    #[arg(long, exclusive = true)]
    table: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Of {
    /// One request whose tool call is guessed while the model writes it.
    Calls(calls::CallsArgs),
    /// The turns of an agent in an inference engine that holds the outputs of guessed calls.
    Engine(calls::EngineArgs),
}

#[derive(Debug, clap::Args)]
struct HopArgs {
    /// The share of guesses that are right, 0 to 1.
    #[arg(long, value_name = "P")]
    p: f64,
    /// Mean time of a guess divided by the mean time of a look-up.
    #[arg(long, value_name = "A")]
    alpha: f64,
    /// Mean time of writing a sub-question divided by the mean time of a look-up.
    #[arg(long, value_name = "B")]
    beta: f64,
    /// The largest coefficient of variation of these times.
    #[arg(long, value_name = "V", default_value_t = 0.4)]
    nu: f64,
    /// The accepted probability that a full window waits.
    #[arg(long, value_name = "E", default_value_t = 0.05)]
    epsilon: f64,
    /// The values of k to compute.
    #[arg(
        long,
        value_name = "K,…",
        value_delimiter = ',',
        value_parser = width,
        default_value = "1,2,3,4,6,8"
    )]
    k: Vec<NonZeroUsize>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
RelLat is the latency divided by the latency at k = 1 (after SpecHop, arXiv 2605.21965).
RelLat* is the RelLat of an unbounded window (corollary 1).
\"rounds\" is the RelLat of a window that is refilled once all its hops are settled (corollary 3).
\"continuous\" is that of a window that is refilled at every commit, as the server's is. This formula is
ours; the paper has none for a finite k.
P(waits) is the approximate probability that a full window waits (theorem 4).
k det is the smallest k whose window never waits if the times do not vary.
k eps is the smallest k for which P(waits) is at most epsilon; the paper's closed form (corollary 5) is
sometimes one less.

Example, web search with a fast local speculator:
  spechop theory --p 0.68 --alpha 0.19 --beta 0.10";

#[derive(Serialize)]
struct Answer {
    rel_lat_oracle: f64,
    rel_lat_k: BTreeMap<NonZeroUsize, f64>,
    rel_lat_continuous_k: BTreeMap<NonZeroUsize, f64>,
    k_deterministic: NonZeroUsize,
    k_epsilon: NonZeroUsize,
    k_epsilon_closed: NonZeroUsize,
    p_starve: BTreeMap<NonZeroUsize, f64>,
}

/// Works everything out, and prints it.
pub(crate) fn run(args: &Args, output: impl Write) -> anyhow::Result<()> {
    if args.table {
        return table::published(output);
    }
    match (&args.of, &args.hops) {
        (Some(Of::Calls(args)), _) => calls::calls(args, output),
        (Some(Of::Engine(args)), _) => calls::engine(args, output),
        (None, Some(args)) => hops(args, output),
        // The parser has asked for them.
        (None, None) => anyhow::bail!("give --p, --alpha and --beta"),
    }
}

fn hops(args: &HopArgs, output: impl Write) -> anyhow::Result<()> {
    let setting = Setting::new(args.p, args.alpha, args.beta, args.nu)?;
    let of_each_k =
        |f: fn(Setting, NonZeroUsize) -> f64| args.k.iter().map(|k| (*k, f(setting, *k))).collect();
    let answer = Answer {
        rel_lat_oracle: setting.rel_lat_oracle(),
        rel_lat_k: of_each_k(Setting::rel_lat_k),
        rel_lat_continuous_k: of_each_k(Setting::rel_lat_continuous),
        k_deterministic: k_deterministic(setting)?,
        k_epsilon: k_epsilon(setting, args.epsilon)?,
        k_epsilon_closed: k_epsilon_closed(setting, args.epsilon)?,
        p_starve: of_each_k(Setting::p_starve),
    };
    let of_ks = [
        &answer.rel_lat_k,
        &answer.rel_lat_continuous_k,
        &answer.p_starve,
    ];
    let of_ks = of_ks.into_iter().flat_map(BTreeMap::values).copied();
    check_finite(of_ks.chain([answer.rel_lat_oracle]))?;
    Ok(print(&answer, args, output)?)
}

/// What is no number any more is refused: JSON knows no word for it, and would say `null`.
fn check_finite(numbers: impl IntoIterator<Item = f64>) -> anyhow::Result<()> {
    let are_finite = numbers.into_iter().all(f64::is_finite);
    anyhow::ensure!(are_finite, "the times are too large to add up");
    Ok(())
}

fn print(answer: &Answer, args: &HopArgs, mut output: impl Write) -> std::io::Result<()> {
    if args.json {
        serde_json::to_writer(&mut output, answer)?;
        return writeln!(output);
    }
    writeln!(output, "RelLat*  {:.3}", answer.rel_lat_oracle)?;
    writeln!(output, "k det    {}", answer.k_deterministic)?;
    writeln!(
        output,
        "k eps    {}  (epsilon {}; closed form {})",
        answer.k_epsilon, args.epsilon, answer.k_epsilon_closed
    )?;
    writeln!(
        output,
        "\n{:>4} {:>8} {:>11} {:>9}",
        "k", "rounds", "continuous", "P(waits)"
    )?;
    for (k, rounds) in &answer.rel_lat_k {
        let (continuous, waits) = (answer.rel_lat_continuous_k[k], answer.p_starve[k]);
        writeln!(
            output,
            "{k:>4} {rounds:>8.3} {continuous:>11.3} {waits:>9.4}"
        )?;
    }
    Ok(())
}

fn width(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "expected a number from 1")
}
