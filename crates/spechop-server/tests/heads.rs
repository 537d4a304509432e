//! What the head of a request says: how long its client waits, which host it means, and what comes behind it.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io;
use std::time::Duration;

use crate::over_http::{bare, chat, client, url};
use crate::support::{Server, endless, is_own_timer, named};
use futures::stream;
use reqwest::{Body, StatusCode};
use serde_json::{Value, json};
use spechop_proto::GetAnswerRequest;
use spechop_testkit::Script;
use tonic::{Code, Request};

/// No door but gRPC's knows such a header, but tonic's timer looks for it in every request.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_is_told_in_the_form_of_the_door() {
    let server = Server::start(endless()).await;
    let ask = client().post(url(&server, "/v1/ask"));
    for (request, at, code) in [
        (
            ask.json(&json!({ "question": "q" })),
            "/code",
            "DEADLINE_EXCEEDED",
        ),
        (chat(&server, json!({})), "/error/code", "deadline_exceeded"),
    ] {
        let request = request.header("grpc-timeout", "500m");
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        let error: Value = response.json().await.unwrap();
        assert_eq!(error.pointer(at), Some(&json!(code)), "{error}");
    }
    server.is_idle().await;
}

/// CANCELLED would say that somebody has cancelled the question.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_no_longer_for_an_answer_hears_of_the_deadline() {
    let server = Server::start(endless()).await;
    let mut client = server.client().await;
    let _asked = client.ask_stream(named("q")).await.unwrap();
    let mut told = None;
    // The client's own timer is a little behind the server's, and may be heard first.
    for _ in 0..5 {
        let mut wanted = Request::new(GetAnswerRequest {
            question_id: "q".to_owned(),
        });
        wanted.set_timeout(Duration::from_secs(1));
        let status = client.get_answer(wanted).await.unwrap_err();
        if !is_own_timer(&status) {
            told = Some(status.code());
            break;
        }
    }
    assert_eq!(told, Some(Code::DeadlineExceeded));
    assert_eq!(server.gauges.questions_open(), 1, "nobody has cancelled it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_host() {
    let server = Server::start(Script::instant(1)).await;
    for (version, hosts, expected) in [
        ("1.1", "Host: localhost\r\n", 200),
        ("1.1", "", 400),
        ("1.1", "Host: localhost\r\nHost: evil.example\r\n", 400),
        ("1.1", "Host: evil.example\r\nHost: localhost\r\n", 400),
        ("1.1", "Host: localhost\r\nHost: localhost\r\n", 400),
        // It is older than the header.
        ("1.0", "", 200),
    ] {
        let head = format!("GET /healthz HTTP/{version}\r\n{hosts}");
        let (status, _, body) = server.http1(&head, b"").await;
        assert_eq!(status, expected, "{version} {hosts:?}: {body}");
    }
}

/// Its head need not tell that there is one.
#[tokio::test(flavor = "multi_thread")]
async fn over_http2_a_body_that_is_not_called_json_is_refused() {
    let server = Server::start(Script::instant(1)).await;
    let client = bare().http2_prior_knowledge().build().unwrap();
    let question = stream::iter([Ok::<_, io::Error>(r#"{"question": "q"}"#)]);
    let ask = client.post(url(&server, "/v1/ask"));
    let refused = ask.body(Body::wrap_stream(question)).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(server.ports.started(), 0, "nothing was asked");
    // Whoever sends none need not say what it is.
    let cancel = client.post(url(&server, "/v1/questions/q/cancel"));
    let unknown = cancel.send().await.unwrap();
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}
