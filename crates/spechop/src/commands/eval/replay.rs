//! `spechop eval replay`: the real server, over tools that wait and do not compute.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::ensure;
use spechop_config::Config;
use spechop_eval::{Bundle, Injected, replay};

use super::record::{Latency, latency};
use super::stand_in::{self, StandIn};
use crate::commands::configured::key_value;

/// The arguments of `spechop eval replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The folder of the bundle that `spechop eval record` made.
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    /// The address to listen on. Port 0 takes any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,
    /// The latency that is added to every look-up. `0` adds none.
    #[arg(long, value_name = "MEAN:SIGMA:SEED|0", value_parser = latency, default_value = "0")]
    inject: Latency,
    /// How many times faster than recorded every stage is.
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    speed: f64,
    /// Set a configuration key of the server, e.g. `--set server.questions_max=8`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

const HELP: &str = "\
Serves a bundle over gRPC. Server, scheduler and agent are the real ones. Each tool waits for its
recorded time and returns its recorded result. A question that was not recorded fails. If a
speculative stage was not recorded, the server says so when it ends, and exits with an error.
`spechop eval live` against it, with the same --speed, shows what the service adds to the simulated
latency. At speed N it shows N times that.

Example:
  spechop eval replay --bundle runs/2wiki --inject 4150:1680:1 --speed 4 --listen 127.0.0.1:50061";

/// How long an orphan is kept when it is played, as on a server.
const SALVAGE_MS: f64 = 10_000.0;

/// Serves until a signal comes.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    ensure!(
        (0.01..=100.0).contains(&args.speed),
        "--speed must lie between 0.01 and 100, not {}",
        args.speed
    );
    let bundle = Arc::new(Bundle::read(&args.bundle)?);
    let config = config(&args, &bundle)?;
    let replayed = replay(&bundle, args.speed, &stand_in::SPECULATORS);
    stand_in::serve(config, replayed.parts).await?;
    let missing = replayed.missing.load(Ordering::Relaxed);
    ensure!(
        missing == 0,
        "{missing} stages were asked for that were not recorded: what was answered meanwhile is not what \
         was recorded; record the variants that were asked for"
    );
    Ok(())
}

/// Nothing is opened, but the configuration wants files that are there: the bundle's.
fn config(args: &Args, bundle: &Bundle) -> anyhow::Result<Config> {
    // The time that an orphan gets is a time like any other.
    let salvage_ms = (SALVAGE_MS / args.speed).round().max(1.0);
    let mut keys = vec![
        ("question.passages", bundle.info().passages.to_string()),
        ("question.salvage_ms", salvage_ms.to_string()),
    ];
    if let Some(injected) = args.inject.0 {
        keys.extend(stand_in::injecting(faster(injected, args.speed)));
    }
    let stand_in = StandIn {
        command: "eval replay",
        listen: args.listen,
        there: (&args.bundle, &args.bundle.join("bundle.json")),
        keys,
        set: &args.set,
    };
    stand_in.config()
}

/// The latency at this speed. It is not rounded: so `spechop eval live`, which multiplies it, has again what it was.
fn faster(injected: Injected, speed: f64) -> Injected {
    Injected {
        mean_ms: injected.mean_ms / speed,
        sigma_ms: injected.sigma_ms / speed,
        ..injected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_comes_back_from_every_speed() {
        let web = Injected {
            mean_ms: 4150.0,
            sigma_ms: 1680.0,
            seed: 1,
        };
        for speed in [0.01, 0.3, 1.0, 3.0, 7.0, 8.0, 99.9] {
            let keys = stand_in::injecting(faster(web, speed));
            let [mean_ms, sigma_ms] = [0, 1].map(|at: usize| keys[at].1.parse().unwrap());
            let told = Injected {
                mean_ms,
                sigma_ms,
                seed: 1,
            };
            assert_eq!(told.times(speed), web, "{speed}");
        }
    }
}
