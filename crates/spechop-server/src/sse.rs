//! Responses of server-sent events, whatever the events say.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use tokio::time::timeout;

/// How often a comment is sent if nothing happens: proxies cut silent connections.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A comment, which readers pass by.
pub(crate) const COMMENT: &str = ": nothing new\n\n";

/// The kind of a response whose body is events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// The frames, each with its empty line at the end, and a comment whenever nothing has come for a while.
pub(crate) fn respond(frames: impl Stream<Item = String> + Send + 'static) -> Response {
    let beating = stream::unfold(Box::pin(frames), async |mut frames| {
        let next = timeout(HEARTBEAT, frames.next()).await;
        let frame = next.unwrap_or_else(|_| Some(COMMENT.to_owned()))?;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), frames))
    });
    respond_with(Body::from_stream(beating))
}

/// A response whose body is events.
pub(crate) fn respond_with(events: Body) -> Response {
    let head = [
        (CONTENT_TYPE, EVENTS),
        (CACHE_CONTROL, "no-store, no-transform"),
        // nginx would hold events back otherwise.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (head, events).into_response()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_by_comments() {
        let (told, frames) = futures::channel::mpsc::unbounded();
        let mut body = respond(frames).into_body().into_data_stream();
        told.unbounded_send("data: 1\n\n".to_owned()).unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), "data: 1\n\n");
        assert!(body.next().now_or_never().is_none());
        assert_eq!(body.next().await.unwrap().unwrap(), COMMENT);
        told.unbounded_send("data: 2\n\n".to_owned()).unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), "data: 2\n\n");
        drop(told);
        assert!(body.next().await.is_none());
    }
}
