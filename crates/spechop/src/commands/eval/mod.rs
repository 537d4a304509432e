//! `spechop eval`: runs over data sets, and reports of them.

mod asked;
mod brought;
mod choose;
mod decisions;
mod fit_words;
mod live;
mod load;
mod means;
mod parts;
mod questions;
mod record;
mod replay;
mod report;
mod retrieval;
mod scripted;
mod simulate;
mod stand_in;
mod steps;
mod variants;
mod web;

use std::path::PathBuf;

use anyhow::Context;
use spechop_config::Env;
use spechop_eval::Run;

use crate::output::stdout;

/// The arguments of `spechop eval`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run every stage that some questions need, once, and keep the results.
    Record(record::Args),
    /// Write what was asked at each hop of a bundle, for a speculator or a verifier of your own.
    Questions(asked::Args),
    /// Simulate recorded questions in several ways on a virtual clock.
    Simulate(simulate::Args),
    /// Compare the choice of each hop with every fixed setting, on recorded questions.
    Choose(choose::Args),
    /// Ask a running server the same questions in several ways, and keep every answer.
    Live(live::Args),
    /// Send questions to a running server at a given rate, and say how long they take.
    Load(Box<load::Args>),
    /// Serve recorded stages: the real server over tools that wait instead of computing.
    Replay(replay::Args),
    /// Serve scripted tools of given latencies, to measure the engine alone.
    Scripted(scripted::Args),
    /// Make a page with tables and figures of runs.
    Report(report::Args),
    /// Compare the verifiers on the guesses of runs, and draw some for a person to label.
    Decisions(decisions::Args),
    /// Find how much words should count beside vectors when an index is searched.
    FitWords(fit_words::Args),
    /// Measure how well retrievers find the gold passages of questions and of their hops.
    Retrieval(retrieval::Args),
    /// Serve a local web: a search engine and pages made of a corpus, as slow as the real one.
    Web(web::Args),
}

impl Args {
    /// Whether models will compute in this process.
    pub(super) fn computes(&self) -> bool {
        matches!(
            self.command,
            Command::Record(_) | Command::FitWords(_) | Command::Retrieval(_)
        )
    }
}

/// Does what was written.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    match args.command {
        Command::Record(args) => record::run(args, env).await,
        Command::Questions(args) => asked::run(&args, stdout()),
        Command::Simulate(args) => simulate::run(&args, env, stdout()),
        Command::Choose(args) => choose::run(&args, stdout()),
        Command::Live(args) => live::run(&args, env).await,
        Command::Load(args) => Box::pin(load::run(*args, env)).await,
        Command::Scripted(args) => Box::pin(scripted::run(args)).await,
        Command::Replay(args) => Box::pin(replay::run(args)).await,
        Command::Report(args) => report::run(&args, stdout()),
        Command::Decisions(args) => decisions::run(&args, stdout()),
        Command::FitWords(args) => fit_words::run(args, env).await,
        Command::Retrieval(args) => retrieval::run(args, env).await,
        Command::Web(args) => web::run(args).await,
    }
}

/// Reads the runs in these folders.
fn runs(folders: &[PathBuf]) -> anyhow::Result<Vec<Run>> {
    let read = |folder: &PathBuf| {
        let run = Run::read(folder);
        run.with_context(|| format!("cannot read the run in {}", folder.display()))
    };
    folders.iter().map(read).collect()
}

/// This command, as it can be written again: elsewhere the data folder is another one.
fn command(env: &Env) -> String {
    // A path need not be UTF-8.
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let text = spechop_eval::command(["spechop".to_owned()].into_iter().chain(words));
    elsewhere(&text, &env.data_dir().to_string_lossy())
}

/// The command with `$SPECHOP_DATA_DIR` in place of that folder, if it is a whole path or the beginning of one:
/// `eval/datasets` holds the letters of `/data`, too.
fn elsewhere(command: &str, data_dir: &str) -> String {
    let data_dir = data_dir.trim_end_matches('/');
    if data_dir.is_empty() {
        return command.to_owned();
    }
    let (mut text, mut done) = (String::new(), 0);
    for (at, found) in command.match_indices(data_dir) {
        let (before, behind) = (&command[..at], &command[at + found.len()..]);
        let begins = before.is_empty() || before.ends_with(|c: char| " =,:'".contains(c));
        let ends = behind.is_empty() || behind.starts_with(|c: char| "/ ,:'".contains(c));
        if begins && ends {
            text += &command[done..at];
            text += "$SPECHOP_DATA_DIR";
            done = at + found.len();
        }
    }
    text + &command[done..]
}

#[cfg(test)]
mod tests {
    use super::elsewhere;

    #[test]
    fn the_data_folder_is_named_only_if_it_is_meant() {
        for (command, data_dir, expected) in [
            (
                "spechop eval record --set index.dir=/data/x --out /data",
                "/data",
                "spechop eval record --set index.dir=$SPECHOP_DATA_DIR/x --out $SPECHOP_DATA_DIR",
            ),
            (
                "spechop eval record --questions eval/datasets/q.jsonl",
                "/data",
                "spechop eval record --questions eval/datasets/q.jsonl",
            ),
            (
                "spechop eval live --dataset 2wiki --out data/live",
                "data/",
                "spechop eval live --dataset 2wiki --out $SPECHOP_DATA_DIR/live",
            ),
            (
                "spechop eval record --config '/my data/spechop.toml'",
                "/my data",
                "spechop eval record --config '$SPECHOP_DATA_DIR/spechop.toml'",
            ),
            (
                "spechop eval load --addr 127.0.0.1:50061",
                ".",
                "spechop eval load --addr 127.0.0.1:50061",
            ),
            ("spechop eval web /runs", "/", "spechop eval web /runs"),
        ] {
            assert_eq!(elsewhere(command, data_dir), expected, "{data_dir}");
        }
    }
}
