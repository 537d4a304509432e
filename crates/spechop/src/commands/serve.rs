//! `spechop serve`: the gRPC server.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use spechop_server::config::{Config, Written};
use spechop_server::{App, Env};
use tokio::net::TcpSocket;
use tokio::signal::unix::{SignalKind, signal};

/// What is written after `spechop serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The configuration file, TOML [also SPECHOP_CONFIG].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen, in place of `server.listen`; port 0 takes any free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Any key of the configuration, e.g. `--set question.k=1`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

const HELP: &str = "\
Without a configuration everything has a default: models and index of the data folder
(SPECHOP_DATA_DIR, else $XDG_DATA_HOME/spechop, else ~/.local/share/spechop), 127.0.0.1:50051.
Flags go before SPECHOP_ variables (question.k is SPECHOP_QUESTION_K), those before the file.
Once questions are taken, one line `ready on ADDRESS` is printed. SIGTERM or Ctrl-C ends the
server: open questions may finish within the grace period.

Examples:
  spechop serve
  spechop serve --config deploy/demo.toml --listen 127.0.0.1:0
  spechop serve --set speculator.kind=none --set target.injected_latency.mean_ms=4150";

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Starts this program anew with `OMP_WAIT_POLICY=passive`, unless the operator has chosen a policy.
///
/// The threads of llama.cpp meet after every operation. OpenMP's default is to wait spinning: where
/// anything else wants a core, that makes two threads several times slower than one. It reads the
/// variable before `main` begins, so only a new start can set it. Where that fails, all works on.
pub(crate) fn wait_passively(env: &Env) {
    const POLICY: &str = "OMP_WAIT_POLICY";
    if env.get(POLICY).is_some() {
        return;
    }
    let error = std::env::current_exe().map_or_else(
        |error| error,
        |program| {
            let arguments = std::env::args_os().skip(1);
            Command::new(program)
                .args(arguments)
                .env(POLICY, "passive")
                .exec()
        },
    );
    tracing::warn!(%error, "threads of the model wait spinning: {POLICY} could not be set");
}

/// Serves until a signal comes.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let config = Config::read(written(args, env)?, env)?;
    // Bound now, so that a taken port shows at once; listening later, so that whoever connects
    // finds the models open.
    let socket = bind(config.server.listen)
        .with_context(|| format!("cannot listen on {}", config.server.listen))?;
    let shutdown = shutdown_signal()?;
    tokio::pin!(shutdown);
    let app = tokio::select! {
        app = App::build(config) => app?,
        () = &mut shutdown => return Ok(()),
    };
    let listener = socket.listen(BACKLOG).context("cannot listen")?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    writeln!(std::io::stdout(), "ready on {address}").context("cannot write to stdout")?;
    Ok(app.serve(listener, shutdown).await?)
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A port whose last connections are still closing is free.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn written(args: Args, env: &Env) -> anyhow::Result<Written> {
    let path = args
        .config
        .or_else(|| env.get("SPECHOP_CONFIG").map(|path| env.expand(path)));
    let file = match path {
        None => None,
        Some(path) => {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read the configuration {}", path.display()))?;
            Some((path, text))
        }
    };
    let set = args
        .set
        .into_iter()
        .map(|(key, value)| (key, "--set".to_owned(), value));
    let listen = args.listen.map(|address| {
        (
            "server.listen".to_owned(),
            "--listen".to_owned(),
            address.to_string(),
        )
    });
    Ok(Written {
        file,
        flags: set.chain(listen).collect(),
    })
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Done when the process is asked to end.
fn shutdown_signal() -> anyhow::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
