//! Passages by their identifiers.

use async_trait::async_trait;
use spechop_types::Passage;

use crate::PortError;

/// Knows passages by their identifiers, as citations name them.
#[async_trait]
pub trait Passages: Send + Sync {
    /// The passage of this identifier; `None` if there is none. If several have it, one of them. Its
    /// score is 0.
    ///
    /// Dropping the future leaves nothing behind that a later call would notice.
    async fn passage(&self, id: &str) -> Result<Option<Passage>, PortError>;
}
