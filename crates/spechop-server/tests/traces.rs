//! Traces of questions at a receiver of OTLP, and what becomes of questions if there is none.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io;
use std::time::Duration;

use crate::over_http::{client, url};
use crate::receiver::{Manner, Receiver};
use crate::support::{Server, endless, eventually, question};
use futures::future::join_all;
use serde_json::json;
use spechop_proto::AskRequest;
use spechop_testkit::{OwnPort, Script};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Request;

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn parent(trace: &str) -> String {
    format!("00-{trace}-{SPAN}-01")
}

/// A question that is part of this trace.
fn part_of(trace: &str, asked: AskRequest) -> Request<AskRequest> {
    let mut request = Request::new(asked);
    let parent = parent(trace).parse().unwrap();
    request.metadata_mut().insert("traceparent", parent);
    request
}

fn otlp(endpoint: &str) -> String {
    format!("[otlp]\nendpoint = \"{endpoint}\"\nheaders = \"x-key=s3cret\"\n")
}

/// Ends the server, with which the last spans are sent off.
async fn end(mut server: Server) {
    server.shut_down();
    server.ended().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_any_door_becomes_part_of_its_callers_trace() {
    let receiver = Receiver::start(Manner::Takes).await;
    let server = Server::configured(Script::instant(2), &otlp(&receiver.endpoint())).await;
    let traces: Vec<String> = (1..=5).map(|n| format!("{n:032x}")).collect();

    let mut grpc = server.client().await;
    let mut request = part_of(&traces[0], question());
    let state = "vendor=1".parse().unwrap();
    request.metadata_mut().insert("tracestate", state);
    grpc.ask(request).await.unwrap();

    let body = json!({ "question": question().question });
    let chat = json!({
        "model": "spechop",
        "messages": [{ "role": "user", "content": question().question }],
    });
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": { "name": "ask", "arguments": { "question": question().question } },
    });
    for (trace, path, body) in [
        (&traces[1], "/v1/ask", &body),
        (&traces[2], "/v1/ask/stream", &body),
        (&traces[3], "/v1/chat/completions", &chat),
        (&traces[4], "/mcp", &call),
    ] {
        let request = client()
            .post(url(&server, path))
            .header("traceparent", parent(trace))
            .header("accept", "application/json, text/event-stream");
        let answer = request.json(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        let text = answer.text().await.unwrap();
        assert!(text.contains("so fact 1"), "{path}: {text}");
    }
    end(server).await;

    for trace in &traces {
        let spans = receiver.trace(trace);
        let questions: Vec<_> = spans.iter().filter(|s| s.name == "question").collect();
        assert_eq!(questions.len(), 1, "{trace}");
        assert_eq!(crate::receiver::hex(&questions[0].parent_span_id), SPAN);
        for name in ["hop", "branch", "segment", "target"] {
            assert!(
                spans.iter().any(|span| span.name == name),
                "{trace}: {name}"
            );
        }
        let ids: Vec<_> = spans.iter().map(|span| &span.span_id).collect();
        let rest = spans.iter().filter(|span| span.name != "question");
        assert!(
            rest.into_iter()
                .all(|span| ids.contains(&&span.parent_span_id))
        );
    }
    assert_eq!(receiver.trace(&traces[0])[0].trace_state, "vendor=1");
    assert_eq!(receiver.keys(), ["s3cret"]);
    assert_eq!(receiver.services(), ["spechop"]);
}

/// Its client has gone away, and no connection holds the server up.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_follows_is_told_of_at_the_end() {
    let receiver = Receiver::start(Manner::Takes).await;
    let server = Server::configured(endless(), &otlp(&receiver.endpoint())).await;
    let lingers = AskRequest {
        linger_ms: 60_000,
        ..question()
    };
    drop(server.stream(part_of(TRACE, lingers)).await);
    eventually(|| server.gauges.connections_open() == 0).await;
    assert_eq!(server.gauges.questions_open(), 1);
    end(server).await;
    let spans = receiver.trace(TRACE);
    let question = spans.iter().find(|span| span.name == "question").unwrap();
    let status = question.status.as_ref().unwrap();
    assert_eq!(status.message, "shutting_down");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_is_kept_and_the_rest_is_not() {
    let receiver = Receiver::start(Manner::Takes).await;
    let toml = otlp(&receiver.endpoint()) + "sample = 0.0\n";
    let server = Server::configured(Script::instant(1), &toml).await;
    server.ask(question()).await.unwrap();
    let asked = part_of(TRACE, question());
    server.client().await.ask(asked).await.unwrap();
    end(server).await;
    assert_eq!(
        receiver.traces(),
        [TRACE],
        "only the one that was asked for"
    );
}

/// Nobody there, nobody who answers, somebody who fails, somebody who speaks something else, and somebody
/// who does not want them: questions are answered, and what was lost is counted.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_receiver_does_questions_are_answered() {
    let port = OwnPort::reserve();
    let nobody = format!("http://{}", port.address());
    let silent = Receiver::start(Manner::Silent).await;
    let failing = Receiver::start(Manner::Fails).await;
    let picky = Receiver::start(Manner::Rejects).await;
    let (babble, _babbler) = babbler().await;
    let cases = [
        (nobody, "failed"),
        (silent.endpoint(), "failed"),
        (failing.endpoint(), "failed"),
        (babble, "failed"),
        (picky.endpoint(), "rejected"),
    ];
    // Each waits for its receiver for seconds, and none for another.
    join_all(cases.map(|(endpoint, reason)| async move {
        let server = Server::configured(Script::instant(2), &otlp(&endpoint)).await;
        let answer = timeout(PATIENCE, server.ask(question())).await.unwrap();
        assert_eq!(answer.unwrap().answer, "so fact 1");
        let lost = format!("spechop_spans_dropped_total{{reason=\"{reason}\"}}");
        let counted = async {
            while server.metric(&lost).await == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, counted).await.expect(&endpoint);
        assert_eq!(server.metric("spechop_spans_exported_total").await, 0);
        // It ends in time, too.
        server.ask(question()).await.unwrap();
        end(server).await;
    }))
    .await;
}

/// Says something to everybody that is not HTTP/2.
async fn babbler() -> (String, JoinSet<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(&[0x5a; 4096]).await?;
            let _ = stream.read(&mut [0; 64]).await;
        }
    });
    (endpoint, tasks)
}
