//! The way in: every door of the server stands behind it.
//!
//! A stranger can hold on to four things: a connection, a stream, bytes that have not arrived whole, and
//! an answer that nobody reads. Each has a number that it may not exceed and a time after which it ends
//! ([`Limits`]), and all of them are watched here:
//!
//! * `accept.rs` takes up connections, `roster.rs` says who makes room if there are too many;
//! * `line.rs` is a connection, whose peer must take what it is sent;
//! * `socket.rs` is what HTTP sees of it, in the clear or behind TLS: the peer must say something in time;
//! * `heads.rs` bounds the heads of HTTP/1, which nobody else sees come;
//! * `tls.rs` knows the certificate, and reads it again when it has changed;
//! * `guard.rs` looks at every request: is it meant for this server, does it come from a web page, does
//!   it come too fast, does it arrive in time;
//! * `timeout.rs` knows how long the client of a call waits;
//! * `access.rs` asks for a key, and `rates.rs` counts what its tenant asks;
//! * `body.rs` counts the bytes on their way in, throws away what was refused, and sees whether an answer
//!   is read;
//! * `files.rs` sees that there are file descriptors for all of them;
//! * `doors.rs` knows which paths are not gRPC, and what may be sent to them;
//! * `hosts.rs` knows by which names the server may be addressed.
//!
//! What a request means is none of its business.

mod accept;
mod access;
mod access_error;
mod body;
mod counts;
mod doors;
mod files;
mod guard;
mod heads;
mod hosts;
mod line;
mod rates;
mod roster;
mod socket;
mod timeout;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use futures::StreamExt;
use spechop_config::{
    Callers, InvalidConfig, Server as Settings, TlsError, TlsFiles, Transport as Limits,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::Server;

pub(crate) use accept::Lines;
pub(crate) use access_error::AccessError;
pub(crate) use body::TALK_BYTES_MAX;
pub(crate) use counts::{Counts, Source};
pub(crate) use doors::{Door, Doors};
pub use files::raise_open_files;
pub(crate) use timeout::GrpcTimeout;

use access::Access;
pub(crate) use access::KnownIssuer;
use guard::Guard;
use hosts::Hosts;
use socket::Socket;
use tls::Tls;

/// Open streams of one connection.
const STREAMS_MAX: u32 = 100;

/// Streams that the client has reset and the server has not yet taken up: more are an attack
/// (CVE-2023-44487).
const RESET_PENDING_MAX: usize = 20;

/// Streams that the server itself has reset. Without a number hyper keeps all of them
/// (RUSTSEC-2024-0003).
const RESET_LOCAL_MAX: usize = 1024;

/// All headers of a request: those of gRPC, a name or two, and some to spare.
const HEADERS_BYTES_MAX: u32 = 16 << 10;

/// What a client may send before it is read. A question is smaller.
const WINDOW_BYTES: u32 = 64 << 10;

/// What the window of a connection holds: enough for many questions at once.
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;

/// How often to ask over HTTP/2 whether the peer is still there, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(20);

/// The transport of one listener.
pub(crate) struct Transport {
    lines: Lines,
    tls: Option<TlsFiles>,
    callers: Callers,
    reload: Duration,
    follower: Follower,
}

/// What of a transport that serves can change. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Follower {
    parts: Arc<OnceLock<Changing>>,
    /// Whether the keys are of several tenants.
    several: watch::Sender<bool>,
}

/// The parts that read files again.
#[derive(Clone)]
struct Changing {
    tls: Option<Arc<Tls>>,
    access: Arc<Access>,
}

impl Follower {
    /// From now on these may ask. Blocks: their file is read.
    pub(crate) fn take_up(&self, callers: &Callers) -> Result<(), InvalidConfig> {
        match self.parts.get() {
            Some(parts) => parts.access.take_up(callers.clone()),
            None => Ok(()),
        }
    }

    /// What is known of the token issuer, if tokens are taken.
    pub(crate) fn issuer(&self) -> Option<KnownIssuer> {
        self.parts.get()?.access.issuer()
    }

    /// Hears whether the keys are of several tenants, whenever that changes.
    pub(crate) fn several(&self) -> watch::Receiver<bool> {
        self.several.subscribe()
    }

    /// Has whoever hears it look once more.
    pub(crate) fn tell_several_again(&self) {
        self.several.send_modify(|_| ());
    }

