//! `spechop`: the one binary. What a command does stands in `commands`.

#[macro_use]
mod output;

mod bar;
mod commands;
mod input;
mod models;

use std::process::ExitCode;

use clap::Parser;
use spechop_config::Env;
use spechop_server::raise_open_files;

/// An index has two files open for each 65,536 passages, and a merge has all its parts open. The usual limit of
/// 1,024 is meant for programs that cannot cope with more. Not simply as many as the system lets be: programs that
/// we start inherit it, and some go through all numbers.
const OPEN_FILES: u64 = 1 << 16;

fn main() -> ExitCode {
    // `--help` needs no environment.
    let cli = commands::Cli::parse();
    let _ = raise_open_files(OPEN_FILES);
    let done = Env::read()
        .map_err(Into::into)
        .and_then(|env| cli.run(&env));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(&error),
    }
}
