//! `spechop eval replay`: the real server, over tools that wait and do not compute.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, ensure};
use spechop_eval::{Bundle, Injected, replay};
use spechop_server::config::{Config, SpeculatorKind, Written};
use spechop_server::{App, Bare, Env, Toolbox};

use super::record::{Latency, latency};
use crate::commands::configured::key_value;
use crate::commands::serve::{BACKLOG, bind, shutdown_signal};

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
    let replayed = replay(&bundle, args.speed, &["hot", "index", "llm"]);
    let (parts, missing) = (replayed.parts, replayed.missing);
    let kinds = [
        SpeculatorKind::Hot,
        SpeculatorKind::Index,
        SpeculatorKind::Llm,
    ];
    let speculators: BTreeMap<_, _> = kinds
        .into_iter()
        .filter_map(|kind| Some((kind, Arc::clone(parts.speculators.get(kind.as_str())?))))
        .collect();
    let bare = Bare {
        planner: parts.planner,
        reader: parts.reader,
        retriever: parts.retriever,
        speculators,
    };
    let toolbox = Toolbox::of(bare, &config);
    let socket = bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    let shutdown = shutdown_signal()?;
    let listener = socket.listen(BACKLOG).context("cannot listen")?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    writeln!(std::io::stdout(), "ready on {address}").context("cannot write to stdout")?;
    App::with_toolbox(config, toolbox)
        .serve(listener, shutdown)
        .await?;
    let missing = missing.load(Ordering::Relaxed);
    ensure!(
        missing == 0,
        "{missing} stages were asked for that were not recorded: what was answered meanwhile is not what \
         was recorded; record the variants that were asked for"
    );
    Ok(())
}

/// The defaults, with room for every call at once: recorded stages know no queue. Nothing is opened, but
/// the configuration wants files that are there: the bundle's.
fn config(args: &Args, bundle: &Bundle) -> anyhow::Result<Config> {
    let dir = args.bundle.display().to_string();
    let file = args.bundle.join("bundle.json").display().to_string();
    // The time that an orphan gets is a time like any other.
    let salvage_ms = (SALVAGE_MS / args.speed).round().max(1.0);
    let keys = [
        ("index.dir", dir.clone()),
        ("encoder.dir", dir.clone()),
        ("runtime.onnxruntime", file),
        ("generator.kind", "openai".to_owned()),
        ("generator.style", "tagged".to_owned()),
        ("generator.base_url", "http://127.0.0.1:9/v1".to_owned()),
        ("generator.model", "replay".to_owned()),
        // As many as its backend may run at once, below.
        ("generator.requests_max", "1024".to_owned()),
        ("reader.kind", "generator".to_owned()),
        ("speculator.kind", "hot".to_owned()),
        ("speculator.hot_dir", dir),
        ("question.passages", bundle.info().passages.to_string()),
        ("question.salvage_ms", salvage_ms.to_string()),
        // A replay neither learns from earlier servers nor teaches later ones.
        ("tuning.state", "none".to_owned()),
    ];
    let mut keys: Vec<_> = keys
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    for part in ["generator", "reader", "retriever", "speculator"] {
        for key in ["capacity", "speculative_max"] {
            keys.push((format!("scheduler.{part}.{key}"), "1024".to_owned()));
        }
    }
    if let Some(injected) = args.inject.0 {
        let Injected {
            mean_ms,
            sigma_ms,
            seed,
        } = injected.times(1.0 / args.speed);
        let values = [
            ("mean_ms", mean_ms.to_string()),
            ("sigma_ms", sigma_ms.to_string()),
            ("seed", seed.to_string()),
        ];
        keys.extend(values.map(|(key, value)| (format!("target.injected_latency.{key}"), value)));
    }
    let own = keys
        .into_iter()
        .map(|(key, value)| (key, "eval replay".to_owned(), value));
    // The last one to name a key is heard.
    let set = args.set.iter().cloned();
    let set = set.map(|(key, value)| (key, "--set".to_owned(), value));
    let written = Written {
        file: None,
        flags: own.chain(set).collect(),
    };
    Ok(Config::read(written, &Env::default())?)
}
