//! Searching the web.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spechop_types::Refusal;
use url::Url;

use crate::{Call, PortError};

/// Something that searches the web.
#[async_trait]
pub trait SearchProvider: Send + Sync {
    /// Its name in the configuration, in metrics and in messages.
    fn name(&self) -> &str;

    /// At most `limit` results, best first, no URL twice. None found is not a failure.
    ///
    /// An engine that lists its results one by one gives each to `on_result` as soon as it is known, none of
    /// them twice. What is returned holds them in the same order, unless the engine that gave them failed in
    /// the end. A provider in front of others passes on what they give.
    async fn search_streaming(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
        on_result: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure>;

    /// The same, for who waits for the end of it.
    async fn search(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        self.search_streaming(call, query, limit, &mut |_| {}).await
    }

    /// Ends as soon as a search would fail without being sent: whoever waits for a turn need not wait
    /// on. Never, for a provider that is always asked.
    async fn refusal(&self, _call: &Call) -> SearchFailure {
        future::pending().await
    }

    /// Opens a connection, so that a search which follows is faster.
    async fn warm(&self, _call: &Call) {}
}

/// One result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResult {
    /// Where the page is: http or https. Anybody may have written it: it is checked before it is fetched.
    pub url: Url,
    /// Its title; may be empty.
    pub title: Arc<str>,
    /// What the engine shows of it; may be empty.
    pub snippet: Arc<str>,
    /// The text of the page, if the engine brings it along. Then nothing is fetched.
    pub text: Option<Arc<str>>,
}

/// A search that gave nothing. "No results" is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{provider} {trouble}")]
pub struct SearchFailure {
    /// Which provider.
    pub provider: Arc<str>,
    /// What is the matter with it.
    pub trouble: SearchTrouble,
}

/// Why a provider gave nothing. Never holds a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SearchTrouble {
    /// It takes us for a robot.
    #[error("blocks this server: {how}")]
    Blocked {
        /// What that was recognised by.
        how: String,
    },
    /// Too many requests.
    #[error("takes no more requests for now")]
    RateLimited {
        /// After what time it will, if it said so.
        retry_after: Option<Duration>,
    },
    /// The key is wrong, or its credit is used up.
    #[error("does not accept the key: {detail}")]
    BadKey {
        /// Why, in a few words.
        detail: String,
    },
    /// It is not set up for us, or we are not for it.
    #[error("is not set up for this: {remedy}")]
    Misconfigured {
        /// What to change, and where.
        remedy: String,
    },
    /// No connection, no answer in time, or a failing server.
    #[error("cannot be reached: {detail}")]
    Unreachable {
        /// Why, in a few words.
        detail: String,
    },
    /// It answered with something that is no search result.
    #[error("gave an unusable answer: {detail}")]
    Malformed {
        /// What was wrong, in a few words.
        detail: String,
    },
    /// It does not take this query, and others as before.
    #[error("does not take this query: {detail}")]
    QueryRefused {
        /// Why, in a few words.
        detail: String,
    },
    /// A speculative search was not made, or not to its end. It is made again if an answer needs it.
    #[error("was not asked ahead of need: {why}")]
    NotSpeculated {
        /// Why.
        why: Refusal,
    },
    /// It stands for several providers, or for parts of one search, and none of them answered.
    #[error("got no answer: {}", list(.0))]
    All(Vec<SearchFailure>),
}

impl SearchTrouble {
    /// As the trouble of this provider.
    pub fn of(self, provider: &Arc<str>) -> SearchFailure {
        SearchFailure {
            provider: Arc::clone(provider),
            trouble: self,
        }
    }

    /// Whether the provider asks for less.
    pub fn pushes_back(&self) -> bool {
        matches!(self, Self::Blocked { .. } | Self::RateLimited { .. })
    }

    /// Whether it stays so until the operator changes something.
    pub fn lasts(&self) -> bool {
        match self {
            Self::BadKey { .. } | Self::Misconfigured { .. } => true,
            Self::All(failures) => failures.iter().all(|failure| failure.trouble.lasts()),
            _ => false,
        }
    }
}

fn list(failures: &[SearchFailure]) -> String {
    let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
    failures.join("; ")
}

impl From<SearchFailure> for PortError {
    fn from(failure: SearchFailure) -> Self {
        let what = failure.provider.to_string();
        match failure.trouble {
            SearchTrouble::NotSpeculated { why } => Self::NotSpeculated { what, why },
            SearchTrouble::Malformed { detail } => Self::Malformed { what, detail },
            trouble if trouble.lasts() => Self::Refused {
                what,
                detail: trouble.to_string(),
            },
            trouble => Self::unavailable(what, trouble),
        }
    }
}

/// For whoever gives the turns to searches: it knows [`PortError`]s of its own.
impl From<PortError> for SearchFailure {
    fn from(error: PortError) -> Self {
        let (provider, trouble) = match error {
            PortError::NotSpeculated { what, why } => (what, SearchTrouble::NotSpeculated { why }),
            PortError::Malformed { what, detail } => (what, SearchTrouble::Malformed { detail }),
            PortError::Refused { what, detail } | PortError::TooLong { what, detail } => {
                (what, SearchTrouble::Misconfigured { remedy: detail })
            }
            PortError::Timeout { what, limit } => {
                let detail = format!("no answer within {} ms", limit.as_millis());
                (what, SearchTrouble::Unreachable { detail })
            }
            PortError::Unavailable { what, source } => {
                let detail = source.map_or_else(String::new, |source| source.to_string());
                (what, SearchTrouble::Unreachable { detail })
            }
        };
        trouble.of(&provider.into())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn what_all_providers_said_is_told_and_sorted() {
        let key = SearchTrouble::BadKey {
            detail: "status 401".to_owned(),
        };
        let limit = SearchTrouble::RateLimited { retry_after: None };
        let all = |troubles: &[&SearchTrouble]| {
            let failures = ["a", "b"].iter().zip(troubles);
            let failures = failures.map(|(name, &trouble)| trouble.clone().of(&Arc::from(*name)));
            SearchTrouble::All(failures.collect()).of(&Arc::from("web search"))
        };
        let error = PortError::from(all(&[&key, &limit]));
        assert!(matches!(error, PortError::Unavailable { .. }));
        let why = error.source().expect("a source").to_string();
        assert_eq!(
            why,
            "got no answer: a does not accept the key: status 401; b takes no more requests for now"
        );
        let error = PortError::from(all(&[&key, &key]));
        assert!(matches!(error, PortError::Refused { .. }), "{error}");
    }

    #[test]
    fn a_refusal_to_speculate_survives_the_way_there_and_back() {
        let refusal = PortError::NotSpeculated {
            what: "a".to_owned(),
            why: Refusal::PushedBack,
        };
        let failure = SearchFailure::from(refusal);
        let why = Refusal::PushedBack;
        assert_eq!(failure.trouble, SearchTrouble::NotSpeculated { why });
        assert!(matches!(
            PortError::from(failure),
            PortError::NotSpeculated { why: Refusal::PushedBack, what } if what == "a"
        ));
    }
}
