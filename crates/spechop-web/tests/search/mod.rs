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
mod forbidden;
mod requests;
mod shapes;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use spechop_ports::SearchProvider;
use spechop_web::search::{EngineKind, SearchEngine};
use spechop_web::{HttpEndpoint, InvalidHttpEndpoint};
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

    fn engine(self) -> SearchEngine {
        SearchEngine::new(match self {
            Self::Searxng => EngineKind::Searxng {
                engines: None,
                language: None,
            },
            Self::DuckDuckGo => EngineKind::DuckDuckGo {
                region: "wt-wt".to_owned(),
            },
            Self::Brave => EngineKind::Brave,
            Self::Tavily => EngineKind::Tavily {
                text_chars_max: 10_000,
            },
            Self::Serper => EngineKind::Serper,
            Self::MediaWiki => EngineKind::MediaWiki {
                text_chars_max: 10_000,
            },
        })
    }

    /// The provider at its usual address, changed by `edit`.
    fn open(
        self,
        edit: impl FnOnce(&mut HttpEndpoint),
    ) -> Result<Arc<dyn SearchProvider>, InvalidHttpEndpoint> {
        let mut engine = self.engine();
        edit(&mut engine.endpoint);
        engine.open()
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

fn page(status: u16, body: &[u8]) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_bytes(body)
}

/// A server that answers everything with this.
async fn saying(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    let anything = Mock::given(wiremock::matchers::any());
    anything.respond_with(answer).mount(&server).await;
    server
}
