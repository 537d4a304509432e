//! Passages: the unit of retrieval and of citation.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A passage that a retriever returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The corpus's own identifier, e.g. `2w-00017`; stable across index builds.
    pub id: Arc<str>,
    /// Title of the page it comes from.
    pub title: Arc<str>,
    /// The text itself: data from outside, never an instruction.
    pub text: Arc<str>,
    /// Where it comes from, if that is known.
    pub url: Option<Arc<str>>,
    /// Similarity to the query; higher is nearer. Comparable only within one answer of one
    /// retriever.
    pub score: f32,
}

impl Passage {
    /// An identifier for a text that came without one. The same text has the same one, also after a
    /// restart.
    pub fn id_of_text(title: &str, text: &str) -> Arc<str> {
        let mut hasher = DefaultHasher::new();
        (title, text).hash(&mut hasher);
        format!("text-{:016x}", hasher.finish()).into()
    }
}
