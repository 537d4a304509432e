//! What the way in refuses is told in the form of the door that was meant: ours, or OpenAI's. What gRPC
//! clients hear is in `transport.rs` and `access.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::keys::key;
use crate::over_http::bare as client;
use crate::support::{Server, apart, config};
use reqwest::Method;
use reqwest::header::ALLOW;
use serde_json::{Value, json};
use spechop_testkit::Script;
use spechop_testkit::frames::{END, data, frames, greeting, head, kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
const JSON: &str = "Host: localhost\r\nContent-Type: application/json\r\n";

/// A server with every door.
async fn server(toml: &str) -> Server {
    let doors = "[server]\nretrieve = true\ntool_outputs = 4\nmessage_bytes_max = 8192\n";
    let config = config(&format!("{doors}{toml}"));
    Server::equipped(Script::instant(1), config, |toolbox, config| {
        toolbox.encoding(Arc::new(apart()), config)
    })
    .await
}

/// The status, the head in small letters and the body of what is answered.
async fn post(server: &Server, path: &str, headers: &str, body: &str) -> (u16, String, Value) {
    let head = format!("POST {path} HTTP/1.1\r\n{headers}");
    let (status, head, body) = server.http1(&head, body.as_bytes()).await;
    let body = serde_json::from_str(&body).unwrap_or(Value::Null);
    (status, head.to_lowercase(), body)
}

/// Whether errors at this path have OpenAI's form.
fn is_theirs(path: &str) -> bool {
    ["/v1/chat/completions", "/v1/embeddings", "/v1/models"].contains(&path)
}

/// Whether this is an error in the form of the path, with this code.
fn is_told(path: &str, body: &Value, code: &str) -> bool {
    let theirs = is_theirs(path);
    let message = match theirs {
        true => &body["error"]["message"],
        false => &body["message"],
    };
    let told = match theirs {
        true => body["error"]["code"] == code.to_lowercase() && body["error"]["param"].is_null(),
        false => body["code"] == code,
    };
    told && message.as_str().is_some_and(|message| !message.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_the_form_of_their_door() {
    let open = server("").await;
    let (_, keys) = key("k", "");
    let locked = server(&keys).await;
    let rare = server("[tenant]\nrequests_per_second = 0.001\nrequests_burst = 1\n").await;
    let (status, ..) = post(&rare, "/v1/ask", JSON, "{}").await;
    assert_eq!(status, 400, "the only request of a while");
    let long = format!("{{\"question\": \"{}\"}}", "x".repeat(4 << 20));
    for path in [
        "/v1/ask",
        "/v1/ask/stream",
        "/retrieve",
        "/v1/tool-cache",
        "/v1/chat/completions",
        "/v1/embeddings",
    ] {
        for (server, headers, body, status, code) in [
            (
                &open,
                "Host: evil.example\r\nContent-Type: application/json\r\n",
                "{}",
                421,
                "PERMISSION_DENIED",
            ),
            (
                &open,
                &format!("{JSON}Origin: https://evil.example\r\n"),
                "{}",
                403,
                "PERMISSION_DENIED",
            ),
            (
                &open,
                "Host: localhost\r\nContent-Type: text/plain\r\n",
                "{}",
                415,
                "UNIMPLEMENTED",
            ),
            (
                &open,
                &format!("{JSON}Content-Encoding: gzip\r\n"),
                "{}",
                415,
                "UNIMPLEMENTED",
            ),
            (&open, JSON, &long, 413, "OUT_OF_RANGE"),
            (&locked, JSON, "{}", 401, "UNAUTHENTICATED"),
            (&rare, JSON, "{}", 429, "RESOURCE_EXHAUSTED"),
            // What the door itself refuses has the same form.
            (&open, JSON, "{", 400, "INVALID_ARGUMENT"),
        ] {
            let (got, head, told) = post(server, path, headers, body).await;
            assert_eq!(got, status, "{path} {headers}: {told}");
            assert!(head.contains("content-type: application/json"), "{head}");
            if status == 400 && is_theirs(path) {
                assert_eq!(told["error"]["param"], "body", "{path}: {told}");
            } else {
                assert!(is_told(path, &told, code), "{path}: {told}");
            }
            assert_eq!(head.contains("retry-after: "), status == 429, "{head}");
            assert_eq!(head.contains("www-authenticate: bearer"), status == 401);
        }
    }
    // The form is that of the path, whatever the method.
    let (status, head, told) = post(&open, "/v1/models", JSON, "{}").await;
    assert_eq!(status, 405);
    assert!(head.contains("allow: get, head\r\n"), "{head}");
    assert!(is_told("/v1/models", &told, "UNIMPLEMENTED"), "{told}");
    let (status, _, told) = post(&open, "/v1/unknown", JSON, "{}").await;
    assert_eq!((status, &told["code"]), (404, &json!("NOT_FOUND")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_over_http_2_too() {
    let open = server("").await;
    let client = client().http2_prior_knowledge().build().unwrap();
    for (method, path, status, allowed) in [
        (Method::GET, "/nothing", 404, None),
        // A dot does not make a service of gRPC.
        (
            Method::GET,
            "/.well-known/oauth-protected-resource",
            404,
            None,
        ),
        (Method::GET, "/.git/config", 404, None),
        (Method::POST, "/v1.0/ask", 404, None),
        (Method::POST, "/metrics", 405, Some("GET, HEAD")),
        (Method::GET, "/v1/ask", 405, Some("POST")),
        // A path of gRPC, without a content type of gRPC.
        (Method::POST, "/spechop.v1.SpecHop/Ask", 415, None),
        (Method::HEAD, "/spechop.v1.SpecHop/Ask", 415, None),
    ] {
        let url = format!("http://{}{path}", open.address);
        let answer = client.request(method, url).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        let told = answer.headers().get(ALLOW);
        assert_eq!(told.map(|told| told.to_str().unwrap()), allowed, "{path}");
        // It ends as it should: behind a head that was asked for alone, nothing comes.
        answer.bytes().await.unwrap();
    }
}

/// curl and others that still send hear of a stream that is reset, and not of the answer before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_over_http_2_comes_behind_the_request() {
    const WINDOW_UPDATE: u8 = 8;
    let open = server("").await;
    let mut stream = TcpStream::connect(open.address).await.unwrap();
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/v1/ask"),
        (":authority", "localhost"),
        ("content-type", "text/plain"),
    ];
    let part = data(1, &[b'x'; 16_000], 0);
    let first = [&greeting(&[])[..], &head(1, &fields, 0), &part.repeat(4)].concat();
    stream.write_all(&first).await.unwrap();
    let mut heard = Vec::new();
    let said = |heard: &[u8]| {
        let all = frames(heard).into_iter();
        let of_it = all.filter(|(_, _, stream, _)| *stream == 1);
        of_it.collect::<Vec<_>>()
    };
    let refused = async {
        while said(&heard).is_empty() {
            assert_ne!(stream.read_buf(&mut heard).await.unwrap(), 0);
        }
        assert_eq!(said(&heard)[0].0, WINDOW_UPDATE, "there is room for more");
        stream.write_all(&data(1, b"x", END)).await.unwrap();
        let ends = |(kind, flags, ..): &(u8, u8, u32, Vec<u8>)| {
            [kind::DATA, kind::HEADERS].contains(kind) && flags & END == END
        };
        while !said(&heard).iter().any(ends) {
            assert_ne!(stream.read_buf(&mut heard).await.unwrap(), 0);
        }
    };
    timeout(PATIENCE, refused).await.expect("it is refused");
    let said = said(&heard);
    assert!(said.iter().all(|(kind, ..)| *kind != kind::RST_STREAM));
    let body = said.iter().filter(|(kind, ..)| *kind == kind::DATA);
    let body: Vec<u8> = body.flat_map(|(.., bytes)| bytes.clone()).collect();
    let told = serde_json::from_slice(&body).unwrap();
    assert!(is_told("/v1/ask", &told, "UNIMPLEMENTED"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_said_to_be_too_long_is_not_asked_for() {
    let open = server("").await;
    let mut stream = TcpStream::connect(open.address).await.unwrap();
    let head = format!(
        "POST /v1/ask HTTP/1.1\r\n{JSON}Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut heard = String::new();
    let reads = stream.read_to_string(&mut heard);
    timeout(PATIENCE, reads).await.unwrap().unwrap();
    assert!(heard.starts_with("HTTP/1.1 413 "), "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_without_an_end_is_cut_off() {
    let open = server("").await;
    let mut stream = TcpStream::connect(open.address).await.unwrap();
    let head = "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let sends = async {
        for _ in 0..2_000 {
            if stream.write_all(chunk.as_bytes()).await.is_err() {
                return;
            }
        }
        panic!("all of it was read");
    };
    timeout(PATIENCE, sends).await.expect("it is cut off");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_without_an_origin_is_told_what_it_lacks() {
    let open = server("").await;
    let headers = "Host: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let (status, _, told) = post(&open, "/ask", headers, "question=q").await;
    assert_eq!(status, 415);
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("this request has no Origin"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_no_text_is_told_in_the_form_of_its_door() {
    let open = server("").await;
    let client = client().build().unwrap();
    for path in ["/v1/models", "/v1/questions"] {
        let rest = if path == "/v1/models" { "" } else { "/answer" };
        let url = format!("http://{}{path}/%FF{rest}", open.address);
        let answer = client.get(url).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
        let told: Value = answer.json().await.unwrap();
        assert!(is_told(path, &told, "NOT_FOUND"), "{told}");
    }
}
