//! Heads of HTTP/1, which come before anybody sees a request: bounded in bytes and in time.
//!
//! By itself hyper would hold 400 KB of one for half a minute. HTTP/2 has bounds of its own.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// Twice what HTTP/2 takes: here nothing is packed.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// What HTTP/2 begins with, and no request of HTTP/1: "PRI" alone could begin one.
const HTTP2: &[u8] = b"PRI * HTTP/2.0";

/// The head that is coming over a connection, if one is.
pub(super) struct Heads {
    /// The first bytes of the connection, as many as say what it speaks.
    first: Vec<u8>,
    /// How many requests had been heard of when it began.
    heard: usize,
    bytes: usize,
    patience: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Heads {
    /// A head may take so long.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            first: Vec::with_capacity(HTTP2.len()),
            heard: 0,
            bytes: 0,
            patience,
            deadline: None,
        }
    }

    /// Before more is read: whether there is room for it. `heard` is how many requests have been heard of;
    /// `None` while one of them is attended to, and what comes is its body.
    pub(super) fn have_room(&mut self, heard: Option<usize>) -> bool {
        if heard != Some(self.heard) {
            self.heard = heard.unwrap_or(self.heard);
            self.bytes = 0;
            self.deadline = None;
        }
        self.bytes <= HEAD_BYTES_MAX
    }

    /// These bytes were read.
    pub(super) fn grow(&mut self, bytes: &[u8]) {
        let missing = HTTP2.len() - self.first.len();
        self.first.extend(bytes.iter().take(missing));
        if self.first == HTTP2 {
            (self.bytes, self.deadline) = (0, None);
        } else if !bytes.is_empty() {
            self.bytes += bytes.len();
            let patience = self.patience;
            let soon = || Box::pin(sleep(patience));
            self.deadline.get_or_insert_with(soon);
        }
    }

    /// Done when a head takes too long.
    pub(super) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::FutureExt;

    use super::*;

    const SOON: Duration = Duration::from_secs(1);

    fn is_late(heads: &mut Heads) -> bool {
        let late = poll_fn(|context| heads.poll_late(context));
        late.now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_so_many_bytes_and_so_much_time() {
        let mut heads = Heads::new(SOON);
        assert!(heads.have_room(Some(0)) && !is_late(&mut heads));
        for _ in 0..33 {
            assert!(heads.have_room(Some(0)));
            heads.grow(&[b'x'; 1024]);
        }
        assert!(!heads.have_room(Some(0)) && !is_late(&mut heads));
        tokio::time::advance(SOON).await;
        assert!(is_late(&mut heads));
        // It was a request after all: then there is no head, however long nothing comes.
        assert!(heads.have_room(Some(1)));
        tokio::time::advance(SOON).await;
        assert!(!is_late(&mut heads));
        // A long body is none either.
        heads.grow(b"POST / HTTP/1.1");
        for _ in 0..99 {
            assert!(heads.have_room(None));
            heads.grow(&[b'x'; 1024]);
        }
        assert!(heads.have_room(Some(2)) && !is_late(&mut heads));
    }

    #[tokio::test(start_paused = true)]
    async fn http2_is_left_alone() {
        let mut heads = Heads::new(SOON);
        for byte in HTTP2 {
            heads.grow(&[*byte]);
        }
        heads.grow(&[b'x'; 99_999]);
        tokio::time::advance(SOON).await;
        assert!(heads.have_room(Some(0)) && !is_late(&mut heads));

        let mut heads = Heads::new(SOON);
        heads.grow(b"PRIX / HTTP/1.1");
        heads.grow(&[b'x'; 99_999]);
        assert!(!heads.have_room(Some(0)));
    }
}
