//! Search engines that do not work, each in the way of its kind.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use super::engine::{Form, Hit, html, json as json_response, searxng};
use super::params::Params;

/// A way in which a search engine does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    RateLimited,
    Refused,
    Challenge,
    HiddenChallenge,
    Failing,
    Empty,
    NoUrls,
    NotJson,
    Cut,
    Silent,
}

use Down::*;

/// Every way, the name in its address, and what it is.
pub(super) const ALL: &[(Down, &str, &str)] = &[
    (RateLimited, "rate-limited", "status 429, Retry-After: 30"),
    (
        Refused,
        "refused",
        "status 403, as SearXNG answers where JSON is not switched on",
    ),
    (
        Challenge,
        "challenge",
        "status 202 and a challenge, as DuckDuckGo answers robots",
    ),
    (
        HiddenChallenge,
        "hidden-challenge",
        "the same challenge with status 200",
    ),
    (Failing, "failing", "status 500"),
    (
        Empty,
        "empty",
        "no results, since the engines behind it do not respond",
    ),
    (NoUrls, "no-urls", "results that do not say where they are"),
    (NotJson, "not-json", "status 200 and a page for people"),
    (Cut, "cut", "an answer that ends in the middle"),
    (Silent, "silent", "no answer"),
];

#[derive(Template)]
#[template(path = "web/challenge.html")]
struct ChallengePage;

impl Down {
    pub(super) fn named(name: &str) -> Option<Self> {
        let mut known = ALL.iter();
        known
            .find(|(_, known, _)| *known == name)
            .map(|(down, ..)| *down)
    }

    /// The answer to a search that would have found something.
    pub(super) async fn answer(
        self,
        form: Form,
        params: &Params,
        hits: &[Hit<'_>],
        base: &str,
    ) -> Response {
        match self {
            RateLimited => (
                StatusCode::TOO_MANY_REQUESTS,
                [(RETRY_AFTER, "30")],
                "Too Many Requests",
            )
                .into_response(),
            Refused => (StatusCode::FORBIDDEN, Html("<h1>403 Forbidden</h1>")).into_response(),
            Challenge => (StatusCode::ACCEPTED, html(&ChallengePage)).into_response(),
            HiddenChallenge => html(&ChallengePage),
            Failing => (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error").into_response(),
            Empty if form == Form::SearXng => {
                let unresponsive = json!([
                    ["duckduckgo", "CAPTCHA"],
                    ["google", "Suspended: too many requests"]
                ]);
                let query = form.query(params).unwrap_or_default();
                let answer = json_response(&searxng(query, &[], None, &unresponsive));
                // As the real one tells that none of its engines has answered.
                ([("server-timing", "total;dur=9.1, render;dur=0.0")], answer).into_response()
            }
            Empty => form.answer(params, &[], Some(base)),
            NoUrls => form.answer(params, hits, None),
            NotJson => {
                Html("<!doctype html><title>Welcome</title><p>It works!</p>").into_response()
            }
            Cut => {
                let (mut parts, body) = form.answer(params, hits, Some(base)).into_parts();
                let whole = axum::body::to_bytes(body, usize::MAX)
                    .await
                    .unwrap_or_default();
                parts.headers.remove(axum::http::header::CONTENT_LENGTH);
                (parts, whole.slice(..whole.len() / 2)).into_response()
            }
            Silent => std::future::pending().await,
        }
    }
}
