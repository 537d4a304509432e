//! The commands of `spechop`: one module parses and carries out each of them.

mod ahead;
mod ask;
mod clean;
mod config;
mod configured;
mod eval;
mod index;
mod keys;
mod mcp;
mod models;
mod patterns;
mod reach;
mod serve;
mod simulate;
mod theory;
mod tune;
mod tuning;
mod verify;

use std::io::Write;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::Context;
use clap::builder::TypedValueParser;
use clap::{Parser, Subcommand, ValueEnum};
use spechop_config::Env;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::input;
use crate::output::{has_colours, stdout};

/// Answers questions that take several look-ups, and runs ahead of slow look-ups by guessing.
#[derive(Debug, Parser)]
#[command(name = "spechop", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log level on stderr: error, warn, info, debug, trace, or levels by module
    /// [default: info for `serve`, warn for the others; also SPECHOP_LOG].
    #[arg(long, global = true, value_name = "FILTER", value_parser = filter, help_heading = LOG_HEADING)]
    log: Option<String>,
    /// Log format [default: text; also SPECHOP_LOG_FORMAT].
    #[arg(long, global = true, value_enum, value_name = "FORMAT", help_heading = LOG_HEADING)]
    log_format: Option<LogFormat>,
}

/// How long the end of a server waits for work that cannot be cancelled.
const LAST_WORK: Duration = Duration::from_secs(60);

/// The heading of the log's flags in every help text.
const LOG_HEADING: &str = "Log";

const EXAMPLES: &str = "\
First steps:
  spechop models pull default
  spechop index build --corpus FOLDER
  spechop serve
  spechop ask --watch \"Who is the mother of the director of film Polish-Russian War?\"

FOLDER holds .txt, .md or .html files. While `spechop serve` runs, ask a question that they answer.
Over such an index nobody guesses; the index guesses if look-ups go elsewhere (target.kind).

`spechop COMMAND --help` explains a command.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer questions: over gRPC, HTTP, OpenAI's protocol and MCP, and on a web page.
    Serve(serve::Args),
    /// Ask a running server a question.
    Ask(ask::Args),
    /// Check a configuration, and show what is set where.
    Config(config::Args),
    /// Measure: record, simulate, replay and ask data sets, and report the results.
    Eval(eval::Args),
    /// Build passage indexes.
    Index(index::Args),
    /// Make API keys.
    Keys(keys::Args),
    /// Offer a running server to clients of MCP that start a program (Claude, Cursor, VS Code, …).
    Mcp(mcp::Args),
    /// Download and list models.
    Models(models::Args),
    /// Mine, show and check the patterns by which sub-questions are drafted ahead of the planner.
    Patterns(patterns::Args),
    /// Simulate recorded or drawn questions: the same window on a virtual clock.
    Simulate(simulate::Args),
    /// Compute what speculation can gain, in closed form.
    Theory(theory::Args),
    /// Say which settings suit a running server, with a plot, reasons and doubts.
    Tune(tune::Args),
    /// Show what a running server has learnt of its tools, and what another k would have done.
    Tuning(tuning::Args),
    /// Run the verifier alone: reads `{"observed":"…","guess":"…"}` lines and prints
    /// `{"accepted":…,"rule":"…","coverage":…,"jaccard":…}` lines.
    Verify(verify::VerifyArgs),
    /// Print the data folder, which holds models and indexes: SPECHOP_DATA_DIR, else
    /// $XDG_DATA_HOME/spechop, else ~/.local/share/spechop.
    DataDir,
}

