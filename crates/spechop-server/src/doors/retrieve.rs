//! `POST /retrieve`: the passages that the target tool finds, for whoever has a reader of its own. The
//! form is that of Search-R1, which many trainers use:
//!
//! ```text
//! {"queries": ["…"], "topk": 5, "return_scores": true}
//! {"result": [[{"document": {"id", "title", "contents", "url"?}, "score"}]]}
//! ```
//!
//! `contents` is the title in quotation marks, and behind it, on lines of its own, the text. Without
//! scores a list holds the documents themselves. With `cache-control: no-cache` nothing that was kept is
//! among them. Errors have the form of [`HttpError`].

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use serde::Deserialize;
use serde_json::{Value, json};
use spechop_ports::Wishes;
use spechop_types::Passage;

use super::json_response;
use crate::caller::caller;
use crate::finder::{FindError, Finder};
use crate::json_object;
use crate::status::{AskError, HttpError};

/// Where it is.
pub(crate) const PATH: &str = "/retrieve";

/// What was sent. Other fields are left to those who know them.
#[derive(Deserialize)]
struct Request {
    queries: Vec<String>,
    /// By default as many as are read for a hop.
    topk: Option<usize>,
    #[serde(default)]
    return_scores: bool,
}

pub(crate) fn route(finder: Arc<Finder>) -> MethodRouter {
    post(async move |parts: Parts, body: Bytes| respond(&finder, &parts, &body).await)
        // The transport has seen to it.
        .layer(DefaultBodyLimit::disable())
}

async fn respond(finder: &Finder, head: &Parts, body: &[u8]) -> Response {
    let asked = caller(&head.headers, &head.extensions)
        .and_then(|caller| Ok((caller, Request::read(body)?)))
        .map_err(FindError::from)
        .inspect_err(|error| finder.refused(error));
    let found = match asked {
        Ok((caller, request)) => {
            let (scores, wishes) = (request.return_scores, wishes(&head.headers));
            let found = finder.find_as_wished(&caller, request.queries, request.topk, wishes);
            found.await.map(|found| (found, scores))
        }
        Err(error) => Err(error),
    };
    match found {
        Ok((found, scores)) => {
            let result: Vec<_> = found.iter().map(|found| listed(found, scores)).collect();
            json_response(StatusCode::OK, &json!({ "result": result }))
        }
        Err(error) => HttpError::from(&error).into_response(),
    }
}

impl Request {
    fn read(body: &[u8]) -> Result<Self, AskError> {
        json_object::read(
            body,
            r#"must be JSON such as {"queries": ["…"], "topk": 5}"#,
        )
    }
}

/// The wishes of a request with these headers.
fn wishes(headers: &HeaderMap) -> Wishes {
    let said = headers.get_all(CACHE_CONTROL).into_iter();
    let said = said.filter_map(|value| value.to_str().ok());
    let mut words = said.flat_map(|value| value.split(','));
    Wishes {
        fresh: words.any(|word| word.trim().eq_ignore_ascii_case("no-cache")),
        ..Wishes::default()
    }
}

fn listed(found: &[Passage], with_scores: bool) -> Vec<Value> {
    let document = |passage: &Passage| {
        // The first line is the title, whatever is in it.
        let title: Vec<_> = passage.title.lines().collect();
        let contents = format!("\"{}\"\n{}", title.join(" "), passage.text);
        let mut document = json!({
            "id": passage.id,
            "title": passage.title,
            "contents": contents,
        });
        if let Some(url) = &passage.url {
            document["url"] = json!(url);
        }
        document
    };
    let item = |passage: &Passage| match with_scores {
        true => json!({ "document": document(passage), "score": passage.score }),
        false => document(passage),
    };
    found.iter().map(item).collect()
}
