//! Texts from outside: what a reader of a page sees, cut into passages.
//!
//! ```text
//! HTML or plain text ─▶ a title and blocks of text ─▶ passages of about 100 words
//! ```
//!
//! Files of a corpus and pages of the web become passages by the same rules, so that what is found
//! out about one holds for the other. Pure, and linear in the size of the text, whoever wrote it.

mod document;
pub mod html;
pub mod passages;
pub mod plain;
mod sentences;

pub use document::{Block, Builder, Document, folded};
