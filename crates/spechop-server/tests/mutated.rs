//! Bodies that are nearly right, at every door that takes JSON: a clear error in the door's own form or an answer, and
//! never a failure of the server.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::support::{Server, apart, config};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};
use spechop_testkit::Script;

const BODIES_EACH: usize = 80;

/// The status and the body of what is answered.
async fn post(server: &Server, path: &str, body: &[u8]) -> (u16, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n"
    );
    let (status, _, body) = server.http1(&head, body).await;
    (status, body)
}

/// A number below `end`.
fn below(rng: &mut TestRng, end: usize) -> usize {
    rng.next_u32() as usize % end
}

/// The text with one to three faults, as a careless program or a hostile one makes them.
fn broken(rng: &mut TestRng, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=below(rng, 3) {
        if bytes.is_empty() {
            break;
        }
        let at = below(rng, bytes.len());
        match below(rng, 6) {
            0 => bytes.truncate(at),
            1 => bytes[at] = rng.next_u32() as u8,
            2 => bytes.insert(at, b"{}[]\",:\\-0"[below(rng, 10)]),
            3 => {
                let end = at + below(rng, bytes.len() - at);
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            4 => {
                let wrong = ["null", "1e999", "-1", "[[[[", "\"\\ud800\"", "\u{0}"][below(rng, 6)];
                bytes.splice(at..at, wrong.bytes());
            }
            _ => {
                bytes.remove(at);
            }
        }
    }
    bytes
}

/// The message of an error, in our form, in OpenAI's, or in that of JSON-RPC.
fn message(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let message = [&body["message"], &body["error"]["message"]];
    let mut message = message.into_iter().filter_map(Value::as_str);
    message.next().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_nearly_right_gets_a_clear_error() {
    let config = config("[server]\nretrieve = true\ntool_outputs = 4\nkept_ms = 3600000\n");
    let server = Server::equipped(Script::instant(1), config, |toolbox, config| {
        toolbox.encoding(Arc::new(apart()), config)
    })
    .await;
    let chat = json!({ "role": "user", "content": "Who is it?" });
    let tool = json!({ "name": "ask", "arguments": { "question": "Who is it?", "k": 2 } });
    // One that is answered, to be simulated.
    let named = json!({ "question": "Who is it?", "question_id": "q" }).to_string();
    let (status, said) = post(&server, "/v1/ask", named.as_bytes()).await;
    assert_eq!(status, 200, "{said}");
    let doors = [
        (
            "/v1/ask",
            json!({ "question": "Who is it?", "deadline_ms": 900 }),
        ),
        (
            "/v1/ask/stream",
            json!({ "question": "Who is it?", "budget": { "tokens": 9 } }),
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "spechop", "messages": [chat], "n": 1 }),
        ),
        (
            "/v1/embeddings",
            json!({ "model": "spechop-query", "input": ["a text", "b"] }),
        ),
        ("/retrieve", json!({ "queries": ["a text"], "topk": 3 })),
        (
            "/v1/tool-cache",
            json!({ "tool": "search", "arguments": { "a": [1, 2.5] }, "output": ["b"] }),
        ),
        (
            "/mcp",
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool }),
        ),
        (
            "/v1/tool-cache/query",
            json!({ "tool": "search", "arguments": { "a": [1, 2.5] } }),
        ),
        (
            "/v1/questions/q/what-if",
            json!({ "k": 2, "plan_ahead": true }),
        ),
    ];
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for (path, right) in doors {
        let right = right.to_string();
        let mut refused = 0;
        for _ in 0..BODIES_EACH {
            let body = broken(&mut rng, &right);
            let shown = String::from_utf8_lossy(&body).into_owned();
            let (status, said) = post(&server, path, &body).await;
            assert!(status < 500, "{path} {shown}: {status} {said}");
            if status >= 400 {
                refused += 1;
                // The library that speaks MCP says it in words alone.
                let is_told = message(&said).is_some_and(|message| !message.is_empty());
                let is_told = is_told || (path == "/mcp" && !said.is_empty());
                assert!(is_told, "{path} {shown}: {status} {said}");
            }
        }
        assert!(refused > BODIES_EACH / 4, "{path}: {refused}");
        // Whoever asks rightly is answered as before.
        let (status, said) = post(&server, path, right.as_bytes()).await;
        assert_eq!(status, 200, "{path}: {said}");
    }
    server.is_idle().await;
}

/// A hundred kilobytes in one field, if such requests are let in at all: by default only a chat is.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_field_is_refused_by_its_name() {
    let toml = "[server]\nmessage_bytes_max = 200000\n";
    let server = Server::configured(Script::instant(1), toml).await;
    let long = "x".repeat(100_000);
    let chat = json!({ "model": "spechop", "messages": [{ "role": "user", "content": long }] });
    let tool = json!({ "name": "ask", "arguments": { "question": long } });
    let tool = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool });
    for (path, body, status, name) in [
        ("/v1/ask", json!({ "question": long }), 400, "question"),
        (
            "/v1/ask/stream",
            json!({ "question": long }),
            400,
            "question",
        ),
        ("/v1/chat/completions", chat, 400, "messages"),
        // A refusal of the tool is a result in MCP.
        ("/mcp", tool, 200, "question"),
    ] {
        let (got, said) = post(&server, path, body.to_string().as_bytes()).await;
        assert_eq!(got, status, "{path}: {said}");
        assert!(said.contains(name), "{path}: {said}");
        assert!(
            said.len() < 2000,
            "{path}: nothing is repeated: {}",
            said.len()
        );
    }
    server.is_idle().await;
}
