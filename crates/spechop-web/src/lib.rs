//! What is elsewhere: the web, which is the target tool that is slow by nature, and services behind HTTP.
//!
//! * [`search`]: search engines behind one port, each with its own failures told apart.
//! * [`page`]: pages fetched safely and read as text.
//! * [`WebRetriever`]: both together as a [`spechop_ports::Retriever`]. [`KeptSearches`] and [`KeptPages`]
//!   remember what it was told.
//! * [`http_retriever`]: anybody's search over passages, asked over HTTP.
//! * [`http_encoder`]: anybody's text encoder, asked over HTTP.

mod address;
mod cache;
mod http;
pub mod http_encoder;
pub mod http_retriever;
mod markup;
pub mod page;
mod proxy;
mod resolve;
mod retriever;
pub mod search;
mod service;

pub use cache::{CacheOptions, KeptPages, KeptSearches};
pub use http::{FetchError, HttpEndpoint, InvalidHttpEndpoint};
pub use http_encoder::{EmbeddingForm, HttpEncoder, HttpEncoderOptions};
pub use http_retriever::{HttpRetriever, HttpRetrieverOptions};
pub use proxy::{InvalidProxy, Proxy};
pub use retriever::{WebRetriever, WebRetrieverOptions};
pub use service::ServiceOptions;
