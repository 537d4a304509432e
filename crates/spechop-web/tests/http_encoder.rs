//! A text encoder behind HTTP, played by a local server in both forms.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroUsize;
use std::time::Duration;

use serde_json::{Value, json};
use spechop_ports::{Call, Encoder, PortError, TextKind, contract};
use spechop_web::{EmbeddingForm, HttpEncoder, HttpEncoderOptions};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

const KEY: &str = "sk-very-secret";
const WIDTH: usize = 4;

/// A vector for each text, by its bytes, not of length 1. Both forms tell by their keys which one is wanted.
struct Model;

impl Respond for Model {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let asked: Value = request.body_json().unwrap();
        let texts = asked.get("input").or(asked.get("inputs")).unwrap();
        let vector = |text: &Value| {
            let mut vector = [1.0; WIDTH];
            for (at, byte) in text.as_str().unwrap().bytes().enumerate() {
                vector[at % WIDTH] += f64::from(byte);
            }
            json!(vector)
        };
        let vectors: Vec<Value> = texts.as_array().unwrap().iter().map(vector).collect();
        let answer = if asked.get("model").is_some() {
            let one =
                |(at, vector)| json!({ "object": "embedding", "index": at, "embedding": vector });
            // The last one first, as the form allows.
            let data: Vec<Value> = vectors.iter().enumerate().map(one).rev().collect();
            json!({ "data": data, "usage": { "total_tokens": 7 } })
        } else {
            json!(vectors)
        };
        ResponseTemplate::new(200).set_body_json(answer)
    }
}

/// Answers with each of these once, then as the model.
async fn server(first: &[ResponseTemplate]) -> MockServer {
    let server = MockServer::start().await;
    for answer in first {
        let once = Mock::given(any()).respond_with(answer.clone());
        once.up_to_n_times(1).mount(&server).await;
    }
    Mock::given(any()).respond_with(Model).mount(&server).await;
    server
}

fn encoder(server: &MockServer, form: EmbeddingForm) -> HttpEncoder {
    let width = NonZeroUsize::new(WIDTH).unwrap();
    let url = format!("{}/v1/embeddings", server.uri());
    let mut options = HttpEncoderOptions::new(url, form, "m", width);
    options.service.endpoint.key = Some(KEY.into());
    options.service.retries.pause = Duration::from_millis(1);
    options.batch = NonZeroUsize::new(3).unwrap();
    HttpEncoder::new(options).unwrap()
}

/// The vectors of passages.
async fn encoded(encoder: &HttpEncoder, texts: Vec<String>) -> Result<Vec<Vec<f32>>, PortError> {
    let call = Call::authoritative();
    let encoded = encoder.encode(&call, TextKind::Passage, texts).await?;
    Ok(encoded.vectors)
}

/// What was asked, in order of arrival.
async fn asked(server: &MockServer) -> Vec<Value> {
    let requests = server.received_requests().await.unwrap();
    requests
        .iter()
        .map(|request| request.body_json().unwrap())
        .collect()
}

#[tokio::test]
async fn both_forms_keep_the_contract_and_agree() {
    let server = server(&[]).await;
    let (openai, tei) = (
        encoder(&server, EmbeddingForm::OpenAi),
        encoder(&server, EmbeddingForm::Tei),
    );
    contract::encoder(&openai).await;
    contract::encoder(&tei).await;
    let call = Call::authoritative();
    assert_eq!(
        openai.encode_query(&call, "Łódź").await.unwrap(),
        tei.encode_query(&call, "Łódź").await.unwrap()
    );
    for request in server.received_requests().await.unwrap() {
        assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    }
}

#[tokio::test]
async fn texts_get_their_prefixes_and_go_in_batches_and_come_in_order() {
    let server = server(&[]).await;
    let encoder = encoder(&server, EmbeddingForm::OpenAi);
    let texts: Vec<String> = (0..8).map(|n| format!("text {n}")).collect();
    let vectors = encoded(&encoder, texts.clone()).await.unwrap();
    for (text, vector) in texts.iter().zip(&vectors) {
        let alone = encoded(&encoder, vec![text.clone()]).await.unwrap();
        assert_eq!(alone[0], *vector, "{text}");
    }
    encoder
        .encode_query(&Call::authoritative(), "who?")
        .await
        .unwrap();
    let asked = asked(&server).await;
    let mut sizes: Vec<_> = asked[..3]
        .iter()
        .map(|a| a["input"].as_array().unwrap().len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 3, 3]);
    assert_eq!(
        asked[3],
        json!({ "model": "m", "input": ["passage: text 0"], "encoding_format": "float" })
    );
    assert_eq!(asked.last().unwrap()["input"], json!(["query: who?"]));
}

