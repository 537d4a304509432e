//! Builds passage indexes from a corpus, offline; adds to them, removes from them, joins and looks at
//! them.
//!
//! A corpus is a folder of documents or a file in one of several formats, [`Format`]. What is encoded is
//! the title, a newline, and the text.
//!
//! ```text
//! file, standard input ─ unpack ─▶ reader of the format ─▶ entries ─ check, cut ─▶ passages
//!
//! corpus ── survey: every passage checked, counted, hashed
//!    └───── encode ─▶ OUT.partial/ ── read back, OUT.partial/hot/ ── swap ─▶ OUT/
//! ```
//!
//! Entries that cannot be used are counted and named in [`Intake`], and the others are taken.
//!
//! A build that was killed is resumed where it was: `OUT.partial` holds a journal that is bound to the
//! corpus, the encoder and the settings. Passages that it has already are compared with the corpus, and
//! it begins anew if they differ. It yields the same bytes as a build that was never stopped,
//! and so do parts that were built one by one and merged. Memory: one batch, one entry with its
//! passages, and a table of 16 bytes for each id to find those that occur twice. If a hot subset is chosen, 24
//! more per passage, and a table of 32 per ranked title. An addition holds 32 bytes more for each id of the
//! index.
//!
//! Reads and writes block, so a build belongs on a runtime that serves nobody else.

mod build;
mod change;
mod check;
mod corpus;
mod documents;
mod encode;
mod error;
mod folder;
mod formats;
mod hot;
mod input;
mod intake;
mod lines;
mod merge;
mod sample;
mod search;

pub use build::{Build, Built, Progress};
pub use change::{Addition, Changed, remove};
pub use check::{Checked, check, look};
pub use corpus::Reading;
pub use error::BuildError;
pub use folder::must_be_there;
pub use formats::Format;
pub use hot::{Chosen, Hot, Traffic};
pub use intake::{Intake, LeftOut, Reason};
pub use lines::hex;
pub use merge::{Merged, merge};
pub use sample::sample;
pub use search::{Found, SearchError, search};
pub use spechop_store::{Inputs, Part};
