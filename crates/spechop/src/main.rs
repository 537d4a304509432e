//! `spechop`: the one binary. What a command does stands in `commands`.

mod commands;
mod models;

use std::process::ExitCode;

use clap::Parser;
use spechop_server::Env;

fn main() -> ExitCode {
    // `--help` needs no environment.
    let cli = commands::Cli::parse();
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
