//! Conversations through OpenAI's door: a scripted endpoint puts earlier turns into the question.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::over_http::{chat, get};
use crate::receiver::{Manner, Receiver, hex};
use crate::support::{Server, config, eventually};
use serde_json::{Value, json};
use spechop_llm::{ChatEndpoint, LlmRewriter, OpenAiModel};
use spechop_ports::retry::Retries;
use spechop_proto::AskResponse;
use spechop_testkit::Script;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// What an endpoint streams that says this and has read 40 tokens and written 9.
fn says(text: &str) -> ResponseTemplate {
    let events = [
        json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 9}}),
    ];
    let mut body: String = events.map(|event| format!("data: {event}\n\n")).concat();
    body += "data: [DONE]\n\n";
    ResponseTemplate::new(200).set_body_raw(body.into_bytes(), "text/event-stream")
}

async fn endpoint(answer: ResponseTemplate) -> MockServer {
    let endpoint = MockServer::start().await;
    let chat = Mock::given(method("POST")).and(path("/v1/chat/completions"));
    chat.respond_with(answer).mount(&endpoint).await;
    endpoint
}

/// A server whose generator writes what a script says, and whose questions this endpoint rewrites.
async fn server(endpoint: &MockServer, toml: &str) -> Server {
    let mut model = ChatEndpoint::new(format!("{}/v1", endpoint.uri()), "tiny");
    model.retries = Retries {
        max: 0,
        ..Retries::default()
    };
    let rewriter = LlmRewriter::new(Arc::new(OpenAiModel::new(&model).unwrap()));
    Server::equipped(Script::instant(1), config(toml), |toolbox, config| {
        toolbox.rewriting(Arc::new(rewriter), config)
    })
    .await
}

fn conversation() -> Value {
    json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "Who directed Solaris?" },
        { "role": "assistant", "content": [{ "type": "text", "text": "Andrei Tarkovsky" }] },
        { "role": "user", "content": "And where was he born?" },
    ])
}

