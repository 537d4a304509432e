//! OpenAI's form of a question, its streams and its errors. The unmodified client is in `real/`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/over_http.rs"]
mod over_http;
mod support;

use over_http::{client, url};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use spechop_testkit::Script;
use spechop_types::Stage;
use support::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_streams_its_hops_and_tells_errors_in_openais_form() {
    let chat = async |server: &Server, fields: Value| {
        let mut body = json!({
            "messages": [{ "role": "user", "content": "q" }],
            "spechop": { "k": 1 },
        });
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let request = client().post(url(server, "/v1/chat/completions"));
        request.json(&body).send().await.unwrap()
    };
    let streamed = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let lines = async |response: Response| {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = response.text().await.unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let server = Server::start(Script::instant(2)).await;
    let mut told = lines(chat(&server, streamed.clone()).await).await;
    assert_eq!(told.pop().unwrap(), "[DONE]");
    let chunks: Vec<Value> = told
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (last, chunks) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["total_tokens"].is_u64());
    let joined = |field: &str| -> String {
        let deltas = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0]["delta"][field]);
        deltas.filter_map(Value::as_str).collect()
    };
    assert_eq!(joined("content"), "so fact 1");
    let reasoning = joined("reasoning_content");
    assert!(
        reasoning.starts_with("1. ") && reasoning.contains("\n2. "),
        "{reasoning}"
    );
    server.is_idle().await;

    let mut script = Script::instant(2);
    script.failures.insert((1, Stage::Target), u32::MAX);
    let server = Server::start(script).await;
    let told = lines(chat(&server, streamed).await).await;
    let error: Value = serde_json::from_str(told.last().unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "unavailable");
    assert_eq!(error["error"]["type"], "server_error");
    let wrong = chat(&server, json!({ "n": 2 })).await;
    assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);
    let error: Value = wrong.json().await.unwrap();
    assert_eq!(error["error"]["param"], "n");
    assert_eq!(error["error"]["type"], "invalid_request_error");
    // A long conversation is no trouble: only its last message is asked.
    let long = json!([
        { "role": "user", "content": "x".repeat(100_000) },
        { "role": "user", "content": "q" },
    ]);
    let server = Server::start(Script::instant(1)).await;
    let response = chat(&server, json!({ "messages": long })).await;
    assert_eq!(response.status(), StatusCode::OK);
    let said: Value = response.json().await.unwrap();
    let reasoning = said["choices"][0]["message"]["reasoning_content"]
        .as_str()
        .unwrap();
    assert!(
        reasoning.starts_with("Only the last message was asked"),
        "{reasoning}"
    );
}
