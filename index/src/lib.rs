//! Builds passage indexes from a corpus, offline.
//!
//! A corpus is one JSON object a line, `{"id","title","text"}`, plain or gzipped; or a folder of .txt,
//! .md and .html files, which are cut into passages of about a hundred words. What is encoded is the
//! title, a newline, and the text.
//!
//! ```text
//! corpus ── survey: every passage checked, counted, hashed
//!    └───── encode ─▶ OUT.partial/ ── read back ─▶ OUT/ ── highest in-degree ─▶ OUT/hot/
//! ```
//!
//! A build that was killed goes on where it was: `OUT.partial` holds a journal that is bound to the
//! corpus, the encoder and the settings. It yields the same bytes as a build that was never
//! stopped. Memory: one batch, one document with its passages, 16 bytes a passage to find ids that occur twice, and 16 more per
//! passage and per ranked title where a hot subset is chosen.
//!
//! Reads and writes block, so a build belongs on a runtime that serves nobody else.

mod build;
mod check;
mod corpus;
mod documents;
mod error;
mod folder;
mod hot;
mod lines;

pub use build::{Build, Built, Progress};
pub use check::{Checked, check};
pub use documents::{Files, LeftOut, Reason};
pub use error::BuildError;
pub use hot::Hot;
pub use spechop_store::Inputs;
