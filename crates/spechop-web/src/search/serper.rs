//! Serper's API to Google's results.

use reqwest::RequestBuilder;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use spechop_ports::{SearchResult, SearchTrouble};

use super::asked::EngineAdapter;
use super::listing::{self, Shape, cut};
use crate::http::{Answer, Http};

const SHAPE: Shape = Shape {
    list: "/organic",
    proof: Some("/searchParameters"),
    url: "link",
    title: "title",
    snippet: "snippet",
    text: None,
    is_escaped: false,
};

/// What Google takes of a query; and a page of results.
const QUERY_CHARS_MAX: usize = 2048;
const NUM_MAX: usize = 100;

/// Serper.
pub(super) struct Serper {
    pub(super) key: HeaderValue,
}

impl EngineAdapter for Serper {
    fn request(&self, http: &Http, words: &str, limit: usize) -> RequestBuilder {
        let body = json!({
            "q": cut(words, QUERY_CHARS_MAX),
            "num": limit.min(NUM_MAX),
        });
        http.post(http.url("search"))
            .header("x-api-key", &self.key)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string())
    }

    fn read(&self, answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
        let is_used_up = || {
            let said = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
            let said = said.get("message").and_then(Value::as_str);
            said.is_some_and(|said| said.to_lowercase().contains("credits"))
        };
        if answer.status.as_u16() == 400 && is_used_up() {
            let detail = "status 400, its credits are used up".to_owned();
            return Err(SearchTrouble::BadKey { detail });
        }
        parse(answer.body()?)
    }
}

/// Reads an answer.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    SHAPE.read(&listing::json(body)?)
}
