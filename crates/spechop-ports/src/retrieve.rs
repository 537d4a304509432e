//! Finding passages.

use async_trait::async_trait;
use spechop_types::Passage;

use crate::{Call, PortError};

/// Finds the passages nearest to a query.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// At most `limit` passages, best first, no id twice. None found is not an error.
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError>;

    /// Does what makes a later [`Retriever::retrieve`] of the same query faster and changes nothing
    /// anywhere. Nothing, where there is nothing of the kind.
    async fn warm(&self, _call: &Call, _query: &str) -> Result<(), PortError> {
        Ok(())
    }
}
