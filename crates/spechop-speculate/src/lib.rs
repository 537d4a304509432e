//! Speculators that are made of other ports.
//!
//! The closed-book one, a language model asked from memory, is `spechop-llm`'s: it needs a model
//! and nothing else.

mod index;

pub use index::IndexGuesser;
