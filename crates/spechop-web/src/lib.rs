//! Web search and page reading: the target tool that is slow by nature.
//!
//! * [`search`]: search engines behind one port, each with its own failures told apart.
//! * [`page`]: pages fetched safely and read as text.
//! * [`retriever`]: both together as a [`spechop_ports::Retriever`].
//! * [`http_retriever`]: anybody's search over passages, asked over HTTP.

mod http;
pub mod http_retriever;
pub mod page;
pub mod retriever;
pub mod search;

pub use http::{Endpoint, InvalidEndpoint};
pub use http_retriever::{HttpRetriever, HttpRetrieverOptions};
