//! How a question, or a request for passages, ended, and how the wait for a place did: the names that
//! metrics and logs know.

use strum::{IntoStaticStr, VariantArray};

/// How it ended.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Outcome {
    /// With an answer.
    Answered,
    /// Whoever asked has gone away.
    Cancelled,
    /// The request was wrong.
    Invalid,
    /// There was no place for it.
    Busy,
    /// Its tenant had as many places as it may have.
    TenantBusy,
    /// The tenant's budget had nothing left for it.
    Overdrawn,
    /// Nobody read it.
    Unread,
    /// The server was shutting down.
    ShuttingDown,
    /// Its deadline passed.
    Deadline,
    /// Nothing came of it in the time that a look-up may take.
    Late,
    /// A part of the server, or one that it depends on, failed.
    Failed,
}

/// What somebody waits for. If they go away meanwhile, nobody is there to count that as an error, so it is
/// counted when this is dropped.
pub(crate) struct Awaited<F: Fn(Outcome)>(Option<F>);

impl<F: Fn(Outcome)> Awaited<F> {
    /// Nothing has become of it yet.
    pub(crate) fn counted_by(count: F) -> Self {
        Self(Some(count))
    }

    /// Whoever waits hears what became of it.
    pub(crate) fn arrives(mut self) {
        self.0 = None;
    }
}

impl<F: Fn(Outcome)> Drop for Awaited<F> {
    fn drop(&mut self) {
        if let Some(count) = self.0.take() {
            count(Outcome::Cancelled);
        }
    }
}

/// How the wait for a place ended.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum WaitEnd {
    /// With a place.
    Placed,
    /// None became free in time.
    TimedOut,
    /// Its tenant had more in line than that of a newcomer, and the line was full.
    PushedOut,
    /// It did not begin: as many as may were waiting.
    LineFull,
    /// The deadline of the question passed.
    Deadline,
    /// Whoever asked has gone away.
    GaveUp,
    /// The server was shutting down.
    ShuttingDown,
}
