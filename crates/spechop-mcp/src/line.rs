//! The connection to a server: opened, watched, and opened again if it breaks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RunningService,
    ServiceError,
};
use spechop_types::{causes, with_causes};
use spechop_web::InvalidHttpEndpoint;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::failure::{WANTS_KEY, chain, http_error, wants_key};
use crate::options::{McpOptions, Server};
use crate::process::{Fate, Pipes};
use crate::streamable::transport;
use crate::tools;

/// The pause before the second attempt in a row; each further one is twice as long, up to the most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A connection that lasted so long was a good one: the next attempt is a first one.
const STEADY: Duration = Duration::from_secs(10);

/// Why a tool cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The program cannot be started.
    #[error("cannot start `{command}`")]
    Start {
        /// The program.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// The address cannot be used.
    #[error(transparent)]
    Endpoint(#[from] InvalidHttpEndpoint),
    /// It does not speak MCP, or not with us.
    #[error(
        "`{server}` could not be opened as an MCP server: {why}{}",
        ending(.last_words.as_deref())
    )]
    Handshake {
        /// Which server.
        server: String,
        /// What went wrong.
        why: String,
        /// What its program logged last. For the operator: whoever asks is not told.
        last_words: Option<String>,
        /// Whether it wants another key, or one at all.
        needs_key: bool,
        /// Whether another attempt could bring anything.
        may_pass: bool,
    },
    /// The connection ended, and is opened again after a pause.
    #[error("the connection to `{server}` ended: {why}")]
    Lost {
        /// Which server.
        server: String,
        /// What is known of its end.
        why: String,
    },
    /// Opening took too long.
    #[error(
        "`{server}` was not open within {} s{}",
        .limit.as_secs_f64(),
        ending(.last_words.as_deref())
    )]
    Late {
        /// Which server.
        server: String,
        /// The limit.
        limit: Duration,
        /// What its program logged last. For the operator: whoever asks is not told.
        last_words: Option<String>,
        /// Whether another attempt could bring anything.
        may_pass: bool,
    },
    /// It has no such tool.
    #[error("`{server}` has no tool {tool:?}; its tools are: {there}")]
    NoTool {
        /// Which server.
        server: String,
        /// The tool that was wanted.
        tool: String,
        /// The names of its tools.
        there: String,
    },
    /// Its list of tools is longer than may be, or has no end.
    #[error(
        "`{server}` lists more tools than are read: {tool:?} is not among the {tools} on the first \
         {pages} pages"
    )]
    LongList {
        /// Which server.
        server: String,
        /// The tool that was wanted.
        tool: String,
        /// How many pages of the list were read.
        pages: usize,
        /// How many tools are on them.
        tools: usize,
    },
    /// The tool takes other arguments.
    #[error("the arguments do not fit the tool {tool:?} of `{server}`: {misfit}")]
    Arguments {
        /// Which server.
        server: String,
        /// Which tool.
        tool: String,
        /// What does not fit.
        misfit: String,
    },
}

impl OpenError {
    /// Whether the server is only not there, or not yet.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Handshake { may_pass, .. } | Self::Late { may_pass, .. } => *may_pass,
            Self::Lost { .. } => true,
            Self::Start { .. }
            | Self::Endpoint(_)
            | Self::NoTool { .. }
            | Self::LongList { .. }
            | Self::Arguments { .. } => false,
        }
    }

    /// Whether the server says no for good. A program is started again and again: that it could not be opened
    /// just now says nothing about the next time, although at the start it is a reason to give up.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Handshake { needs_key, .. } => *needs_key,
            Self::Endpoint(_)
            | Self::NoTool { .. }
            | Self::LongList { .. }
            | Self::Arguments { .. } => true,
            Self::Start { .. } | Self::Lost { .. } | Self::Late { .. } => false,
        }
    }

    /// As whoever asks may hear it.
    fn without_last_words(mut self) -> Self {
        if let Self::Handshake { last_words, .. } | Self::Late { last_words, .. } = &mut self {
            *last_words = None;
        }
        self
    }
}

/// What a program logged last, as the end of a sentence.
fn ending(last_words: Option<&str>) -> String {
    last_words.map_or_else(String::new, |words| {
        format!("; the end of its log: {words}")
    })
}

/// An open connection to a server that has the tool.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) peer: Peer<RoleClient>,
    /// What is known of a program's end.
    pub(crate) fate: Option<Arc<Fate>>,
    /// Whether the server says that the tool only reads.
    pub(crate) reads: bool,
    /// Whether the server says that twice is the same as once.
    pub(crate) idempotent: bool,
}

impl Session {
    fn is_open(&self) -> bool {
        let has_ended = self.fate.as_ref().is_some_and(|fate| fate.has_ended());
        !has_ended && !self.peer.is_transport_closed()
    }
}

