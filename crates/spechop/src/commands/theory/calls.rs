//! `spechop theory calls|engine`: what speculative tool calls can gain, in closed form.

use std::io::Write;

use serde::Serialize;
use spechop_theory::{Calls, Engine, Turn};

use super::check_finite;

/// The arguments of `spechop theory calls`.
#[derive(Debug, clap::Args)]
#[command(after_help = CALLS_HELP, allow_negative_numbers = true)]
pub(crate) struct CallsArgs {
    /// Mean seconds in which the model writes a call (G).
    #[arg(long, value_name = "G")]
    generation: f64,
    /// Mean seconds in which the speculator writes it (g).
    #[arg(long, value_name = "g")]
    guess: f64,
    /// Mean seconds of the tool (T).
    #[arg(long, value_name = "T")]
    tool: f64,
    /// The share of calls that the speculator gets right, 0 to 1.
    #[arg(long, value_name = "A")]
    acceptance: f64,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

const CALLS_HELP: &str = "\
The times of one request that ends in a tool call (equations 1 to 3 and lemma 1 of arXiv 2512.15834).
The call is guessed while the model writes it, so its tool runs ahead. Wrong guesses are taken to cost
nothing.
The maximum is the speed-up if every guess is right; the bound is always below 2.

Example, a drafter that is right on 80 % and takes no time to speak of:
  spechop theory calls --generation 0.25 --guess 0.00001 --tool 0.1 --acceptance 0.8";

/// The arguments of `spechop theory engine`.
#[derive(Debug, clap::Args)]
#[command(after_help = ENGINE_HELP, allow_negative_numbers = true)]
pub(crate) struct EngineArgs {
    /// How many turns, each with one call (K).
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,
    /// Seconds of a request until it is in a batch (o).
    #[arg(long, value_name = "O")]
    overhead: f64,
    /// Seconds to read a token (phi).
    #[arg(long, value_name = "PHI")]
    prefill: f64,
    /// Seconds to write a token (delta).
    #[arg(long, value_name = "DELTA")]
    decode: f64,
    /// Tokens of the first prompt (X1).
    #[arg(long, value_name = "X")]
    prompt: f64,
    /// Tokens of reasoning in a turn (R).
    #[arg(long, value_name = "R")]
    reasoning: f64,
    /// Tokens of a call.
    #[arg(long, value_name = "T")]
    call: f64,
    /// Tokens of a tool's output.
    #[arg(long, value_name = "T")]
    output: f64,
    /// Seconds of a tool.
    #[arg(long, value_name = "T")]
    tool: f64,
    /// The share of calls that the speculator gets right, 0 to 1.
    #[arg(long, value_name = "A")]
    acceptance: f64,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

const ENGINE_HELP: &str = "\
The seconds of K equal turns in an inference engine (equations 4 to 6 of arXiv 2512.15834): if each turn
reads its whole prompt again, if the engine remembers the prompt's beginning, and if it also holds the
outputs of guessed calls.

Example:
  spechop theory engine --turns 2 --overhead 0.1 --prefill 0.001 --decode 0.01 --prompt 1000 \\
    --reasoning 200 --call 50 --output 500 --tool 1 --acceptance 0.5";

#[derive(Serialize)]
struct CallsAnswer {
    standard_s: f64,
    speculative_s: f64,
    speed_up: f64,
    speed_up_max: f64,
    speed_up_bound: f64,
}

#[derive(Serialize)]
struct EngineAnswer {
    vanilla_s: f64,
    cached_s: f64,
    speculative_s: f64,
}

/// `spechop theory calls`.
pub(crate) fn calls(args: &CallsArgs, output: impl Write) -> anyhow::Result<()> {
    let calls = Calls::new(args.generation, args.guess, args.tool, args.acceptance)?;
    let answer = CallsAnswer {
        standard_s: calls.standard(),
        speculative_s: calls.speculative(),
        speed_up: calls.speed_up(),
        speed_up_max: calls.speed_up_max(),
        speed_up_bound: calls.speed_up_bound(),
    };
    check_finite([
        answer.standard_s,
        answer.speculative_s,
        answer.speed_up,
        answer.speed_up_max,
        answer.speed_up_bound,
    ])?;
    let table = format!(
        "standard     {:.3} s\nspeculative  {:.3} s\nspeed-up     {:.4}  (maximum {:.4}, bound {:.4})\n",
        answer.standard_s,
        answer.speculative_s,
        answer.speed_up,
        answer.speed_up_max,
        answer.speed_up_bound
    );
    print(args.json, &answer, &table, output)
}

/// `spechop theory engine`.
pub(crate) fn engine(args: &EngineArgs, output: impl Write) -> anyhow::Result<()> {
    let turn = Turn {
        reasoning: args.reasoning,
        call: args.call,
        output: args.output,
        tool: args.tool,
    };
    let engine = Engine::new(
        args.overhead,
        args.prefill,
        args.decode,
        args.prompt,
        vec![turn; usize::from(args.turns)],
    )?;
    let answer = EngineAnswer {
        vanilla_s: engine.vanilla(),
        cached_s: engine.cached(),
        speculative_s: engine.speculative(args.acceptance)?,
    };
    check_finite([answer.vanilla_s, answer.cached_s, answer.speculative_s])?;
    let table = format!(
        "vanilla      {:.3} s\ncached       {:.3} s\nspeculative  {:.3} s\n",
        answer.vanilla_s, answer.cached_s, answer.speculative_s
    );
    print(args.json, &answer, &table, output)
}

fn print(
    json: bool,
    answer: &impl Serialize,
    table: &str,
    mut output: impl Write,
) -> anyhow::Result<()> {
    let text = match json {
        true => serde_json::to_string(answer)? + "\n",
        false => table.to_owned(),
    };
    Ok(output.write_all(text.as_bytes())?)
}
