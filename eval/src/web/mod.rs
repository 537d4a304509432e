//! A web on this machine: a search engine, and pages made of a corpus. It is as slow as the real one, and breaks in
//! the ways of the real one, by script: the same look-up waits and breaks the same way whenever it is asked.
//!
//! ```text
//! corpus ─▶ pages (one a title) ─▶ ranking ─▶ /search, /html/, /w/api.php
//!                    └──────────────────────▶ /wiki/…, /news/…, /blog/…, /archive/…
//! ```
//!
//! It is no part of the service: tests, the demo and the live runs search it. It listens on loopback only, for it
//! serves pages that are meant to harm their readers.

mod down;
mod engine;
mod html;
mod latency;
mod pages;
mod params;
mod trouble;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, USER_AGENT, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::json;
use tokio::net::TcpListener;

pub use latency::{InvalidLatency, Latency};

use crate::dataset::CorpusPassage;
use crate::short_hash;
use down::Down;
use engine::Form;
use pages::{Page, Pages};
use params::Params;
use trouble::Trouble;

/// How the web behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WebOptions {
    /// How long searches and pages take.
    pub latency: Latency,
    /// The share of pages that are broken, from 0 to 1.
    pub broken: f64,
    /// Decides which pages are broken, and what pages look like.
    pub seed: u64,
}

impl Default for WebOptions {
    /// Nothing waits, and nothing is broken.
    fn default() -> Self {
        Self {
            latency: Latency::NONE,
            broken: 0.0,
            seed: 1,
        }
    }
}

/// Pages and the search engine over them.
#[derive(Debug)]
pub struct Web {
    pages: Pages,
    options: WebOptions,
    counts: Counts,
}

/// What was asked for, since the start.
#[derive(Debug, Default)]
struct Counts {
    searches: AtomicU64,
    pages: AtomicU64,
    broken: AtomicU64,
}

/// The web, and the `http://HOST:PORT` that it is at.
#[derive(Debug)]
struct Served {
    web: Web,
    base: String,
}

impl Web {
    /// Makes pages of passages: those of one title share a page.
    pub fn new(passages: Vec<CorpusPassage>, options: WebOptions) -> Self {
        Self {
            pages: Pages::new(passages, options.seed),
            options,
            counts: Counts::default(),
        }
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The paths of the pages that a search for `query` finds, best first.
    pub fn find(&self, query: &str, limit: usize) -> Vec<&str> {
        let found = self.pages.search(query, limit).into_iter();
        found.map(|(_, page, _)| page.path.as_str()).collect()
    }

    /// The path of the page with this title.
    pub fn path(&self, title: &str) -> Option<&str> {
        self.pages
            .by_title(title)
            .map(|(_, page)| page.path.as_str())
    }

    /// Serves until the future is dropped.
    ///
    /// # Errors
    ///
    /// The listener is not on loopback, or fails.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let address = listener.local_addr()?;
        on_loopback(address)?;
        let served = Served {
            web: self,
            base: format!("http://{address}"),
        };
        axum::serve(listener, router(served)).await
    }
}

/// Refuses addresses that others can reach.
///
/// # Errors
///
/// The address is not on loopback.
pub fn on_loopback(address: SocketAddr) -> io::Result<()> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let why =
        format!("{address} is not a loopback address: this web has pages that harm their readers");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

type Shared = State<Arc<Served>>;

fn router(served: Served) -> Router {
    let searches = || {
        Router::new()
            .route(
                "/search",
                any(|state, params| search(state, Form::SearXng, None, params)),
            )
            .route(
                "/html/",
                any(|state, params| search(state, Form::DuckDuckGo, None, params)),
            )
            .route("/w/api.php", any(wiki_api))
    };
    searches()
        .route("/", any(index))
        .route("/stats", any(stats))
        .route(
            "/robots.txt",
            any("User-agent: *\nDisallow: /trouble/robots\n"),
        )
        .route("/trouble/{name}", any(trouble))
        .route(
            "/down/{how}/search",
            any(|s, how, p| down(s, how, Form::SearXng, p)),
        )
        .route(
            "/down/{how}/html/",
            any(|s, how, p| down(s, how, Form::DuckDuckGo, p)),
        )
        .route(
            "/down/{how}/w/api.php",
            any(|s, how, p| down(s, how, Form::MediaWiki, p)),
        )
        .fallback(page)
        .with_state(Arc::new(served))
}

/// Answers a search after its time.
async fn search(
    State(served): Shared,
    form: Form,
    broken: Option<Down>,
    params: Params,
) -> Response {
    let Some(query) = form.query(&params) else {
        return (StatusCode::BAD_REQUEST, "No query").into_response();
    };
    served.web.counts.searches.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(served.web.options.latency.search(query)).await;
    let hits = form.search(&served.web.pages, &params);
    match broken {
        Some(down) => down.answer(form, &params, &hits, &served.base).await,
        None => form.answer(&params, &hits, Some(&served.base)),
    }
}

