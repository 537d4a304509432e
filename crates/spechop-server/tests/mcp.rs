//! The door for MCP, asked as clients of both lifecycles ask. The official clients ask it in
//! `crates/spechop/tests/real/mcp.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::over_http::data;
use crate::support::{Server, Shelf, config, endless, eventually};
use serde_json::{Value, json};
use spechop_ports::{Passages, PortError};
use spechop_testkit::{Script, passage};
use spechop_types::Passage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What the server answers to this request: its status and its whole body.
async fn send(server: &Server, head: &str, body: &str) -> (u16, String) {
    let (status, head, body) = server.http1(head, body.as_bytes()).await;
    match head.contains("transfer-encoding: chunked") {
        true => (status, without_sizes(&body)),
        false => (status, body),
    }
}

/// A body in chunks, each behind a line with its size in bytes.
fn without_sizes(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&rest[..size]);
        chunks = rest[size..].trim_start_matches("\r\n");
    }
    body
}

fn request(head: &str, body: &str) -> String {
    format!(
        "{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Accept: application/json, text/event-stream\r\n";

/// The messages that come back for one message, in order.
async fn messages(server: &Server, headers: &str, message: &Value) -> Vec<Value> {
    let (status, body) = send(server, &format!("{HEAD}{headers}"), &message.to_string()).await;
    assert_eq!(status, 200, "{body}");
    data(&body)
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } },
    })
}

/// The result of a tool: its text, and whether it is an error.
async fn result(server: &Server, headers: &str, tool: &str, arguments: &Value) -> (String, bool) {
    let messages = messages(server, headers, &call(tool, arguments)).await;
    let result = &messages.last().unwrap()["result"];
    let content = result["content"].as_array().unwrap();
    assert_eq!(content.len(), 1, "one text item: {result}");
    assert_eq!(content[0]["type"], "text");
    let text = content[0]["text"].as_str().unwrap().to_owned();
    (text, result["isError"] == true)
}

#[tokio::test(flavor = "multi_thread")]
async fn old_and_new_clients_find_three_tools_that_only_read() {
    let server = Server::start(Script::instant(1)).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": version, "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            },
        });
        let answer = messages(&server, "", &hello).await.pop().unwrap();
        assert_eq!(answer["result"]["protocolVersion"], version);
        assert_eq!(answer["result"]["serverInfo"]["name"], "spechop");
        let headers = format!("MCP-Protocol-Version: {version}\r\n");
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let answer = messages(&server, &headers, &list).await.pop().unwrap();
        check_tools(&answer);
    }
    // The newest revision has no handshake: every request says who asks.
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let list =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    let answer = messages(&server, headers, &list).await.pop().unwrap();
    check_tools(&answer);
}

fn check_tools(answer: &Value) {
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["search", "fetch", "ask"]);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_can_be_fetched_by_the_same_tenant() {
    let server = Server::showing(Script::instant(1), config(""), Shelf).await;
    let url = "http://localhost/p/p0-rivers";
    assert_eq!(
        first(&server).await,
        json!({ "id": "p0-rivers", "title": "Title 0", "url": url })
    );
    let id = json!({ "id": "p0-rivers" });
    let (text, failed) = result(&server, "", "fetch", &id).await;
    assert!(!failed, "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        document,
        json!({
            "id": "p0-rivers", "title": "Title 0", "url": url,
            "text": "Text 0 about rivers", "metadata": {},
        })
    );
    let (text, failed) = result(&server, "spechop-tenant: other\r\n", "fetch", &id).await;
    assert!(failed && text.contains("no passage with the id"), "{text}");
    let toml = "[server]\npublic_url = \"https://qa.example\"\n";
    let public = Server::showing(Script::instant(1), config(toml), Shelf).await;
    let url = "https://qa.example/p/p0-rivers";
    assert_eq!(first(&public).await["url"], url);
    // This server has no pages of passages.
    let without = Server::configured(Script::instant(1), toml).await;
    assert_eq!(first(&without).await["url"], "");
}

/// The first passage that a search finds.
async fn first(server: &Server) -> Value {
    let (text, failed) = result(server, "", "search", &json!({ "query": "rivers" })).await;
    assert!(!failed, "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    found["results"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_tells_each_hop_and_then_its_answer() {
    let server = Server::start(Script::instant(3)).await;
    let asked = call("ask", &json!({ "question": "Who is it?", "k": 2 }));
    let mut messages = messages(&server, "", &asked).await;
    let answer = messages.pop().unwrap();
    assert_eq!(messages.len(), 3, "one for each hop");
    for (at, message) in (1..).zip(&messages) {
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], "p");
        assert_eq!(message["params"]["progress"].as_f64(), Some(f64::from(at)));
        assert!(!message["params"]["message"].as_str().unwrap().is_empty());
    }
    let result = &answer["result"];
    let structured = &result["structuredContent"];
    assert_eq!(structured["stop_reason"], "answered");
    let confidence = &structured["confidence"];
    assert!(confidence["supported"].is_boolean(), "{structured}");
    let hops = structured["hops"].as_array().unwrap();
    assert_eq!(hops.len(), 3);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with(structured["answer"].as_str().unwrap()),
        "{text}"
    );
    assert!(text.contains("\n3. "), "{text}");
    // What it cites can be fetched.
    let id = &hops[2]["evidence"][0]["id"];
    let (text, failed) = self::result(&server, "", "fetch", &json!({ "id": id })).await;
    assert!(!failed, "{text}");
    assert_eq!(
        server
            .metric("spechop_questions_total{outcome=\"answered\"}")
            .await,
        1
    );
}

