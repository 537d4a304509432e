//! What a log tells those who read it.

use std::sync::Arc;

use spechop_proto::AskEvent;

use crate::status::AskError;

/// Why nobody follows a question any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forsaken {
    /// The last reader has gone away.
    Away,
    /// The last reader has taken nothing for too long.
    Unread,
}

/// Why a reader cannot begin where it wants to, or cannot go on from where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffTheLog {
    /// There is no such event yet; this is the last one.
    Ahead { last: u64 },
    /// What comes after that number is no longer kept; this is the first one that is.
    Behind { after: u64, first: u64 },
    /// The question was forgotten, and its answer with it.
    Forgotten,
    /// As many as may read it already.
    TooManyReaders,
}

/// A question that is over, from its first event to its end.
pub(crate) struct Recording {
    pub(crate) events: Vec<Arc<AskEvent>>,
    /// Their bytes on the wire.
    pub(crate) bytes: usize,
    /// What it ended with, if not with an answer.
    pub(crate) error: Option<Arc<AskError>>,
}

/// What a reader finds.
pub(crate) enum Found {
    /// An event; the last one is the answer.
    Event(Arc<AskEvent>),
    /// The question ended so.
    Failed(Arc<AskError>),
    /// The reader was too slow.
    Unread,
    /// What it had yet to take is no longer kept.
    Off(OffTheLog),
    /// There is nothing more.
    Over,
}
