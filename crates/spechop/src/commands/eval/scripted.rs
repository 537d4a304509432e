//! `spechop eval scripted`: the real server, over tools that wait and know everything.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use spechop_eval::{Script, scripted};

use super::record::{Latency, latency};
use super::stand_in::{self, StandIn};
use crate::commands::configured::key_value;
use crate::commands::share;

/// The arguments of `spechop eval scripted`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The address to listen on. Port 0 takes any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,
    /// How many look-ups a question takes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=32))]
    hops: u32,
    /// How long a look-up takes, log-normal, in milliseconds. `0`: no time.
    #[arg(long, value_name = "MEAN:SIGMA:SEED|0", value_parser = latency, default_value = "0")]
    look_up: Latency,
    /// How long a sub-question or the answer takes to be written, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    segment_ms: u64,
    /// How long a guess takes, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    guess_ms: u64,
    /// The share of guesses that are right, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0.6")]
    hit: f64,
    /// Which guesses are right.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Set a configuration key of the server, e.g. `--set server.questions_max=8`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

const HELP: &str = "\
Server, scheduler, window and verifier are the real ones. Generator, target and speculator wait for
as long as you say, and answer any question: the same question has the same answer, whatever k is.
So the time of a question beyond that of its tools is the engine's. The verifier is `exact`, and up
to 65536 questions and look-ups may be under way, unless --set says otherwise.

`spechop eval replay` does the same with the stages of real questions, recorded before.

Examples:
  # The latency of web search in the paper:
  spechop eval scripted --look-up 4150:1680:1
  # Nothing takes time: what is left is the engine.
  spechop eval scripted --listen 127.0.0.1:50061
  spechop eval load --addr 127.0.0.1:50061 --rate 1000 --connections 16";

/// Serves until a signal comes.
pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("this program has no path")?;
    let dir = program.parent().context("this program lies nowhere")?;
    let milliseconds = Duration::from_millis;
    let script = Script {
        hops: args.hops,
        hit: args.hit,
        segment: milliseconds(args.segment_ms),
        look_up: args.look_up.0,
        guess: milliseconds(args.guess_ms),
        seed: args.seed,
    };
    let stand_in = StandIn {
        command: "eval scripted",
        listen: args.listen,
        there: (dir, &program),
        keys: vec![
            ("question.verifier", "exact".to_owned()),
            ("question.hop_budget", "32".to_owned()),
            ("server.questions_max", "65536".to_owned()),
            ("scheduler.retriever.capacity", "65536".to_owned()),
            ("scheduler.retriever.speculative_max", "65536".to_owned()),
        ],
        set: &args.set,
    };
    let parts = scripted(script, &stand_in::SPECULATORS);
    stand_in::serve(stand_in.config()?, parts).await
}
