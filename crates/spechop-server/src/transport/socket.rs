//! A line as HTTP sees it: in the clear, or behind a TLS handshake. The peer has to say something in time.
//!
//! ```text
//!            first byte        handshake
//!  Opening ─────────────▶ Shaking ─────▶ Tls
//!     │  └──────────────▶ Plain
//!     └─────────────────▶ Parting    the peer speaks TLS and the server does not, or the other way round
//! ```
//!
//! The handshake is part of the first read, so that nobody waits for a slow one but its own connection. It
//! has the same end as silence: [`GREETING_BYTES`] of HTTP must have come by then.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};
use tonic::transport::server::Connected;

use super::counts::Closed;
use super::heads::Heads;
use super::line::{Line, LineHandle};

/// The preface of HTTP/2, and about the shortest request of HTTP/1.1.
const GREETING_BYTES: usize = 24;

/// What every TLS connection begins with: a record of the handshake. No HTTP does.
const TLS_HANDSHAKE: u8 = 0x16;

/// To a client of HTTP/1 on a port that speaks TLS.
const USE_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\ncontent-length: 38\r\n\r\nthis port speaks TLS: connect with it\n";

/// The same over HTTP/2: empty SETTINGS, then GOAWAY with INADEQUATE_SECURITY and a word why (RFC 9113,
/// section 6.8).
const GO_AWAY: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
    \0\0\x1c\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0cthis port speaks TLS";

/// To a client of TLS on a port that does not speak it: a fatal alert, `protocol_version` (RFC 8446,
/// section 6).
const NO_TLS: &[u8] = &[0x15, 3, 1, 0, 2, 2, 70];

/// What a peer may still send after it was told to go.
const LAST_BYTES_MAX: usize = 64 << 10;

/// A connection as the server reads and writes it.
pub(super) struct Socket {
    state: State,
    handle: LineHandle,
    greeting: Option<Greeting>,
    heads: Heads,
}

enum State {
    /// Nothing was looked at yet.
    Opening(Line, Option<TlsAcceptor>),
    Shaking(Box<Accept<Line>>),
    Plain(Line),
    Tls(Box<TlsStream<Line>>),
    Parting(Parting),
    Over,
}

/// Somebody who speaks another protocol, and is told so.
struct Parting {
    line: Line,
    /// What is still to be said.
    word: &'static [u8],
    /// What was read and thrown away: a socket that is closed with unread bytes takes back what it said.
    read: usize,
}

/// What is still missing of the first bytes, and until when.
struct Greeting {
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Socket {
    /// TLS if there is an acceptor. The greeting, and each head of a request, may take so long.
    pub(super) fn new(line: Line, tls: Option<TlsAcceptor>, patience: Duration) -> Self {
        Self {
            handle: line.handle().clone(),
            state: State::Opening(line, tls),
            greeting: Some(Greeting {
                missing: GREETING_BYTES,
                deadline: Box::pin(sleep(patience)),
            }),
            heads: Heads::new(patience),
        }
    }

    /// Done when HTTP can be read and written.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match mem::replace(&mut self.state, State::Over) {
                State::Opening(mut line, tls) => {
                    let mut bytes = [0; 3];
                    let mut first = ReadBuf::new(&mut bytes);
                    if line.poll_peek(context, &mut first)?.is_pending() {
                        self.state = State::Opening(line, tls);
                        return Poll::Pending;
                    }
                    self.state = self.begin(line, tls, first.filled());
                }
                State::Shaking(mut accept) => match Pin::new(&mut *accept).poll(context) {
                    Poll::Pending => {
                        self.state = State::Shaking(accept);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(stream)) => self.state = State::Tls(Box::new(stream)),
                    Poll::Ready(Err(error)) => {
                        self.handle.closed(Closed::Handshake);
                        if let Some(left_out) = self.handle.turn_to_warn("handshake") {
                            tracing::warn!(%error, left_out, "a TLS handshake failed");
                        }
                        return Poll::Ready(Err(error));
                    }
                },
                State::Parting(mut parting) => {
                    if parting.poll(context).is_pending() {
                        self.state = State::Parting(parting);
                        return Poll::Pending;
                    }
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
                open @ (State::Plain(_) | State::Tls(_)) => {
                    self.state = open;
                    return Poll::Ready(Ok(()));
                }
                State::Over => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        }
    }

