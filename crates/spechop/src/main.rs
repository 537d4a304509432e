//! `spechop`: the one binary. What a command does stands in `commands`.

mod commands;
mod models;

use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spechop_server::Env;

/// An index has two files open for each 65,536 passages, and a merge has all its parts open. Not simply
/// as many as the system lets be: programs that we start inherit it, and some go through all numbers.
const OPEN_FILES: u64 = 1 << 16;

fn main() -> ExitCode {
    // `--help` needs no environment.
    let cli = commands::Cli::parse();
    raise_open_files();
    let done = Env::read()
        .map_err(Into::into)
        .and_then(|env| cli.run(&env));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spechop: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The usual limit of 1,024 is soft: it is meant for programs that cannot cope with more.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(OPEN_FILES);
    let current = limit.current.map(|current| current.max(most));
    // If it is refused, whoever needs more files says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}
