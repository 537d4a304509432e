//! Why a call through a port gave nothing.

use std::error::Error;

use spechop_types::Refusal;

/// The failure of a call, sorted by what the caller can do about it.
///
/// Messages never hold secrets (keys, full request bodies).
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The thing behind the port is down, overloaded or unreachable; later may work.
    #[error("{what} is unavailable")]
    Unavailable {
        /// Which thing, with its address or name.
        what: String,
        /// What it said.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// It answered, but with something that cannot be used, and asking again did not help.
    #[error("{what} gave an unusable answer: {detail}")]
    Malformed {
        /// Which thing, with its address or name.
        what: String,
        /// What was wrong with the answer, in a few words.
        detail: String,
    },
    /// It refuses this request for good: a wrong key, an unknown model.
    #[error("{what} refused the request: {detail}")]
    Refused {
        /// Which thing, with its address or name.
        what: String,
        /// Its reason, in a few words.
        detail: String,
    },
    /// The request is longer than it can take. A shorter one may be fine.
    #[error("{what} cannot take so much: {detail}")]
    TooLong {
        /// Which thing, with its address or name.
        what: String,
        /// How much it takes and how much this would be, in a few words.
        detail: String,
    },
    /// A speculative call was not made, or not to its end. It is made again if an answer needs it.
    #[error("{what} was not called ahead of need: {why}")]
    NotSpeculated {
        /// Which thing.
        what: String,
        /// Why.
        why: Refusal,
    },
    /// A time limit passed.
    #[error("{what} took longer than {limit_ms} ms")]
    Timeout {
        /// Which thing, with its address or name.
        what: String,
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
}

impl PortError {
    /// [`PortError::Unavailable`] with its cause.
    pub fn unavailable(
        what: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable {
            what: what.into(),
            source: Some(source.into()),
        }
    }
}
