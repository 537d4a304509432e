//! Questions whose look-ups search the web: servers of this machine, asked by our own providers.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::sites::{asked, saying, wiki};
use crate::support::{Server, apart, at, bare, config};
use spechop_ports::SearchProvider;
use spechop_proto::ask_event::Event;
use spechop_proto::{AskEvent, ProviderChange};
use spechop_server::Bare;
use spechop_testkit::Script;
use spechop_web::page::{HttpPageReader, PageOptions};
use spechop_web::search::{Breaker, BreakerOptions, Chain, EngineKind, SearchEngine};
use spechop_web::{WebRetriever, WebRetrieverOptions};
use wiremock::{MockServer, ResponseTemplate};

/// What DuckDuckGo says to whom it takes for a robot.
async fn blocking() -> MockServer {
    let page = "<html><form id=challenge-form action=//duckduckgo.com/anomaly.js></form></html>";
    saying(ResponseTemplate::new(200).set_body_string(page)).await
}

fn engine(kind: EngineKind, server: &MockServer) -> Arc<dyn SearchProvider> {
    let mut engine = SearchEngine::new(kind);
    engine.endpoint.base_url = server.uri();
    engine.open().unwrap()
}

fn duckduckgo(server: &MockServer) -> Arc<dyn SearchProvider> {
    let region = "wt-wt".to_owned();
    engine(EngineKind::DuckDuckGo { region }, server)
}

fn mediawiki(server: &MockServer) -> Arc<dyn SearchProvider> {
    let text_chars_max = 10_000;
    engine(EngineKind::MediaWiki { text_chars_max }, server)
}

/// A server whose look-ups ask the first of these, and the second if that fails.
async fn asking(providers: [Arc<dyn SearchProvider>; 2]) -> Server {
    let guarded = |provider| Arc::new(Breaker::new(provider, BreakerOptions::default()));
    let [first, second] = providers.map(|provider| guarded(provider) as Arc<dyn SearchProvider>);
    let search = Arc::new(Chain::new(first, vec![second]));
    let pages = Arc::new(HttpPageReader::new(PageOptions::default()).unwrap());
    let web = WebRetriever::new(
        search,
        pages,
        Arc::new(apart()),
        WebRetrieverOptions::default(),
    );
    Server::with(script(), config(""), |ports| Bare {
        retriever: Arc::new(web),
        ..bare(ports)
    })
    .await
}

fn script() -> Script {
    Script::instant(2)
}

/// The hops in which another provider was asked, and which.
fn changes(events: &[AskEvent]) -> Vec<(u32, ProviderChange)> {
    let change = |event: &AskEvent| match &event.event {
        Some(Event::ProviderChanged(change)) => Some((event.hop, change.clone())),
        _ => None,
    };
    events.iter().filter_map(change).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_provider_is_told_of_each_look_up_and_in_the_answer() {
    let (blocking, wiki) = (blocking().await, wiki().await);
    let server = asking([duckduckgo(&blocking), mediawiki(&wiki)]).await;
    let (events, answer) = server.told(at(1)).await;
    let change = |times| ProviderChange {
        from: "duckduckgo".to_owned(),
        to: "mediawiki".to_owned(),
        why: "blocks this server: a challenge in place of results".to_owned(),
        times,
    };
    assert_eq!(changes(&events), [(1, change(0)), (2, change(0))]);
    assert_eq!(answer.provider_changes, [change(2)]);
    assert_eq!(answer.answer, script().answer());
    // It is left alone after the first hop.
    assert_eq!((asked(&blocking).await, asked(&wiki).await), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_told_as_long_as_the_first_provider_answers() {
    let (blocking, wiki) = (blocking().await, wiki().await);
    let server = asking([mediawiki(&wiki), duckduckgo(&blocking)]).await;
    let (events, answer) = server.told(at(1)).await;
    assert_eq!(changes(&events), []);
    assert_eq!(answer.provider_changes, []);
    assert_eq!(answer.answer, script().answer());
    assert_eq!((asked(&blocking).await, asked(&wiki).await), (0, 2));
}