/// How the connection is.
#[derive(Clone)]
pub(crate) enum State {
    /// It is being opened.
    Opening,
    /// It can be used.
    Open(Session),
    /// The last attempt failed, for this reason, which whoever asks is told. The next one comes by itself.
    Down(Arc<OpenError>),
}

/// Keeps a connection open for as long as it is there itself.
pub(crate) struct Line {
    state: watch::Receiver<State>,
    /// Holds the one task that keeps it.
    _keeper: JoinSet<()>,
}

impl Line {
    /// Opens the connection and keeps it. The error of the first attempt comes back with it, if that
    /// may pass.
    pub(crate) async fn open(options: McpOptions) -> Result<(Self, Option<OpenError>), OpenError> {
        let (opened, trouble) = match open(&options).await {
            Ok(opened) => (Some(opened), None),
            Err(error) if error.may_pass() => (None, Some(error)),
            Err(error) => return Err(error),
        };
        let state = match &opened {
            Some((_, session)) => State::Open(session.clone()),
            None => State::Opening,
        };
        let (tell, state) = watch::channel(state);
        let mut keeper = JoinSet::new();
        keeper.spawn(keep(options, opened, tell));
        let line = Self {
            state,
            _keeper: keeper,
        };
        Ok((line, trouble))
    }

    /// The session, as soon as it is open or could not be opened.
    pub(crate) async fn session(&self) -> Result<Session, Arc<OpenError>> {
        let mut state = self.state.clone();
        loop {
            match &*state.borrow_and_update() {
                State::Open(session) if session.is_open() => return Ok(session.clone()),
                State::Down(error) => return Err(Arc::clone(error)),
                State::Opening | State::Open(_) => {}
            }
            if state.changed().await.is_err() {
                // The keeper never ends before the line does.
                std::future::pending::<()>().await;
            }
        }
    }
}

type Running = RunningService<RoleClient, ClientConfig>;

/// Waits for the end of the connection and opens it again, without end.
async fn keep(
    options: McpOptions,
    mut opened: Option<(Running, Session)>,
    tell: watch::Sender<State>,
) {
    let server = options.server.to_string();
    // In a row: attempts that failed, and connections that did not last.
    let mut failures = u32::from(opened.is_none());
    // Why the last attempt failed. The log hears of it once.
    let mut told = None;
    loop {
        let mut lost = None;
        if let Some((running, session)) = opened.take() {
            let since = Instant::now();
            tell.send_replace(State::Open(session.clone()));
            let _ = running.waiting().await;
            let fate = session.fate.unwrap_or_default();
            let (why, last_words) = (fate.story(), fate.last_words());
            tracing::warn!(
                server,
                why,
                last_words,
                "the connection to the MCP server ended"
            );
            if since.elapsed() >= STEADY {
                failures = 0;
            }
            let server = server.clone();
            lost = Some(OpenError::Lost { server, why });
        }
        // What breaks again and again is left alone for longer, and nobody waits for it.
        if let (Some(lost), 1..) = (lost, failures) {
            tell.send_replace(State::Down(Arc::new(lost)));
        }
        sleep(pause(failures)).await;
        failures = failures.saturating_add(1);
        tell.send_replace(State::Opening);
        match open(&options).await {
            Ok(session) => {
                tracing::info!(server, "MCP server opened again");
                told = None;
                opened = Some(session);
            }
            Err(error) => {
                let reason = with_causes(&error);
                if told.as_ref() != Some(&reason) {
                    tracing::warn!(server, reason, "MCP server could not be opened");
                    told = Some(reason);
                }
                tell.send_replace(State::Down(Arc::new(error.without_last_words())));
            }
        }
    }
}

/// After so many failures in a row.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(more) => PAUSE
            .saturating_mul(2_u32.saturating_pow(more))
            .min(PAUSE_MAX),
    }
}

