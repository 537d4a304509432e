//! `spechop config`: whether a configuration is right, and what is set where.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use spechop_config::{Config, Env, Source, Written, as_toml, example, reference};

use super::configured::{ConfigArgs, key_value};

/// The arguments of `spechop config`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find every mistake in a configuration at once.
    Check(Check),
    /// Show what every key is set to, and where.
    Show(Show),
}

/// Where a configuration is written.
#[derive(Debug, clap::Args)]
struct Place {
    /// The configuration file, in TOML [also SPECHOP_CONFIG]. Without one the defaults are meant.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Set any configuration key, e.g. `--set question.k=1`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = CHECK)]
struct Check {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = SHOW)]
struct Show {
    #[command(flatten)]
    place: Place,
    /// Print a file that gives the same configuration.
    #[arg(long, conflicts_with_all = ["keys", "example"])]
    toml: bool,
    /// Show the hashes of API keys, and names and passwords in addresses, too.
    #[arg(long, conflicts_with_all = ["keys", "example"])]
    secrets: bool,
    /// Print the reference of all keys instead: values, defaults, and what each key does.
    #[arg(long, conflicts_with = "example")]
    keys: bool,
    /// Print a file to begin with instead: every key with its default, as a comment.
    #[arg(long)]
    example: bool,
}

const CHECK: &str = "\
The configuration is read as `spechop serve` reads it: flags go before SPECHOP_ variables, and
variables go before the file. The models, indexes and files that it names must be there. Nothing is
opened, and no address is asked.
Each mistake is a line with its place, its key and what would be right. A key that is not known is a
mistake, and the nearest known one is named.
The exit code is 0 if the configuration is right, else 1.

Examples:
  spechop config check /etc/spechop/spechop.toml
  spechop config check --set question.k=5
  spechop config check new.toml && mv new.toml /etc/spechop/spechop.toml";

const SHOW: &str = "\
Each line is a key with its value. Behind it is where that was written: a line of the file, a
SPECHOP_ variable, a flag, or `default`. Values are shown as they are written, right or wrong.
Secrets are hidden: hashes of API keys, and names and passwords in addresses. The keys of endpoints
are never in a configuration, only the names of their variables.

Examples:
  spechop config show /etc/spechop/spechop.toml
  spechop config show --set question.k=auto | grep -vE '^#|# default'
  spechop config show old.toml --toml --secrets > same.toml
  spechop config show --example > spechop.toml";

impl Args {
    /// Whether the folders must be known: what is checked is what a server would start with.
    pub(super) fn needs_folders(&self) -> bool {
        matches!(self.command, Command::Check(_))
    }
}

impl Place {
    fn written(self, env: &Env) -> anyhow::Result<Written> {
        ConfigArgs::of(self.file, self.set).written(env)
    }
}

/// Checks or shows.
pub(crate) fn run(args: Args, env: &Env, mut out: impl Write) -> anyhow::Result<()> {
    let text = match args.command {
        Command::Check(check) => checked(check.place.written(env)?, env)?,
        Command::Show(show) if show.keys => reference(),
        Command::Show(show) if show.example => example(),
        Command::Show(show) => {
            let written = show.place.written(env)?;
            let settings = written.settings(env, show.secrets)?;
            match show.toml {
                true => as_toml(&settings),
                false => settings.iter().fold(String::new(), |mut text, setting| {
                    // Writing to a string does not fail.
                    let _ = writeln!(text, "{setting}");
                    text
                }),
            }
        }
    };
    Ok(out.write_all(text.as_bytes())?)
}

/// What is said of a configuration that is right.
///
/// # Errors
///
/// Every mistake in it, with its place.
fn checked(written: Written, env: &Env) -> anyhow::Result<String> {
    let lines = written.lines();
    let place = match &written.file {
        Some((path, _)) => path.display().to_string(),
        None => "the configuration".to_owned(),
    };
    let Err(invalid) = Config::read(written, env) else {
        return Ok(format!("{place} is right\n"));
    };
    let mut text = match invalid.0.len() {
        1 => format!("{place} has a mistake:"),
        mistakes => format!("{place} has {mistakes} mistakes:"),
    };
    for mistake in &invalid.0 {
        text += "\n  ";
        if let (Source::File(path), Some(line)) = (&mistake.source, lines.get(&mistake.key)) {
            text += &format!("{}:{line}: ", path.display());
        }
        text += &mistake.to_string();
    }
    anyhow::bail!(text)
}