    fn begin(&self, line: Line, tls: Option<TlsAcceptor>, first: &[u8]) -> State {
        let speaks_tls = first.first() == Some(&TLS_HANDSHAKE);
        match tls {
            Some(tls) if speaks_tls => State::Shaking(Box::new(tls.accept(line))),
            // It has hung up without a word: whoever reads hears of it.
            _ if first.is_empty() => State::Plain(line),
            None if !speaks_tls => State::Plain(line),
            tls => {
                let (word, what) = match tls {
                    Some(_) if first == b"PRI" => (GO_AWAY, "speaks plain HTTP to a TLS port"),
                    Some(_) => (USE_HTTPS, "speaks plain HTTP to a TLS port"),
                    None => (
                        NO_TLS,
                        "speaks TLS, and the server does not: see server.tls_cert",
                    ),
                };
                self.handle.closed(Closed::OtherProtocol);
                if let Some(left_out) = self.handle.turn_to_warn("other protocol") {
                    tracing::warn!(left_out, "a client {what}");
                }
                State::Parting(Parting {
                    line,
                    word,
                    read: 0,
                })
            }
        }
    }
}

impl Parting {
    /// Done when the peer has heard it, or does not want to.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.word.is_empty() {
            let written = ready!(Pin::new(&mut self.line).poll_write(context, self.word))?;
            self.word = self.word.get(written..).unwrap_or_default();
            if self.word.is_empty() {
                ready!(Pin::new(&mut self.line).poll_shutdown(context))?;
            }
        }
        loop {
            let mut bytes = [0; 1024];
            let mut rest = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.line).poll_read(context, &mut rest))?;
            self.read += rest.filled().len();
            if rest.filled().is_empty() || self.read > LAST_BYTES_MAX {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Connected for Socket {
    type ConnectInfo = LineHandle;

    fn connect_info(&self) -> LineHandle {
        self.handle.clone()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let is_full = !this.heads.have_room(this.handle.heard());
        let before = buffer.filled().len();
        let read = match this.poll_open(context)? {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => match &mut this.state {
                State::Plain(line) => Pin::new(line).poll_read(context, buffer),
                State::Tls(stream) => Pin::new(&mut **stream).poll_read(context, buffer),
                _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            },
        };
        let came = buffer.filled().get(before..).unwrap_or_default();
        // HTTP reads once more to see whether the peer has hung up, before it looks at a request that is whole.
        if is_full && !came.is_empty() {
            this.handle.closed(Closed::Unfinished);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        this.heads.grow(came);
        if let Some(greeting) = &mut this.greeting {
            greeting.missing = greeting.missing.saturating_sub(came.len());
            if greeting.missing == 0 {
                this.greeting = None;
            }
        }
        if read.is_ready() {
            return read;
        }
        let greeting = this.greeting.as_mut();
        let is_silent = greeting.is_some_and(|greeting| {
            let deadline = greeting.deadline.as_mut();
            deadline.poll(context).is_ready()
        });
        if !is_silent {
            ready!(this.heads.poll_late(context));
        }
        this.handle.closed(Closed::Silent);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(context))?;
        match &mut self.state {
            State::Plain(line) => Pin::new(line).poll_write(context, bytes),
            State::Tls(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(context))?;
        match &mut self.state {
            State::Plain(line) => Pin::new(line).poll_write_vectored(context, slices),
            State::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(context, slices),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Both can: the server asks before it has read a byte, and does not ask again.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Plain(line) => Pin::new(line).poll_flush(context),
            State::Tls(stream) => Pin::new(&mut **stream).poll_flush(context),
            // Nothing was written.
            State::Opening(..) | State::Shaking(_) | State::Parting(_) | State::Over => {
                Poll::Ready(Ok(()))
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Plain(line) => Pin::new(line).poll_shutdown(context),
            State::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(context),
            State::Opening(..) | State::Shaking(_) | State::Parting(_) | State::Over => {
                Poll::Ready(Ok(()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths that the two answers name are theirs.
    #[test]
    fn answers_to_the_wrong_protocol_are_whole() {
        let text = std::str::from_utf8(USE_HTTPS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())));
        let (settings, go_away) = GO_AWAY.split_at(9);
        assert_eq!(settings, [0, 0, 0, 4, 0, 0, 0, 0, 0]);
        assert_eq!(go_away.len(), 9 + usize::from(go_away[2]));
    }
}
