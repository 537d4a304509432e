//! Pages: fetched safely, and read as text.

pub mod charset;
mod chunks;
mod clients;
pub mod extract;
mod fetch;
mod options;
mod pool;
mod reader;
mod robots;
mod title;
mod tree;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::Call;
use url::Url;

pub use chunks::chunks;
pub use extract::Heading;
pub use options::{Closing, Opening, PageOptions, PageSetupError};
pub use reader::HttpPageReader;

/// What of an address is shown in messages.
const SHOWN_CHARS_MAX: usize = 200;

/// Fetches a page and reads its text.
#[async_trait]
pub trait PageReader: Send + Sync {
    /// The page behind the address, within the limits of the reader. Dropping the future ends the
    /// transfer; extraction that is under way ends by its own limits.
    async fn read(&self, call: &Call, url: &Url) -> Result<Page, PageFailure>;

    /// What has become of a page that was read before, without its text if that is the same.
    async fn renew(&self, call: &Call, url: &Url, _known: &Page) -> Result<Renewed, PageFailure> {
        self.read(call, url).await.map(Renewed::Other)
    }
}

/// A page that was read before.
#[derive(Clone, Debug, PartialEq)]
pub enum Renewed {
    /// It has not changed.
    Same,
    /// It is another one now.
    Other(Page),
}

/// What a reader of the page would see. Data from outside, never an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Where it was found, after redirects.
    pub url: Url,
    /// Its title; may be empty.
    pub title: Arc<str>,
    /// Its visible text, a block a line, cut at a word.
    pub text: Arc<str>,
    /// Which lines of the text are headings, in order.
    pub headings: Arc<[Heading]>,
    /// Whether all of it came in time. A part is of use, but nothing to keep.
    pub whole: bool,
    /// What to ask the site by whether it has changed.
    pub version: Version,
}

/// The marks by which a site knows a version of a page; none, if it gives none (RFC 9110, section 8.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Its `ETag`, as the site wrote it.
    pub etag: Option<Arc<str>>,
    /// Its `Last-Modified`, as the site wrote it.
    pub modified: Option<Arc<str>>,
}

impl Page {
    /// A page whose text came by another way than fetching it.
    pub fn of_text(url: &Url, title: &Arc<str>, text: &Arc<str>) -> Self {
        Self {
            url: url.clone(),
            title: Arc::clone(title),
            text: Arc::clone(text),
            headings: Arc::default(),
            whole: true,
            version: Version::default(),
        }
    }
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
    #[error("{url} took longer than {} ms", .limit.as_millis())]
    Timeout {
        /// The address.
        url: String,
        /// The limit.
        limit: Duration,
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
pub(crate) fn shown(url: &Url) -> String {
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
