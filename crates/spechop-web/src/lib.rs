//! Web search and page reading: the target tool that is slow by nature.
//!
//! * [`search`]: search engines behind one port, each with its own failures told apart.
//! * [`page`]: pages fetched safely and read as text.
//! * [`retriever`]: both together as a [`spechop_ports::Retriever`].

mod address;
pub mod page;
mod resolve;
pub mod retriever;
pub mod search;