/// Longer than what an answer says of a passage.
const LONG: usize = 20_000;

/// Hops that find long passages.
fn long() -> Script {
    Script {
        passage_bytes: LONG,
        ..Script::instant(1)
    }
}

/// The passage that an answer cites.
async fn cited(server: &Server) -> String {
    let asked = call("ask", &json!({ "question": "Who is it?" }));
    let answer = messages(server, "", &asked).await.pop().unwrap();
    let hops = &answer["result"]["structuredContent"]["hops"];
    let id = hops[0]["evidence"][0]["id"].as_str();
    id.unwrap().to_owned()
}

/// The text that is fetched by this id.
async fn fetched(server: &Server, id: &str) -> String {
    let (text, failed) = result(server, "", "fetch", &json!({ "id": id })).await;
    assert!(!failed, "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    document["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_an_answer_cites_takes_nothing_of_the_whole_away() {
    let server = Server::start(long()).await;
    let id = cited(&server).await;
    let part = fetched(&server, &id).await;
    assert!(part.len() < LONG && part.ends_with('…'), "{}", part.len());
    // What was found is given whole, and stays so whatever is told of it later.
    let query = id.strip_prefix("p0-").unwrap();
    let (_, failed) = result(&server, "", "search", &json!({ "query": query })).await;
    assert!(!failed);
    assert_eq!(fetched(&server, &id).await.len(), LONG);
    assert_eq!(cited(&server).await, id);
    assert_eq!(fetched(&server, &id).await.len(), LONG);
}

/// An index that has every passage.
struct Library;

#[tonic::async_trait]
impl Passages for Library {
    async fn passage(&self, id: &str) -> Result<Option<Passage>, PortError> {
        Ok(Some(passage(id, "Title 0", "x".repeat(LONG))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_answer_cites_in_part_the_index_gives_whole() {
    let server = Server::showing(long(), config(""), Library).await;
    let id = cited(&server).await;
    let text = fetched(&server, &id).await;
    assert_eq!(text, "x".repeat(LONG), "as the index has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_to_the_model() {
    let server = Server::start(Script::instant(1)).await;
    for (tool, arguments, said) in [
        ("search", json!({}), "the argument \"query\" must be a text"),
        (
            "fetch",
            json!({ "id": "p9" }),
            "take an id from a result of search or ask",
        ),
        (
            "ask",
            json!({ "question": " " }),
            "the argument \"question\" must be a text",
        ),
        (
            "ask",
            json!({ "question": "x", "k": 0 }),
            "k: must be at least 1, not 0",
        ),
        (
            "ask",
            json!({ "question": "x", "k": "two" }),
            "k must be a whole number",
        ),
        (
            "ask",
            json!({ "question": "x", "budget": -1 }),
            "a number of seconds",
        ),
        (
            "ask",
            json!({ "question": "x", "budget": 90_000 }),
            "at most 86400",
        ),
        (
            "ask",
            json!({ "question": "x", "hops": 3 }),
            "there is no argument \"hops\"; there are: ",
        ),
        (
            "search",
            json!({ "query": "x", "limit": 3 }),
            "there is no argument \"limit\"; there are: query",
        ),
    ] {
        let (text, failed) = result(&server, "", tool, &arguments).await;
        assert!(failed && text.contains(said), "{tool}: {text}");
    }
    let long = "x".repeat(10_000);
    for tool in ["forget", long.as_str()] {
        let answer = messages(&server, "", &call(tool, &json!({})))
            .await
            .pop()
            .unwrap();
        let problem = answer["error"]["message"].as_str().unwrap();
        let is_told = problem.contains("there are: search, fetch, ask");
        assert!(is_told && problem.len() < 200, "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_a_message_is_an_error_of_the_protocol() {
    let server = Server::start(Script::instant(1)).await;
    for (body, code) in [
        ("", -32700),
        ("no JSON", -32700),
        (r#"{"jsonrpc":"#, -32700),
        ("7", -32600),
        ("{}", -32600),
        (r#"{"id":1,"method":"ping"}"#, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
    ] {
        let (status, said) = send(&server, HEAD, body).await;
        assert_eq!(status, 400, "{body}: {said}");
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["error"]["code"], code, "{body}");
        assert_eq!(said.get("id"), Some(&Value::Null), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_params_are_told_from_an_unknown_method() {
    let server = Server::start(Script::instant(1)).await;
    for (method, params, code) in [
        ("initialize", json!(null), -32602),
        ("tools/call", json!(null), -32602),
        ("tools/call", json!({ "arguments": {} }), -32602),
        (
            "tools/call",
            json!({ "name": "ask", "arguments": [] }),
            -32602,
        ),
        ("tools/forget", json!({}), -32601),
    ] {
        let mut asked = json!({ "jsonrpc": "2.0", "id": 7, "method": method });
        if !params.is_null() {
            asked["params"] = params;
        }
        let answer = messages(&server, "", &asked).await.pop().unwrap();
        assert_eq!(answer["id"], 7, "{answer}");
        assert_eq!(answer["error"]["code"], code, "{asked}: {answer}");
    }
    let asked = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#;
    let (status, said) = send(&server, HEAD, asked).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, &said["id"]), (200, &json!(7)), "{said}");
    assert_eq!(said["error"]["code"], -32602, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_everything_takes_the_answer() {
    let server = Server::start(Script::instant(1)).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (accept, status) in [
        ("*/*", 200),
        ("text/html, */*;q=0.8", 200),
        ("text/html", 406),
    ] {
        let head = HEAD.replace("application/json, text/event-stream", accept);
        assert_eq!(send(&server, &head, list).await.0, status, "{accept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_leaves_nothing_behind() {
    let server = Server::start(endless()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let asked = call("ask", &json!({ "question": "Who is it?" })).to_string();
    stream
        .write_all(request(HEAD, &asked).as_bytes())
        .await
        .unwrap();
    eventually(|| server.gauges.questions_open() == 1).await;
    drop(stream);
    eventually(|| server.gauges.questions_open() == 0).await;
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_takes_its_own_call_back_and_no_other() {
    let server = Server::start(endless()).await;
    let (ours, others) = (hello(&server).await, hello(&server).await);
    assert_ne!(ours, others);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let asked = call("ask", &json!({ "question": "Who is it?" })).to_string();
    let head = format!("{HEAD}{ours}");
    stream
        .write_all(request(&head, &asked).as_bytes())
        .await
        .unwrap();
    eventually(|| server.gauges.questions_open() == 1).await;
    let of_another_tenant = format!("{ours}spechop-tenant: other\r\n");
    for (headers, id) in [
        (&others, 7),
        (&String::new(), 7),
        (&of_another_tenant, 7),
        (&ours, 8),
    ] {
        cancel(&server, headers, id).await;
        assert_eq!(server.gauges.questions_open(), 1, "{headers}{id}");
    }
    cancel(&server, &ours, 7).await;
    eventually(|| server.gauges.questions_open() == 0).await;
    server.is_idle().await;
    // Its response ends, too, and has no answer.
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert!(!heard.contains("\"result\""), "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_another_server_greeted_is_answered() {
    let server = Server::start(Script::instant(1)).await;
    for headers in ["Mcp-Session-Id: of-another-server\r\n", ""] {
        let asked = json!({ "question": "Who is it?" });
        let (text, failed) = result(&server, headers, "ask", &asked).await;
        assert!(!failed, "{text}");
        cancel(&server, headers, 7).await;
    }
}

/// Says hello and returns the header that a client sends from then on.
async fn hello(server: &Server) -> String {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    });
    let (_, head, _) = server.http1(HEAD, hello.to_string().as_bytes()).await;
    let name = head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap_or_default();
    format!("Mcp-Session-Id: {name}\r\n")
}

async fn cancel(server: &Server, headers: &str, id: u32) {
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
    });
    let (status, said) = send(server, &format!("{HEAD}{headers}"), &cancelled.to_string()).await;
    assert_eq!(status, 202, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_before_the_client_cuts_it_off() {
    let server = Server::configured(endless(), "[server]\nmcp_budget_ms = 50\n").await;
    for arguments in [
        json!({ "question": "Who is it?" }),
        json!({ "question": "Who is it?", "budget": 0.02 }),
    ] {
        let answer = messages(&server, "", &call("ask", &arguments))
            .await
            .pop()
            .unwrap();
        let structured = &answer["result"]["structuredContent"];
        assert_eq!(structured["stop_reason"], "budget", "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_transport_decides_who_is_answered_at_all() {
    let server = Server::start(Script::instant(1)).await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let page = format!("{HEAD}Origin: https://page.example\r\n");
    let other = HEAD.replace("localhost", "other.example");
    let (text, get) = (
        HEAD.replace("application/json\r\n", "text/plain\r\n"),
        HEAD.replace("POST", "GET"),
    );
    for (head, body, expected) in [
        (&page, &*list, 403),
        (&other, &*list, 421),
        (&text, &*list, 415),
        (&get, "", 405),
    ] {
        let (status, said) = send(&server, head, body).await;
        assert_eq!(status, expected, "{said}");
    }
    let off = Server::configured(Script::instant(1), "[server]\nmcp = false\n").await;
    let (status, said) = send(&off, HEAD, &list).await;
    assert_eq!(status, 404, "{said}");
}
