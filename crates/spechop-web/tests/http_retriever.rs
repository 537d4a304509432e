//! Anybody's search over HTTP, played by a local server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

use std::time::Duration;

use crate::support::{PushedBack, Site};
use serde_json::{Value, json};
use spechop_ports::{Call, Lane, PortError, Retriever, Wishes, contract};
use spechop_types::{Activity, Chance, Tenant, TraceContext};
use spechop_web::{HttpRetriever, HttpRetrieverOptions};
use wiremock::matchers::{any, body_json, header, method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

const KEY: &str = "sk-very-secret";

/// A shelf of ten documents in the form of Search-R1, as many as are asked for.
struct Shelf;

impl Respond for Shelf {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let asked: Value = request.body_json().expect("JSON");
        let most = asked["topk"].as_u64().expect("a number").min(10);
        let document = |n: u64| {
            let contents = format!("\"Title {n}\"\ntext {n}");
            let document = json!({ "id": n.to_string(), "contents": contents });
            json!({ "document": document, "score": 1.0 - n as f64 / 100.0 })
        };
        let found: Vec<_> = (0..most).map(document).collect();
        ResponseTemplate::new(200).set_body_json(json!({ "result": [found] }))
    }
}

fn options(server: &MockServer) -> HttpRetrieverOptions {
    let mut options = HttpRetrieverOptions::new(format!("{}/retrieve", server.uri()));
    options.service.endpoint.key = Some(KEY.into());
    options.service.retries.pause = Duration::from_millis(1);
    options
}

/// Answers with each of these once, then as the shelf.
async fn server(first: &[ResponseTemplate]) -> MockServer {
    let server = MockServer::start().await;
    for answer in first {
        let once = Mock::given(any()).respond_with(answer.clone());
        once.up_to_n_times(1).mount(&server).await;
    }
    let shelf = Mock::given(method("POST")).and(path("/retrieve"));
    shelf.respond_with(Shelf).mount(&server).await;
    server
}

#[tokio::test]
async fn what_a_search_takes_is_told_of_its_call() {
    let server = server(&[]).await;
    let retriever = HttpRetriever::new(&options(&server)).expect("a retriever");
    let call = Call::authoritative();
    assert_eq!(retriever.retrieve(&call, "q", 2).await.unwrap().len(), 2);
    assert!(!call.activities().of(Activity::Scan).is_zero());
    assert_eq!(
        call.activities().total(),
        call.activities().of(Activity::Scan)
    );
}

/// Whoever searches for a question hears for which span of which trace.
#[tokio::test]
async fn a_search_belongs_to_the_trace_of_its_call() {
    let server = server(&[]).await;
    let retriever = HttpRetriever::new(&options(&server)).expect("a retriever");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = TraceContext::parse(parent, "vendor=1");
    for (call, expected) in [
        (Call::authoritative(), [None, None]),
        (
            Call::authoritative().traced(trace),
            [Some(parent), Some("vendor=1")],
        ),
    ] {
        // What several calls share is still asked for one of them.
        retriever
            .retrieve(&call.detached(), "q", 2)
            .await
            .expect("ok");
        let requests = server.received_requests().await.expect("requests");
        let headers = &requests.last().expect("one").headers;
        let told = TraceContext::HEADERS.map(|name| headers.get(name)?.to_str().ok());
        assert_eq!(told, expected);
    }
}

/// Whoever keeps results hears that none of them may serve.
#[tokio::test]
async fn a_fresh_search_says_that_it_is() {
    let server = server(&[]).await;
    let retriever = HttpRetriever::new(&options(&server)).expect("a retriever");
    for (fresh, expected) in [(false, None), (true, Some("no-cache"))] {
        let call = Call::authoritative().with(Wishes {
            fresh,
            ..Wishes::default()
        });
        retriever.retrieve(&call, "q", 2).await.expect("ok");
        let requests = server.received_requests().await.expect("requests");
        let told = requests.last().expect("one").headers.get("cache-control");
        let told = told.map(|told| told.to_str().expect("a text"));
        assert_eq!(told, expected);
    }
}

/// What comes of it if the server says this first; how often it was asked, and how often it asked for less.
async fn ask(lane: Lane, first: &[ResponseTemplate]) -> (Result<usize, PortError>, usize, usize) {
    let server = server(first).await;
    let call = Call::new(lane, Chance::EVEN);
    let heard = PushedBack::of(&call);
    let retriever = HttpRetriever::new(&options(&server)).expect("a retriever");
    let outcome = retriever.retrieve(&call, "q", 5).await;
    if let Err(error) = &outcome {
        let source = std::error::Error::source(error).map(ToString::to_string);
        let said = format!("{error} {error:?} {source:?}");
        assert!(!said.contains(KEY), "{said}");
        assert!(said.contains("retriever at 127.0.0.1:"), "{said}");
    }
    let asked = server.received_requests().await.expect("recording is on");
    let heard = heard.times();
    (outcome.map(|found| found.len()), asked.len(), heard)
}

#[tokio::test]
async fn it_keeps_the_contract() {
    let server = server(&[]).await;
    let retriever = HttpRetriever::new(&options(&server)).expect("a retriever");
    contract::retriever(&retriever).await;
    let found = retriever.retrieve(&Call::authoritative(), "q", 1).await;
    let found = found.expect("passages");
    assert_eq!((&*found[0].title, &*found[0].text), ("Title 0", "text 0"));
}

