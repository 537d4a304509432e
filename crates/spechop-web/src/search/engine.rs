//! The search engines that there are.

use std::sync::Arc;

use spechop_ports::SearchProvider;

use super::asked::{EngineAdapter, Provider};
use super::brave::Brave;
use super::duckduckgo::DuckDuckGo;
use super::mediawiki::MediaWiki;
use super::searxng::Searxng;
use super::serper::Serper;
use super::tavily::{self, Tavily};
use crate::http::{Http, HttpEndpoint, InvalidHttpEndpoint, key};

/// A search engine, and where it is.
#[derive(Clone, Debug)]
pub struct SearchEngine {
    /// Where it is asked.
    pub endpoint: HttpEndpoint,
    /// Which one it is.
    pub kind: EngineKind,
}

/// Which search engine, with the options of its own.
#[derive(Clone, Debug)]
pub enum EngineKind {
    /// A SearXNG, which the operator runs.
    Searxng {
        /// Its engines to ask, separated by commas. `None` leaves them to its own settings.
        engines: Option<String>,
        /// Language of the results, e.g. `en`. `None` leaves it to its own settings.
        language: Option<String>,
    },
    /// DuckDuckGo's page for browsers without scripts: the paper's engine.
    DuckDuckGo {
        /// Region and language of the results, e.g. `us-en`, or `wt-wt` for none in particular.
        region: String,
    },
    /// Brave's API.
    Brave,
    /// Tavily's API. It brings the texts of the pages along, so that none is fetched.
    Tavily {
        /// Characters of each text. A longer one is cut at a word.
        text_chars_max: usize,
    },
    /// Serper's API.
    Serper,
    /// Wikipedia, or another wiki. It brings the beginnings of the pages along, so that none is fetched.
    MediaWiki {
        /// Characters of each text. A longer one is cut at a word.
        text_chars_max: usize,
    },
}

impl EngineKind {
    /// Whether it answers only with a key.
    pub fn wants_key(&self) -> bool {
        matches!(self, Self::Brave | Self::Tavily { .. } | Self::Serper)
    }
}

impl SearchEngine {
    /// The engine at its usual address, without a key: a SearXNG on this machine, at the port of its own
    /// container; the `api.php` of the English Wikipedia, which insists on a contact. A search may take 10 s and
    /// 2 MiB, one of Tavily 8 MiB.
    pub fn new(kind: EngineKind) -> Self {
        let (name, base_url) = match kind {
            EngineKind::Searxng { .. } => ("searxng", "http://127.0.0.1:8080"),
            EngineKind::DuckDuckGo { .. } => ("duckduckgo", "https://html.duckduckgo.com/html/"),
            EngineKind::Brave => ("brave", "https://api.search.brave.com/res/v1"),
            EngineKind::Tavily { .. } => ("tavily", "https://api.tavily.com"),
            EngineKind::Serper => ("serper", "https://google.serper.dev"),
            EngineKind::MediaWiki { .. } => ("mediawiki", "https://en.wikipedia.org/w/api.php"),
        };
        let mut endpoint = HttpEndpoint::new(name, base_url);
        if let EngineKind::Tavily { .. } = kind {
            endpoint.body_bytes_max = tavily::BODY_BYTES_MAX;
        }
        Self { endpoint, kind }
    }

    /// The engine as a provider. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// The endpoint cannot be used, or lacks the key that the engine wants.
    pub fn open(&self) -> Result<Arc<dyn SearchProvider>, InvalidHttpEndpoint> {
        let http = Http::new(&self.endpoint)?;
        let key = |scheme| key(&self.endpoint, scheme);
        Ok(match &self.kind {
            EngineKind::Searxng { engines, language } => {
                let (engines, language) = (engines.clone(), language.clone());
                provider(http, Searxng { engines, language })
            }
            EngineKind::DuckDuckGo { region } => {
                let region = region.clone();
                provider(http, DuckDuckGo { region })
            }
            EngineKind::Brave => provider(http, Brave { key: key("")? }),
            EngineKind::Tavily { text_chars_max } => {
                let (key, text_chars_max) = (key("Bearer ")?, *text_chars_max);
                provider(
                    http,
                    Tavily {
                        key,
                        text_chars_max,
                    },
                )
            }
            EngineKind::Serper => provider(http, Serper { key: key("")? }),
            EngineKind::MediaWiki { text_chars_max } => {
                let text_chars_max = *text_chars_max;
                provider(http, MediaWiki { text_chars_max })
            }
        })
    }
}

fn provider(http: Http, adapter: impl EngineAdapter) -> Arc<dyn SearchProvider> {
    Arc::new(Provider::new(http, adapter))
}
