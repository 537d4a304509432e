//! Why a question got no answer.

use spechop_ports::PortError;
use spechop_types::Stage;

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
