//! Search engines behind one port, each with its own failures told apart.
//!
//! One provider after the other, from the engine to the caller:
//! [`SearchEngine::open`] → [`Breaker`] → the scheduler's turn, with the provider's own pace → [`Chain`].
//! Each gives a [`SearchProvider`](spechop_ports::SearchProvider), so each can be left out.
//!
//! An engine is a request and a reader of its answer (`EngineAdapter`). The `parse` of each is pure: bytes of an
//! answer in, results or trouble out.

mod asked;
pub mod brave;
mod breaker;
mod chain;
pub mod duckduckgo;
mod engine;
mod listing;
pub mod mediawiki;
pub mod searxng;
pub mod serper;
pub mod tavily;

pub use breaker::{Breaker, BreakerOptions};
pub use chain::Chain;
pub use engine::{EngineKind, SearchEngine};
