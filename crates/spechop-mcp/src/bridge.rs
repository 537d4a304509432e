//! A server at an address for clients that start a program: messages go from standard input to HTTP,
//! and back to standard output, as they are.

use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{RoleClient, RoleServer};
use secrecy::ExposeSecret;
use spechop_web::{Endpoint, InvalidEndpoint};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::failure::chain;

/// Requests of one client that may be under way at once.
const REQUESTS_MAX: usize = 64;

/// Why the bridge ended before its client did.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The address cannot be used.
    #[error(transparent)]
    Endpoint(#[from] InvalidEndpoint),
    /// The server is not there, or does not speak MCP there.
    #[error("the connection to {url} ended{why}")]
    Lost {
        /// Where the server should be.
        url: String,
        /// What is known about it, after a colon.
        why: String,
    },
    /// No header can carry the tenant's name.
    #[error("{0:?} is no name of a tenant: use letters, digits, `.`, `-` and `_`")]
    Tenant(String),
    /// The client cannot be written to.
    #[error("cannot write to the client")]
    Client(#[source] std::io::Error),
}

/// Carries messages until the input ends, with the key of the endpoint, on behalf of a tenant.
///
/// # Errors
///
/// What ended the connection to the server.
pub async fn bridge(
    endpoint: &Endpoint,
    tenant: Option<&str>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), BridgeError> {
    let mut client = AsyncRwTransport::<RoleServer, _, _>::new(input, output);
    let (http, url) = endpoint.client()?;
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
    let mut server = StreamableHttpClientTransport::with_client(http, config);
    let mut sending = JoinSet::new();
    let mut trouble = None;
    loop {
        tokio::select! {
            message = client.receive() => {
                let Some(message) = message else {
                    // The client has gone: whatever is under way is nobody's.
                    return Ok(());
                };
                let id = match &message {
                    JsonRpcMessage::Request(request) => Some(request.id.clone()),
                    _ => None,
                };
                let sent = Transport::<RoleClient>::send(&mut server, message);
                sending.spawn(async move { (id, sent.await.map_err(|error| chain(&error))) });
            }
            message = Transport::<RoleClient>::receive(&mut server) => {
                let Some(message) = message else {
                    let why = trouble.map(|why| format!(": {why}")).unwrap_or_default();
                    return Err(BridgeError::Lost { url: url.to_string(), why });
                };
                client.send(message).await.map_err(BridgeError::Client)?;
            }
            Some(Ok((id, Err(why)))) = sending.join_next() => {
                if let Some(id) = id {
                    let refusal = refusal(id, &url, &why);
                    client.send(refusal).await.map_err(BridgeError::Client)?;
                }
                trouble = Some(why);
            }
        }
    }
}

/// So that the client hears why its request has no answer.
fn refusal(
    id: RequestId,
    url: impl std::fmt::Display,
    why: &str,
) -> rmcp::service::TxJsonRpcMessage<RoleServer> {
    let problem = format!("the server at {url} did not take the request: {why}");
    JsonRpcMessage::error(ErrorData::internal_error(problem, None), Some(id))
}
