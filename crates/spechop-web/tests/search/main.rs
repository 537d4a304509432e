//! Every provider against the shapes that it answers with, failures included. The provider is a local
//! server that says what it is told to.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod environment;
mod failures;
mod requests;
mod shapes;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use spechop_web::search::brave::BraveOptions;
use spechop_web::search::duckduckgo::DuckDuckGoOptions;
use spechop_web::search::mediawiki::MediaWikiOptions;
use spechop_web::search::searxng::SearxngOptions;
use spechop_web::search::serper::SerperOptions;
use spechop_web::search::tavily::TavilyOptions;
use spechop_web::search::{Brave, DuckDuckGo, MediaWiki, SearchProvider, Searxng, Serper, Tavily};
use spechop_web::{Endpoint, InvalidEndpoint};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// What no message may hold.
const KEY: &str = "sk-very-secret";

/// A recorded answer.
macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!("../recorded/", $name))
    };
}
pub(crate) use recorded;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Searxng,
    DuckDuckGo,
    Brave,
    Tavily,
    Serper,
    MediaWiki,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Searxng,
        Self::DuckDuckGo,
        Self::Brave,
        Self::Tavily,
        Self::Serper,
        Self::MediaWiki,
    ];

    fn has_key(self) -> bool {
        matches!(self, Self::Brave | Self::Tavily | Self::Serper)
    }

    /// An answer with results.
    fn found(self) -> &'static [u8] {
        match self {
            Self::Searxng => recorded!("searxng.json"),
            Self::DuckDuckGo => recorded!("duckduckgo.html"),
            Self::Brave => recorded!("brave.json"),
            Self::Tavily => recorded!("tavily.json"),
            Self::Serper => recorded!("serper.json"),
            Self::MediaWiki => recorded!("mediawiki.json"),
        }
    }

    /// The provider with its own options, changed by `edit`.
    fn open(
        self,
        edit: impl FnOnce(&mut Endpoint),
    ) -> Result<Arc<dyn SearchProvider>, InvalidEndpoint> {
        Ok(match self {
            Self::Searxng => {
                let mut options = SearxngOptions::default();
                edit(&mut options.endpoint);
                Arc::new(Searxng::new(&options)?)
            }
            Self::DuckDuckGo => {
                let mut options = DuckDuckGoOptions::default();
                edit(&mut options.endpoint);
                Arc::new(DuckDuckGo::new(&options)?)
            }
            Self::Brave => {
                let mut options = BraveOptions::default();
                edit(&mut options.endpoint);
                Arc::new(Brave::new(&options)?)
            }
            Self::Tavily => {
                let mut options = TavilyOptions::default();
                edit(&mut options.endpoint);
                Arc::new(Tavily::new(&options)?)
            }
            Self::Serper => {
                let mut options = SerperOptions::default();
                edit(&mut options.endpoint);
                Arc::new(Serper::new(&options)?)
            }
            Self::MediaWiki => {
                let mut options = MediaWikiOptions::default();
                edit(&mut options.endpoint);
                Arc::new(MediaWiki::new(&options)?)
            }
        })
    }

    fn at(self, url: &str) -> Arc<dyn SearchProvider> {
        let provider = self.open(|endpoint| {
            endpoint.base_url = url.to_owned();
            endpoint.key = self.has_key().then(|| SecretString::from(KEY));
            endpoint.time_limit = Duration::from_secs(20);
        });
        provider.expect("a provider")
    }
}

/// A server that answers everything with this.
async fn saying(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    let anything = Mock::given(wiremock::matchers::any());
    anything.respond_with(answer).mount(&server).await;
    server
}
