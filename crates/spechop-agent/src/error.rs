//! Why a question got no answer.

use std::fmt;

use spechop_ports::PortError;

/// The three kinds of work that a branch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The planner writes a sub-question or the final answer.
    Segment,
    /// The target tool looks up, and the reader reads.
    Target,
    /// The speculator guesses.
    Speculation,
}

impl Stage {
    /// Every stage, for tables.
    pub const ALL: [Self; 3] = [Self::Segment, Self::Target, Self::Speculation];

    /// The stage's name on the wire, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Target => "target",
            Self::Speculation => "speculation",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a question got no answer.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Authoritative work failed, after whatever retries its port makes.
    #[error("hop {hop} got nothing from its {stage} stage")]
    Stage {
        /// The hop, counted from 1; the final answer counts as the hop after the last.
        hop: u32,
        /// What failed.
        stage: Stage,
        /// Why.
        #[source]
        source: PortError,
    },
    /// [`crate::Settings::deadline`] passed.
    #[error("the deadline passed with {committed} hops committed")]
    Deadline {
        /// Hops that were final by then.
        committed: usize,
    },
}
