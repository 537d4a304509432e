//! A client that waits for the head of its answer hears meanwhile that the server is still there.
//!
//! To clients of the newest revision rmcp sends nothing before the tool has said something, and proxies cut
//! silent connections.

use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use spechop_mcp::door::KEEP_ALIVE;
use tokio::time::timeout;

use crate::sse::{COMMENT, EVENTS, respond_with};

/// The response, or events that begin with comments if it takes long. Dropping either drops the work.
pub(super) async fn patiently(mut work: BoxFuture<'static, Response>) -> Response {
    if let Ok(response) = timeout(KEEP_ALIVE, &mut work).await {
        return response;
    }
    let parts = stream::unfold(Some(work), async |work| {
        let mut work = work?;
        Some(match timeout(KEEP_ALIVE, &mut work).await {
            Ok(response) => (events(response).await, None),
            Err(_) => (Body::from(COMMENT), Some(work)),
        })
    });
    respond_with(Body::from_stream(parts.flat_map(Body::into_data_stream)))
}

/// What a response says, as events. Its status can be told no longer, and its message is an error of the
/// protocol anyway.
async fn events(response: Response) -> Body {
    let kind = response.headers().get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind == EVENTS);
    let body = response.into_body();
    if is_stream {
        return body;
    }
    // It is in memory already.
    let message = to_bytes(body, usize::MAX).await.unwrap_or_default();
    Body::from([&b"data: "[..], &message[..], &b"\n\n"[..]].concat())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use tokio::time::sleep;

    use super::*;

    /// What is heard of a response that takes so long: its status, its kind and its body.
    async fn heard(
        seconds: u64,
        status: StatusCode,
        kind: &'static str,
        body: &'static str,
    ) -> (StatusCode, String, String) {
        let work = async move {
            sleep(Duration::from_secs(seconds)).await;
            (status, [(CONTENT_TYPE, kind)], body).into_response()
        };
        let response = patiently(Box::pin(work)).await;
        let status = response.status();
        let kind = response.headers()[CONTENT_TYPE]
            .to_str()
            .unwrap()
            .to_owned();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_is_broken_by_comments() {
        let (json, ok, bad) = ("application/json", StatusCode::OK, StatusCode::BAD_REQUEST);
        for (status, kind, body) in [(ok, EVENTS, "data: {}\n\n"), (bad, json, "{}")] {
            let soon = heard(1, status, kind, body).await;
            assert_eq!(soon, (status, kind.to_owned(), body.to_owned()));
            // The head comes after 15 s, and a comment after 30.
            let late = heard(40, status, kind, body).await;
            let told = format!("{COMMENT}data: {{}}\n\n");
            assert_eq!(late, (ok, EVENTS.to_owned(), told));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_leaves_drops_the_work() {
        let (alive, never) = tokio::sync::oneshot::channel::<()>();
        let work = async move {
            never.await.ok();
            StatusCode::OK.into_response()
        };
        let response = patiently(Box::pin(work)).await;
        assert!(!alive.is_closed());
        drop(response);
        assert!(alive.is_closed());
    }
}
