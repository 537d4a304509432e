//! Speculators that are made of other ports.
//!
//! The closed-book one, a language model asked from memory, is `spechop-llm`'s: it needs a model
//! and nothing else.

mod hot_subset;

pub use hot_subset::HotSubset;