#[tokio::test]
async fn it_asks_in_the_common_form() {
    let server = MockServer::start().await;
    let expected = json!({ "queries": ["Żuławski?"], "topk": 5, "return_scores": true });
    let asked = Mock::given(body_json(expected))
        .and(header("authorization", format!("Bearer {KEY}")))
        .and(header("content-type", "application/json"));
    asked.respond_with(Shelf).mount(&server).await;
    let tenant = Tenant::new("acme").expect("a name");
    let call = Call::of(tenant, Lane::Authoritative, Chance::CERTAIN);
    for with_tenant in [false, true] {
        let mut options = options(&server);
        options.with_tenant = with_tenant;
        let retriever = HttpRetriever::new(&options).expect("a retriever");
        let found = retriever.retrieve(&call, "Żuławski?", 5).await;
        assert_eq!(found.expect("passages").len(), 5);
        let requests = server.received_requests().await.expect("requests");
        let last = requests.last().expect("one");
        let told = last.headers.get("spechop-tenant");
        let told = told.map(|name| name.to_str().expect("a name"));
        assert_eq!(told, with_tenant.then_some("acme"));
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let broken = ResponseTemplate::new(502);
    let conflict = ResponseTemplate::new(409);
    for lane in [Lane::Authoritative, Lane::Speculative] {
        let (outcome, asked, heard) = ask(lane, &[broken.clone(), conflict.clone()]).await;
        assert_eq!((outcome.ok(), asked, heard), (Some(5), 3, 0));
    }
    for status in [500, 503] {
        let busy = ResponseTemplate::new(status).insert_header("retry-after", "0");
        let (outcome, asked, heard) = ask(Lane::Authoritative, std::slice::from_ref(&busy)).await;
        assert_eq!((outcome.ok(), asked, heard), (Some(5), 2, 1));
        // What is not needed gives way at once.
        let (outcome, asked, heard) = ask(Lane::Speculative, &[busy]).await;
        assert!(matches!(outcome, Err(PortError::Unavailable { .. })));
        assert_eq!((asked, heard), (1, 1));
    }
    let (outcome, asked, _) = ask(Lane::Authoritative, &vec![broken; 9]).await;
    assert!(matches!(outcome, Err(PortError::Unavailable { .. })));
    assert_eq!(asked, 4);
}

/// The pause would outlast the look-up.
#[tokio::test]
async fn who_says_to_come_again_tomorrow_is_not_waited_for() {
    for status in [429, 500, 503] {
        let tomorrow = ResponseTemplate::new(status).insert_header("retry-after", "86400");
        let (outcome, asked, heard) = ask(Lane::Authoritative, &[tomorrow]).await;
        assert!(matches!(outcome, Err(PortError::Unavailable { .. })));
        assert_eq!((asked, heard), (1, 1));
    }
}

#[tokio::test]
async fn what_does_not_pass_is_told_at_once() {
    let said = |status: u16, body: &str| ResponseTemplate::new(status).set_body_string(body);
    let moved = ResponseTemplate::new(308).insert_header("location", "http://elsewhere.example/");
    let huge = said(200, &" ".repeat(5 * 1024 * 1024));
    for (answer, expected) in [
        (
            said(400, r#"{"error":"topk is 5, at most 3"}"#),
            "refused the request: 400 Bad Request: topk is 5, at most 3",
        ),
        (
            said(401, &format!("{{\"detail\":\"no such key {KEY}\"}}")),
            "refused the request: 401 Unauthorized: no such key [key]",
        ),
        (
            said(413, "too long"),
            "cannot take so much: 413 Payload Too Large: too long",
        ),
        (
            said(404, ""),
            "refused the request: 404 Not Found: no reason given",
        ),
        (
            moved,
            "refused the request: 308 Permanent Redirect: no reason given",
        ),
        (
            said(200, "<html>"),
            "gave an unusable answer: no JSON: expected value at line 1 column 1",
        ),
        (
            said(200, "{}"),
            "gave an unusable answer: no list `result` in it",
        ),
        (huge, "gave an unusable answer: more than 4194304 bytes"),
    ] {
        let (outcome, asked, _) = ask(Lane::Authoritative, &[answer]).await;
        let error = outcome.expect_err("a failure").to_string();
        assert!(error.ends_with(expected), "{error}");
        assert_eq!(asked, 1, "{error}");
    }
}

#[tokio::test]
async fn it_waits_so_long_and_no_longer() {
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(3600));
    let server = server(&[slow]).await;
    let mut options = options(&server);
    options.service.endpoint.time_limit = Duration::from_millis(200);
    let retriever = HttpRetriever::new(&options).expect("a retriever");
    let outcome = retriever.retrieve(&Call::authoritative(), "q", 5).await;
    assert!(matches!(
        outcome,
        Err(PortError::Timeout { limit, .. }) if limit.as_millis() == 200
    ));
    assert!(HttpRetriever::new(&HttpRetrieverOptions::new("localhost:80/x")).is_err());
}

#[tokio::test]
async fn it_asks_over_the_connection_that_was_warmed_up() {
    let site = Site::start(|path, answer| match path {
        "/" => answer.status(404),
        _ => answer.ok("application/json", r#"{"result":[["text"]]}"#),
    });
    let options = HttpRetrieverOptions::new(site.url("/retrieve"));
    let retriever = HttpRetriever::new(&options).expect("a retriever");
    let call = Call::authoritative();
    retriever.warm(&call, "q").await.expect("ok");
    assert_eq!((site.connections(), site.requests().len()), (1, 1));
    let found = retriever.retrieve(&call, "q", 5).await;
    assert_eq!(found.expect("passages").len(), 1);
    assert_eq!((site.connections(), site.requests().len()), (1, 2));
}
