//! Streamable HTTP: how a server at an address is spoken to.
//!
//! rmcp opens another session if the old one is answered with 404. Many servers that were restarted answer
//! with 400 instead, or with an error that does not name the request, which rmcp drops: the call would wait in vain,
//! and every later one, too. Here such an answer means the same as 404.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStream};
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use secrecy::ExposeSecret;
use serde_json::json;
use spechop_web::{HttpEndpoint, InvalidHttpEndpoint};
use tokio::time::Instant;

use crate::failure::{TOO_LONG, status_of};
use crate::options::McpOptions;

/// Messages to the server that may be under way at once. The scheduler lets fewer calls through.
const POSTS_MAX: usize = 256;
/// After so long, a session that has answered nothing may have been forgotten like any other.
const YOUTH: Duration = Duration::from_secs(10);

/// A connection to this address, which is not open yet.
pub(crate) fn transport(
    options: &McpOptions,
    endpoint: &HttpEndpoint,
) -> Result<StreamableHttpClientTransport<Http>, InvalidHttpEndpoint> {
    let (client, url) = endpoint.client()?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_string())
        .max_concurrent_requests(POSTS_MAX)
        .max_json_response_size(options.bytes_max)
        .max_sse_event_size(options.bytes_max);
    if let Some(key) = &endpoint.key {
        config = config.auth_header(key.expose_secret().trim());
    }
    let http = Http {
        client,
        young: Arc::default(),
    };
    Ok(StreamableHttpClientTransport::with_client(http, config))
}

/// What comes of a message that is sent.
type Answer = Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>>;

/// One event of a stream. rmcp has no other name for its type.
type Event = <BoxedSseResponse as TryStream>::Ok;

/// rmcp's client of HTTP, which says in rmcp's words what servers say in theirs. Clones share everything.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    /// The session that was opened last, until it has answered a request and refused none.
    young: Arc<Mutex<Option<Young>>>,
}

/// A session that the server cannot have forgotten yet. If it is refused, another one would be, too.
struct Young {
    id: String,
    since: Instant,
    /// Whether a call was refused in it: then calls are refused here, and not sessions.
    has_refused: bool,
}

impl Http {
    /// Whether this session cannot be why a call is refused. It cannot be for those that follow soon, either.
    fn is_innocent(&self, session: &str) -> bool {
        let mut young = self.young.lock();
        let Some(young) = young.as_mut().filter(|young| young.id == session) else {
            return false;
        };
        let is_young = young.since.elapsed() < YOUTH;
        if is_young {
            young.has_refused = true;
            young.since = Instant::now();
        }
        is_young
    }

    /// The answer to a message that belongs to no session may open one.
    fn begin(&self, answer: &Answer) {
        if let Ok(
            StreamableHttpPostResponse::Json(_, Some(id))
            | StreamableHttpPostResponse::Sse(_, Some(id)),
        ) = answer
        {
            *self.young.lock() = Some(Young {
                id: id.clone(),
                since: Instant::now(),
                has_refused: false,
            });
        }
    }

    /// A session has answered a request.
    fn grow_up(&self, session: &str) {
        let mut young = self.young.lock();
        let is_well = |young: &Young| young.id == session && !young.has_refused;
        if young.as_ref().is_some_and(is_well) {
            *young = None;
        }
    }
}

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Answer {
        let asked = asked(&message);
        let session = session_id.clone();
        let post = self.client.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        );
        let answer = post.await;
        if session.is_none() {
            self.begin(&answer);
        }
        let Some(asked) = asked else {
            return answer;
        };
        if let Some(session) = session {
            let is_refused = is_refused(&answer, &asked);
            if is_refused && !self.is_innocent(&session) {
                tracing::info!(
                    "the MCP server seems to have forgotten the session: another one is opened"
                );
                return Err(StreamableHttpError::SessionExpired);
            }
            if !is_refused && answer.is_ok() {
                self.grow_up(&session);
            }
        }
        answer.map(|response| addressed(response, asked, limits.max_sse_event_size))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<reqwest::Error>> {
        let delete = self
            .client
            .delete_session(uri, session_id, auth_header, custom_headers);
        delete.await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, StreamableHttpError<reqwest::Error>> {
        let get =
            self.client
                .get_stream(uri, session_id, last_event_id, auth_header, custom_headers);
        get.await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxedSseResponse, StreamableHttpError<reqwest::Error>> {
        let get = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            max_sse_event_size,
        );
        get.await
    }
}

/// The request that somebody waits for, if it may belong to a session. The handshake, which opens one, is left
/// to rmcp.
fn asked(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => match request.request {
            ClientRequest::InitializeRequest(_) => None,
            _ => Some(request.id.clone()),
        },
        _ => None,
    }
}

/// Whether a server does not take a request, as it does if it has forgotten the session. Whoever names the
/// request has read it, and a server that broke down over it has taken it.
fn is_refused(answer: &Answer, asked: &RequestId) -> bool {
    match answer {
        Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), _)) => {
            // Some write numbers as texts.
            let asked = asked.to_string();
            let is_named = (error.id.as_ref()).is_some_and(|id| id.to_string() == asked);
            !is_named && error.error.code != ErrorCode::INTERNAL_ERROR
        }
        Ok(_) => false,
        Err(error) => status_of(error) == Some(400),
    }
}

/// The answer as that to this request. What comes with its response can be an answer to nothing else.
fn addressed(
    response: StreamableHttpPostResponse,
    asked: RequestId,
    bytes_max: usize,
) -> StreamableHttpPostResponse {
    match response {
        StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(mut error), session) => {
            error.id = Some(asked);
            StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session)
        }
        StreamableHttpPostResponse::Sse(events, session) => {
            // rmcp would say no more than that the stream has ended.
            let events = events.map(move |event| match event {
                Err(error) if is_too_long(&error) => Ok(too_long(&asked, bytes_max)),
                event => event,
            });
            StreamableHttpPostResponse::Sse(events.boxed(), session)
        }
        response => response,
    }
}

/// rmcp keeps the type of this error to itself.
fn is_too_long(error: &SseError) -> bool {
    let told = "SSE event exceeded the maximum size";
    matches!(error, SseError::Body(cause) if cause.to_string().starts_with(told))
}

/// The answer to this request, in place of an event that is too long.
fn too_long(asked: &RequestId, bytes_max: usize) -> Event {
    let told = format!("it wrote a message of more than {bytes_max} bytes");
    let error = ErrorData::new(TOO_LONG, told, None);
    let answer = json!({ "jsonrpc": "2.0", "id": asked, "error": error });
    Event::default().data(answer.to_string())
}
