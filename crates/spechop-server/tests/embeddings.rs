//! `POST /v1/embeddings`. The unmodified clients of OpenAI and the real encoder are in `real/`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crate::over_http::{chat, client, get, url};
use crate::support::{Server, config, eventually};
use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use spechop_ports::{Call, Encoded, Encoder, PortError, TextKind};
use spechop_testkit::Script;
use tokio::task::JoinSet;

/// A text's vector says how long it is and what it is for. Its tokens are its words.
struct Plain;

#[async_trait]
impl Encoder for Plain {
    fn fingerprint(&self) -> &'static str {
        "plain"
    }

    fn width(&self) -> usize {
        2
    }

    async fn encode(
        &self,
        _: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        if texts.iter().any(|text| text == "broken") {
            return Err(PortError::unavailable("encoder", "it broke"));
        }
        if texts.iter().any(|text| text == "endless") {
            return pending().await;
        }
        let words = texts
            .iter()
            .map(|text| text.split_whitespace().count() as u64);
        Ok(Encoded {
            tokens: Some(words.sum()),
            vectors: texts.iter().map(|text| vector(kind, text)).collect(),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "short texts")]
fn vector(kind: TextKind, text: &str) -> Vec<f32> {
    let sign = match kind {
        TextKind::Query => -1.0,
        TextKind::Passage => 1.0,
    };
    vec![text.len() as f32, sign]
}

async fn server(toml: &str) -> Server {
    Server::equipped(Script::instant(1), config(toml), |toolbox, config| {
        toolbox.encoding(Arc::new(Plain), config)
    })
    .await
}

async fn embed(server: &Server, body: &Value) -> (u16, Value) {
    let request = client().post(url(server, "/v1/embeddings")).json(body);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_become_vectors_in_their_order_and_in_turns_of_the_index() {
    let server = server("").await;
    let (status, said) = embed(&server, &json!({ "input": ["a b", "c"] })).await;
    assert_eq!(status, 200, "{said}");
    let item = |at: usize, vector: Value| json!({ "object": "embedding", "index": at, "embedding": vector });
    assert_eq!(
        said,
        json!({
            "object": "list",
            "model": "spechop-passage",
            "data": [item(0, json!([3.0, 1.0])), item(1, json!([1.0, 1.0]))],
            "usage": { "prompt_tokens": 3, "total_tokens": 3 },
        })
    );
    assert_eq!(server.look_ups().await, 1);
    let query = json!({ "model": "spechop-query", "input": "abc", "encoding_format": "base64" });
    let (_, said) = embed(&server, &query).await;
    let bytes = said["data"][0]["embedding"].as_str().unwrap();
    let bytes = BASE64_STANDARD.decode(bytes).unwrap();
    let floats: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    assert_eq!(floats, [3.0, -1.0]);
    // A long list is several calls, so that others have their turn in between.
    let before = server.look_ups().await;
    let many: Vec<_> = (0..100).map(|n| "x".repeat(n + 1)).collect();
    let (_, said) = embed(&server, &json!({ "input": many })).await;
    let lengths = said["data"].as_array().unwrap().iter();
    let lengths: Vec<_> = lengths
        .map(|item| item["embedding"][0].as_f64().unwrap())
        .collect();
    assert_eq!(lengths, (1..=100).map(f64::from).collect::<Vec<_>>());
    assert_eq!(said["usage"]["total_tokens"], 100);
    assert_eq!(server.look_ups().await, before + 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_models_tells_of_it() {
    let server = server("").await;
    let models: Value = get(&server, "/v1/models").await.json().await.unwrap();
    let names = models["data"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|model| model["id"].as_str().unwrap()).collect();
    let all = [
        "spechop",
        "spechop-k1",
        "spechop-auto",
        "spechop-passage",
        "spechop-query",
    ];
    assert_eq!(names, all);
    let one = get(&server, "/v1/models/spechop-query").await;
    assert_eq!(one.status(), 200);
    // A chat cannot be had of it.
    let chat = chat(&server, json!({ "model": "spechop-query" }));
    assert_eq!(chat.send().await.unwrap().status(), 404);

    // A server without an encoder has neither the path nor the models.
    let bare = Server::start(Script::instant(1)).await;
    let models: Value = get(&bare, "/v1/models").await.json().await.unwrap();
    assert_eq!(models["data"].as_array().unwrap().len(), 3);
    assert_eq!(embed(&bare, &json!({ "input": "x" })).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_told_what_is_wrong() {
    let server = server("").await;
    let many = vec!["x"; 2049];
    for (body, status, param, said) in [
        (json!({}), 400, "body", "missing field `input`"),
        (json!([]), 400, "body", "is no request for embeddings"),
        (json!({ "input": "" }), 400, "input", "text 1 is empty"),
        (
            json!({ "input": ["a", " "] }),
            400,
            "input",
            "text 2 is empty",
        ),
        (
            json!({ "input": [] }),
            400,
            "input",
            "has 0 texts; 1 to 2048",
        ),
        (json!({ "input": many }), 400, "input", "has 2049 texts"),
        (
            json!({ "input": [1, 2] }),
            400,
            "input",
            "cuts them into tokens itself",
        ),
        (
            json!({ "input": [[1, 2]] }),
            400,
            "input",
            "cuts them into tokens itself",
        ),
        (
            json!({ "input": [null] }),
            400,
            "input",
            "a text or a list of texts",
        ),
        (
            json!({ "input": 7 }),
            400,
            "input",
            "a text or a list of texts",
        ),
        (
            json!({ "input": "x", "model": "gpt" }),
            404,
            "model",
            "spechop-passage, spechop-query",
        ),
        (
            json!({ "input": "x", "model": "spechop" }),
            404,
            "model",
            "spechop-passage",
        ),
        (
            json!({ "input": "x", "encoding_format": "int8" }),
            400,
            "encoding_format",
            "must be float or base64",
        ),
        (
            json!({ "input": "x", "dimensions": 3 }),
            400,
            "dimensions",
            "the vectors of this server have 2",
        ),
        (
            json!({ "input": "x", "spechop": { "as": "title" } }),
            400,
            "spechop",
            "unknown variant",
        ),
        (
            json!({ "input": "x", "spechop": { "k": 2 } }),
            400,
            "spechop",
            "unknown field",
        ),
    ] {
        let (code, error) = embed(&server, &body).await;
        let error = &error["error"];
        assert_eq!((code, &error["param"]), (status, &json!(param)), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(said), "{message}");
        let kind = match status {
            404 => "not_found_error",
            _ => "invalid_request_error",
        };
        assert_eq!(error["type"], kind);
    }
    assert_eq!(server.look_ups().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_that_fails_or_is_busy_is_told_of_in_openais_form() {
    let server = server("[server]\nquestions_max = 1\n[question]\ntarget_ms_max = 100").await;
    let (status, error) = embed(&server, &json!({ "input": ["a", "broken"] })).await;
    assert_eq!(
        (status, &error["error"]["type"]),
        (503, &json!("server_error"))
    );
    assert_eq!(error["error"]["code"], "unavailable");
    let (status, error) = embed(&server, &json!({ "input": "endless" })).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (504, &json!("deadline_exceeded"))
    );

    let server = self::server("[server]\nquestions_max = 1").await;
    let request = client().post(url(&server, "/v1/embeddings"));
    let request = request.json(&json!({ "input": "endless" }));
    let mut waits = JoinSet::new();
    waits.spawn(request.send());
    // It has the place.
    while server.look_ups().await == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (status, busy) = embed(&server, &json!({ "input": "a" })).await;
    assert_eq!(
        (status, &busy["error"]["type"]),
        (429, &json!("rate_limit_error"))
    );
    // Whoever hangs up makes room.
    waits.shutdown().await;
    let mut status = 429;
    while status == 429 {
        status = embed(&server, &json!({ "input": "a" })).await.0;
    }
    assert_eq!(status, 200);
    eventually(|| server.ports.live() == 0).await;
}
