//! `spechop eval`: runs over data sets, and what is made of them.

mod live;
mod questions;

/// What is written after `spechop eval`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Ask a running server the same questions in several ways, and keep every answer.
    Live(live::Args),
}

/// Does what was written.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Live(args) => live::run(args).await,
    }
}
