//! Texts to vectors.

use async_trait::async_trait;

use crate::{Call, PortError};

/// What a text is for. Models such as E5 put different words before the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// It is searched for.
    Query,
    /// It is found.
    Passage,
}

/// The vectors of some texts, and what they cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encoded {
    /// A unit vector for each text, in order.
    pub vectors: Vec<Vec<f32>>,
    /// The tokens that the model read, prefixes and special tokens included; `None` if nobody has counted.
    pub tokens: Option<u64>,
}

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

    /// The vectors of texts that a call waits for, e.g. the passages of a page that it has found. An encoder that
    /// can tells what they cost, goes by the call's urgency, and lets the queries of questions go first.
    async fn encode_batch(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let vectors = match kind {
            TextKind::Passage => self.encode_passages(texts).await?,
            TextKind::Query => {
                let mut vectors = Vec::with_capacity(texts.len());
                for text in &texts {
                    vectors.push(self.encode_query(call, text).await?);
                }
                vectors
            }
        };
        Ok(Encoded {
            vectors,
            tokens: None,
        })
    }
}
