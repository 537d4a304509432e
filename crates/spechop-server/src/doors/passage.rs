//! The door for citations: `GET /p/{id}` shows a passage of the index, as a page or as JSON.

use std::sync::Arc;

use askama::Template;
use axum::extract::Path;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, VARY, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use spechop_proto::json;
use spechop_types::{Passage, is_web};

use super::House;
use crate::admission::Admission;
use crate::html::{Page, Sentence};
use crate::reply;
use crate::status::{AskError, HttpError};
use crate::transport::Door;

/// Nothing is loaded, nothing runs, and nobody may show the page as a part of another one.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Builds the door, if the target tool knows its passages by their identifiers.
pub(super) fn add_to(house: &mut House, admission: &Admission) {
    let state = Arc::clone(admission.state());
    let Some(passages) = state.toolbox.passages.clone() else {
        return;
    };
    let show = get(async move |Path(id): Path<String>, head: Parts| {
        let found = passages.passage(&id).await.map_err(AskError::from);
        // An index that cannot be read is the operator's business, too.
        let found = found.inspect_err(|error| state.refuse(error));
        match found.map_err(HttpError::from)? {
            Some(passage) if wants_json(&head.headers) => as_json(&passage),
            Some(passage) => Ok(shown(
                StatusCode::OK,
                &head,
                &passage.title,
                &article(&passage),
            )),
            None if wants_json(&head.headers) => {
                Err(HttpError::from(AskError::NoPassage { id: short(&id) }))
            }
            None => Ok(shown(
                StatusCode::NOT_FOUND,
                &head,
                "No such passage",
                &Sentence {
                    text: "The index has no passage of this name.",
                },
            )),
        }
    });
    house.add(Door::get("/p/{*id}"), show);
}

/// Whether JSON stands before HTML in what the client takes.
fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let accept = accept.unwrap_or_default();
    let json = accept.find("application/json");
    json.is_some_and(|json| accept.find("text/html").is_none_or(|html| json < html))
}

fn as_json(passage: &Passage) -> Result<Response, HttpError> {
    let text = json::write(&reply::passage(passage)).map_err(AskError::from)?;
    let head = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-cache"),
        (VARY, "accept"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((head, text).into_response())
}

/// A passage below its title.
#[derive(Template)]
#[template(path = "passage.html")]
struct Article<'a> {
    text: &'a str,
    /// Where on the web it comes from, if it does.
    url: Option<&'a str>,
    id: &'a str,
}

fn article(passage: &Passage) -> Article<'_> {
    Article {
        text: &passage.text,
        url: passage.url.as_deref().filter(|url| is_web(url)),
        id: &passage.id,
    }
}

/// A page. The name of a passage may hold slashes, and the way to the style sheet goes up as many.
fn shown(status: StatusCode, head: &Parts, title: &str, body: &impl Template) -> Response {
    let deep = head.uri.path().matches('/').count().saturating_sub(1);
    let page = Page {
        status,
        policy: POLICY,
        up: &"../".repeat(deep),
    };
    let head = [(CACHE_CONTROL, "no-cache"), (VARY, "accept")];
    (head, page.of(title, body)).into_response()
}

/// Of what strangers write, as much as belongs into an error.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_passage_cannot_write_html() {
        let passage = Passage {
            id: "a\"b".into(),
            title: "<t>".into(),
            text: "<script>alert('&')</script>".into(),
            url: Some("javascript:alert(1)".into()),
            score: 0.0,
        };
        let html = article(&passage).render().unwrap();
        assert!(
            !html.contains("<script") && !html.contains("javascript:"),
            "{html}"
        );
        assert!(
            html.contains("&#60;script&#62;alert(&#39;&#38;&#39;)"),
            "{html}"
        );
        assert!(html.contains("a&#34;b"), "{html}");
        assert!(html.contains("<p class=\"t\" dir=\"auto\">"), "{html}");
        let linked = Passage {
            url: Some("https://a.example/\"x".into()),
            ..passage
        };
        let html = article(&linked).render().unwrap();
        assert!(html.contains("href=\"https://a.example/&#34;x\""), "{html}");
    }

    #[test]
    fn json_is_for_those_who_take_it_first() {
        for (accept, expected) in [
            ("application/json", true),
            ("application/json, text/html", true),
            (
                "text/html,application/xhtml+xml,application/json;q=0.9",
                false,
            ),
            ("*/*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(wants_json(&headers), expected, "{accept}");
        }
        assert!(!wants_json(&HeaderMap::new()));
    }
}
