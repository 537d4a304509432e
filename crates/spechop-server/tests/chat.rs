//! OpenAI's form of a question, its streams and its errors. The unmodified client is in `real/`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::over_http::{chat, data};
use crate::support::{Server, Shelf, bare, config, endless};
use async_trait::async_trait;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use spechop_ports::{Call, PlanRequest, Planned, Planner, PortError};
use spechop_server::Bare;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_streams_its_hops_and_tells_errors_in_openais_form() {
    let chat = async |server: &Server, mut fields: Value| {
        fields["spechop"] = json!({ "options": { "k": 1 } });
        chat(server, fields).send().await.unwrap()
    };
    let streamed = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let text = async |response: Response| {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        response.text().await.unwrap()
    };
    let server = Server::start(Script::instant(2)).await;
    let told = text(chat(&server, streamed.clone()).await).await;
    assert!(told.ends_with("data: [DONE]\n\n"), "{told}");
    let chunks = data(&told);
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
    // How sure the answer is stands where the answer ends, and nowhere else.
    let (end, before) = chunks.split_last().unwrap();
    assert_eq!(end["choices"][0]["finish_reason"], "stop");
    assert!(
        end["spechop"]["confidence"]["supported"].is_boolean(),
        "{end}"
    );
    assert!(before.iter().all(|chunk| chunk.get("spechop").is_none()));
    let reasoning = joined("reasoning_content");
    assert!(
        reasoning.starts_with("1. ") && reasoning.contains("\n2. "),
        "{reasoning}"
    );
    server.is_idle().await;

    let mut script = Script::instant(2);
    script.failures.insert((1, Stage::Target), u32::MAX);
    let server = Server::start(script).await;
    let told = text(chat(&server, streamed).await).await;
    assert!(!told.contains("[DONE]"), "{told}");
    let told = data(&told);
    let error = told.last().unwrap();
    assert_eq!(error["error"]["code"], "unavailable");
    assert_eq!(error["error"]["type"], "server_error");
    for (field, value) in [
        ("n", json!(2)),
        ("modalities", json!(["audio"])),
        ("audio", json!({})),
    ] {
        let wrong = chat(&server, json!({ field: value })).await;
        assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);
        let error: Value = wrong.json().await.unwrap();
        assert_eq!(error["error"]["param"], field);
        assert_eq!(error["error"]["type"], "invalid_request_error");
    }
    // A long conversation is no trouble: only its last message is asked.
    let long = json!([
        { "role": "user", "content": "x".repeat(100_000) },
        { "role": "user", "content": "q" },
    ]);
    let server = Server::start(Script::instant(1)).await;
    let response = chat(&server, json!({ "messages": long })).await;
    assert_eq!(response.status(), StatusCode::OK);
    let said: Value = response.json().await.unwrap();
    let confidence = &said["spechop"]["confidence"];
    assert!(confidence["supported"].is_boolean(), "{said}");
    let reasoning = said["choices"][0]["message"]["reasoning_content"]
        .as_str()
        .unwrap();
    assert!(
        reasoning.starts_with("Only the last message was asked"),
        "{reasoning}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_it_is_shown_events_of_open_webui_and_a_list_of_sources() {
    let config = config("[server]\npublic_url = \"https://qa.example/\"\n");
    let server = Server::showing(Script::instant(2), config, Shelf).await;
    let ask = async |header: &str, options: Value| {
        let fields = json!({ "model": "spechop-k1", "stream": true, "spechop": options });
        let request = chat(&server, fields).header("spechop-events", header);
        data(&request.send().await.unwrap().text().await.unwrap())
    };
    let content = |chunks: &[Value]| -> String {
        let deltas = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0]["delta"]["content"]);
        deltas.filter_map(Value::as_str).collect()
    };
    let annotated = |chunks: &[Value]| {
        let mut deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
        deltas.any(|delta| delta.get("annotations").is_some())
    };
    let told = ask("true", json!({})).await;
    let events: Vec<_> = told.iter().filter_map(|chunk| chunk.get("event")).collect();
    let status = |text: &str, done: bool| {
        let data = json!({ "description": text, "done": done });
        json!({ "type": "status", "data": data })
    };
    // Both have one title, and Open WebUI takes labels of one name for one.
    let citation = |label: &str, id: &str| {
        let url = format!(
            "https://qa.example/p/p0-{}",
            id.replace(' ', "%20").replace('?', "%3F")
        );
        json!({
            "type": "citation",
            "data": {
                "source": { "name": "Title 0", "url": url },
                "document": [format!("Text 0 about {id}")],
                "metadata": [{ "source": url, "name": label }],
            },
        })
    };
    let expected = [
        status("Looking up: q0 after nothing?", false),
        status("1. q0 after nothing? → fact 0", false),
        status("Looking up: q1 after fact 0?", false),
        status("2. q1 after fact 0? → fact 1", false),
        status("Answered after 2 hops", true),
        citation("Title 0", "q0 after nothing?"),
        citation("Title 0 (2)", "q1 after fact 0?"),
    ];
    assert_eq!(events, expected.iter().collect::<Vec<_>>());
    // Other clients see nothing in such a chunk, and Open WebUI would cite an annotation a second time.
    let with_event = told.iter().filter(|chunk| chunk.get("event").is_some());
    assert!(with_event.clone().count() > 0);
    for chunk in with_event {
        assert_eq!(
            (&chunk["choices"], &chunk["object"]),
            (&json!([]), &json!("chat.completion.chunk"))
        );
    }
    assert!(!annotated(&told));
    assert_eq!(content(&told), "so fact 1 [1] [2]");

    // Nobody is shown what was not asked for.
    let plain = ask("false", json!({ "footer": true })).await;
    assert!(plain.iter().all(|chunk| chunk.get("event").is_none()));
    assert!(annotated(&plain));
    let text = content(&plain);
    let (answer, sources) = text.split_once("\n\nSources:\n").unwrap();
    assert_eq!(answer, "so fact 1 [1] [2]");
    assert!(sources.starts_with("[1] Title 0: https://qa.example/p/p0-q0%20after%20nothing%3F\n"));
    assert_eq!(sources.lines().count(), 2);
}

/// Plans as scripted, and has no room for what a hop has found.
struct Full(ScriptedPorts);

#[async_trait]
impl Planner for Full {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        if !request.hops.is_empty() {
            return Err(PortError::too_long("the planner", "9 do not fit into 5"));
        }
        self.0.plan(call, request).await
    }
}

/// Such a client asks again after any status of 500 and above, and each time it costs the hops before.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_not_to_ask_again_what_fails_for_good() {
    let for_good = Server::with(Script::instant(2), config(""), |ports| Bare {
        planner: Arc::new(Full(ports.clone())),
        ..bare(ports)
    })
    .await;
    let mut script = Script::instant(2);
    script.failures.insert((1, Stage::Target), u32::MAX);
    let for_now = Server::start(script).await;
    // It would meet the same deadline again.
    let late = Server::start(endless()).await;
    let (any, soon) = (json!({}), json!({ "deadline_ms": 60 }));
    for (server, ours, status, code, told) in [
        (&for_good, &any, 500, "failed_precondition", Some("false")),
        (&for_now, &any, 503, "unavailable", None),
        (&late, &soon, 504, "deadline_exceeded", Some("false")),
    ] {
        let request = chat(server, json!({ "model": "spechop-k1", "spechop": ours }));
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status);
        let header = response.headers().get("x-should-retry");
        assert_eq!(header.map(|value| value.to_str().unwrap()), told);
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["code"], code, "{error}");
        server.is_idle().await;
    }
}
