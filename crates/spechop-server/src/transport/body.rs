//! Bodies on their way in and out: a request arrives in time and within its size; of an answer it is
//! known how long it lies unread.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep, timeout};

use super::Limits;
use super::line::{Attended, LineHandle, Ticket, Unfinished, Working};
use crate::status::TransportError;

/// What a header costs beside its name and value, as HTTP/2 counts it (RFC 9113, section 6.5.2).
const HEADER_BYTES: usize = 32;

/// What every stream costs, whatever it sends: 5 KB were measured with 50,000 of them.
const STREAM_BYTES: usize = 5 << 10;

/// The frame of a gRPC message in front of its bytes.
const FRAME_BYTES: usize = 5;

/// Waits for a whole request: the one message of a unary or server-streaming call. It has at most
/// `bytes_max` bytes, or as many as the limits say. `held` is what [`hold`] has set aside for it.
pub(super) async fn receive(
    mut held: Unfinished,
    body: Body,
    limits: &Limits,
    bytes_max: Option<usize>,
) -> Result<Bytes, TransportError> {
    let bytes_max = bytes_max.unwrap_or(limits.message_bytes_max);
    let limit = limits.message_time;
    let message = collect(body, &mut held, bytes_max);
    let late = |_| TransportError::Late { limit };
    timeout(limit, message).await.map_err(late)?
}

/// Sets aside what a request costs before the first byte of its body is there.
pub(super) fn hold(line: &LineHandle, headers: &HeaderMap) -> Result<Unfinished, TransportError> {
    let fields = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES);
    line.hold(STREAM_BYTES + fields.sum::<usize>())
        .ok_or(TransportError::TooMuchAtOnce)
}

async fn collect(body: Body, held: &mut Unfinished, most: usize) -> Result<Bytes, TransportError> {
    let mut body = pin!(body);
    let mut whole = Bytes::new();
    let mut joined = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = frame.map_err(TransportError::Broken)?;
        // A request has no trailers of interest.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if whole.len() + joined.len() + data.len() > most + FRAME_BYTES {
            return Err(TransportError::TooLong { most });
        }
        if !held.grow(data.len()) {
            return Err(TransportError::TooMuchAtOnce);
        }
        // Nearly always the message comes in one piece, and is passed on as it is.
        if joined.is_empty() && whole.is_empty() {
            whole = data;
        } else {
            if joined.is_empty() {
                joined.extend_from_slice(&whole);
                whole = Bytes::new();
            }
            joined.extend_from_slice(&data);
        }
    }
    Ok(if joined.is_empty() {
        whole
    } else {
        joined.into()
    })
}

/// The body of a call in which both sides talk: nothing is collected, but silence has an end.
pub(super) struct Talk {
    body: Body,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
    _held: Unfinished,
}

impl Talk {
    pub(super) fn new(held: Unfinished, body: Body, limits: &Limits) -> Self {
        let patience = limits.talk_pause_max;
        Self {
            body,
            patience,
            deadline: Box::pin(sleep(patience)),
            _held: held,
        }
    }
}

impl HttpBody for Talk {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let again = tokio::time::Instant::now() + self.patience;
            self.deadline.as_mut().reset(again);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.deadline.as_mut().poll(context));
        let limit = self.patience;
        Poll::Ready(Some(Err(TransportError::Late { limit }.into())))
    }
}

/// The body of an answer.
pub(super) struct Answer {
    body: Body,
    line: LineHandle,
    _attended: Attended,
    /// Whether making it is work that the connection is kept for.
    is_work: bool,
    state: State,
}

enum State {
    /// It is being made.
    Made { _working: Option<Working> },
    /// A part of it waits for the peer.
    Waits { _ticket: Ticket },
}

impl Answer {
    pub(super) fn new(
        body: Body,
        line: LineHandle,
        attended: Attended,
        working: Option<Working>,
    ) -> Self {
        Self {
            body,
            line,
            _attended: attended,
            is_work: working.is_some(),
            state: State::Made { _working: working },
        }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    /// Whoever asks for the next part has room for it: the part before has been taken.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let State::Waits { .. } = self.state {
            let working = self.is_work.then(|| self.line.begin());
            self.state = State::Made { _working: working };
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_some() {
            let _ticket = self.line.hand_over();
            self.state = State::Waits { _ticket };
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
