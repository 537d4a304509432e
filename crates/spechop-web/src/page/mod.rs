//! Pages: fetched safely, and read as text.

pub mod charset;
mod chunks;
pub mod extract;
mod fetch;
mod options;
mod pool;
mod reader;
mod robots;
mod tree;

use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::Call;
use url::Url;

pub use chunks::chunks;
pub use options::{Opening, PageOptions, PageSetupError};
pub use reader::HttpPageReader;

/// What of an address is shown in messages.
const SHOWN_CHARS_MAX: usize = 200;

/// Fetches a page and reads its text.
#[async_trait]
pub trait PageReader: Send + Sync {
    /// The page behind the address, within the limits of the reader. Dropping the future ends the
    /// transfer; extraction that is under way ends by its own limits.
    async fn read(&self, call: &Call, url: &Url) -> Result<Page, PageFailure>;
}

/// What a reader of the page would see. Data from outside, never an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Where it was found, after redirects.
    pub url: Url,
    /// Its title; may be empty.
    pub title: Arc<str>,
    /// Its visible text, cut at a word.
    pub text: Arc<str>,
}

/// Why a page gave no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFailure {
    /// The address may not be fetched.
    #[error("{url} may not be fetched: {why}")]
    Forbidden {
        /// The address, without credentials.
        url: String,
        /// The rule, in a few words.
        why: String,
    },
    /// It took too long.
    #[error("{url} took longer than {limit_ms} ms")]
    Timeout {
        /// The address.
        url: String,
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// No connection, or a status other than 200.
    #[error("{url} cannot be fetched: {detail}")]
    Unreachable {
        /// The address.
        url: String,
        /// Why, in a few words.
        detail: String,
    },
    /// It is no page that can be read: another kind, too large, too deep, without text.
    #[error("{url} cannot be read: {detail}")]
    Unreadable {
        /// The address.
        url: String,
        /// Why, in a few words.
        detail: String,
    },
}

/// The address as messages show it: without credentials and fragment, and cut.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // What cannot have credentials has none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    let mut shown = String::from(url);
    if let Some((at, _)) = shown.char_indices().nth(SHOWN_CHARS_MAX) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}
