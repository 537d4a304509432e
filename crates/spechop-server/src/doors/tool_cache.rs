//! `POST /v1/tool-cache`: a client leaves outputs of tool calls that it has made itself, and asks for them.
//!
//! ```text
//! POST /v1/tool-cache        {"tool": "retrieve", "arguments": {"query": "…"}, "output": […], "ttl_s": 60}
//!                            {"cached": true}
//! POST /v1/tool-cache/query  {"tool": "retrieve", "arguments": {"query": "…"}}
//!                            {"cached": true, "output": […]} or {"cached": false}
//! ```
//!
//! A question of the same tenant that looks up just that takes the output in place of a look-up. Errors have
//! the form of [`HttpError`].

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use serde::Deserialize;
use serde_json::{Map, Value};
use spechop_types::Tenant;

use super::json_text;
use crate::caller::caller;
use crate::json_object;
use crate::server_state::ServerState;
use crate::status::{AskError, HttpError};
use crate::tool_cache::{NotKept, ToolCache, ToolCall};

/// Longest request that leaves an output, unless others may be longer.
pub(crate) const BYTES_MAX: usize = 512 << 10;
/// Where outputs are left.
pub(crate) const PATH: &str = "/v1/tool-cache";
/// Where they are asked for.
pub(crate) const QUERY_PATH: &str = "/v1/tool-cache/query";

/// How long an output counts if nothing is said, and at most.
const TTL_S: f64 = 300.0;
const TTL_S_MAX: f64 = 86_400.0;
/// Longest name of a tool, in bytes.
const TOOL_BYTES_MAX: usize = 128;

/// An output to be kept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    output: Value,
    ttl_s: Option<f64>,
}

/// A call whose output is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// Reads a request and answers it in JSON.
type Work = fn(&ToolDoor, &Tenant, &[u8]) -> Result<String, AskError>;

/// What answers.
#[derive(Clone)]
pub(crate) struct ToolDoor {
    state: Arc<ServerState>,
    cache: Arc<ToolCache>,
}

impl ToolDoor {
    pub(crate) fn new(state: &Arc<ServerState>, cache: &Arc<ToolCache>) -> Self {
        Self {
            state: Arc::clone(state),
            cache: Arc::clone(cache),
        }
    }

    /// The route of [`PATH`].
    pub(crate) fn put(self) -> MethodRouter {
        self.route(Self::keep)
    }

    /// The route of [`QUERY_PATH`].
    pub(crate) fn query(self) -> MethodRouter {
        self.route(Self::find)
    }

    fn route(self, work: Work) -> MethodRouter {
        post(async move |head: Parts, body: Bytes| self.respond(&head, &body, work))
            // The transport has seen to it.
            .layer(DefaultBodyLimit::disable())
    }

    fn respond(&self, head: &Parts, body: &[u8], work: Work) -> Response {
        if self.state.phases.closing.is_cancelled() {
            return HttpError::from(AskError::ShuttingDown).into_response();
        }
        let caller = caller(&head.headers, &head.extensions);
        match caller.and_then(|caller| work(self, &caller.tenant, body)) {
            Ok(answer) => json_text(StatusCode::OK, answer),
            Err(error) => HttpError::from(error).into_response(),
        }
    }

    fn keep(&self, tenant: &Tenant, body: &[u8]) -> Result<String, AskError> {
        const FORM: &str = r#"must be JSON such as {"tool": "retrieve", "arguments": {"query": "…"}, "output": […], "ttl_s": 60}"#;
        let put: Put = json_object::read(body, FORM)?;
        let ttl_s = put.ttl_s.unwrap_or(TTL_S);
        if !(ttl_s > 0.0 && ttl_s <= TTL_S_MAX) {
            let problem = format!("must be above 0 and at most {TTL_S_MAX}, not {ttl_s}");
            return Err(AskError::wrong("ttl_s", problem));
        }
        let call = tool_call(put.tool, put.arguments)?;
        let time = Duration::from_secs_f64(ttl_s);
        let kept = self.cache.put(tenant, call, &put.output, time);
        kept.map_err(|error| AskError::wrong(field(&error), error.to_string()))?;
        Ok(r#"{"cached":true}"#.to_owned())
    }

    fn find(&self, tenant: &Tenant, body: &[u8]) -> Result<String, AskError> {
        const FORM: &str =
            r#"must be JSON such as {"tool": "retrieve", "arguments": {"query": "…"}}"#;
        let Query { tool, arguments } = json_object::read(body, FORM)?;
        let call = tool_call(tool, arguments)?;
        Ok(match self.cache.output(tenant, &call) {
            Some(output) => format!(r#"{{"cached":true,"output":{output}}}"#),
            None => r#"{"cached":false}"#.to_owned(),
        })
    }
}

/// Which part of a call it is about.
fn field(error: &NotKept) -> &'static str {
    match error {
        NotKept::Arguments => "arguments",
        NotKept::Documents(_) | NotKept::TooLong { .. } => "output",
    }
}

fn tool_call(tool: String, arguments: Map<String, Value>) -> Result<ToolCall, AskError> {
    if tool.trim().is_empty() || tool.len() > TOOL_BYTES_MAX {
        let problem = format!("must have a name of 1 to {TOOL_BYTES_MAX} bytes");
        return Err(AskError::wrong("tool", problem));
    }
    Ok(ToolCall { tool, arguments })
}