impl Command {
    /// Whether it reads or writes the data folder, as far as that can be told of the command alone.
    fn needs_folders(&self) -> bool {
        match self {
            Self::Serve(_) | Self::Models(_) | Self::DataDir => true,
            Self::Config(args) => args.needs_folders(),
            Self::Index(args) => args.needs_folders(),
            Self::Eval(args) => args.computes(),
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// Lines for people to read.
    Text,
    /// One JSON object a line.
    Json,
}

impl Cli {
    /// Runs the command that was written.
    pub(crate) fn run(self, env: &Env) -> anyhow::Result<()> {
        self.start_log(env)?;
        if self.command.needs_folders() {
            env.check_folders()?;
        }
        match self.command {
            Command::Serve(args) => {
                serve::wait_passively(env);
                let runtime = runtime()?;
                let result = runtime.block_on(serve::run(args, env));
                // A process that ends under models which are being opened crashes.
                runtime.shutdown_timeout(LAST_WORK);
                result
            }
            Command::Ask(args) => runtime()?.block_on(ask::run(args, env)),
            Command::Config(args) => config::run(args, env, stdout()),
            Command::Eval(args) => {
                if args.computes() {
                    serve::wait_passively(env);
                }
                runtime()?.block_on(eval::run(args, env))
            }
            Command::Index(args) => index::run(args, &env.data_dir(), env),
            Command::Keys(args) => keys::run(&args, stdout()),
            Command::Mcp(args) => {
                let runtime = runtime()?;
                let result = runtime.block_on(mcp::run(args, env));
                // A thread may still wait for input that never comes.
                runtime.shutdown_background();
                result
            }
            Command::Models(args) => models::run(args, &env.data_dir()),
            Command::Patterns(args) => patterns::run(&args, stdout()),
            Command::Simulate(args) => simulate::run(&args, stdout()),
            Command::Theory(args) => theory::run(&args, stdout()),
            Command::Tune(args) => runtime()?.block_on(tune::run(args, env)),
            Command::Tuning(args) => runtime()?.block_on(tuning::run(args, env)),
            Command::Verify(args) => verify::run(&args, input::stdin()?, stdout()),
            Command::DataDir => Ok(writeln!(stdout(), "{}", env.data_dir().display())?),
        }
    }

    fn start_log(&self, env: &Env) -> anyhow::Result<()> {
        let default = match self.command {
            // What a library says about each message of its protocol is of no use to operators, and a client that
            // takes a call back is no error.
            Command::Serve(_) => "info,llama-cpp-2=warn,rmcp=warn,rmcp::service=off",
            // The bridge says itself why a connection ended.
            Command::Mcp(_) => "warn,rmcp=off",
            _ => "warn",
        };
        let filter = self
            .log
            .as_deref()
            .or(env.get("SPECHOP_LOG"))
            .unwrap_or(default);
        let filter = log_filter(filter).map_err(anyhow::Error::msg)?;
        let format = match (self.log_format, env.get("SPECHOP_LOG_FORMAT")) {
            (Some(format), _) => format,
            (None, Some(name)) => LogFormat::from_str(name, true).map_err(|_| {
                anyhow::anyhow!("SPECHOP_LOG_FORMAT must be text or json, not `{name}`")
            })?,
            (None, None) => LogFormat::Text,
        };
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(has_colours(env))
            // It would tell of a stderr that cannot be written to by writing to it, and panic.
            .log_internal_errors(false);
        match format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
        Ok(())
    }
}

/// Reads a log filter. A single word that is no level would be taken for the name of a module, and the log would be
/// silent about everything else, errors too.
fn log_filter(text: &str) -> Result<EnvFilter, String> {
    let is_level = text.parse::<LevelFilter>().is_ok();
    if !(is_level || text.contains(['=', ',', '['])) {
        return Err(format!(
            "`{text}` is no log level: say error, warn, info, debug or trace, or levels by module as in \
             info,spechop_mcp=debug"
        ));
    }
    // Its source says the same again.
    EnvFilter::try_new(text).map_err(|error| format!("`{text}` is no log filter: {error}"))
}

/// A log filter as it is written, if it can be read. A filter itself cannot be cloned, as what a parser returns must.
fn filter(text: &str) -> Result<String, String> {
    log_filter(text).map(|_| text.to_owned())
}

/// Reads a whole number from 1 to `most`.
fn from_one_to(most: u16) -> impl TypedValueParser<Value = NonZeroUsize> {
    let number = clap::value_parser!(u16).range(1..=i64::from(most));
    number.try_map(|number| NonZeroUsize::try_from(usize::from(number)))
}

/// Reads a whole number from 1.
fn from_one(text: &str) -> Result<NonZeroUsize, String> {
    let wrong = |_| "expected a whole number, at least 1".to_owned();
    text.parse().map_err(wrong)
}

/// Reads a share, from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}

#[cfg(test)]
mod named_commands;