/// Opens a connection and looks for the tool.
async fn open(options: &McpOptions) -> Result<(Running, Session), OpenError> {
    // Of the program that was started last. A start that takes too long tells nothing else of it.
    let begun = Mutex::new(None::<Arc<Fate>>);
    let late = |_| OpenError::Late {
        server: options.server.to_string(),
        limit: options.start,
        last_words: begun.lock().as_deref().and_then(Fate::last_words),
        may_pass: matches!(options.server, Server::Http(_)),
    };
    let work = async {
        // Almost every server still knows the handshake, and some end at anything else. Those of the
        // newest revision alone refuse it.
        match handshake(options, ClientLifecycleMode::Initialize, &begun).await {
            Err(Unopened::Refused(error)) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let newest = ClientLifecycleMode::Discover { preferred_versions };
                handshake(options, newest, &begun).await.map_err(|_| error)
            }
            Err(Unopened::Broken(error)) => Err(error),
            Ok(opened) => Ok(opened),
        }
    };
    let (running, fate) = timeout(options.start, work).await.map_err(late)??;
    let found = timeout(options.start, tools::find(options, running.peer()));
    let found = found.await.map_err(late)?.map_err(|error| {
        let needs_key = match &error {
            ServiceError::TransportSend(error) => http_error(error).is_some_and(wants_key),
            _ => false,
        };
        let may_pass = matches!(options.server, Server::Http(_))
            && !needs_key
            && matches!(
                error,
                ServiceError::TransportSend(_) | ServiceError::TransportClosed
            );
        let (why, last_words) = match (&error, &fate) {
            (ServiceError::TransportClosed, Some(fate)) => (fate.story(), fate.last_words()),
            _ => (chain(&error, &options.server), None),
        };
        let why = with_hint(why, needs_key);
        OpenError::Handshake {
            server: options.server.to_string(),
            why: format!("it does not list its tools: {why}"),
            last_words,
            needs_key,
            may_pass,
        }
    })?;
    let tool = found?;
    let hints = tool.annotations.as_ref();
    let session = Session {
        peer: running.peer().clone(),
        fate,
        reads: hints.and_then(|hints| hints.read_only_hint) == Some(true),
        idempotent: hints.and_then(|hints| hints.idempotent_hint) == Some(true),
    };
    Ok((running, session))
}

/// Why a connection was not opened.
enum Unopened {
    /// It answered, and refused the handshake: another one may do.
    Refused(OpenError),
    /// It did not answer, or not like a server of MCP.
    Broken(OpenError),
}

/// A program is noted in `begun` as soon as it is started.
async fn handshake(
    options: &McpOptions,
    lifecycle: ClientLifecycleMode,
    begun: &Mutex<Option<Arc<Fate>>>,
) -> Result<(Running, Option<Arc<Fate>>), Unopened> {
    let us = Implementation::new("spechop", env!("CARGO_PKG_VERSION"));
    let us = ClientConfig::new(ClientCapabilities::default(), us);
    match &options.server {
        Server::Program(program) => {
            let opened = Pipes::open(program, options.bytes_max);
            let (pipes, fate) = opened.map_err(|source| {
                let command = options.server.to_string();
                Unopened::Broken(OpenError::Start { command, source })
            })?;
            *begun.lock() = Some(Arc::clone(&fate));
            match us.serve_with_lifecycle(pipes, lifecycle).await {
                Ok(running) => Ok((running, Some(fate))),
                Err(error) => Err(unopened(options, &error, Some(&fate))),
            }
        }
        Server::Http(endpoint) => {
            let opened = transport(options, endpoint);
            let transport = opened.map_err(|error| Unopened::Broken(error.into()))?;
            match us.serve_with_lifecycle(transport, lifecycle).await {
                Ok(running) => Ok((running, None)),
                Err(error) => Err(unopened(options, &error, None)),
            }
        }
    }
}

fn unopened(
    options: &McpOptions,
    error: &ClientInitializeError,
    fate: Option<&Arc<Fate>>,
) -> Unopened {
    let refused = matches!(error, ClientInitializeError::JsonRpcError(_));
    let (why, last_words) = match (error, fate) {
        (ClientInitializeError::ConnectionClosed(_), Some(fate)) => {
            (fate.story(), fate.last_words())
        }
        _ => (chain(error, &options.server), None),
    };
    let needs_key = refused_key(error);
    let why = with_hint(why, needs_key);
    let is_http = matches!(options.server, Server::Http(_));
    let may_pass = is_http && !refused && !needs_key;
    let error_of_ours = OpenError::Handshake {
        server: options.server.to_string(),
        why,
        last_words,
        needs_key,
        may_pass,
    };
    let may_know_another = refused || (is_http && !needs_key && !had_no_connection(error));
    match may_know_another {
        true => Unopened::Refused(error_of_ours),
        false => Unopened::Broken(error_of_ours),
    }
}

fn refused_key(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            http_error(error).is_some_and(wants_key)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => refused_key(fallback),
        _ => false,
    }
}

fn with_hint(why: String, needs_key: bool) -> String {
    match needs_key {
        true => format!("{why}; {WANTS_KEY}"),
        false => why,
    }
}

/// Whether there was no connection at all.
fn had_no_connection(error: &ClientInitializeError) -> bool {
    let first: &(dyn std::error::Error + 'static) = match error {
        ClientInitializeError::TransportError { error, .. } => &*error.error,
        error => error,
    };
    causes(first)
        .find_map(|cause| cause.downcast_ref::<reqwest::Error>())
        .is_some_and(reqwest::Error::is_connect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_most() {
        let ms = |failures| pause(failures).as_millis();
        assert_eq!([ms(0), ms(1), ms(2), ms(3)], [0, 500, 1000, 2000]);
        assert_eq!([ms(7), ms(99), ms(u32::MAX)], [30_000; 3]);
    }
}
