//! The search engine, in the forms that search engines have: their parameters, and their answers.

use std::collections::HashSet;

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Value, json};
use spechop_lexical::words;
use url::form_urlencoded::byte_serialize;

use super::pages::{Page, Pages};
use super::params::Params;

/// Results of a page of results.
const RESULTS: usize = 10;
/// MediaWiki gives no more at once.
const RESULTS_MAX: usize = 50;

/// Whose requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `/search?q=…&format=json`.
    SearXng,
    /// `POST /html/`.
    DuckDuckGo,
    /// `/w/api.php`.
    MediaWiki,
}

/// What a search has found.
pub(super) struct Hit<'a> {
    pub(super) number: usize,
    pub(super) page: &'a Page,
    pub(super) score: f32,
}

impl Form {
    /// What is searched for; `None` if the request is no search.
    pub(super) fn query(self, params: &Params) -> Option<&str> {
        let query = match self {
            Self::SearXng | Self::DuckDuckGo => params.get("q"),
            Self::MediaWiki => params.get("srsearch").or(params.get("gsrsearch")),
        };
        query.map(str::trim).filter(|query| !query.is_empty())
    }

    /// What the engine finds for it.
    pub(super) fn search<'a>(self, pages: &'a Pages, params: &Params) -> Vec<Hit<'a>> {
        let Some(query) = self.query(params) else {
            return Vec::new();
        };
        let (skipped, limit) = match self {
            Self::SearXng => (
                params
                    .number("pageno")
                    .map_or(0, |n| n.saturating_sub(1).saturating_mul(RESULTS)),
                RESULTS,
            ),
            Self::DuckDuckGo => (params.number("s").unwrap_or(0), RESULTS),
            Self::MediaWiki => {
                let limit = params.number("srlimit").or(params.number("gsrlimit"));
                let offset = params.number("sroffset").or(params.number("gsroffset"));
                (
                    offset.unwrap_or(0),
                    limit.unwrap_or(RESULTS).min(RESULTS_MAX),
                )
            }
        };
        let found = pages.search(query, skipped.saturating_add(limit));
        let hit = |(number, page, score)| Hit {
            number,
            page,
            score,
        };
        found.into_iter().skip(skipped).map(hit).collect()
    }

    /// The answer to a search. `base` is `http://HOST:PORT`; without it no result says where it is.
    pub(super) fn answer(self, params: &Params, hits: &[Hit<'_>], base: Option<&str>) -> Response {
        let query = self.query(params).unwrap_or_default();
        match self {
            Self::SearXng if params.get("format") == Some("json") => {
                json(&searxng(query, hits, base, &json!([])))
            }
            Self::SearXng => html(&results(query, hits, base)),
            // As the real one answers if it finds nothing.
            Self::DuckDuckGo if hits.is_empty() => {
                (StatusCode::SEE_OTHER, [(LOCATION, "/html/")]).into_response()
            }
            Self::DuckDuckGo => html(&duckduckgo(query, hits, base)),
            Self::MediaWiki if params.get("gsrsearch").is_some() => {
                let pages = hits.iter().zip(1_usize..).map(|(hit, index)| {
                    let mut page = wiki_page(hit.number, hit.page, params, base);
                    page["index"] = json!(index);
                    page
                });
                json(&wiki_pages(pages.collect(), params))
            }
            Self::MediaWiki => json(&mediawiki(query, hits)),
        }
    }
}

/// MediaWiki's answer about pages by their titles or numbers.
pub(super) fn wiki_lookup(pages: &Pages, params: &Params, base: &str) -> Response {
    let split = |key| params.get(key).into_iter().flat_map(|list| list.split('|'));
    let known = |number, page| wiki_page(number, page, params, Some(base));
    let by_title = split("titles").map(|title| {
        let found = pages.by_title(&title.replace('_', " "));
        found.map_or_else(
            || json!({"ns": 0, "title": title, "missing": ""}),
            |(n, page)| known(n, page),
        )
    });
    let by_number = split("pageids").map(|text| {
        let number: Option<usize> = text.parse::<usize>().ok().and_then(|id| id.checked_sub(1));
        let found = number.and_then(|number| Some((number, pages.get(number)?)));
        found.map_or_else(
            || json!({"pageid": text, "missing": ""}),
            |(n, page)| known(n, page),
        )
    });
    json(&wiki_pages(by_title.chain(by_number).collect(), params))
}

