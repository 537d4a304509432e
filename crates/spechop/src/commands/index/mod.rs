//! `spechop index`: passage indexes.

mod build;
mod change;
mod display;
pub(super) mod encoder;
mod hot;
mod info;
mod merge;
mod push;
mod search;

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use spechop_config::Env;

use crate::output::stdout;

/// The arguments of `spechop index`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build an index from a corpus, or resume a build that was interrupted.
    Build(build::Args),
    /// Say what an index was made of.
    Info(info::Args),
    /// Show the passages that are nearest to a query.
    Search(search::Args),
    /// Add passages of a corpus to an index.
    Add(change::AddArgs),
    /// Remove passages from an index.
    Remove(change::RemoveArgs),
    /// Join the parts of an index that were built one by one.
    Merge(merge::Args),
    /// Choose the hot subset of an index anew, by links or by what answers came from.
    Hot(hot::Args),
    /// Fill a collection of Qdrant from an index, or resume a push that was interrupted.
    Push(push::Args),
    /// Read every byte of an index and check that it is complete and undamaged.
    #[command(alias = "check")]
    Verify(info::Args),
}

impl Args {
    /// Whether it needs the data folder: for a model, or for the index that a server has without being told.
    pub(super) fn needs_folders(&self) -> bool {
        match &self.command {
            Command::Build(args) => args.needs_folders(),
            Command::Search(args) => args.needs_folders(),
            Command::Add(args) => args.needs_folders(),
            Command::Push(args) => args.needs_folders(),
            Command::Info(_)
            | Command::Remove(_)
            | Command::Merge(_)
            | Command::Hot(_)
            | Command::Verify(_) => false,
        }
    }
}

/// Runs the command; models are looked for under `data_dir`.
pub(crate) fn run(args: Args, data_dir: &Path, env: &Env) -> anyhow::Result<()> {
    match args.command {
        Command::Build(args) => build::run(args, env),
        Command::Info(args) => info::info(&args),
        Command::Search(args) => search::run(args, env),
        Command::Add(args) => change::add(args, env),
        Command::Remove(args) => change::take(&args),
        Command::Merge(args) => merge::run(args),
        Command::Hot(args) => hot::run(args),
        Command::Push(args) => push::run(&args, data_dir, env),
        Command::Verify(args) => info::verify(&args),
    }
}

fn hot_rows(rows: Option<usize>) -> String {
    rows.map_or_else(String::new, |rows| format!(" ({rows} hot)"))
}

/// The JSON for programs, or the sentence for people, as one line on stdout.
fn say(json: bool, value: &impl Serialize, sentence: &str) -> anyhow::Result<()> {
    let line = if json {
        serde_json::to_string(value)?
    } else {
        sentence.to_owned()
    };
    writeln!(stdout(), "{line}")?;
    Ok(())
}
