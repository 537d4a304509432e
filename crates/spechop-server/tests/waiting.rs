//! Questions that find no place wait in line for one, at every door. Which of them is next is tested as a
//! law in `spechop-server/src/places/book/tests.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use crate::over_http::{client, url};
use crate::support::{Server, endless, eventually, finish, is_own_timer, named, of, question};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use spechop_proto::{AskEvent, AskRequest, Budget};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::StatusExt;

/// A place, and a line in which nobody's time runs out.
const LINE: &str = "[server]\nquestions_max = 1\nqueue_ms = 3600000\n";

type Stream = Response<Streaming<AskEvent>>;

async fn server(toml: &str) -> Server {
    Server::configured(endless(), toml).await
}

/// Takes a place for as long as the stream is held.
async fn hold(server: &Server, tenant: &str) -> Stream {
    let asked = of(tenant, question());
    server.client().await.ask_stream(asked).await.unwrap()
}

/// Waits until so many questions are in line.
async fn in_line(server: &Server, waiting: usize) {
    eventually(|| server.gauges.questions_waiting() == waiting).await;
}

/// Waits until so many questions have a place, and nobody waits for one.
async fn placed(server: &Server, open: usize) {
    in_line(server, 0).await;
    eventually(|| server.gauges.questions_open() == open).await;
}

/// How many waits have ended so.
async fn waits(server: &Server, end: &str) -> u64 {
    let name = format!("spechop_question_wait_seconds_count{{end=\"{end}\"}}");
    server.metric(&name).await
}

/// Questions of several tenants in line, one task for each.
struct Askers<'a> {
    server: &'a Server,
    asking: JoinSet<(&'static str, Result<Stream, Status>)>,
}

impl<'a> Askers<'a> {
    fn of(server: &'a Server) -> Self {
        Self {
            server,
            asking: JoinSet::new(),
        }
    }

    /// One more asks, and `waiting` are in line then.
    async fn ask(&mut self, tenant: &'static str, waiting: usize) {
        let mut client = self.server.client().await;
        let ask = async move { (tenant, client.ask_stream(of(tenant, question())).await) };
        self.asking.spawn(ask);
        in_line(self.server, waiting).await;
    }

