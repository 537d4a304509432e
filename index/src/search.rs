//! One search, from the command line.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use spechop_ports::{Call, Encoder, PortError, Retriever};
use spechop_store::{IndexError, IndexRetriever, LexicalWeight, PassageIndex};

/// A passage that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Its id.
    pub id: String,
    /// Title of the page it comes from.
    pub title: String,
    /// The text itself.
    pub text: String,
    /// Where it comes from, if that is known.
    pub url: Option<String>,
    /// Similarity to the query; higher is nearer.
    pub score: f32,
}

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The index cannot be opened, or belongs to another encoder.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The query could not be encoded, or the index has turned out to be damaged.
    #[error("searching failed")]
    Port(#[from] PortError),
}

/// The passages of an index that are nearest to a query: at most `limit`, best first.
pub async fn search(
    dir: &Path,
    encoder: Arc<dyn Encoder>,
    query: &str,
    limit: usize,
    lexical_weight: LexicalWeight,
) -> Result<Vec<Found>, SearchError> {
    let index = PassageIndex::open(dir)?.with_words(lexical_weight)?;
    let retriever = IndexRetriever::new(encoder, Arc::new(index))?;
    let passages = retriever
        .retrieve(&Call::authoritative(), query, limit)
        .await?;
    let found = passages.into_iter().map(|passage| Found {
        id: passage.id.to_string(),
        title: passage.title.to_string(),
        text: passage.text.to_string(),
        url: passage.url.map(|url| url.to_string()),
        score: passage.score,
    });
    Ok(found.collect())
}
