//! Why a call through a port gave nothing.

use std::error::Error;
use std::time::Duration;

use spechop_types::Refusal;

use crate::Lane;

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
    #[error("{what} took longer than {} ms", .limit.as_millis())]
    Timeout {
        /// Which thing, with its address or name.
        what: String,
        /// The limit.
        limit: Duration,
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

    /// [`PortError::Malformed`].
    pub fn malformed(what: impl Into<String>, detail: impl Into<String>) -> Self {
        let (what, detail) = (what.into(), detail.into());
        Self::Malformed { what, detail }
    }

    /// [`PortError::Refused`].
    pub fn refused(what: impl Into<String>, detail: impl Into<String>) -> Self {
        let (what, detail) = (what.into(), detail.into());
        Self::Refused { what, detail }
    }

    /// [`PortError::TooLong`].
    pub fn too_long(what: impl Into<String>, detail: impl Into<String>) -> Self {
        let (what, detail) = (what.into(), detail.into());
        Self::TooLong { what, detail }
    }

    /// [`PortError::Timeout`].
    pub fn timed_out(what: impl Into<String>, limit: Duration) -> Self {
        let what = what.into();
        Self::Timeout { what, limit }
    }

    /// Whether something lesser (the order of words, half a text) may take the place of a call that failed so
    /// while it was in this lane.
    ///
    /// Ahead of need it may not: the same call might not have failed if the answer had needed it, since it is
    /// tried more often, and the answer would be another one (laws 6 and 8). A refusal for good is the same for
    /// everybody.
    pub fn allows_substitute(&self, lane: Lane) -> bool {
        match self {
            Self::TooLong { .. } | Self::Refused { .. } => true,
            // It is made again if the answer needs it.
            Self::NotSpeculated { .. } => false,
            Self::Unavailable { .. } | Self::Malformed { .. } | Self::Timeout { .. } => {
                lane == Lane::Authoritative
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_taken_only_if_the_answer_cannot_change_by_it() {
        let timeout = PortError::timed_out("a model", Duration::from_millis(1));
        assert_eq!(timeout.to_string(), "a model took longer than 1 ms");
        let refused = PortError::refused("a model", "a reason");
        let not_speculated = PortError::NotSpeculated {
            what: "a model".into(),
            why: Refusal::NoPlace,
        };
        let both = |error: &PortError| {
            [Lane::Authoritative, Lane::Speculative].map(|lane| error.allows_substitute(lane))
        };
        assert_eq!(both(&timeout), [true, false]);
        assert_eq!(both(&refused), [true, true]);
        assert_eq!(both(&not_speculated), [false, false]);
    }
}
