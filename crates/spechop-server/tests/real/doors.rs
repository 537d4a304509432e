//! Twenty real questions through every door: the same answers, hops and cost. Every citation leads to its
//! passage.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Client;
use serde_json::{Value, json};
use spechop_proto::json as wire_json;
use spechop_proto::{AskRequest, AskResponse, Hop};

use crate::answers::{Running, first_questions, prepare, trajectory};
use crate::support::at;

const QUESTIONS: usize = 20;

/// The server, as clients of its doors see it.
struct Doors {
    running: Running,
    http: Client,
}

/// Calls that were begun at each backend.
type Calls = BTreeMap<String, u64>;

impl Doors {
    async fn open(toml: String) -> Self {
        let running = Running::start(toml).await;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().tls_certs_only([]).no_proxy();
        Self {
            http: http.build().unwrap(),
            running,
        }
    }

    /// What a door answers to this body.
    async fn post(&self, path: &str, body: &Value) -> String {
        let request = self.http.post(format!("{}{path}", self.running.url));
        let request = request.header("accept", "application/json, text/event-stream");
        let response = request.json(body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.text().await.unwrap()
    }

    async fn begun(&self) -> Calls {
        let backends = self.running.backends().await.into_iter();
        backends
            .map(|(name, backend)| (name, backend.started))
            .collect()
    }

    /// What somebody asks, and the calls that it takes at each backend.
    async fn counted<T>(&self, ask: impl Future<Output = T>) -> (T, Calls) {
        let before = self.begun().await;
        let told = ask.await;
        let after = self.begun().await.into_iter();
        let since = after.map(|(name, begun)| {
            let more = begun - before[&name];
            (name, more)
        });
        (told, since.collect())
    }

    async fn grpc(&self, question: &str) -> AskResponse {
        let request = AskRequest {
            question: question.to_owned(),
            ..at(1)
        };
        let answer = self.running.client.clone().ask(request).await.unwrap();
        answer.into_inner()
    }

    async fn chat(&self, question: &str) -> Value {
        let chat = json!({
            "model": "spechop-k1",
            "messages": [{ "role": "user", "content": question }],
        });
        let chat = self.post("/v1/chat/completions", &chat).await;
        serde_json::from_str(&chat).unwrap()
    }

    async fn mcp(&self, question: &str) -> Value {
        // By default it would be cut short before a slow machine has answered.
        let arguments = json!({ "question": question, "k": 1, "budget": 3600 });
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "ask", "arguments": arguments },
        });
        let told = self.post("/mcp", &call).await;
        let mut lines = told.lines().filter_map(|line| line.strip_prefix("data: "));
        let last = lines.rfind(|line| line.starts_with('{'));
        let message: Value = serde_json::from_str(last.unwrap()).unwrap();
        message["result"]["structuredContent"].clone()
    }

    /// Each address shows a passage of the index, as JSON and as a page without scripts.
    async fn lead_to_passages(&self, annotations: &[Value], ids: &BTreeSet<String>) {
        for annotation in annotations {
            let address = annotation["url_citation"]["url"].as_str().unwrap();
            let shown = self.http.get(address).header("accept", "application/json");
            let shown = shown.send().await.unwrap();
            assert_eq!(shown.status(), 200, "{address}");
            let passage: Value = shown.json().await.unwrap();
            assert!(ids.contains(passage["passage_id"].as_str().unwrap()));
            let page = self.http.get(address).send().await.unwrap();
            let policy = page.headers()["content-security-policy"].to_str().unwrap();
            assert!(policy.contains("default-src 'none'"));
            assert!(page.text().await.unwrap().starts_with("<!doctype html>"));
        }
    }
}

/// The answer at the end of a stream.
fn last_of(stream: &str) -> AskResponse {
    let (_, last) = stream.rsplit_once("event: answer\ndata: ").unwrap();
    let last: Value = serde_json::from_str(last.trim()).unwrap();
    wire_json::read(last["answer"].to_string().as_bytes()).unwrap()
}

/// Calls and tokens, by stage.
fn cost(answer: &AskResponse) -> Vec<[u64; 3]> {
    let usage = answer.usage.unwrap();
    let calls = [usage.segments, usage.targets, usage.speculations];
    let calls = calls.map(Option::unwrap).into_iter();
    calls
        .map(|calls| {
            let started = u64::from(calls.started);
            [started, calls.prompt_tokens, calls.completion_tokens]
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_gives_the_same_answers_and_citations_lead_to_passages() {
    let dir = tempfile::tempdir().unwrap();
    let (questions, titles) = first_questions(QUESTIONS);
    assert_eq!(questions.len(), QUESTIONS);
    let (toml, ids) = prepare(dir.path(), &titles).await;
    let doors = Doors::open(toml).await;
    let mut cited = 0;
    for (question, _) in &questions {
        let (grpc, calls) = doors.counted(doors.grpc(question)).await;
        assert!(calls.values().sum::<u64>() > 1, "{calls:?}");
        let body = json!({ "question": question, "options": { "k": 1 } });
        let (plain, over_json) = doors.counted(doors.post("/v1/ask", &body)).await;
        let plain: AskResponse = wire_json::read(plain.as_bytes()).unwrap();
        let (stream, over_events) = doors.counted(doors.post("/v1/ask/stream", &body)).await;
        let streamed = last_of(&stream);
        for other in [&plain, &streamed] {
            assert_eq!(trajectory(other), trajectory(&grpc));
            assert_eq!(cost(other), cost(&grpc), "{question}");
        }

        let (chat, over_chat) = doors.counted(doors.chat(question)).await;
        let message = &chat["choices"][0]["message"];
        let content = message["content"].as_str().unwrap();
        assert!(content.starts_with(&grpc.answer), "{content}");
        let reasoning = message["reasoning_content"].as_str().unwrap();
        let lines: Vec<_> = reasoning.lines().collect();
        assert_eq!(lines.len(), grpc.hops.len());
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (line, hop) in lines.iter().zip(&grpc.hops) {
            let [asked, found] = [&hop.sub_question, &hop.sub_answer].map(|text| one_line(text));
            assert!(line.contains(&format!("{asked} → {found}")), "{line}");
        }
        let tokens: u64 = cost(&grpc)
            .iter()
            .map(|[_, read, written]| read + written)
            .sum();
        assert_eq!(chat["usage"]["total_tokens"], tokens);

        let (told, over_mcp) = doors.counted(doors.mcp(question)).await;
        assert_eq!(told["answer"], grpc.answer);
        let hops = told["hops"].as_array().unwrap().iter();
        let hops = hops.map(|hop| (hop["sub_question"].as_str(), hop["sub_answer"].as_str()));
        let own = grpc.hops.iter();
        let own = own.map(|hop| (Some(&*hop.sub_question), Some(&*hop.sub_answer)));
        assert!(hops.eq(own), "{told}");

        for other in [over_json, over_events, over_chat, over_mcp] {
            assert_eq!(other, calls, "{question}");
        }
        let annotations = message["annotations"].as_array().unwrap();
        let has_found = |hop: &Hop| hop.observation.as_ref().is_some_and(|seen| seen.found);
        assert_eq!(annotations.is_empty(), !grpc.hops.iter().any(has_found));
        doors.lead_to_passages(annotations, &ids).await;
        cited += annotations.len();
    }
    assert!(cited > QUESTIONS / 2, "{cited} citations");
    let unknown = format!("{}/p/no-such-passage", doors.running.url);
    let unknown = doors.http.get(unknown).send().await.unwrap();
    assert_eq!(unknown.status(), 404);
    let Doors { running, http } = doors;
    drop(http);
    running.stop().await;
}
