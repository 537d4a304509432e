//! A server at an address for clients that start a program: messages go from standard input to HTTP,
//! and back to standard output, as they are.

mod tls;

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetMeta, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{RoleClient, RoleServer};
use secrecy::ExposeSecret;
use spechop_ports::reason;
use spechop_types::with_causes;
use spechop_web::{HttpEndpoint, InvalidHttpEndpoint};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};

pub use self::tls::{Tls, check_authorities};
use crate::door::wrong_params;
use crate::failure::wants_key;

/// Requests of one client that may be under way at once.
const REQUESTS_MAX: usize = 64;
/// How long the end of a connection waits for what its last requests have to say of it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long what was asked may still be answered once the input has ended.
const AFTER_THE_END: Duration = Duration::from_secs(10);

/// Why the bridge ended before its client did.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The address cannot be used.
    #[error(transparent)]
    Endpoint(#[from] InvalidHttpEndpoint),
    /// There can be no TLS as it was asked for.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The server is not there, or does not speak MCP there.
    #[error("the connection to {url} ended{why}")]
    Lost {
        /// Where the server should be.
        url: String,
        /// What is known about it, after a colon.
        why: String,
        /// What kind of trouble it was.
        trouble: Trouble,
    },
    /// No header can carry the tenant's name.
    #[error("{0:?} is no name of a tenant: use letters, digits, `.`, `-` and `_`")]
    Tenant(String),
    /// The client cannot be written to.
    #[error("cannot write to the client")]
    Client(#[source] io::Error),
}

/// What kept messages from being taken, as far as somebody can do something about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody listens at the address.
    NoServer,
    /// The server wants a key, or another one.
    Key,
    /// Somebody listens, but a request broke on its way.
    Broken,
    /// Anything else.
    #[default]
    Other,
}

impl Trouble {
    fn of(error: &StreamableHttpError<reqwest::Error>) -> Self {
        match error {
            StreamableHttpError::Client(error) if error.is_connect() => Self::NoServer,
            StreamableHttpError::Client(error) if error.is_request() => Self::Broken,
            error if wants_key(error) => Self::Key,
            _ => Self::Other,
        }
    }
}

/// A message that was not taken: which request it was, if one, and why.
struct NotTaken {
    id: Option<RequestId>,
    why: String,
    trouble: Trouble,
}

impl NotTaken {
    /// The one that says more of why the connection ended: what was sent behind its end says nothing.
    fn or(self, before: Option<Self>) -> Option<Self> {
        match before {
            Some(before) if self.trouble == Trouble::Other => Some(before),
            _ => Some(self),
        }
    }
}

/// A message that is under way no longer.
struct Sent {
    /// The request that nobody waits for, if the message said so.
    cancelled: Option<RequestId>,
    taken: Result<(), NotTaken>,
}

/// How far the client has come with its handshake.
#[derive(Clone, Copy)]
enum Handshake {
    /// It has asked the server for nothing yet.
    Awaited,
    /// It has said `initialize`, and not yet `notifications/initialized`.
    Begun,
    /// It is at its end, or the client needs none.
    Over,
}

