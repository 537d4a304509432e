//! A tool over HTTP whose server answers with something else than messages: what will not pass is not tried again.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use spechop_mcp::{McpOptions, McpRetriever, OpenError, Server};
use spechop_ports::{Call, PortError, Retriever};

use crate::bridge::served;

const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// A server that is asked as usual, and answers what it is asked by this method in its own way.
async fn options(
    method: &'static str,
    own: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> McpOptions {
    let endpoint = served(move |message: &Value| {
        let result = match message["method"].as_str().unwrap_or_default() {
            asked if asked == method => return own(),
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{
                "name": "search",
                "annotations": {"readOnlyHint": true},
                "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}},
            }]}),
            _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
            _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        (JSON, answer.to_string()).into_response()
    });
    let mut options = McpOptions::new(Server::Http(endpoint.await), "search");
    options.retries.pause = Duration::from_millis(1);
    options
}

#[tokio::test]
async fn what_a_server_will_never_take_is_asked_once() {
    for (status, body, expected, times) in [
        (401, "", "wants another key", 1),
        (403, "no", "wants another key", 1),
        (413, "too large", "413", 1),
        (422, "what?", "422", 1),
        // Its JSON is none.
        (200, "{", "could not parse JSON", 1),
        // Which may pass.
        (409, "", "409", 4),
        (500, "", "500", 4),
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let call = move || {
            count.fetch_add(1, SeqCst);
            (StatusCode::from_u16(status).unwrap(), JSON, body).into_response()
        };
        let tool = McpRetriever::open(options("tools/call", call).await)
            .await
            .unwrap();
        let error = tool.retrieve(&Call::authoritative(), "rivers", 5).await;
        let error = error.unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let said = format!("{error}: {}", cause.unwrap_or_default());
        assert!(said.contains(expected), "{status}: {said}");
        assert_eq!(asked.load(SeqCst), times, "{status}: {said}");
        let may_pass = matches!(error, PortError::Unavailable { .. });
        assert_eq!(may_pass, times > 1, "{status}: {said}");
    }
}

/// With a challenge, or without one.
#[tokio::test]
async fn a_key_that_is_refused_is_said_at_the_start() {
    for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
        for challenge in [None, Some((header::WWW_AUTHENTICATE, "Bearer"))] {
            let answer = move |_: &Value| match challenge.clone() {
                Some(challenge) => (status, [challenge]).into_response(),
                None => status.into_response(),
            };
            let options = McpOptions::new(Server::Http(served(answer).await), "search");
            let error = McpRetriever::open(options).await.unwrap_err();
            assert!(matches!(error, OpenError::Handshake { .. }), "{error}");
            let said = error.to_string();
            assert!(said.contains("target.mcp.api_key_env"), "{status}: {said}");
        }
        // It may greet everybody.
        let options = options("tools/list", move || status.into_response()).await;
        let said = McpRetriever::open(options).await.unwrap_err().to_string();
        assert!(said.contains("target.mcp.api_key_env"), "{status}: {said}");
    }
}
