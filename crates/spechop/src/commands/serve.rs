//! `spechop serve`: the gRPC server.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use spechop_config::{Config, Env};
use spechop_server::{App, Reloading};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

use super::configured::ConfigArgs;
use crate::output::stdout;

/// The arguments of `spechop serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// The address to listen on, instead of `server.listen`. Port 0 takes any free port.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Let other machines ask although nobody is asked for a key or a certificate, as
    /// `server.allow_remote = true`. For networks that protect the server.
    #[arg(long)]
    insecure: bool,
}

const HELP: &str = "\
Every key has a default. Without a configuration the server listens on 127.0.0.1:50051 and uses
the models and the index of the data folder (SPECHOP_DATA_DIR, else $XDG_DATA_HOME/spechop, else
~/.local/share/spechop). What it learns it keeps in SPECHOP_STATE_DIR, else in the data folder.
Flags go before SPECHOP_ variables (question.k is SPECHOP_QUESTION_K), and variables go before the
configuration file.
When the server accepts questions, it prints one line: `ready on ADDRESS`.
SIGTERM or Ctrl-C ends the server. Open questions may finish within the grace period.
A change of the configuration file counts without a restart for the keys that
`spechop config show --keys` calls live. SIGHUP has the file read at once. A file with a mistake in it
is refused whole, and the log says why.

Examples:
  spechop serve
  spechop serve --config deploy/demo.toml --listen 127.0.0.1:0
  spechop serve --set speculator.kind=none --set target.injected_latency.mean_ms=4150";

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Starts this program anew with `OMP_WAIT_POLICY=passive`, unless the operator has chosen a policy.
///
/// The threads of llama.cpp meet after every operation. OpenMP's default is to wait spinning: if
/// anything else wants a core, that makes two threads several times slower than one. It reads the
/// variable before `main` begins, so only a new start can set it. If that fails, the server works,
/// but more slowly.
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

/// Reads an address to listen on, which is no name.
fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |_| "expected an address such as 127.0.0.1:50051".to_owned();
    text.parse().map_err(wrong)
}

/// Serves until a signal comes.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let mut written = args.config.written(env)?;
    if let Some(address) = args.listen {
        let (key, flag) = ("server.listen".to_owned(), "--listen".to_owned());
        written.flags.push((key, flag, address.to_string()));
    }
    if args.insecure {
        let (key, flag) = ("server.allow_remote".to_owned(), "--insecure".to_owned());
        written.flags.push((key, flag, true.to_string()));
    }
    let reloading = Reloading::new(&written, env.clone())?;
    let config = Config::read(written, env)?;
    // Bound now, so that a taken port shows at once; listening later, so that whoever connects
    // finds the models open.
    let socket = bind(config.server.listen)?;
    let shutdown = shutdown_signal()?;
    tokio::pin!(shutdown);
    let mut hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let bell = reloading.bell();
    let app = tokio::select! {
        app = App::build(config) => app?,
        () = &mut shutdown => return Ok(()),
    };
    let listener = listen(socket)?;
    let serving = app.reloading(reloading).serve(listener, shutdown);
    tokio::pin!(serving);
    loop {
        tokio::select! {
            served = &mut serving => return Ok(served?),
            _ = hangup.recv() => bell.notify_one(),
        }
    }
}

/// Takes the address. Nobody can connect yet.
pub(crate) fn bind(address: SocketAddr) -> anyhow::Result<TcpSocket> {
    let bound = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // A port whose last connections are still closing is free.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        io::Result::Ok(socket)
    };
    bound().with_context(|| format!("cannot listen on {address}"))
}

/// From now on clients can connect, and whoever has started the program is told so.
pub(crate) fn listen(socket: TcpSocket) -> anyhow::Result<TcpListener> {
    let listener = socket.listen(BACKLOG).context("cannot listen")?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    writeln!(stdout(), "ready on {address}")?;
    Ok(listener)
}

/// Done when the process is asked to end.
pub(crate) fn shutdown_signal() -> anyhow::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
