//! Texts to vectors.

use async_trait::async_trait;

use crate::{Call, PortError};

/// Turns texts into unit vectors whose dot product is their similarity.
///
/// Prefixes (`query: `, `passage: `), pooling and truncation are the encoder's business.
#[async_trait]
pub trait Encoder: Send + Sync {
    /// Names the model and its treatment of texts; an index built under another fingerprint must
    /// be refused.
    fn fingerprint(&self) -> &str;

    /// Number of components of every vector.
    fn width(&self) -> usize;

    /// The vector of one query. Queries that arrive together share a run of the model.
    async fn encode_query(&self, call: &Call, text: &str) -> Result<Vec<f32>, PortError>;

    /// The vectors of passages, in order. Meant for building indexes: whole batches, no lanes.
    async fn encode_passages(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, PortError>;
}