/// A full batch of wide vectors is longer than what any other service may say.
#[tokio::test]
async fn an_answer_may_be_as_long_as_its_batch() {
    const WIDE: usize = 4096;
    let server = MockServer::start().await;
    let vector = format!("[{}1.0]", "0.1234567890123,".repeat(WIDE - 1));
    let answer = move |request: &Request| {
        let asked: Value = request.body_json().unwrap();
        let vectors = vec![vector.as_str(); asked["inputs"].as_array().unwrap().len()];
        ResponseTemplate::new(200).set_body_string(format!("[{}]", vectors.join(",")))
    };
    Mock::given(any()).respond_with(answer).mount(&server).await;
    let width = NonZeroUsize::new(WIDE).unwrap();
    let mut options = HttpEncoderOptions::new(server.uri(), EmbeddingForm::Tei, "m", width);
    options.batch = NonZeroUsize::new(128).unwrap();
    let encoder = HttpEncoder::new(options).unwrap();
    let texts = vec!["a passage".to_owned(); 128];
    assert_eq!(encoded(&encoder, texts).await.unwrap().len(), 128);
}

/// Takes texts of so many bytes, and refuses a whole request for one that is longer.
struct Strict(usize, u16);

impl Respond for Strict {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let asked: Value = request.body_json().unwrap();
        let mut texts = asked["input"].as_array().unwrap().iter();
        match texts.any(|text| text.as_str().unwrap().len() > self.0) {
            true => ResponseTemplate::new(self.1).set_body_string("512 tokens at most"),
            false => Model.respond(request),
        }
    }
}

#[tokio::test]
async fn a_text_that_a_server_takes_for_too_long_is_cut_and_no_other() {
    for status in [400, 413] {
        let server = MockServer::start().await;
        let strict = Mock::given(any()).respond_with(Strict(1000, status));
        strict.mount(&server).await;
        let encoder = encoder(&server, EmbeddingForm::OpenAi);
        let texts = vec!["x".repeat(900), "й".repeat(1500), "short".to_owned()];
        let vectors = encoded(&encoder, texts.clone()).await.unwrap();
        assert_eq!(vectors.len(), 3);
        let sent = asked(&server).await.len();
        for (text, vector) in texts.iter().zip(&vectors) {
            let alone = encoded(&encoder, vec![text.clone()]).await.unwrap();
            assert_eq!(alone[0], *vector, "in whatever company");
        }
        let asked = asked(&server).await;
        let sizes: Vec<_> = asked[..sent]
            .iter()
            .map(|asked| asked["input"].as_array().unwrap())
            .filter(|texts| texts.len() == 1)
            .map(|texts| texts[0].as_str().unwrap().len())
            .collect();
        // "passage: " and the text: whole, or half of it, or a quarter.
        assert_eq!(sizes, [909, 3009, 1503, 751, 14]);
    }
}

#[tokio::test]
async fn whoever_refuses_every_text_is_believed_in_the_end() {
    let server = MockServer::start().await;
    let strict = Mock::given(any()).respond_with(Strict(0, 401));
    strict.mount(&server).await;
    let encoder = encoder(&server, EmbeddingForm::OpenAi);
    let refused = encoded(&encoder, vec!["x".repeat(1000); 3]).await;
    assert!(matches!(refused, Err(PortError::Refused { .. })));
    assert_eq!(asked(&server).await.len(), 4);
}

#[tokio::test]
async fn a_server_that_is_overloaded_is_asked_again_and_others_are_believed() {
    let busy = || ResponseTemplate::new(429).insert_header("retry-after", "0");
    let late = || ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    for (first, expected, requests) in [
        (vec![busy(), busy()], None, 3),
        (vec![ResponseTemplate::new(500)], None, 2),
        (vec![ResponseTemplate::new(401)], Some("Refused"), 1),
        (vec![ResponseTemplate::new(413)], Some("TooLong"), 1),
        (vec![late()], Some("Timeout"), 1),
        (
            vec![ResponseTemplate::new(200).set_body_string("<html>")],
            Some("Malformed"),
            1,
        ),
        (
            vec![ResponseTemplate::new(200).set_body_json(json!({ "data": [] }))],
            Some("Malformed"),
            1,
        ),
    ] {
        let server = server(&first).await;
        let width = NonZeroUsize::new(WIDTH).unwrap();
        let mut options = HttpEncoderOptions::new(server.uri(), EmbeddingForm::OpenAi, "m", width);
        options.service.endpoint.key = Some(KEY.into());
        if expected == Some("Timeout") {
            options.service.endpoint.time_limit = Duration::from_millis(500);
        }
        options.service.retries.pause = Duration::from_millis(1);
        let encoder = HttpEncoder::new(options).unwrap();
        let outcome = encoder.encode_query(&Call::authoritative(), "q").await;
        let kind = outcome.err().map(|error| {
            let said = format!("{error:?} {error}");
            assert!(
                said.contains("encoder at 127.0.0.1:") && !said.contains(KEY),
                "{said}"
            );
            match error {
                PortError::Refused { .. } => "Refused",
                PortError::TooLong { .. } => "TooLong",
                PortError::Timeout { .. } => "Timeout",
                PortError::Malformed { .. } => "Malformed",
                _ => "another",
            }
        });
        assert_eq!(kind, expected);
        assert_eq!(asked(&server).await.len(), requests, "{expected:?}");
    }
}
