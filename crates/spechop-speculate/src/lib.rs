//! Speculators that are made of other ports.
//!
//! The closed-book one, a language model asked from memory, is `spechop-llm`'s: it needs a model
//! and nothing else.

mod cascade;
mod index;
mod memory;
mod outcomes;
mod samples;

pub use cascade::Cascade;
pub use index::IndexGuesser;
pub use memory::{Agrees, Memory, MemoryOptions, SharedMemory};
pub use samples::{Likeliest, Samples};
