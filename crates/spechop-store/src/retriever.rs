//! An index and the encoder it was built with, as a [`Retriever`].

use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::{Call, Encoder, PortError, Retriever};
use spechop_types::Passage;

use crate::error::{Fault, IndexError};
use crate::index::PassageIndex;
use crate::manifest::Part;

/// Encodes a query and searches an index for it. The words of the query count, too, if the index was
/// opened so.
pub struct IndexRetriever {
    encoder: Arc<dyn Encoder>,
    index: Arc<PassageIndex>,
}

impl IndexRetriever {
    /// Joins the two.
    ///
    /// # Errors
    ///
    /// If the index was built with another encoder: its vectors would mean something else. Or if it
    /// is a part of one: what lies in the other parts would not be found.
    pub fn new(encoder: Arc<dyn Encoder>, index: Arc<PassageIndex>) -> Result<Self, IndexError> {
        let built_with = &index.inputs().encoder;
        if built_with != encoder.fingerprint() || index.width() != encoder.width() {
            let fault = Fault::Encoder {
                built_with: built_with.clone(),
                in_use: encoder.fingerprint().to_owned(),
            };
            return Err(IndexError::new(index.dir(), fault));
        }
        if let Some(Part { number, of }) = index.inputs().part {
            let fault = Fault::Part { number, of };
            return Err(IndexError::new(index.dir(), fault));
        }
        Ok(Self { encoder, index })
    }
}

#[async_trait]
impl Retriever for IndexRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let vector = self.encoder.encode_query(call, query).await?;
        self.index.search_text(call, query, &vector, limit).await
    }

    /// Encodes the query, which is the most of it, for an encoder that remembers.
    async fn warm(&self, call: &Call, query: &str) -> Result<(), PortError> {
        self.encoder.encode_query(call, query).await.map(drop)
    }
}
