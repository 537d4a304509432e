//! `POST /v1/tool-cache`: what a client has looked up itself.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::over_http::client;
use crate::support::{Server, Shelf, config, of, question};
use serde_json::{Value, json};
use spechop_testkit::Script;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn server(outputs: usize) -> Server {
    let toml = format!("[server]\ntool_outputs = {outputs}\n");
    Server::configured(Script::instant(1), &toml).await
}

/// What the server answers to this body at this path: its status and what it says.
async fn post(server: &Server, path: &str, tenant: &str, body: &Value) -> (u16, Value) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         spechop-tenant: {tenant}\r\n"
    );
    let (status, _, body) = server.http1(&head, body.to_string().as_bytes()).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

const PATH: &str = "/v1/tool-cache";
const QUERY: &str = "/v1/tool-cache/query";

/// What the scripted planner looks up.
const ASKED: &str = "q0 after nothing?";

fn put(ttl_s: f64) -> Value {
    json!({
        "tool": "retrieve",
        "arguments": {"query": ASKED},
        "output": [{"id": "left", "title": "Left", "text": "by a client"}],
        "ttl_s": ttl_s,
    })
}

/// The ids of the evidence of the only hop.
async fn evidence(server: &Server, tenant: &str, fresh: bool) -> Vec<String> {
    let request = of(tenant, question().with(|asked| asked.fresh = fresh));
    let answer = server.client().await.ask(request).await.unwrap();
    let hop = answer.into_inner().hops.remove(0);
    let evidence = hop.observation.unwrap().evidence;
    evidence
        .into_iter()
        .map(|passage| passage.passage_id)
        .collect()
}

#[tokio::test]
async fn a_look_up_takes_what_its_own_tenant_has_left() {
    let server = server(8).await;
    let ask = json!({"tool": "retrieve", "arguments": {"query": ASKED}});
    assert_eq!(
        post(&server, QUERY, "a", &ask).await,
        (200, json!({"cached": false}))
    );
    assert_eq!(
        post(&server, PATH, "a", &put(60.0)).await,
        (200, json!({"cached": true}))
    );
    let output = json!([{"id": "left", "title": "Left", "text": "by a client"}]);
    let cached = json!({"cached": true, "output": output});
    assert_eq!(post(&server, QUERY, "a", &ask).await, (200, cached));
    assert_eq!(
        post(&server, QUERY, "b", &ask).await,
        (200, json!({"cached": false}))
    );

    let look_ups = server.look_ups().await;
    let left = evidence(&server, "a", false).await;
    assert!(
        left.len() == 1 && left[0].starts_with("tool-"),
        "its name is not that of another text: {left:?}"
    );
    assert_eq!(server.look_ups().await, look_ups, "nothing was searched");
    let own = evidence(&server, "b", false).await;
    assert!(own.len() == 3 && !own.contains(&left[0]), "{own:?}");
    assert_eq!(evidence(&server, "a", true).await, own);
}

