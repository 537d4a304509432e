//! Questions over HTTP: JSON and server-sent events, with a real client.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use crate::over_http::{Frames, answer_of, bare, chat, client, get, post, said, url};
use crate::support::{Server, at, endless, eventually, long, question, tasks};
use reqwest::StatusCode;
use serde_json::{Value, json};
use spechop_proto::json as wire_json;
use spechop_proto::{AskEvent, AskResponse};
use spechop_testkit::{OwnPort, Script};
use spechop_types::Stage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread")]
async fn all_doors_give_the_same_answers_hops_and_calls() {
    for (seed, k) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)] {
        let mut script = Script::random(seed);
        script.failures.clear();
        // What is compared does not depend on times.
        for hop in &mut script.hops {
            [hop.segment, hop.target, hop.speculation] = [Duration::ZERO; 3];
        }
        script.final_segment = Duration::ZERO;
        let server = Server::start(script).await;
        let grpc = server.ask(at(k)).await.unwrap();
        let over_json = post(&server, "/v1/ask", json!({ "options": { "k": k } })).await;
        assert_eq!(over_json.status(), StatusCode::OK);
        let text = over_json.bytes().await.unwrap();
        let over_json = wire_json::read::<AskResponse>(&text).unwrap();
        let streamed = post(&server, "/v1/ask/stream", json!({ "options": { "k": k } })).await;
        let frames = Frames::of(streamed).all().await;
        assert_eq!(said(&over_json), said(&grpc), "seed {seed}");
        assert_eq!(said(&answer_of(&frames)), said(&grpc), "seed {seed}");
        let messages = json!([{ "role": "user", "content": question().question }]);
        let fields = json!({ "model": "spechop-k1", "messages": messages });
        let chat = chat(&server, fields);
        let chat: Value = chat.send().await.unwrap().json().await.unwrap();
        let message = &chat["choices"][0]["message"];
        assert_eq!(message["content"], grpc.answer, "seed {seed}");
        let reasoning = message["reasoning_content"].as_str().unwrap();
        assert_eq!(reasoning.lines().count(), grpc.hops.len(), "{reasoning}");
        // Each frame is an event of its number and name.
        for (at, (id, name, data)) in frames.iter().enumerate() {
            assert_eq!(*id, Some(at as u64 + 1));
            let event: AskEvent = wire_json::read(data.to_string().as_bytes()).unwrap();
            assert_eq!(event.sequence, at as u64 + 1);
            assert!(data.get(name).is_some(), "{name}: {data}");
        }
        server.is_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_told_every_wrong_field() {
    let server = Server::start(Script::instant(1)).await;
    for path in ["/v1/ask", "/v1/ask/stream"] {
        for (fields, named) in [
            (
                json!({ "options": { "k": 0, "hop_budget": 99 } }),
                &["options.hop_budget", "options.k"][..],
            ),
            (json!({ "questoin": "x" }), &["questoin"]),
            (json!({ "k": 3 }), &["k"]),
            (json!({ "options": { "width": 3 } }), &["options.width"]),
            (
                json!({ "options": { "k": 3, "unbounded": {} } }),
                &["options"],
            ),
            (
                json!({ "options": { "unbounded": true } }),
                &["options.unbounded"],
            ),
            (
                json!({ "options": { "k": "x", "auto": 3 } }),
                &["options.auto", "options.k"],
            ),
            (json!({ "budget": { "tokns": 1 } }), &["budget.tokns"]),
            (json!({ "linger_ms": 10_000_000 }), &["linger_ms"]),
        ] {
            let response = post(&server, path, fields).await;
            assert_eq!(response.status(), StatusCode::BAD_REQUEST);
            let error: Value = response.json().await.unwrap();
            assert_eq!(error["code"], "INVALID_ARGUMENT");
            let fields = error["fields"].as_array().unwrap().iter();
            let mut fields: Vec<_> = fields
                .map(|wrong| wrong["field"].as_str().unwrap())
                .collect();
            fields.sort_unstable();
            assert_eq!(fields, named, "{error}");
        }
    }
    let send = async |kind: &str, body: &str| {
        let request = client().post(url(&server, "/v1/ask"));
        let request = request.header("content-type", kind).body(body.to_owned());
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(send("application/json", "{").await, 400);
    assert_eq!(send("text/plain", r#"{"question":"q"}"#).await, 415);
    assert_eq!(send("application/json", r#"{"question":"q"}"#).await, 200);
    assert_eq!(server.look_ups().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_this_server_may_ask_and_others_may_not() {
    let server = Server::start(Script::instant(1)).await;
    let own = format!("http://{}", server.address);
    for (origin, status) in [
        (own.as_str(), 200),
        ("http://evil.example", 403),
        ("http://127.0.0.1:1", 403),
        ("null", 403),
    ] {
        let request = client().post(url(&server, "/v1/ask"));
        let request = request
            .header("origin", origin)
            .json(&json!({ "question": "q" }));
        assert_eq!(
            request.send().await.unwrap().status().as_u16(),
            status,
            "{origin}"
        );
    }
    let request = client().post(url(&server, "/v1/ask"));
    let request = request
        .header("host", "evil.example")
        .header("origin", "http://evil.example");
    let response = request
        .json(&json!({ "question": "q" }))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), 421);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_mid_stream_is_the_last_event() {
    let mut script = Script::instant(2);
    script.failures.insert((1, Stage::Target), u32::MAX);
    let server = Server::start(script).await;
    let frames = Frames::of(post(&server, "/v1/ask/stream", json!({})).await);
    let frames = frames.all().await;
    let (id, name, error) = frames.last().unwrap();
    assert_eq!((*id, name.as_str()), (None, "error"));
    assert_eq!(error["code"], "UNAVAILABLE");
    assert!(error["message"].as_str().unwrap().contains("target stage"));
    assert!(frames.len() > 2);
    let response = post(&server, "/v1/ask", json!({})).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    server.is_idle().await;
    // Too many at once are told so before a stream begins.
    let toml = "[server]\nquestions_max = 1\nqueue_ms = 0";
    let full = Server::configured(endless(), toml).await;
    let first = Frames::of(post(&full, "/v1/ask/stream", json!({})).await);
    let second = post(&full, "/v1/ask/stream", json!({})).await;
    assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(second.headers()["retry-after"], "1");
    let error: Value = second.json().await.unwrap();
    assert_eq!(
        (&error["code"], &error["retry_after_ms"]),
        (&json!("RESOURCE_EXHAUSTED"), &json!(1000))
    );
    drop(first);
    full.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_streams_at_once_leave_nothing() {
    const STREAMS: usize = 200;
    let toml = "[server]\nquestions_max = 300\n[scheduler.retriever]\ncapacity = 1000";
    let server = Server::configured(endless(), toml).await;
    let client = client();
    let open = async |tenant: usize| {
        let request = client.post(url(&server, "/v1/ask/stream"));
        let request = request.header("spechop-tenant", format!("t{tenant}"));
        let body = json!({ "question": "q" });
        let mut frames = Frames::of(request.json(&body).send().await.unwrap());
        frames.next().await.unwrap();
        frames
    };
    drop(open(0).await);
    server.is_idle().await;
    let mut streams = Vec::new();
    for tenant in 0..STREAMS {
        streams.push(open(tenant).await);
    }
    assert_eq!(server.gauges.questions_open(), STREAMS);
    let begun = tasks();
    drop(streams);
    server.is_idle().await;
    eventually(|| tasks() + STREAMS <= begun).await;
    let cancelled = "spechop_questions_total{outcome=\"cancelled\"}";
    assert_eq!(server.metric(cancelled).await, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_at_any_byte_leaves_nothing() {
    let server = Server::configured(endless(), "[server]\nmessage_ms_max = 1000").await;
    let chat = r#"{"stream":true,"messages":[{"role":"user","content":"What comes of it?"}]}"#;
    let tool = r#"{"name":"ask","arguments":{"question":"What comes of it?"}}"#;
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{tool}}}"#);
    let mut asking = JoinSet::new();
    let address = server.address;
    for (path, body) in [
        ("/v1/ask", r#"{"question":"What comes of it?"}"#),
        ("/v1/ask/stream", r#"{"question":"What comes of it?"}"#),
        ("/v1/chat/completions", chat),
        ("/mcp", &call),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let before = server.ports.started();
        for end in 0..=request.len() {
            let part = request[..end].to_owned();
            asking.spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(part.as_bytes()).await.unwrap();
            });
        }
        // And while the answer is read.
        for most in (0..1200).step_by(60) {
            let request = request.clone();
            asking.spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut read = 0;
                let mut buffer = [0; 7];
                // Some events come at once, and then none.
                let pause = Duration::from_millis(100);
                while read < most {
                    match tokio::time::timeout(pause, stream.read(&mut buffer)).await {
                        Ok(Ok(n)) if n > 0 => read += n,
                        _ => break,
                    }
                }
            });
        }
        // A door after the other: as many connections as a server takes from one address.
        while asking.join_next().await.is_some() {}
        // The whole requests were questions, of which nothing may be left.
        eventually(|| server.ports.started() > before).await;
        server.is_idle().await;
    }
    eventually(|| server.gauges.connections_open() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_is_cut_off() {
    // Four hops are there soon, the fifth never.
    let mut script = long();
    script.hops[4].target = endless().hops[0].target;
    let server = Server::configured(script, "[server]\nunread_ms = 200").await;
    // It takes hardly anything before it reads.
    let client = bare().http2_prior_knowledge();
    let client = client.http2_initial_stream_window_size(1024);
    let asked = client.build().unwrap().post(url(&server, "/v1/ask/stream"));
    let asked = asked.json(&json!({ "question": "q", "options": { "k": 1 } }));
    let response = asked.send().await.unwrap();
    server.is_idle().await;
    let unread = "spechop_questions_total{outcome=\"unread\"}";
    assert_eq!(server.metric(unread).await, 1);
    let frames = Frames::of(response).all().await;
    let (_, name, error) = frames.last().unwrap();
    assert_eq!(
        (name.as_str(), &error["code"]),
        ("error", &json!("ABORTED"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_after_the_server_hears_what_is_missing() {
    let nobody = OwnPort::reserve();
    let url = format!("http://{}/retrieve", nobody.address());
    let toml = format!("[target]\nkind = \"http\"\nurl = \"{url}\"\n");
    for (toml, status, missing) in [("", 200, None), (&*toml, 503, Some("retriever"))] {
        let server = Server::configured(Script::instant(1), toml).await;
        assert_eq!(get(&server, "/healthz").await.text().await.unwrap(), "ok\n");
        let told = get(&server, "/readyz").await;
        assert_eq!(told.status().as_u16(), status);
        let told: Value = told.json().await.unwrap();
        assert_eq!(told["ready"], missing.is_none());
        let parts = told["parts"].as_array().unwrap();
        let gone: Vec<_> = parts.iter().filter(|part| part["ready"] == false).collect();
        let names: Vec<_> = gone
            .iter()
            .filter_map(|part| part["name"].as_str())
            .collect();
        assert_eq!(names, missing.as_slice());
        assert!(parts.iter().any(|part| part["name"] == "generator"));
        assert!(
            !told.to_string().contains("127.0.0.1"),
            "no address: {told}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_fits_what_is_served() {
    let all = "[server]\nretrieve = true\n[page]\nshare_s = 60";
    let server = Server::configured(Script::instant(1), all).await;
    let described: Value = get(&server, "/v1/openapi.json").await.json().await.unwrap();
    let paths = described["paths"].as_object().unwrap();
    // Over HTTP/1.1 the server names every path that it has.
    let unknown = get(&server, "/nothing").await;
    assert_eq!(unknown.status().as_u16(), 404);
    let said: Value = unknown.json().await.unwrap();
    let said = said["message"].as_str().unwrap();
    let served = said.rsplit_once("only ").unwrap().1;
    let mut served: Vec<_> = served.split(", ").map(str::to_owned).collect();
    let mut named: Vec<_> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    served.sort();
    named.sort();
    assert_eq!(served, named);
    // So is what is said of a name that no question can have.
    let long = "x".repeat(1000);
    let of_questions = paths
        .iter()
        .filter(|(path, _)| path.starts_with("/v1/questions/"));
    for (path, methods) in of_questions {
        for (method, described) in methods.as_object().unwrap() {
            let method: reqwest::Method = method.to_uppercase().parse().unwrap();
            let address = url(&server, &path.replace("{id}", &long));
            let response = client().request(method, address).send().await.unwrap();
            let status = response.status();
            assert!(status.is_client_error(), "{path}: {status}");
            let described = &described["responses"][status.as_str()];
            assert!(described.is_object(), "{path}: {status}");
        }
    }
}

/// Its client was told to send it, and does so whatever is said meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_asked_for_a_body_hears_that_it_is_too_long() {
    const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let server = Server::start(Script::instant(1)).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = vec![0; GO_ON.len()];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(said, GO_ON);
    let chunk = format!("{:x}\r\n{}\r\n", 64 << 10, "x".repeat(64 << 10));
    for _ in 0..128 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
    assert!(said.contains("OUT_OF_RANGE"), "{said}");
}
