//! Whole look-ups over real sockets: an engine that lists its results slowly, and pages with menus
//! around their text.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroUsize;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::support::{Site, options};
use parking_lot::Mutex;
use spechop_ports::{Call, Retriever};
use spechop_testkit::TextVectors;
use spechop_web::page::HttpPageReader;
use spechop_web::search::{Breaker, BreakerOptions, Chain, EngineKind, SearchEngine};
use spechop_web::{CacheOptions, KeptPages, KeptSearches, WebRetriever, WebRetrieverOptions};

/// Longer than anything takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(30);

/// More results than a look-up reads.
const RESULTS: usize = 8;

/// Look-ups as the service puts them together, at one engine and on one site, without haste.
fn look_ups(engine: &Site, pages: &Site) -> WebRetriever {
    let region = "wt-wt".to_owned();
    let mut asked = SearchEngine::new(EngineKind::DuckDuckGo { region });
    asked.endpoint.base_url = engine.url("/html/");
    asked.endpoint.time_limit = 2 * PATIENCE;
    let engine = Breaker::new(asked.open().unwrap(), BreakerOptions::default());
    let chain = Chain::new(Arc::new(engine), Vec::new());
    let kept = CacheOptions {
        time: Duration::from_secs(3600),
        most: NonZeroUsize::MIN,
    };
    let pages = HttpPageReader::new(options(&[pages])).unwrap();
    let options = WebRetrieverOptions {
        pages_time: PATIENCE,
        rank_time: PATIENCE,
        ..WebRetrieverOptions::default()
    };
    WebRetriever::new(
        Arc::new(KeptSearches::new(Arc::new(chain), kept)),
        Arc::new(KeptPages::new(Arc::new(pages), kept)),
        Arc::new(TextVectors::alike()),
        options,
    )
}

/// What DuckDuckGo says of all pages of the site.
fn listing(pages: &Site) -> String {
    let shown = "What the engine shows of the river. ".repeat(16);
    let result = |n| {
        let page = pages.url(&format!("/page/{n}"));
        format!(
            "<div class=\"result web-result\"><h2><a href=\"{page}\">River {n}</a></h2>\
             <a class=result__snippet>{shown}</a></div>"
        )
    };
    let results: String = (1..=RESULTS).map(result).collect();
    format!("<html><body><div id=links>{results}</div></body></html>")
}

/// An article about the river of this number, in the middle of what every page of its site has.
fn page(path: &str) -> String {
    let n = path.trim_start_matches("/page/");
    let text = format!(
        "River {n} rises in the hills behind the town, turns east at the old mill, and reaches \
         the sea after ninety miles of meadows, locks and low bridges. "
    );
    let text = text.repeat(5);
    format!(
        "<!doctype html><html><head><title>River {n}</title></head><body>\
         <div role=dialog><p>We store cookies.</p><button>Accept all</button></div>\
         <header><nav><ul><li><a href=/>Home</a><li><a href=/about>About us</a></ul></nav></header>\
         <main><article><h1>River {n}</h1><p>{text}</p><p>{text}</p></article></main>\
         <aside><h2>Most read</h2><ol><li><a href=/l>Ten quiet lakes</a></ol></aside>\
         <div class=related><h3>Related articles</h3><ul><li><a href=/b>Seven bridges</a></ul>\
         </div><footer><p>Terms of use. All rights reserved.</p><a href=/p>Privacy</a></footer>\
         </body></html>"
    )
}

/// What stands around the text of each page.
const AROUND: [&str; 11] = [
    "cookies",
    "Accept",
    "Home",
    "About us",
    "Most read",
    "quiet lakes",
    "Related",
    "Seven bridges",
    "Terms",
    "rights reserved",
    "Privacy",
];

#[tokio::test]
async fn a_page_is_asked_for_while_the_search_is_still_coming_and_five_are_read() {
    let (asked, first) = mpsc::channel();
    let pages = Site::start(move |path, answer| {
        let _ = asked.send(());
        answer.page(page(path));
    });
    let (listing, first) = (listing(&pages), Mutex::new(first));
    let engine = Site::start(move |_, answer| {
        let (begin, rest) = listing.split_at(listing.find("/page/4").unwrap());
        let length = listing.len();
        answer.write(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{begin}"
        ));
        // The rest drips, and not before a page was asked for.
        match first.lock().recv_timeout(PATIENCE) {
            Ok(()) => rest
                .as_bytes()
                .chunks(100)
                .for_each(|piece| _ = answer.write(piece)),
            Err(_) => answer.close(),
        }
    });
    let (web, call) = (look_ups(&engine, &pages), Call::authoritative());
    let found = web.retrieve(&call, "river", 1).await;
    assert_eq!(found.unwrap().len(), 1);
    let requests = pages.requests();
    let path = |head: &String| head.split(' ').nth(1).unwrap().to_owned();
    let mut paths: Vec<_> = requests.iter().map(path).collect();
    paths.sort_unstable();
    let best = (1..=5).map(|n| format!("/page/{n}"));
    assert_eq!(paths, best.collect::<Vec<_>>());
}

#[tokio::test]
async fn menus_footers_and_related_links_do_not_reach_the_passages() {
    let pages = Site::start(|path, answer| answer.page(page(path)));
    let listing = listing(&pages);
    let engine = Site::start(move |_, answer| answer.page(&listing));
    let (web, call) = (look_ups(&engine, &pages), Call::authoritative());
    let found = web.retrieve(&call, "river", 100).await.unwrap();
    assert!(found.len() >= 5, "{found:?}");
    for passage in &found {
        let said = format!("{} {}", passage.title, passage.text);
        assert!(said.contains("turns east at the old mill"), "{said}");
        let around = AROUND.into_iter().find(|around| said.contains(around));
        assert_eq!(around, None, "{said}");
    }
}

#[tokio::test]
async fn a_look_up_searches_over_the_connection_that_was_warmed_up() {
    let pages = Site::start(|path, answer| answer.page(page(path)));
    let listing = listing(&pages);
    let engine = Site::start(move |path, answer| match path {
        "/" => answer.status(405),
        _ => answer.page(&listing),
    });
    let (web, call) = (look_ups(&engine, &pages), Call::authoritative());
    web.warm(&call, "river").await.unwrap();
    assert_eq!((engine.connections(), engine.requests().len()), (1, 1));
    assert!(!web.retrieve(&call, "river", 5).await.unwrap().is_empty());
    assert_eq!((engine.connections(), engine.requests().len()), (1, 2));
}
