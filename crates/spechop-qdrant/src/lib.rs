//! The passage index in Qdrant: filled from an embedded index, searched over the network.
//!
//! A collection holds one point for each passage:
//!
//! ```text
//! id       the first 16 bytes of the SHA-256 of the passage's id, as a UUID
//! vector   the row of the embedded index, int8 × scale; compared by dot product
//! payload  id, title, text, and url if there is one
//! ```
//!
//! The metadata of the collection hold a [`Label`] under the key `spechop`: the encoder, the corpus,
//! the number of passages and whether the push has finished. A collection whose label does not fit
//! is refused: vectors of another encoder would give wrong passages without an error.
//!
//! Another collection can hold a memory of verified look-ups that several servers share
//! ([`QdrantMemory`]).
//!
//! Answering servers need no index of their own, because the passages lie in the payload.
//! The crate stands beside `spechop-store`, so that the tools which need only an embedded index do
//! not compile a gRPC client.

mod cluster;
mod failure;
mod label;
mod memory;
mod point;
mod push;
mod retriever;
mod settings;
mod version;

pub use cluster::{Cluster, ClusterOptions, InvalidOptions};
pub use label::Label;
pub use memory::QdrantMemory;
pub use push::{Progress, Push, PushError, Pushed};
pub use retriever::{Consistency, QdrantRetriever, SearchOptions};
pub use settings::CollectionSettings;
pub use spechop_store::PassageIndex;

/// The name of a collection if nobody says another.
pub const COLLECTION: &str = "passages";
