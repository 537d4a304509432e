//! `spechop eval replay`: the real server, over tools that wait and do not compute.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use spechop_eval::{Bundle, replay};
use spechop_server::config::{Config, SpeculatorKind, Written};
use spechop_server::{App, Bare, Env, Toolbox};

use super::record::{Latency, latency};
use crate::commands::serve::{BACKLOG, bind, shutdown_signal};

/// What is written after `spechop eval replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The bundle that `spechop eval record` made.
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,
    /// Latency that is added to every look-up; `0` is none.
    #[arg(long, value_name = "MEAN:SIGMA:SEED|0", value_parser = latency, default_value = "0")]
    inject: Latency,
    /// How many times faster than recorded everything goes.
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    speed: f64,
}

const HELP: &str = "\
Serves a bundle over gRPC: the server, its scheduler and its agent are the real ones; each tool waits for as
long as it took when it was recorded, and gives what it gave. Questions that were not recorded fail.
`spechop eval live` against it shows what the service itself adds to the simulated latency. Say the same
--speed there.

Example:
  spechop eval replay --bundle runs/2wiki --inject 4150:1680:1 --speed 4 --listen 127.0.0.1:50061";

/// Serves until a signal comes.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    ensure!(
        (0.01..=100.0).contains(&args.speed),
        "--speed must lie between 0.01 and 100, not {}",
        args.speed
    );
    let bundle = Arc::new(Bundle::read(&args.bundle)?);
    let config = config(&args, &bundle)?;
    let parts = replay(&bundle, args.speed, &["hot", "llm"]);
    let kinds = [SpeculatorKind::Hot, SpeculatorKind::Llm];
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
    Ok(App::with_toolbox(config, toolbox)
        .serve(listener, shutdown)
        .await?)
}

/// The defaults, with room for every call at once: recorded stages know no queue. Nothing is opened, but
/// the configuration wants files that are there: the bundle's.
fn config(args: &Args, bundle: &Bundle) -> anyhow::Result<Config> {
    let dir = args.bundle.to_string_lossy().into_owned();
    let file = |name: &str| Path::new(&args.bundle).join(name).display().to_string();
    let mut keys = vec![
        ("index.dir", dir.clone()),
        ("encoder.dir", dir),
        ("runtime.onnxruntime", file("stages.jsonl")),
        ("generator.kind", "openai".to_owned()),
        ("generator.style", "tagged".to_owned()),
        ("generator.base_url", "http://127.0.0.1:9/v1".to_owned()),
        ("generator.model", "replay".to_owned()),
        ("reader.kind", "generator".to_owned()),
        ("speculator.kind", "hot".to_owned()),
        ("speculator.hot_dir", args.bundle.display().to_string()),
        ("question.passages", bundle.info().passages.to_string()),
        (
            "question.not_found_max",
            bundle.info().dataset.not_found_max().to_string(),
        ),
    ];
    for part in ["generator", "reader", "retriever", "speculator"] {
        for key in ["capacity", "speculative_max"] {
            let name: &'static str = match (part, key) {
                ("generator", "capacity") => "scheduler.generator.capacity",
                ("generator", _) => "scheduler.generator.speculative_max",
                ("reader", "capacity") => "scheduler.reader.capacity",
                ("reader", _) => "scheduler.reader.speculative_max",
                ("retriever", "capacity") => "scheduler.retriever.capacity",
                ("retriever", _) => "scheduler.retriever.speculative_max",
                (_, "capacity") => "scheduler.speculator.capacity",
                _ => "scheduler.speculator.speculative_max",
            };
            keys.push((name, "1024".to_owned()));
        }
    }
    if let Some(injected) = args.inject.0 {
        // Mean and deviation by the same factor: every draw by that factor.
        let scaled = |ms: f64| (ms / args.speed).to_string();
        keys.extend([
            ("target.injected_latency.mean_ms", scaled(injected.mean_ms)),
            (
                "target.injected_latency.sigma_ms",
                scaled(injected.sigma_ms),
            ),
            ("target.injected_latency.seed", injected.seed.to_string()),
        ]);
    }
    let flags = keys
        .into_iter()
        .map(|(key, value)| (key.to_owned(), "eval replay".to_owned(), value));
    let written = Written {
        file: None,
        flags: flags.collect(),
    };
    Ok(Config::read(written, &Env::default())?)
}