/// SearXNG's answer. The count of results is 0 beside real results, as it is where engines do not say it.
pub(super) fn searxng(
    query: &str,
    hits: &[Hit<'_>],
    base: Option<&str>,
    unresponsive: &Value,
) -> Value {
    let result = |(at, hit): (usize, &Hit<'_>)| {
        let mut result = json!({
            "title": hit.page.title,
            "content": hit.page.snippet(query),
            "publishedDate": null,
            "thumbnail": "",
            "engine": "local",
            "template": "default.html",
            "img_src": "",
            "priority": "",
            "engines": ["local"],
            "positions": [at + 1],
            "score": hit.score,
            "category": "general",
        });
        if let Some(base) = base {
            let host = base.trim_start_matches("http://");
            result["url"] = json!(format!("{base}{}", hit.page.path));
            result["parsed_url"] = json!(["http", host, hit.page.path, "", "", ""]);
        }
        result
    };
    json!({
        "query": query,
        "number_of_results": 0,
        "results": hits.iter().enumerate().map(result).collect::<Vec<_>>(),
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": [],
        "unresponsive_engines": unresponsive,
    })
}

fn mediawiki(query: &str, hits: &[Hit<'_>]) -> Value {
    let found = |hit: &Hit<'_>| {
        let text = hit.page.paragraphs.join("\n");
        let snippet = marked(hit.page.snippet(query), query).into_iter();
        let snippet = snippet.map(|(text, marked)| match marked {
            true => format!("<span class=\"searchmatch\">{}</span>", escaped(text)),
            false => escaped(text),
        });
        json!({
            "ns": 0,
            "title": hit.page.title,
            "pageid": hit.number + 1,
            "size": text.len(),
            "wordcount": text.split_whitespace().count(),
            "snippet": snippet.collect::<String>(),
            "timestamp": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "batchcomplete": "",
        "query": {
            "searchinfo": {"totalhits": hits.len()},
            "search": hits.iter().map(found).collect::<Vec<_>>(),
        },
    })
}

/// A page as `prop=extracts|info` shows it.
fn wiki_page(number: usize, page: &Page, params: &Params, base: Option<&str>) -> Value {
    let mut shown = json!({"pageid": number + 1, "ns": 0, "title": page.title});
    let props = params.get("prop").unwrap_or_default();
    if props.split('|').any(|prop| prop == "extracts") {
        // An introduction is what stands before the first heading: here, everything.
        let text = page.paragraphs.join("\n");
        let cut = params
            .number("exchars")
            .map_or(text.len(), |chars| text.floor_char_boundary(chars));
        let text = &text[..cut];
        shown["extract"] = json!(match params.has("explaintext") {
            true => text.to_owned(),
            false => format!("<p>{}</p>", escaped(text)),
        });
    }
    if let Some(base) = base
        && params
            .get("inprop")
            .is_some_and(|inprop| inprop.split('|').any(|prop| prop == "url"))
    {
        shown["fullurl"] = json!(format!("{base}{}", page.path));
    }
    shown
}

/// Keyed by their numbers in the old format, a list in the new one. Where nothing is found, no query is answered.
fn wiki_pages(pages: Vec<Value>, params: &Params) -> Value {
    let is_new = params.get("formatversion") == Some("2");
    let complete = if is_new { json!(true) } else { json!("") };
    if pages.is_empty() {
        return json!({ "batchcomplete": complete });
    }
    let pages = if is_new {
        Value::Array(pages)
    } else {
        let key = |(at, page): (usize, Value)| match page["pageid"].as_u64() {
            Some(id) => (id.to_string(), page),
            None => (format!("-{}", at + 1), page),
        };
        Value::Object(pages.into_iter().enumerate().map(key).collect())
    };
    json!({"batchcomplete": complete, "query": {"pages": pages}})
}

#[derive(Template)]
#[template(path = "web/results.html")]
struct Results<'a> {
    query: &'a str,
    hits: Vec<Shown<'a>>,
}

struct Shown<'a> {
    url: String,
    title: &'a str,
    snippet: &'a str,
}

fn results<'a>(query: &'a str, hits: &[Hit<'a>], base: Option<&str>) -> Results<'a> {
    let shown = |hit: &Hit<'a>| Shown {
        url: base.map_or_else(String::new, |base| format!("{base}{}", hit.page.path)),
        title: &hit.page.title,
        snippet: hit.page.snippet(query),
    };
    Results {
        query,
        hits: hits.iter().map(shown).collect(),
    }
}

#[derive(Template)]
#[template(path = "web/duckduckgo.html")]
struct DuckDuckGo<'a> {
    query: &'a str,
    hits: Vec<Found<'a>>,
}

struct Found<'a> {
    title: &'a str,
    /// The address, percent-encoded once more.
    target: Option<String>,
    /// The address for people.
    shown: String,
    /// Pieces of the snippet; those that are marked hold words of the query.
    snippet: Vec<(&'a str, bool)>,
}

fn duckduckgo<'a>(query: &'a str, hits: &[Hit<'a>], base: Option<&str>) -> DuckDuckGo<'a> {
    let result = |hit: &Hit<'a>| {
        let url = base.map(|base| format!("{base}{}", hit.page.path));
        Found {
            title: &hit.page.title,
            target: url
                .as_ref()
                .map(|url| byte_serialize(url.as_bytes()).collect()),
            shown: url.unwrap_or_default(),
            snippet: marked(hit.page.snippet(query), query),
        }
    };
    DuckDuckGo {
        query,
        hits: hits.iter().map(result).collect(),
    }
}

/// The pieces of a text, and whether each is a word of the query.
fn marked<'a>(text: &'a str, query: &str) -> Vec<(&'a str, bool)> {
    let asked: HashSet<String> = words(query).into_iter().collect();
    let mut pieces = Vec::new();
    for piece in text.split_inclusive(' ') {
        let (word, blank) = piece.split_at(piece.trim_end().len());
        let is_asked = words(word).iter().any(|word| asked.contains(word));
        pieces.extend([(word, is_asked), (blank, false)]);
    }
    pieces
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// JSON, as a response.
pub(super) fn json(value: &Value) -> Response {
    (
        [(axum::http::header::CONTENT_TYPE, "application/json")],
        value.to_string(),
    )
        .into_response()
}

/// A template of ours, as a response.
pub(super) fn html(template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => Html(text).into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why.to_string()).into_response(),
    }
}