impl Handshake {
    /// How far it is once the server has this message. `None` if the server must not have it yet: the connection would
    /// take it for the next message of the handshake, and end.
    fn with(self, message: &ClientJsonRpcMessage) -> Option<Self> {
        match (self, message) {
            (Self::Over, _) => Some(Self::Over),
            (Self::Awaited, JsonRpcMessage::Request(request)) => match &request.request {
                ClientRequest::InitializeRequest(_) => Some(Self::Begun),
                ClientRequest::DiscoverRequest(_) => Some(Self::Over),
                ClientRequest::PingRequest(_) => None,
                // The newest revision has no handshake: each request names its revision.
                request => request.get_meta().protocol_version().map(|_| Self::Over),
            },
            (Self::Begun, JsonRpcMessage::Notification(told)) => match &told.notification {
                ClientNotification::InitializedNotification(_) => Some(Self::Over),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Carries messages with the key of the endpoint and this TLS, on behalf of a tenant, until the input ends and what was
/// asked is answered. For that it waits ten seconds at most.
///
/// # Errors
///
/// What ended the connection to the server.
pub async fn bridge(
    endpoint: &HttpEndpoint,
    tls: &Tls,
    tenant: Option<&str>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), BridgeError> {
    let mut bridge = Bridge {
        client: AsyncRwTransport::<RoleServer, _, _>::new(input, output),
        server: connect(endpoint, tls, tenant)?,
        url: endpoint.base_url.clone(),
        handshake: Handshake::Awaited,
        sending: FuturesUnordered::new(),
        asked: HashSet::new(),
        end: None,
        why: None,
    };
    bridge.carry().await
}

type ServerTransport = StreamableHttpClientTransport<reqwest::Client>;

/// The server behind the endpoint.
fn connect(
    endpoint: &HttpEndpoint,
    tls: &Tls,
    tenant: Option<&str>,
) -> Result<ServerTransport, BridgeError> {
    let (http, url) = tls.client(endpoint)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_string())
        .max_concurrent_requests(REQUESTS_MAX);
    if let Some(key) = &endpoint.key {
        config = config.auth_header(key.expose_secret().trim());
    }
    if let Some(tenant) = tenant {
        let value = http::HeaderValue::try_from(tenant);
        let tenant = value.map_err(|_| BridgeError::Tenant(tenant.to_owned()))?;
        let name = http::HeaderName::from_static("spechop-tenant");
        config = config.custom_headers([(name, tenant)].into());
    }
    Ok(StreamableHttpClientTransport::with_client(http, config))
}

/// A client, its server, and the messages under way between them.
struct Bridge<C> {
    client: C,
    server: ServerTransport,
    /// Its address, for messages.
    url: String,
    handshake: Handshake,
    /// Messages that the server has not taken yet. They are begun in the order in which they came, which tasks of their
    /// own would not keep: no request may overtake the end of the handshake.
    sending: FuturesUnordered<BoxFuture<'static, Sent>>,
    /// The requests that the client waits for.
    asked: HashSet<RequestId>,
    /// When nobody waits any longer; set once the input has ended.
    end: Option<Instant>,
    /// What says most of why the connection to the server ends, if it does.
    why: Option<NotTaken>,
}

impl<C: Transport<RoleServer, Error = io::Error>> Bridge<C> {
    /// Carries messages until the input has ended and what was asked is answered.
    async fn carry(&mut self) -> Result<(), BridgeError> {
        loop {
            if self.end.is_some() && self.asked.is_empty() {
                return Ok(());
            }
            tokio::select! {
                message = self.client.receive(), if self.end.is_none() => match message {
                    Some(message) => self.take(message).await?,
                    None => self.end = Some(Instant::now() + AFTER_THE_END),
                },
                message = Transport::<RoleClient>::receive(&mut self.server) => match message {
                    Some(message) => self.pass_to_client(message).await?,
                    None => break,
                },
                () = sleep_until(self.end.unwrap_or_else(Instant::now)), if self.end.is_some() => {
                    // Whatever is under way is nobody's.
                    return Ok(());
                }
                Some(sent) = self.sending.next() => self.was_sent(sent).await?,
            }
        }
        // The connection often ends before the request that ended it has been heard.
        while let Ok(Some(sent)) = timeout(LAST_WORDS, self.sending.next()).await {
            self.was_sent(sent).await?;
        }
        Err(self.lost())
    }

    /// Passes a message of the client on, or answers it.
    async fn take(&mut self, message: ClientJsonRpcMessage) -> Result<(), BridgeError> {
        if let Some(next) = self.handshake.with(&message) {
            self.handshake = next;
            self.pass_to_server(message);
            return Ok(());
        }
        // Nothing else wants an answer.
        let JsonRpcMessage::Request(request) = message else {
            return Ok(());
        };
        let answer = match &request.request {
            ClientRequest::PingRequest(_) => {
                JsonRpcMessage::response(ServerResult::empty(()), request.id)
            }
            early => JsonRpcMessage::error(too_early(early), Some(request.id)),
        };
        self.tell(answer).await
    }

    async fn tell(&mut self, message: ServerJsonRpcMessage) -> Result<(), BridgeError> {
        self.client.send(message).await.map_err(BridgeError::Client)
    }

    fn pass_to_server(&mut self, message: ClientJsonRpcMessage) {
        let id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        self.asked.extend(id.clone());
        let cancelled = cancelled(&message);
        let sent = Transport::<RoleClient>::send(&mut self.server, message);
        self.sending.push(Box::pin(async move {
            let taken = sent.await.map_err(|error| NotTaken {
                id,
                why: why(&error),
                trouble: Trouble::of(&error),
            });
            Sent { cancelled, taken }
        }));
    }

    async fn pass_to_client(&mut self, message: ServerJsonRpcMessage) -> Result<(), BridgeError> {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        self.asked.retain(|id| answered != Some(id));
        self.tell(message).await
    }

    async fn was_sent(&mut self, sent: Sent) -> Result<(), BridgeError> {
        let Sent { cancelled, taken } = sent;
        // Only now: the bridge must not end before the server has heard of it. No answer comes.
        self.asked.retain(|id| cancelled.as_ref() != Some(id));
        if let Err(not_taken) = taken {
            self.refuse(&not_taken).await?;
            self.asked.retain(|id| not_taken.id.as_ref() != Some(id));
            self.why = not_taken.or(self.why.take());
        }
        Ok(())
    }

    /// So that the client hears why its request has no answer.
    async fn refuse(&mut self, not_taken: &NotTaken) -> Result<(), BridgeError> {
        let Some(id) = &not_taken.id else {
            return Ok(());
        };
        let (url, why) = (&self.url, &not_taken.why);
        let problem = format!("the server at {url} did not take the request: {why}");
        let problem = ErrorData::internal_error(problem, None);
        let refusal = JsonRpcMessage::error(problem, Some(id.clone()));
        self.tell(refusal).await
    }

    fn lost(&self) -> BridgeError {
        let (why, trouble) = match &self.why {
            Some(known) => (format!(": {}", known.why), known.trouble),
            None => (String::new(), Trouble::default()),
        };
        let url = self.url.clone();
        BridgeError::Lost { url, why, trouble }
    }
}

/// What the error says, and what caused it: `rmcp` does not give the causes of the client's errors.
fn why(error: &StreamableHttpError<reqwest::Error>) -> String {
    let said = match error {
        StreamableHttpError::Client(error) => with_causes(error),
        error => with_causes(error),
    };
    reason(said.as_bytes(), None)
}

/// Why a request is not passed on before the handshake is over.
fn too_early(request: &ClientRequest) -> ErrorData {
    match (request.method(), request) {
        // It is read as a request of an unknown method if its `params` do not fit.
        (method @ "initialize", ClientRequest::CustomRequest(_)) => wrong_params(method),
        (method, _) => {
            let problem = format!(
                "{method} came before the handshake was over: `initialize` comes first, and \
                 `notifications/initialized` after its answer"
            );
            ErrorData::invalid_request(problem, None)
        }
    }
}

/// The request that this message takes back, if it does that.
fn cancelled(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Notification(told) => match &told.notification {
            ClientNotification::CancelledNotification(told) => told.params.request_id.clone(),
            _ => None,
        },
        _ => None,
    }
}
