//! A client over HTTP, and what it reads.
#![allow(dead_code, unreachable_pub, reason = "no test file uses all of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use spechop_proto::AskResponse;
use spechop_proto::json as wire_json;

use crate::support::{Server, question};

pub fn client() -> Client {
    bare().build().unwrap()
}

pub fn bare() -> ClientBuilder {
    // A second time it is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().tls_certs_only([]).no_proxy()
}

pub fn url(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address)
}

/// Asks with these fields beside the question.
pub async fn post(server: &Server, path: &str, fields: Value) -> Response {
    let body = with(json!({ "question": question().question }), fields);
    let request = client().post(url(server, path)).json(&body);
    request.send().await.unwrap()
}

/// Asks in OpenAI's form, with these fields beside the question.
pub fn chat(server: &Server, fields: Value) -> RequestBuilder {
    let body = json!({ "messages": [{ "role": "user", "content": "q" }] });
    let request = client().post(url(server, "/v1/chat/completions"));
    request.json(&with(body, fields))
}

fn with(mut body: Value, mut fields: Value) -> Value {
    let fields = fields.as_object_mut().unwrap();
    body.as_object_mut().unwrap().append(fields);
    body
}

pub async fn get(server: &Server, path: &str) -> Response {
    client().get(url(server, path)).send().await.unwrap()
}

/// The objects that the lines of a stream hold, without its marks.
pub fn data(text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let objects = lines.filter(|line| line.starts_with('{'));
    objects
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// An event of a stream: its id, its name, its data.
pub type Frame = (Option<u64>, String, Value);

/// Reads a stream frame by frame.
pub struct Frames {
    response: Response,
    text: String,
}

impl Frames {
    pub fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!(header("cache-control"), "no-store, no-transform");
        assert_eq!(header("x-accel-buffering"), "no");
        Self {
            response,
            text: String::new(),
        }
    }

    pub fn question_id(&self) -> String {
        let name = &self.response.headers()["spechop-question-id"];
        name.to_str().unwrap().to_owned()
    }

    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    let mut lines = frame.lines();
                    lines
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::to_owned)
                };
                let Some(data) = field("data: ") else {
                    assert!(frame.starts_with(':'), "{frame}");
                    continue;
                };
                let id = field("id: ").map(|id| id.parse().unwrap());
                let data = serde_json::from_str(&data).unwrap();
                return Some((id, field("event: ").unwrap(), data));
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }

    pub async fn all(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

/// The answer that the last frame holds.
pub fn answer_of(frames: &[Frame]) -> AskResponse {
    let (_, name, data) = frames.last().unwrap();
    assert_eq!(name, "answer", "{data}");
    wire_json::read(data["answer"].to_string().as_bytes()).unwrap()
}

/// What does not depend on the clock.
pub fn said(answer: &AskResponse) -> Value {
    let hops: Vec<_> = answer
        .hops
        .iter()
        .map(|hop| json!([hop.sub_question, hop.sub_answer, hop.kind, hop.guess]))
        .collect();
    let usage = answer.usage.unwrap();
    let calls = [usage.segments, usage.targets, usage.speculations];
    let started = calls.map(|calls| calls.unwrap().started);
    json!([answer.answer, hops, started, answer.stop_reason])
}
