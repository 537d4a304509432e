//! `spechop`: the one binary. What a command does stands in `commands`.

mod commands;
mod models;

use std::process::ExitCode;

use clap::Parser;
use spechop_server::Env;

fn main() -> ExitCode {
    let env = Env::read();
    match commands::Cli::parse().run(&env) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spechop: {error:#}");
            ExitCode::FAILURE
        }
    }
}
