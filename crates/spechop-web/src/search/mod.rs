//! Search engines behind one port.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::Call;
use url::Url;

/// Something that searches the web.
#[async_trait]
pub trait SearchProvider: Send + Sync {
    /// Its name in the configuration, in metrics and in messages.
    fn name(&self) -> &str;

    /// At most `limit` results, best first. None found is not a failure.
    async fn search(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<SearchResult>, SearchFailure>;

    /// Opens a connection, so that a search which follows is faster.
    async fn warm(&self, _call: &Call) {}
}

/// One result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResult {
    /// Where the page is. Anybody may have written it: it is checked before it is fetched.
    pub url: Url,
    /// Its title; may be empty.
    pub title: Arc<str>,
    /// What the engine shows of it; may be empty.
    pub snippet: Arc<str>,
    /// The text of the page, if the engine brings it along. Then nothing is fetched.
    pub text: Option<Arc<str>>,
}

/// Why a search gave nothing. "No results" is none of them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SearchFailure {
    /// The engine takes us for a robot.
    #[error("{provider} blocks this server: {how}")]
    Blocked {
        /// Which engine.
        provider: String,
        /// What it was recognised by.
        how: String,
    },
    /// Too many requests.
    #[error("{provider} takes no more requests for now")]
    RateLimited {
        /// Which engine.
        provider: String,
        /// After what time it will, if it said so.
        retry_after: Option<Duration>,
    },
    /// The key is missing or wrong.
    #[error("{provider} does not accept the key: {detail}")]
    BadKey {
        /// Which engine.
        provider: String,
        /// What it said, in a few words, without the key.
        detail: String,
    },
    /// The engine is not set up for us.
    #[error("{provider} is not set up for this: {remedy}")]
    Misconfigured {
        /// Which engine.
        provider: String,
        /// What to change, and where.
        remedy: String,
    },
    /// No connection, no answer in time, or a failing server.
    #[error("{provider} cannot be reached: {detail}")]
    Unreachable {
        /// Which engine.
        provider: String,
        /// Why, in a few words.
        detail: String,
    },
    /// It answered with something that is no search result.
    #[error("{provider} gave an unusable answer: {detail}")]
    Malformed {
        /// Which engine.
        provider: String,
        /// What was wrong, in a few words.
        detail: String,
    },
}