async fn reply(server: &Server, messages: Value) -> Value {
    let fields = json!({ "messages": messages, "spechop": { "options": { "k": 1 } } });
    let response = chat(server, fields).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

fn reasoning(said: &Value) -> &str {
    let message = &said["choices"][0]["message"];
    message["reasoning_content"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_turns_are_put_into_the_question_and_the_bill() {
    let endpoint = endpoint(says("Where was Andrei Tarkovsky born?")).await;
    let server = server(&endpoint, "").await;
    let said = reply(&server, conversation()).await;
    let first = reasoning(&said).lines().next().unwrap();
    assert_eq!(first, "Asked: Where was Andrei Tarkovsky born?");
    // The endpoint was shown the conversation as one text, and the system's message not at all.
    let requests = endpoint.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1);
    let asked: Value = requests[0].body_json().unwrap();
    let shown = asked["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        shown["content"],
        "User: Who directed Solaris?\nAssistant: Andrei Tarkovsky\n\
         Last question: And where was he born?"
    );
    assert!(asked["max_tokens"].as_u64().unwrap() <= 96);
    assert!(!asked.to_string().contains("Be brief"));
    // What it has cost is a part of what the question costs.
    let alone = json!([{ "role": "user", "content": "And where was he born?" }]);
    let plain = reply(&server, alone).await;
    assert_eq!(endpoint.received_requests().await.unwrap().len(), 1);
    assert!(!reasoning(&plain).contains("Asked: "), "{plain}");
    let tokens = |said: &Value, of: &str| said["usage"][of].as_u64().unwrap();
    let more = |of: &str| tokens(&said, of) - tokens(&plain, of);
    assert_eq!((more("prompt_tokens"), more("completion_tokens")), (40, 9));
    // It is a call of the generator, as one that an answer needs.
    let backends = server.backends().await;
    let generator = backends.iter().find(|backend| backend.name == "generator");
    assert_eq!(generator.unwrap().started, 2 + 1 + 2);
    // The stream says it, too, before any hop.
    let streamed = json!({
        "messages": conversation(), "stream": true, "spechop": { "options": { "k": 1 }, "question_id": "mine" },
    });
    let response = chat(&server, streamed).send().await.unwrap();
    let text = response.text().await.unwrap();
    let (asked, hop) = (text.find("Asked: Where was Andrei"), text.find("1. q0"));
    assert!(asked.unwrap() < hop.unwrap(), "{text}");
    let answer = get(&server, "/v1/questions/mine/answer").await;
    let answer: AskResponse = spechop_proto::json::read(&answer.bytes().await.unwrap()).unwrap();
    let segments = answer.usage.unwrap().segments.unwrap();
    assert_eq!((segments.started, segments.wasted), (3, 0));
    // So do the costs so far: the rewriting, the first hop's segment, and the one that may be under way.
    let events = get(&server, "/v1/questions/mine/events").await;
    let events = events.text().await.unwrap();
    let committed = events.lines().find(|line| line.contains("\"committed\""));
    let committed: Value =
        serde_json::from_str(committed.unwrap().strip_prefix("data: ").unwrap()).unwrap();
    let prompt = &committed["committed"]["usage"]["segments"]["prompt_tokens"];
    assert!(prompt.as_u64().unwrap() >= 40, "{committed}");
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Has a conversation as a part of that trace. For which span was the endpoint asked?
async fn heard(server: &Server, endpoint: &MockServer) -> String {
    let request = chat(server, json!({ "messages": conversation() }));
    let request = request.header("traceparent", PARENT);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let requests = endpoint.received_requests().await.unwrap();
    let heard = &requests[0].headers["traceparent"];
    heard.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_hears_of_the_callers_trace() {
    let endpoint = endpoint(says("Where was Andrei Tarkovsky born?")).await;
    let server = server(&endpoint, "").await;
    assert_eq!(heard(&server, &endpoint).await, PARENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_has_a_span_of_its_own() {
    let receiver = Receiver::start(Manner::Takes).await;
    let toml = format!("[otlp]\nendpoint = \"{}\"\n", receiver.endpoint());
    let endpoint = endpoint(says("Where was Andrei Tarkovsky born?")).await;
    let mut server = server(&endpoint, &toml).await;
    let heard = heard(&server, &endpoint).await;
    server.shut_down();
    server.ended().await.unwrap();
    let spans = receiver.trace(&PARENT[3..35]);
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (question, rewriting) = (named("question"), named("rewriting"));
    assert_eq!(rewriting.parent_span_id, question.span_id);
    assert_eq!(heard[36..52], hex(&rewriting.span_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_needs_nothing_is_asked_as_it_is() {
    let endpoint = endpoint(says("And where was he born?")).await;
    let server = server(&endpoint, "").await;
    let said = reply(&server, conversation()).await;
    assert!(reasoning(&said).starts_with("1. "), "{said}");
    assert_eq!(endpoint.received_requests().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn if_it_comes_to_nothing_the_last_message_is_asked_and_that_is_said() {
    let slow = says("Where was Andrei Tarkovsky born?").set_delay(Duration::from_secs(3600));
    for (answer, toml, why) in [
        (ResponseTemplate::new(401), "", "401"),
        (ResponseTemplate::new(503), "", "503"),
        (says("…"), "", "no question"),
        (
            slow,
            "[question]\nsegment_ms_max = 2000\n",
            "it took longer than",
        ),
    ] {
        let endpoint = endpoint(answer).await;
        let server = server(&endpoint, toml).await;
        let said = reply(&server, conversation()).await;
        let first = reasoning(&said).lines().next().unwrap();
        assert!(
            first.starts_with("Only the last message was asked: ") && first.contains(why),
            "{first}"
        );
        assert_eq!(said["choices"][0]["message"]["content"], "so fact 0");
        server.is_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_hangs_up_meanwhile_leaves_nothing_behind() {
    let answer = says("Where?").set_delay(Duration::from_secs(3600));
    let endpoint = endpoint(answer).await;
    let server = server(&endpoint, "").await;
    let request = chat(&server, json!({ "messages": conversation() }));
    let mut waits = tokio::task::JoinSet::new();
    waits.spawn(request.send());
    eventually(|| server.gauges.questions_open() == 1).await;
    waits.shutdown().await;
    eventually(|| server.gauges.questions_open() == 0).await;
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lets_it_go_on_finds_the_answer() {
    let answer = says("Where was Andrei Tarkovsky born?").set_delay(Duration::from_millis(500));
    let endpoint = endpoint(answer).await;
    let server = server(&endpoint, "").await;
    let ours = json!({ "question_id": "mine", "linger_ms": 20_000, "options": { "k": 1 } });
    let asked = json!({ "messages": conversation(), "spechop": ours });
    let mut waits = tokio::task::JoinSet::new();
    waits.spawn(chat(&server, asked).send());
    while endpoint.received_requests().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    waits.shutdown().await;
    eventually(|| server.gauges.connections_open() == 0).await;
    let answer = get(&server, "/v1/questions/mine/answer").await;
    assert_eq!(answer.status(), 200);
    let answer: AskResponse = spechop_proto::json::read(&answer.bytes().await.unwrap()).unwrap();
    assert_eq!(answer.answer, "so fact 0");
}

/// Proxies and clients give up on a response of which nothing comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_before_its_question_is_complete() {
    let answer = says("Where?").set_delay(Duration::from_secs(3600));
    let endpoint = endpoint(answer).await;
    let server = server(&endpoint, "").await;
    let asked = json!({ "messages": conversation(), "stream": true });
    let mut response = chat(&server, asked).send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: {"), "{first:?}");
    assert_eq!(server.gauges.questions_open(), 1);
    drop(response);
    server.is_idle().await;
}