/// Over a server whose index shows its passages.
#[tokio::test(flavor = "multi_thread")]
async fn two_outputs_with_one_name_are_cited_as_two_and_never_as_the_indexs() {
    let config = config("[server]\ntool_outputs = 8\n");
    let server = Server::showing(Script::instant(2), config, Shelf).await;
    for (query, text) in [(ASKED, "The first."), ("q1 after fact 0?", "The second.")] {
        let body = json!({
            "tool": "retrieve",
            "arguments": {"query": query},
            "output": [{"id": "1", "title": "Left", "text": text}],
        });
        let kept = (200, json!({"cached": true}));
        assert_eq!(post(&server, PATH, "a", &body).await, kept);
    }
    let origin = crate::over_http::url(&server, "");
    let form = client()
        .post(format!("{origin}/ask"))
        .header("origin", &origin)
        .header("spechop-tenant", "a")
        .header("content-type", "application/x-www-form-urlencoded");
    let html = form.body("question=q&k=1").send().await.unwrap();
    let html = html.text().await.unwrap();
    for text in ["The first.", "The second."] {
        assert_eq!(html.matches(text).count(), 1, "{html}");
    }
    assert_eq!(html.matches("<li ").count(), 2, "{html}");
    assert!(!html.contains("\"p/"), "{html}");

    let asked = json!({
        "messages": [{ "role": "user", "content": "q" }], "spechop": { "options": { "k": 1 } },
    });
    let (status, chat) = post(&server, "/v1/chat/completions", "a", &asked).await;
    assert_eq!(status, 200, "{chat}");
    // It has nowhere to look them up.
    assert_eq!(chat["choices"][0]["message"]["content"], "so fact 1");
    assert!(!chat.to_string().contains("/p/"), "{chat}");

    let asked = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "ask", "arguments": { "question": "q", "k": 1 } },
    });
    let request = client().post(format!("{origin}/mcp"));
    let request = request
        .header("accept", "application/json, text/event-stream")
        .header("spechop-tenant", "a");
    let said = request.json(&asked).send().await.unwrap();
    let said = said.text().await.unwrap();
    let message = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("data: "));
    let message: Value = serde_json::from_str(message.unwrap_or(&said)).unwrap();
    let hops = message["result"]["structuredContent"]["hops"].clone();
    let cited = [0, 1].map(|hop| hops[hop]["evidence"][0].clone());
    assert_ne!(cited[0]["id"], cited[1]["id"], "{said}");
    for passage in cited {
        assert_eq!(passage["url"], "", "{said}");
    }
}

#[tokio::test]
async fn an_output_may_be_longer_than_a_question() {
    let server = server(8).await;
    for (bytes, expected) in [(500_000, 200), (600_000, 413)] {
        let mut body = put(60.0);
        body["output"][0]["text"] = json!("x".repeat(bytes));
        let (status, said) = post(&server, PATH, "a", &body).await;
        assert_eq!(status, expected, "{said}");
    }
}

/// The longer a connection is used, the more of it is read at once: a whole request with its body.
#[tokio::test(flavor = "multi_thread")]
async fn many_long_outputs_come_over_one_connection() {
    let server = server(8).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut body = put(60.0);
    body["output"][0]["text"] = json!("x".repeat(60_000));
    let body = body.to_string();
    let request = format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..8 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"{\"cached\":true}") {
            let read = stream.read_buf(&mut heard).await.unwrap();
            assert_ne!(read, 0, "it was hung up on: {}", heard.escape_ascii());
        }
        assert!(heard.starts_with(b"HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_and_nothing_is_kept() {
    let server = server(8).await;
    let with = |field: &str, value: Value| {
        let mut body = put(60.0);
        body[field] = value;
        body
    };
    for (body, said) in [
        (
            json!(["retrieve", { "query": "q" }, [], 60]),
            "body: must be JSON such as",
        ),
        (with("tool", json!("")), "a name of 1 to 128 bytes"),
        (with("ttl_s", json!(0)), "above 0"),
        (with("ttl_s", json!(1e9)), "at most 86400"),
        (with("output", json!({})), "list of documents"),
        (with("arguments", json!({"q": 1})), "{\"query\": \"…\"}"),
        (with("more", json!(1)), "unknown field"),
    ] {
        let (status, answer) = post(&server, PATH, "a", &body).await;
        let error = answer["message"].as_str().unwrap();
        assert!(status == 400 && error.contains(said), "{status}: {error}");
        assert_eq!(answer["code"], "INVALID_ARGUMENT");
        assert!(answer["fields"][0]["field"].is_string(), "{answer}");
    }
    let (status, _) = post(&server, PATH, "a b", &put(60.0)).await;
    assert_eq!(status, 400, "that is no tenant");
    let own = evidence(&server, "a", false).await;
    assert!(own.len() == 3, "nothing of a client's: {own:?}");
}

#[tokio::test]
async fn without_room_there_is_no_such_path() {
    let server = server(0).await;
    let (status, said) = post(&server, PATH, "a", &put(60.0)).await;
    assert_eq!(status, 404, "{said}");
}
