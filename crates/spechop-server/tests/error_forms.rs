//! What the way in refuses is told in the form of the door that was meant: ours, or OpenAI's. What gRPC
//! clients hear is in `transport.rs` and `access.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/over_http.rs"]
mod over_http;
mod support;

use std::sync::Arc;

use over_http::bare as client;
use reqwest::Method;
use reqwest::header::ALLOW;
use serde_json::{Value, json};
use spechop_server::Toolbox;
use spechop_server::keys::{Cost, KeyName, NewKey};
use spechop_testkit::{Script, ScriptedPorts};
use support::{Apart, Server, bare, config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const JSON: &str = "Host: localhost\r\nContent-Type: application/json\r\n";

/// A server with every door.
async fn server(toml: &str) -> Server {
    let ports = ScriptedPorts::new(Script::instant(1));
    let doors = "[server]\nretrieve = true\ntool_outputs = 4\nmessage_bytes_max = 8192\n";
    let config = config(&format!("{doors}{toml}"));
    let toolbox = Toolbox::of(bare(&ports), &config).encoding(Arc::new(Apart), &config);
    Server::over(ports, toolbox, config).await
}

/// The status, the head in small letters and the body of what is answered.
async fn post(server: &Server, path: &str, headers: &str, body: &str) -> (u16, String, Value) {
    let long = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {long}\r\n\r\n{body}"
    );
    loop {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // It may be refused before it is sent. Then a client may hear of the hang-up first, and of nothing
        // else: it is asked again.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        let heard = String::from_utf8(heard).unwrap();
        let Some((head, body)) = heard.split_once("\r\n\r\n") else {
            continue;
        };
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        let body = serde_json::from_str(body).unwrap_or(Value::Null);
        return (status, head.to_lowercase(), body);
    }
}

/// Whether this is an error in the form of the path, with this code.
fn is_told(path: &str, body: &Value, code: &str) -> bool {
    let theirs = ["/v1/chat/completions", "/v1/embeddings", "/v1/models"].contains(&path);
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
    let cost = Cost {
        memory_kib: 64,
        passes: 1,
    };
    let key = NewKey::generate(&KeyName::new("k").unwrap(), cost).unwrap();
    let keys = format!("[[keys]]\nname = \"k\"\nhash = \"{}\"\n", key.hash.as_str());
    let locked = server(&keys).await;
    let rare = server("[tenant]\nrequests_per_second = 0.001\nrequests_burst = 1\n").await;
    let (status, ..) = post(&rare, "/v1/ask", JSON, "{}").await;
    assert_eq!(status, 400, "the only request of a while");
    let long = format!("{{\"question\": \"{}\"}}", "x".repeat(600 << 10));
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
            (&open, JSON, &long, 413, "OUT_OF_RANGE"),
            (&locked, JSON, "{}", 401, "UNAUTHENTICATED"),
            (&rare, JSON, "{}", 429, "RESOURCE_EXHAUSTED"),
            // What the door itself refuses has the same form.
            (&open, JSON, "{", 400, "INVALID_ARGUMENT"),
        ] {
            let (got, head, told) = post(server, path, headers, body).await;
            assert_eq!(got, status, "{path} {headers}: {told}");
            assert!(head.contains("content-type: application/json"), "{head}");
            if status == 400 {
                assert!(
                    told["code"] == code || told["error"]["param"] == "body",
                    "{told}"
                );
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
        (Method::POST, "/metrics", 405, Some("GET, HEAD")),
        (Method::GET, "/v1/ask", 405, Some("POST")),
        // A path of gRPC, without a content type of gRPC.
        (Method::POST, "/spechop.v1.SpecHop/Ask", 415, None),
    ] {
        let url = format!("http://{}{path}", open.address);
        let answer = client.request(method, url).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        let told = answer.headers().get(ALLOW);
        assert_eq!(told.map(|told| told.to_str().unwrap()), allowed, "{path}");
    }
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