    /// The next one that is no longer in line.
    async fn next(&mut self) -> (&'static str, Result<Stream, Status>) {
        let next = timeout(Duration::from_secs(120), self.asking.join_next());
        next.await.unwrap().unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_waits_has_its_turn_and_is_answered() {
    let server = server(LINE).await;
    let held = hold(&server, "a").await;
    let mut client = server.client().await;
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.ask(named("second")).await });
    in_line(&server, 1).await;
    assert_eq!(server.metric("spechop_questions_waiting").await, 1);
    assert_eq!(server.metric("spechop_questions_open").await, 1);
    // It holds nothing yet, its name neither.
    let mut client = server.client().await;
    let unknown = client.finish_now(finish("second")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    drop(held);
    placed(&server, 1).await;
    while client.finish_now(finish("second")).await.is_err() {}
    asking.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(waits(&server, "placed").await, 1);
    server.is_idle().await;
}

/// A question at each door over HTTP.
fn doors(server: &Server) -> Vec<(&'static str, RequestBuilder)> {
    let at = |path: &str| client().post(url(server, path));
    let ask = json!({ "question": "q" });
    let chat = json!({ "messages": [{ "role": "user", "content": "q" }] });
    let mcp = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "ask", "arguments": { "question": "q" } },
    });
    let accept = "application/json, text/event-stream";
    let form = "application/x-www-form-urlencoded";
    vec![
        ("/v1/ask", at("/v1/ask").json(&ask)),
        ("/v1/ask/stream", at("/v1/ask/stream").json(&ask)),
        (
            "/v1/chat/completions",
            at("/v1/chat/completions").json(&chat),
        ),
        ("/mcp", at("/mcp").header("accept", accept).json(&mcp)),
        (
            "/ask",
            at("/ask")
                .header("origin", url(server, ""))
                .header("content-type", form)
                .body("question=q"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn at_every_door_over_http_questions_wait() {
    let server = server(LINE).await;
    for (door, request) in doors(&server) {
        let held = hold(&server, "a").await;
        let mut asking = JoinSet::new();
        asking.spawn(request.send());
        let waits = timeout(Duration::from_secs(120), in_line(&server, 1)).await;
        assert!(waits.is_ok(), "{door}");
        drop(held);
        placed(&server, 1).await;
        asking.shutdown().await;
        server.is_idle().await;
    }
    assert_eq!(waits(&server, "placed").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_in_vain_hears_what_to_do() {
    let server = server("[server]\nquestions_max = 1\nqueue_ms = 30\n").await;
    let _held = hold(&server, "a").await;
    let mut client = server.client().await;
    for refused in [
        client.ask(question()).await.unwrap_err(),
        client.ask_stream(question()).await.unwrap_err(),
    ] {
        assert_eq!(refused.code(), Code::ResourceExhausted);
        for said in [
            "1 questions are being answered",
            "this one waited",
            "try again later",
            "server.queue_ms",
            "server.questions_max",
        ] {
            assert!(refused.message().contains(said), "{refused}");
        }
        let retry = refused.get_details_retry_info().unwrap();
        assert_eq!(retry.retry_delay, Some(Duration::from_secs(1)));
    }
    for (_, request) in doors(&server).into_iter().take(3) {
        let refused = request.send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()["retry-after"], "1");
        let body: Value = refused.json().await.unwrap();
        assert!(body.to_string().contains("server.queue_ms"), "{body}");
    }
    assert_eq!(waits(&server, "timed_out").await, 5);
    let busy = "spechop_questions_total{outcome=\"busy\"}";
    assert_eq!(server.metric(busy).await, 5);
    assert_eq!(server.gauges.questions_open(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_take_turns() {
    let server = server(LINE).await;
    let mut held = hold(&server, "many").await;
    let mut askers = Askers::of(&server);
    for waiting in 1..=4 {
        askers.ask("many", waiting).await;
    }
    askers.ask("one", 5).await;
    let mut turns = Vec::new();
    for _ in 0..5 {
        drop(held);
        let (tenant, stream) = askers.next().await;
        turns.push(tenant);
        held = stream.unwrap();
    }
    // Whoever has waited for longer is first, and then the other has its turn.
    assert_eq!(turns, ["many", "one", "many", "many", "many"]);
    drop(held);
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_at_its_limit_waits_for_a_place_of_its_own() {
    let toml = "[tenant]\nquestions_max = 1\n[server]\nquestions_max = 3\nqueue_ms = 3600000\n";
    let server = server(toml).await;
    let greedy = hold(&server, "greedy").await;
    let mut askers = Askers::of(&server);
    askers.ask("greedy", 1).await;
    // It holds nobody up, and a place of somebody else is not for it.
    let other = hold(&server, "other").await;
    drop(other);
    eventually(|| server.gauges.questions_open() == 1).await;
    assert_eq!(server.gauges.questions_waiting(), 1);
    drop(greedy);
    let (tenant, stream) = askers.next().await;
    assert_eq!(tenant, "greedy");
    drop(stream.unwrap());
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_tenant_cannot_fill_the_line() {
    let server = server(&format!("{LINE}queue_max = 2\n")).await;
    let held = hold(&server, "many").await;
    let mut askers = Askers::of(&server);
    askers.ask("many", 1).await;
    askers.ask("many", 2).await;
    // The line is full for its own third.
    let mut client = server.client().await;
    let refused = client.ask(of("many", question())).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused.message().contains("2 wait for a place"),
        "{refused}"
    );
    assert!(refused.message().contains("server.queue_max"), "{refused}");
    // Another one takes the position of its second.
    askers.ask("one", 2).await;
    let (tenant, refused) = askers.next().await;
    let refused = refused.unwrap_err();
    assert_eq!((tenant, refused.code()), ("many", Code::ResourceExhausted));
    assert!(refused.message().contains("made room"), "{refused}");
    assert!(refused.get_details_retry_info().is_some());
    assert_eq!(waits(&server, "line_full").await, 1);
    assert_eq!(waits(&server, "pushed_out").await, 1);
    drop(held);
    let (tenant, stream) = askers.next().await;
    assert_eq!(tenant, "many");
    drop(stream.unwrap());
    let (tenant, stream) = askers.next().await;
    assert_eq!(tenant, "one");
    drop(stream.unwrap());
    server.is_idle().await;
}

/// A client that asks again for what it has asked already.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_refused_without_waiting() {
    let server = server(LINE).await;
    let mut client = server.client().await;
    let _held = client.ask_stream(named("mine")).await.unwrap();
    let again = timeout(Duration::from_secs(120), client.ask_stream(named("mine"))).await;
    let status = again.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_leaves_the_line() {
    let server = server(LINE).await;
    let held = hold(&server, "a").await;
    let mut askers = Askers::of(&server);
    askers.ask("a", 1).await;
    askers.asking.shutdown().await;
    in_line(&server, 0).await;
    for (_, request) in doors(&server) {
        let mut asking = JoinSet::new();
        asking.spawn(request.send());
        in_line(&server, 1).await;
        asking.shutdown().await;
        in_line(&server, 0).await;
    }
    assert_eq!(server.gauges.questions_open(), 1);
    assert_eq!(waits(&server, "gave_up").await, 6);
    // They are counted behind their leave.
    let cancelled = "spechop_questions_total{outcome=\"cancelled\"}";
    let counted = async { while server.metric(cancelled).await < 6 {} };
    timeout(Duration::from_secs(120), counted).await.unwrap();
    assert_eq!(server.metric(cancelled).await, 6);
    // Nothing of them is left, and the place is for whoever comes.
    drop(held);
    server.is_idle().await;
    drop(hold(&server, "a").await);
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_beyond_its_own_time() {
    let server = server(LINE).await;
    let _held = hold(&server, "a").await;
    let mut client = server.client().await;
    let late = AskRequest {
        deadline_ms: Some(40),
        ..question()
    };
    let mut patient = Request::new(question());
    patient.set_timeout(Duration::from_secs(1));
    let mut hung_up = 0;
    for (late, has_own_timer) in [(Request::new(late), false), (patient, true)] {
        let status = client.ask(late).await.unwrap_err();
        // The timers around the call, of server and client, are a little behind the question's deadline, and may be
        // heard first.
        let is_timer = is_own_timer(&status) || status.message().contains("grpc-timeout");
        if has_own_timer && is_timer {
            hung_up += 1;
            continue;
        }
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        assert!(status.message().contains("the deadline passed"), "{status}");
    }
    // Whoever hangs up just then is counted as one or the other.
    let by_deadline = async || waits(&server, "deadline").await;
    let ended = async { while by_deadline().await + waits(&server, "gave_up").await < 2 {} };
    timeout(Duration::from_secs(120), ended).await.unwrap();
    assert!(by_deadline().await + hung_up >= 2);
    let short = AskRequest {
        budget: Some(Budget {
            time_ms: Some(40),
            ..Budget::default()
        }),
        ..question()
    };
    let status = client.ask(short).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert_eq!(waits(&server, "timed_out").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_server_is_the_end_of_the_line() {
    let mut server = server(&format!("{LINE}shutdown_grace_ms = 3600000\n")).await;
    let held = hold(&server, "a").await;
    let mut client = server.client().await;
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.ask(question()).await });
    in_line(&server, 1).await;
    server.shut_down();
    let status = asking.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "the server is shutting down")
    );
    assert_eq!(server.gauges.questions_waiting(), 0);
    // Whoever has a place may keep it for the time of grace.
    assert_eq!(server.gauges.questions_open(), 1);
    drop(held);
    server.ended().await.unwrap();
}
