//! Search engines behind one port, each with its own failures told apart.
//!
//! One provider after the other, from the engine to the caller:
//! provider → [`Breaker`] → the scheduler's turn, with the provider's own pace → [`Chain`].
//! Each is a [`SearchProvider`], so each can be left out.
//!
//! Every provider has a `parse`, which is pure: bytes of an answer in, results or trouble out.

mod asked;
pub mod brave;
mod breaker;
mod chain;
pub mod duckduckgo;
mod listing;
pub mod mediawiki;
pub mod searxng;
pub mod serper;
pub mod tavily;

pub use brave::Brave;
pub use breaker::{Breaker, BreakerOptions};
pub use chain::Chain;
pub use duckduckgo::DuckDuckGo;
pub use mediawiki::MediaWiki;
pub use searxng::Searxng;
pub use serper::Serper;
pub use spechop_ports::{SearchFailure, SearchProvider, SearchResult, SearchTrouble};
pub use tavily::Tavily;