async fn down(state: Shared, Path(how): Path<String>, form: Form, params: Params) -> Response {
    match Down::named(&how) {
        Some(down) => search(state, form, Some(down), params).await,
        None => (
            StatusCode::NOT_FOUND,
            format!("a search engine cannot be down as `{how}`"),
        )
            .into_response(),
    }
}

/// Searches, and pages by title. Like the real one it wants to know who asks.
async fn wiki_api(State(served): Shared, headers: HeaderMap, params: Params) -> Response {
    if !headers.contains_key(USER_AGENT) {
        let why = "Please set a user-agent and respect our robot policy";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    if Form::MediaWiki.query(&params).is_some() {
        return search(State(served), Form::MediaWiki, None, params).await;
    }
    let Some(about) = params.get("titles").or(params.get("pageids")) else {
        let error = json!({"error": {"code": "missingparam", "info": "The \"srsearch\" parameter must be set."}});
        return engine::json(&error);
    };
    tokio::time::sleep(served.web.options.latency.page(about)).await;
    engine::wiki_lookup(&served.web.pages, &params, &served.base)
}

/// A page after its time, broken if it is one of those.
async fn page(State(served): Shared, uri: Uri, headers: HeaderMap) -> Response {
    let web = &served.web;
    let Some(page) = web.pages.by_path(uri.path()) else {
        return (StatusCode::NOT_FOUND, "There is no such page.").into_response();
    };
    web.counts.pages.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(web.options.latency.page(&page.path)).await;
    let Ok(text) = html::render(&web.pages, page) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    match Trouble::of(web.options.seed, &page.path, web.options.broken) {
        Some(trouble) => {
            web.counts.broken.fetch_add(1, Ordering::Relaxed);
            trouble.respond(text, Some(&page.path), None).await
        }
        None => sound(page, text, &headers),
    }
}

/// A page as it should be: packed for those who can unpack it, and with a tag to ask again by.
fn sound(page: &Page, text: String, headers: &HeaderMap) -> Response {
    let (bytes, charset) = html::encoded(page, text);
    let tag = format!("\"{}\"", short_hash(&bytes));
    let says = |name, value: &str| {
        let said = headers
            .get(name)
            .and_then(|said: &HeaderValue| said.to_str().ok());
        said.is_some_and(|said| said.split(',').any(|one| one.trim().starts_with(value)))
    };
    let caching = [(ETAG, tag.clone()), (VARY, "accept-encoding".to_owned())];
    if says(IF_NONE_MATCH, &tag) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    let kind = [(CONTENT_TYPE, format!("text/html; charset={charset}"))];
    if says(ACCEPT_ENCODING, "gzip") {
        let packed = trouble::gzip(&bytes);
        return (caching, kind, [(CONTENT_ENCODING, "gzip")], packed).into_response();
    }
    (caching, kind, bytes).into_response()
}

/// A trouble at its own address, at once.
async fn trouble(State(served): Shared, Path(name): Path<String>, params: Params) -> Response {
    let Some(trouble) = Trouble::named(&name) else {
        return (
            StatusCode::NOT_FOUND,
            format!("there is no trouble `{name}`"),
        )
            .into_response();
    };
    let to = params.get("to");
    let page = to.and_then(|path| served.web.pages.by_path(path));
    let text = page.and_then(|page| html::render(&served.web.pages, page).ok());
    let text = text.unwrap_or_else(|| PLAIN.to_owned());
    trouble.respond(text, to, params.number("left")).await
}

/// The page that is broken if no other is named.
const PLAIN: &str = "<!doctype html><html><head><title>A plain page</title></head><body><h1>A plain page</h1>
<p>The lighthouse of Loopback Point was built in 1871 by Ada Grimshaw. It stands on the north shore of the bay.</p>
<p>Its light was seen from ships twenty miles away, until the harbour was closed. Today it is a museum.</p></body></html>
";

async fn stats(State(served): Shared) -> Response {
    let counts = &served.web.counts;
    engine::json(&json!({
        "searches": counts.searches.load(Ordering::Relaxed),
        "pages": counts.pages.load(Ordering::Relaxed),
        "broken": counts.broken.load(Ordering::Relaxed),
    }))
}

#[derive(Template)]
#[template(path = "web/index.html")]
struct Index {
    base: String,
    pages: usize,
    share: f64,
    forms: Vec<(&'static str, String)>,
    down: Vec<(&'static str, &'static str)>,
    troubles: Vec<(&'static str, &'static str)>,
}

async fn index(State(served): Shared) -> Response {
    let base = served.base.clone();
    let forms = vec![
        ("SearXNG", format!("{base}/search?q=QUERY&format=json")),
        ("DuckDuckGo", format!("POST {base}/html/ with q=QUERY")),
        (
            "MediaWiki",
            format!("{base}/w/api.php?action=query&list=search&srsearch=QUERY&format=json"),
        ),
    ];
    engine::html(&Index {
        base,
        pages: served.web.pages(),
        share: served.web.options.broken * 100.0,
        forms,
        down: down::ALL
            .iter()
            .map(|(_, name, what)| (*name, *what))
            .collect(),
        troubles: trouble::ALL
            .iter()
            .map(|(_, name, what)| (*name, *what))
            .collect(),
    })
}
