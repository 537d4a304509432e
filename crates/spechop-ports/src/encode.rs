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

    /// The vectors of texts, in order: the passages of an index that is built, or of a page that a call
    /// has found. An encoder that can tells what they cost, goes by the call's urgency, and lets the
    /// queries of questions go first.
    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError>;

    /// The vector of one query. An encoder overrides it if queries that arrive together share a run of
    /// its model.
    async fn encode_query(&self, call: &Call, text: &str) -> Result<Vec<f32>, PortError> {
        let texts = vec![text.to_owned()];
        let encoded = self.encode(call, TextKind::Query, texts).await?;
        let vector = encoded.vectors.into_iter().next();
        vector.ok_or_else(|| {
            PortError::malformed(format!("encoder {}", self.fingerprint()), "no vector")
        })
    }
}
