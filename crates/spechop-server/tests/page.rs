//! The page over a real socket: what any HTTP client gets, and from whom it takes questions.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use spechop_testkit::Script;
use support::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Head and body of what the server answers.
async fn get(server: &Server, path: &str, headers: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_under_a_strict_policy() {
    let server = Server::start(Script::instant(1)).await;
    let (head, body) = get(&server, "/", "").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(body.contains("<spechop-page>"), "{body}");
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "etag: ",
    ] {
        assert!(head.contains(header), "{header} in {head}");
    }
    // Whatever it names is there.
    let named = body.split('"').filter(|part| part.starts_with("page/"));
    let named: Vec<_> = named.collect();
    assert!(named.len() >= 2, "{named:?}");
    for path in named {
        let (head, _) = get(&server, &format!("/{path}"), "").await;
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
    }
    let (head, _) = get(&server, "/page/../Cargo.toml", "").await;
    assert!(!head.starts_with("http/1.1 200"), "{head}");
    let (head, _) = get(&server, "/page/none.js", "").await;
    assert!(head.starts_with("http/1.1 404"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_page_may_read_it() {
    let server = Server::start(Script::instant(1)).await;
    let (head, _) = get(&server, "/", "Origin: https://evil.example\r\n").await;
    assert!(head.starts_with("http/1.1 403"), "{head}");
    assert!(!head.contains("access-control-allow-origin"), "{head}");
}
