//! Bodies on their way in and out: a request arrives in time and within its size, the rest of a refused
//! one is thrown away; of an answer it is known how long it lies unread.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep, timeout};

use super::Limits;
use super::line::{Attended, Held, LineHandle, Ticket, Working};
use crate::status::TransportError;

/// What a header costs beside its name and value, as HTTP/2 counts it (RFC 9113, section 6.5.2).
const HEADER_BYTES: usize = 32;

/// What every stream costs, whatever it sends: 5 KB were measured with 50,000 of them.
const STREAM_BYTES: usize = 5 << 10;

/// The frame of a gRPC message in front of its bytes.
const FRAME_BYTES: usize = 5;

/// Most bytes of a message of a call in which both sides talk. Reflection is asked for names of services.
pub(crate) const TALK_BYTES_MAX: usize = 4 << 10;

/// Most bytes that are read of a request after it was refused. They are not kept.
const REST_BYTES_MAX: u64 = 16 << 20;

/// An answer is handed over in parts of so many bytes: what waits for a reader is known by the part.
const PART_BYTES: usize = 16 << 10;

/// Refuses a body that says of itself that it has more bytes than a message may have. A client that waits until
/// its body is asked for need not send it then.
pub(super) fn may_fit(body: &Body, bytes_max: usize) -> Result<(), TransportError> {
    match body.size_hint().lower() > (bytes_max + FRAME_BYTES) as u64 {
        true => Err(TransportError::TooLong { most: bytes_max }),
        false => Ok(()),
    }
}

/// Waits for a whole request: the one message of a unary or server-streaming call. It has at most
/// `bytes_max` bytes. `held` is what [`hold`] has set aside for it.
pub(super) async fn receive(
    mut held: Held,
    body: &mut Body,
    limits: &Limits,
    bytes_max: usize,
) -> Result<Bytes, TransportError> {
    let limit = limits.message_time;
    let message = collect(body, &mut held, bytes_max);
    let late = |_| TransportError::Late { limit };
    timeout(limit, message).await.map_err(late)?
}

/// Sets aside what a request costs before the first byte of its body is there.
pub(super) fn hold(line: &LineHandle, headers: &HeaderMap) -> Result<Held, TransportError> {
    let fields = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES);
    line.hold(STREAM_BYTES + fields.sum::<usize>())
        .ok_or(TransportError::TooMuchAtOnce)
}

/// Reads what is left of a refused request, and throws it away. While a client still sends, an answer
/// reaches it together with a reset stream or a broken connection, and many a client then reads that
/// alone.
///
/// A body that is said to be longer than [`REST_BYTES_MAX`] would be cut off in any case: of it nothing
/// is read.
pub(super) async fn drain(line: &LineHandle, mut body: Body, limits: &Limits) {
    // It counts as any request that has not arrived whole.
    let Some(_held) = line.hold(STREAM_BYTES) else {
        return;
    };
    if body.size_hint().lower() > REST_BYTES_MAX {
        return;
    }
    let rest = async {
        let mut bytes = 0;
        while bytes <= REST_BYTES_MAX
            && let Some(Ok(frame)) = next_frame(&mut body).await
        {
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
    };
    // What has not come by then is not waited for.
    let _ = timeout(limits.message_time, rest).await;
}

async fn next_frame(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

async fn collect(body: &mut Body, held: &mut Held, most: usize) -> Result<Bytes, TransportError> {
    let mut whole = Bytes::new();
    let mut joined = Vec::new();
    while let Some(frame) = next_frame(body).await {
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

/// The body of a call in which both sides talk: nothing is collected, but silence has an end. What its
/// messages may have is held from the beginning: whoever decodes them collects one at a time.
pub(super) struct Talk {
    body: Body,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
    _held: Held,
}

impl Talk {
    pub(super) fn new(mut held: Held, body: Body, limits: &Limits) -> Result<Self, TransportError> {
        if !held.grow(TALK_BYTES_MAX) {
            return Err(TransportError::TooMuchAtOnce);
        }
        let patience = limits.talk_pause_max;
        Ok(Self {
            body,
            patience,
            deadline: Box::pin(sleep(patience)),
            _held: held,
        })
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
///
/// hyper and h2 take a part as soon as there is room for a byte of it, and they let the body go with its
/// last part. So what must last until the peer has taken everything goes with the bytes.
pub(super) struct Answer {
    body: Body,
    line: LineHandle,
    attended: Arc<Attended>,
    /// Whether making it is work that the connection is kept for.
    is_work: bool,
    /// While it is being made, and not while the peer is waited for.
    working: Option<Working>,
    /// What has been made and not handed over.
    rest: Bytes,
    /// That, and the parts of it that are under way.
    laid_out: Option<Arc<Held>>,
}

/// A part of an answer, until the peer has taken it.
struct Part {
    bytes: Bytes,
    _ticket: Ticket,
    _laid_out: Option<Arc<Held>>,
    _attended: Arc<Attended>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
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
            attended: Arc::new(attended),
            is_work: working.is_some(),
            working,
            rest: Bytes::new(),
            laid_out: None,
        }
    }

    /// The next part of what has been made.
    fn part(&mut self) -> Bytes {
        let bytes = self.rest.split_to(self.rest.len().min(PART_BYTES));
        let laid_out = match self.rest.is_empty() {
            true => self.laid_out.take(),
            false => self.laid_out.clone(),
        };
        Bytes::from_owner(Part {
            bytes,
            _ticket: self.line.hand_over(),
            _laid_out: laid_out,
            _attended: Arc::clone(&self.attended),
        })
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            if self.is_work && self.working.is_none() {
                self.working = Some(self.line.begin());
            }
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            self.working = None;
            match frame.into_data() {
                Ok(data) if !data.is_empty() => {
                    self.laid_out = Some(Arc::new(self.line.lay_out(data.len())));
                    self.rest = data;
                }
                Ok(empty) => return Poll::Ready(Some(Ok(Frame::data(empty)))),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let part = self.part();
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, to_come) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(to_come.lower() + rest);
        if let Some(upper) = to_come.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
