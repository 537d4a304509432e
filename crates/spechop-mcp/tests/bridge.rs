//! The bridge from standard input to a scripted server over HTTP: whatever the server does not take,
//! the client hears.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests, whose tasks end with them"
)]

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use serde_json::{Value, json};
use spechop_mcp::bridge::{BridgeError, Tls, Trouble, bridge};
use spechop_testkit::OwnPort;
use spechop_web::HttpEndpoint;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that answers each message in its own way.
pub(crate) async fn served(
    answer: impl Fn(&Value) -> Response + Clone + Send + Sync + 'static,
) -> HttpEndpoint {
    served_by_head(move |_, message| answer(message)).await
}

/// The same for one that looks at the head of a request, too.
pub(crate) async fn served_by_head(
    answer: impl Fn(&HeaderMap, &Value) -> Response + Clone + Send + Sync + 'static,
) -> HttpEndpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let post = routing::post(async move |head: HeaderMap, body: String| {
        answer(&head, &serde_json::from_str(&body).unwrap())
    });
    let app = Router::new().route("/mcp", post);
    tokio::spawn(async move { axum::serve(listener, app).await });
    HttpEndpoint::new("the server", format!("http://{address}/mcp"))
}

/// A client at the other end of the bridge.
struct Client {
    input: DuplexStream,
    output: BufReader<DuplexStream>,
    bridge: JoinHandle<Result<(), BridgeError>>,
}

impl Client {
    fn new(endpoint: HttpEndpoint) -> Self {
        let (input, theirs) = tokio::io::duplex(1 << 16);
        let (ours, output) = tokio::io::duplex(1 << 16);
        let bridge = tokio::spawn(async move {
            let tls = Tls::default();
            bridge(&endpoint, &tls, None, theirs, ours).await
        });
        Self {
            input,
            output: BufReader::new(output),
            bridge,
        }
    }

    async fn write(&mut self, messages: &[Value]) {
        let lines: String = messages.iter().map(|m| format!("{m}\n")).collect();
        self.input.write_all(lines.as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        timeout(PATIENCE, read).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

fn hello() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "x", "version": "1" },
    } })
}

/// Takes whoever comes, and no request after that.
fn takes_no_request(message: &Value) -> Response {
    match message["method"].as_str().unwrap() {
        "initialize" => {
            let hello = json!({ "jsonrpc": "2.0", "id": message["id"], "result": {
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                "serverInfo": { "name": "y", "version": "1" },
            } });
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, hello.to_string()).into_response()
        }
        "notifications/initialized" => StatusCode::ACCEPTED.into_response(),
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

#[tokio::test]
async fn a_request_that_is_not_taken_has_an_answer_at_once() {
    let mut client = Client::new(served(takes_no_request).await);
    client.write(&[hello()]).await;
    assert!(client.read().await["result"].is_object());
    // What is taken goes before what is not, and nothing comes behind them.
    client
        .write(&[
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        ])
        .await;
    let refusal = client.read().await;
    assert_eq!(refusal["id"], 1, "{refusal}");
    let said = refusal["error"]["message"].as_str().unwrap();
    assert!(said.contains("did not take the request"), "{said}");
}

#[tokio::test]
async fn before_the_handshake_is_over_a_ping_is_answered_and_all_else_refused() {
    let mut client = Client::new(served(takes_no_request).await);
    let request = |id: u32, method: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method });
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    // Once before it has begun, and once before its end.
    for begins in [true, false] {
        client
            .write(&[request(1, "ping"), request(2, "tools/list")])
            .await;
        let pong = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
        assert_eq!(client.read().await, pong);
        let refusal = client.read().await;
        assert_eq!(refusal["id"], 2, "{refusal}");
        assert_eq!(refusal["error"]["code"], -32600, "{refusal}");
        client.write(&[request(3, "initialize")]).await;
        let refusal = client.read().await;
        assert_eq!(refusal["error"]["code"], -32602, "{refusal}");
        if begins {
            client.write(&[initialized.clone(), hello()]).await;
            assert!(client.read().await["result"].is_object());
        }
    }
    // It has lived on.
    client.write(&[initialized, request(4, "tools/list")]).await;
    let refusal = client.read().await;
    let said = refusal["error"]["message"].as_str().unwrap();
    assert!(said.contains("did not take the request"), "{said}");
}

#[tokio::test]
async fn what_was_asked_before_the_input_ended_is_answered() {
    let mut client = Client::new(served(takes_no_request).await);
    client.write(&[hello()]).await;
    client.input.shutdown().await.unwrap();
    assert!(client.read().await["result"].is_object());
    let ended = timeout(PATIENCE, &mut client.bridge).await.unwrap();
    assert!(ended.unwrap().is_ok());
}

/// Takes everything, and answers no call.
fn answers_no_call(message: &Value) -> Response {
    match message["method"].as_str().unwrap() {
        "tools/call" => {
            let kind = [(header::CONTENT_TYPE, "text/event-stream")];
            let silence = futures::stream::pending::<Result<String, std::io::Error>>();
            (kind, axum::body::Body::from_stream(silence)).into_response()
        }
        "notifications/cancelled" => StatusCode::ACCEPTED.into_response(),
        _ => takes_no_request(message),
    }
}

#[tokio::test]
async fn nobody_waits_for_what_was_cancelled() {
    let mut client = Client::new(served(answers_no_call).await);
    client.write(&[hello()]).await;
    assert!(client.read().await["result"].is_object());
    client
        .write(&[
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "ask" } }),
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
        ])
        .await;
    client.input.shutdown().await.unwrap();
    let soon = Duration::from_secs(5);
    let ended = timeout(soon, &mut client.bridge).await.unwrap();
    assert!(ended.unwrap().is_ok());
}

/// A server that hangs up on whatever is said to it.
async fn hangs_up() -> HttpEndpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read_u8().await;
        }
    });
    HttpEndpoint::new("the server", format!("http://{address}/mcp"))
}

#[tokio::test]
async fn a_server_that_wants_a_key_is_told_from_none() {
    let wants_key: fn(&Value) -> Response = |_| {
        let bearer = [(header::WWW_AUTHENTICATE, "Bearer")];
        (StatusCode::UNAUTHORIZED, bearer).into_response()
    };
    let forbids: fn(&Value) -> Response = |_| StatusCode::FORBIDDEN.into_response();
    let nobody = OwnPort::reserve();
    let nowhere = format!("http://{}/mcp", nobody.address());
    for (endpoint, expected) in [
        (served(wants_key).await, Trouble::Key),
        (served(forbids).await, Trouble::Key),
        (HttpEndpoint::new("the server", nowhere), Trouble::NoServer),
        (hangs_up().await, Trouble::Broken),
    ] {
        let mut client = Client::new(endpoint);
        // What comes behind it meets a connection that has ended, which explains nothing.
        let more = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        client.write(&[hello(), more]).await;
        let refusal = client.read().await;
        assert!(refusal["error"].is_object(), "{refusal}");
        let ended = timeout(PATIENCE, &mut client.bridge).await.unwrap();
        match ended.unwrap() {
            Err(BridgeError::Lost { trouble, why, .. }) => {
                assert_eq!(trouble, expected, "{why}");
                let has_no_cause = why.ends_with("/mcp)");
                assert!(!has_no_cause, "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}