    /// Looks whether the files of TLS and of keys have changed, and says whether to look again soon.
    pub(crate) async fn look_again(&self) -> bool {
        let Some(parts) = self.parts.get().cloned() else {
            return false;
        };
        let looked = tokio::task::spawn_blocking(move || {
            if let Some(tls) = parts.tls {
                tls.look_again();
            }
            parts.access.look_again()
        });
        // It fails if it panicked; the next look is another one.
        looked.await.unwrap_or(false)
    }
}

/// Why nothing is served any more, or nothing was from the start.
#[derive(Debug, thiserror::Error)]
pub enum TransportFailure {
    /// The certificate or what belongs to it cannot be used.
    #[error("there can be no TLS")]
    Tls(#[from] TlsError),
    /// The file of API keys cannot be used.
    #[error("there can be no API keys")]
    Keys(#[from] InvalidConfig),
    /// HTTP itself.
    #[error("HTTP failed")]
    Http(#[from] tonic::transport::Error),
}

impl Transport {
    /// Raises the process's limit of open files if the connections need it.
    pub(crate) fn new(settings: &Settings, callers: &Callers, counts: Counts) -> Self {
        let limits = settings.transport.clone();
        let limits = Limits {
            connections_max: files::room_for(limits.connections_max),
            ..limits
        };
        Self {
            lines: Lines::new(limits, counts),
            tls: settings.tls.clone(),
            callers: callers.clone(),
            reload: settings.reload,
            follower: Follower::default(),
        }
    }

    /// The open connections.
    pub(crate) fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// What of it can change while it serves.
    pub(crate) fn follower(&self) -> Follower {
        self.follower.clone()
    }

    /// Serves these routes until `stop` is done and every connection has ended. What is none of the
    /// `doors` is gRPC.
    pub(crate) async fn serve(
        &self,
        listener: TcpListener,
        address: SocketAddr,
        routes: Router,
        doors: Doors,
        stop: impl Future<Output = ()>,
    ) -> Result<(), TransportFailure> {
        let tls = self.tls.clone().map(|files| {
            let counts = self.lines.counts().clone();
            Tls::open(files, counts).map(Arc::new)
        });
        let tls = tls.transpose()?;
        let access = Access::open(
            self.callers.clone(),
            self.follower.several.clone(),
            self.lines.counts().clone(),
        )?;
        let access = Arc::new(access);
        if access.wants_keys() && tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(
                "API keys cross the network in the clear unless a proxy speaks TLS: see server.tls_cert"
            );
        }
        // It serves once.
        let _ = self.follower.parts.set(Changing {
            tls: tls.clone(),
            access: Arc::clone(&access),
        });
        let guard = Guard {
            hosts: Hosts::of(address, &self.lines.limits().hosts),
            doors,
            lines: self.lines(),
            access: Arc::clone(&access),
        };
        let routes = routes.layer(from_fn_with_state(Arc::new(guard), guard::attend));
        let router = Server::builder()
            // Scrapers and scripts speak the older protocol; the guard lets them have the doors and
            // nothing else.
            .accept_http1(true)
            .max_concurrent_streams(STREAMS_MAX)
            .http2_max_pending_accept_reset_streams(Some(RESET_PENDING_MAX))
            .http2_max_local_error_reset_streams(Some(RESET_LOCAL_MAX))
            .http2_max_header_list_size(HEADERS_BYTES_MAX)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keepalive_interval(Some(PING_INTERVAL))
            .http2_keepalive_timeout(Some(PING_PATIENCE))
            .add_routes(Routes::from(routes));
        let greeting = self.lines.limits().message_time;
        let incoming = self.lines.accept(listener).map(move |line| {
            let acceptor = tls.as_ref().map(|tls| tls.acceptor());
            Ok::<_, io::Error>(Socket::new(line, acceptor, greeting))
        });
        tokio::select! {
            served = router.serve_with_incoming_shutdown(incoming, stop) => Ok(served?),
            never = self.lines.sweep() => match never {},
            never = look_again(&self.follower, self.reload) => match never {},
            never = access.keep_issuer_fresh() => match never {},
        }
    }
}

/// How soon to look again at a file that has just changed.
const SETTLED: Duration = Duration::from_millis(500);

/// Looks every now and then whether the files of TLS and of keys have changed. Never ends.
async fn look_again(follower: &Follower, every: Duration) -> std::convert::Infallible {
    let mut next = every;
    loop {
        tokio::time::sleep(next).await;
        next = match follower.look_again().await {
            true => every.min(SETTLED),
            false => every,
        };
    }
}
