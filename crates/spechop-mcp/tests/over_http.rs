//! A tool over HTTP whose server answers with something else than messages, or has forgotten who asks: what will not
//! pass is not tried again.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use spechop_mcp::{McpOptions, McpRetriever, OpenError, Server};
use spechop_ports::{Call, PortError, Retriever};
use spechop_web::HttpEndpoint;

use crate::bridge::{served, served_by_head};

const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// A server that is asked as usual, and answers what it is asked by this method in its own way.
async fn options(
    method: &'static str,
    own: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> McpOptions {
    let endpoint = served(move |message: &Value| match message["method"] == method {
        true => own(),
        false => usual(message),
    });
    impatient(endpoint.await)
}

/// The options for a server that is asked again at once.
fn impatient(endpoint: HttpEndpoint) -> McpOptions {
    let mut options = McpOptions::new(Server::Http(endpoint), "search");
    options.retries.pause = Duration::from_millis(1);
    options
}

/// What any server answers.
fn usual(message: &Value) -> Response {
    let result = match message["method"].as_str().unwrap_or_default() {
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
        "tools/call" => json!({"content": [{"type": "text", "text": "The Seine is a river."}]}),
        _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    answered(message, &result)
}

fn answered(message: &Value, result: &Value) -> Response {
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    (JSON, answer.to_string()).into_response()
}

/// A tool that takes this argument.
fn tool(name: &str, argument: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": {argument: {}}}})
}

/// What a look-up fails with, and its cause.
async fn failure(tool: &McpRetriever) -> (PortError, String) {
    let error = tool.retrieve(&Call::authoritative(), "rivers", 5).await;
    let error = error.unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let said = format!("{error}: {}", cause.unwrap_or_default());
    (error, said)
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
        // Its error names no request, or another one.
        (
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such query"}}"#,
            "no such query",
            1,
        ),
        (
            500,
            r#"{"jsonrpc":"2.0","id":"none","error":{"code":-32603,"message":"it broke"}}"#,
            "it broke",
            4,
        ),
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
        let (error, said) = failure(&tool).await;
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

/// A server that names a next page behind each one, and what it was asked for.
async fn endless(
    on_a_page: impl Fn(usize) -> Vec<Value> + Clone + Send + Sync + 'static,
) -> (McpOptions, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answer = move |message: &Value| match message["method"] == "tools/list" {
        true => {
            let tools = on_a_page(count.fetch_add(1, SeqCst));
            // A page that may be kept is asked for again all the same.
            let page = json!({"tools": tools, "nextCursor": "more", "ttlMs": 60_000});
            answered(message, &page)
        }
        false => usual(message),
    };
    (impatient(served(answer).await), asked)
}

#[tokio::test]
async fn a_list_of_tools_without_an_end_is_given_up() {
    for (tools, pages) in [(1, 100), (6_000, 2)] {
        let endless = endless(move |_| {
            let tools = (0..tools).map(|n| tool(&format!("find-{n}"), "query"));
            tools.collect()
        });
        let (options, asked) = endless.await;
        let error = McpRetriever::open(options).await.unwrap_err();
        assert!(matches!(error, OpenError::LongList { .. }), "{error}");
        assert!(!error.may_pass());
        let said = error.to_string();
        assert!(said.ends_with(&format!("first {pages} pages")), "{said}");
        assert_eq!(asked.load(SeqCst), pages, "{said}");
    }
    // It is read as far as the tool.
    let endless = endless(|page| vec![tool(["find", "search"][page], "query")]);
    let (options, asked) = endless.await;
    let tool = McpRetriever::open(options).await.unwrap();
    assert_eq!(asked.load(SeqCst), 2);
    let found = tool.retrieve(&Call::authoritative(), "rivers", 5).await;
    assert_eq!(found.unwrap().len(), 1);
}

#[tokio::test]
async fn long_names_of_tools_and_arguments_are_not_repeated_whole() {
    let long = "x".repeat(100_000);
    for (name, argument, expected) in [
        (&*long, "query", "its tools are: xxx"),
        ("search", &*long, "its arguments are: xxx"),
    ] {
        let page = json!({"tools": [tool(name, argument)]});
        let answer = move |message: &Value| match message["method"] == "tools/list" {
            true => answered(message, &page),
            false => usual(message),
        };
        let options = impatient(served(answer).await);
        let said = McpRetriever::open(options).await.unwrap_err().to_string();
        assert!(said.contains(expected), "{said:.1000}");
        assert!(said.len() < 1_000, "{}", said.len());
    }
}

const SESSION: &str = "mcp-session-id";

/// Ways to say with 400 that a session is not known: what kind of text, and which.
const REFUSALS: [(&str, &str); 4] = [
    ("text/plain", "Bad Request: No valid session ID provided"),
    (
        "application/json",
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: not initialized"}}"#,
    ),
    (
        "application/json",
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: no session"}}"#,
    ),
    (
        "application/json",
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request"}}"#,
    ),
];

/// A server with sessions, and what it was asked.
#[derive(Default)]
struct Sessions {
    /// It knows no session from before the last one.
    restarts: AtomicUsize,
    takes_no_call: AtomicBool,
    takes_nothing: AtomicBool,
    hellos: AtomicUsize,
    calls: AtomicUsize,
}

impl Sessions {
    /// The tool of such a server.
    async fn tool(self: &Arc<Self>, (kind, refusal): (&'static str, &'static str)) -> McpRetriever {
        let sessions = Arc::clone(self);
        let endpoint = served_by_head(move |head: &HeaderMap, message: &Value| {
            sessions.answer(head, message).unwrap_or_else(|| {
                let kind = [(header::CONTENT_TYPE, kind)];
                (StatusCode::BAD_REQUEST, kind, refusal).into_response()
            })
        });
        let options = impatient(endpoint.await);
        McpRetriever::open(options).await.unwrap()
    }

    /// `None` if it refuses.
    fn answer(&self, head: &HeaderMap, message: &Value) -> Option<Response> {
        let ours = format!("session-{}", self.restarts.load(SeqCst));
        let is_known = head.get(SESSION).is_some_and(|id| *id == ours);
        let method = message["method"].as_str().unwrap();
        let is_taken = match method {
            "initialize" => {
                self.hellos.fetch_add(1, SeqCst);
                true
            }
            "tools/call" => {
                self.calls.fetch_add(1, SeqCst);
                is_known && !self.takes_no_call.load(SeqCst)
            }
            _ => is_known,
        };
        (is_taken && !self.takes_nothing.load(SeqCst)).then(|| {
            let mut response = usual(message);
            if method == "initialize" {
                response
                    .headers_mut()
                    .insert(SESSION, ours.parse().unwrap());
            }
            response
        })
    }

    /// How often it was greeted and called.
    fn asked(&self) -> (usize, usize) {
        (self.hellos.load(SeqCst), self.calls.load(SeqCst))
    }
}

#[tokio::test]
async fn a_server_that_was_restarted_is_greeted_again() {
    for refusal in REFUSALS {
        let sessions = Arc::new(Sessions::default());
        let tool = sessions.tool(refusal).await;
        // Each restart costs the call that finds it out.
        for (restarts, asked) in [(0, (1, 1)), (1, (2, 3)), (0, (2, 4)), (1, (3, 6))] {
            sessions.restarts.fetch_add(restarts, SeqCst);
            let found = tool.retrieve(&Call::authoritative(), "rivers", 5).await;
            assert!(!found.unwrap().is_empty(), "{refusal:?}");
            assert_eq!(sessions.asked(), asked, "{refusal:?}");
        }
    }
}

#[tokio::test]
async fn what_every_session_refuses_is_told_in_the_servers_words() {
    // Errors that may pass are tried again, as without sessions.
    for (refusal, calls) in REFUSALS.into_iter().zip([1, 4, 4, 1]) {
        let sessions = Arc::new(Sessions::default());
        sessions.takes_no_call.store(true, SeqCst);
        let tool = sessions.tool(refusal).await;
        // Of the second session it is known that it is not to blame.
        for asked in [(2, 1 + calls), (2, 1 + 2 * calls)] {
            let (_, said) = failure(&tool).await;
            assert!(said.contains("Bad Request"), "{refusal:?}: {said}");
            assert_eq!(sessions.asked(), asked, "{refusal:?}: {said}");
        }
        // An answer in between does not put the blame on the session.
        sessions.takes_no_call.store(false, SeqCst);
        let found = tool.retrieve(&Call::authoritative(), "rivers", 5).await;
        assert!(found.is_ok(), "{refusal:?}");
        sessions.takes_no_call.store(true, SeqCst);
        let (_, said) = failure(&tool).await;
        assert_eq!(sessions.asked(), (2, 2 + 3 * calls), "{refusal:?}: {said}");
    }
}

#[tokio::test]
async fn a_server_that_takes_nothing_any_more_is_not_pressed() {
    for (refusal, attempts) in REFUSALS.into_iter().zip([1, 4, 4, 4]) {
        let sessions = Arc::new(Sessions::default());
        let tool = sessions.tool(refusal).await;
        sessions.takes_nothing.store(true, SeqCst);
        let (_, said) = failure(&tool).await;
        assert!(said.contains("Bad Request"), "{refusal:?}: {said}");
        let asked = (1 + attempts, attempts);
        assert_eq!(sessions.asked(), asked, "{refusal:?}: {said}");
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_is_not_asked_for_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let call = move || {
        count.fetch_add(1, SeqCst);
        let kind = [(header::CONTENT_TYPE, "text/event-stream")];
        (kind, format!("data: {}\n\n", "x".repeat(20_000))).into_response()
    };
    let mut options = options("tools/call", call).await;
    options.bytes_max = 10_000;
    let tool = McpRetriever::open(options).await.unwrap();
    let (error, said) = failure(&tool).await;
    assert!(matches!(error, PortError::Malformed { .. }), "{said}");
    assert!(said.contains("more than 10000 bytes"), "{said}");
    assert_eq!(asked.load(SeqCst), 1);
}
