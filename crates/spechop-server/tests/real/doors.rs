//! The same real questions through every door: the same answers, hops and calls. Every citation leads to
//! its passage.

use reqwest::Client;
use serde_json::{Value, json};
use spechop_proto::json as wire_json;
use spechop_proto::{AskRequest, AskResponse, Hop};

use crate::answers::{Running, prepare, questions, trajectory};

/// Questions about the same pages as those of the demo.
const OTHERS: [&str; 3] = [
    "Where did Princess Pilar of Bavaria's mother die?",
    "Who is older, C. M. Stephen or Pattom A. Thanu Pillai?",
    "Who is the director of the film Killer: Dead or Alive?",
];

/// Calls started, by stage.
fn calls(answer: &AskResponse) -> [u32; 3] {
    let usage = answer.usage.unwrap();
    let calls = [usage.segments, usage.targets, usage.speculations];
    calls.map(|calls| calls.unwrap().started)
}

async fn post(client: &Client, url: &str, body: &Value) -> String {
    let response = client.post(url).json(body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{url}");
    response.text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_gives_the_same_answers_and_citations_lead_to_passages() {
    let dir = tempfile::tempdir().unwrap();
    let (questions, titles) = questions();
    let (toml, ids) = prepare(dir.path(), &titles).await;
    let server = Running::start(toml).await;
    let url = |path: &str| format!("{}{path}", server.url);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().tls_certs_only([]).no_proxy();
    let client = client.build().unwrap();
    let questions = questions.iter().map(|(question, _)| question.as_str());
    for question in questions.chain(OTHERS) {
        let request = AskRequest {
            question: question.to_owned(),
            k: Some(1),
            ..AskRequest::default()
        };
        let grpc = server.client.clone().ask(request).await.unwrap();
        let grpc = grpc.into_inner();
        let body = json!({ "question": question, "k": 1 });
        let plain = post(&client, &url("/v1/ask"), &body).await;
        let plain: AskResponse = wire_json::read(plain.as_bytes()).unwrap();
        let stream = post(&client, &url("/v1/ask/stream"), &body).await;
        let (_, last) = stream.rsplit_once("event: answer\ndata: ").unwrap();
        let last: Value = serde_json::from_str(last.trim()).unwrap();
        let streamed: AskResponse = wire_json::read(last["answer"].to_string().as_bytes()).unwrap();
        for other in [&plain, &streamed] {
            assert_eq!(trajectory(other), trajectory(&grpc));
            assert_eq!(calls(other), calls(&grpc));
        }
        let chat = json!({
            "model": "spechop-k1",
            "messages": [{ "role": "user", "content": question }],
        });
        let chat = post(&client, &url("/v1/chat/completions"), &chat).await;
        let chat: Value = serde_json::from_str(&chat).unwrap();
        let message = &chat["choices"][0]["message"];
        let content = message["content"].as_str().unwrap();
        assert!(content.starts_with(&grpc.answer), "{content}");
        let lines: Vec<_> = message["reasoning_content"]
            .as_str()
            .unwrap()
            .lines()
            .collect();
        assert_eq!(lines.len(), grpc.hops.len());
        for (line, hop) in lines.iter().zip(&grpc.hops) {
            assert!(line.contains(&hop.sub_answer), "{line}");
        }
        let annotations = message["annotations"].as_array().unwrap();
        let has_found = |hop: &Hop| hop.observation.as_ref().is_some_and(|seen| seen.found);
        assert_eq!(annotations.is_empty(), !grpc.hops.iter().any(has_found));
        for annotation in annotations {
            let address = annotation["url_citation"]["url"].as_str().unwrap();
            let shown = client.get(address).header("accept", "application/json");
            let shown = shown.send().await.unwrap();
            assert_eq!(shown.status(), 200, "{address}");
            let passage: Value = shown.json().await.unwrap();
            assert!(ids.contains(passage["passage_id"].as_str().unwrap()));
            let page = client.get(address).send().await.unwrap();
            let policy = page.headers()["content-security-policy"].to_str().unwrap();
            assert!(policy.contains("default-src 'none'"));
            assert!(page.text().await.unwrap().starts_with("<!doctype html>"));
        }
    }
    let unknown = client.get(url("/p/no-such-passage")).send().await.unwrap();
    assert_eq!(unknown.status(), 404);
    drop(client);
    server.stop().await;
}
