//! Servers that stand where the web is. The tests beside the sources use them, too.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use serde_json::json;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// One that says this, whatever it is asked.
pub(super) async fn saying(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    let anything = Mock::given(any()).respond_with(answer);
    anything.mount(&server).await;
    server
}

/// A wiki of one article.
pub(super) async fn wiki() -> MockServer {
    let article = json!({
        "title": "Ouse",
        "fullurl": "http://wiki.example/Ouse",
        "extract": "The Ouse is a river of many bridges.",
    });
    let found = json!({ "batchcomplete": true, "query": { "pages": [article] } });
    saying(ResponseTemplate::new(200).set_body_json(found)).await
}

pub(super) async fn asked(server: &MockServer) -> usize {
    server.received_requests().await.unwrap().len()
}
