//! Tavily's search API.

use reqwest::RequestBuilder;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::json;
use spechop_ports::{SearchResult, SearchTrouble};

use super::asked::EngineAdapter;
use super::listing::{self, Shape, cut, shortened};
use crate::http::{Answer, Http};

const SHAPE: Shape = Shape {
    list: "/results",
    proof: None,
    url: "url",
    title: "title",
    snippet: "content",
    text: Some("raw_content"),
    is_escaped: false,
};

/// What it takes.
const QUERY_CHARS_MAX: usize = 400;
const RESULTS_MAX: usize = 20;

/// Whole pages come along.
pub(super) const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Tavily, which sends the texts of the pages along, so that none is fetched.
pub(super) struct Tavily {
    pub(super) key: HeaderValue,
    pub(super) text_chars_max: usize,
}

impl EngineAdapter for Tavily {
    fn request(&self, http: &Http, words: &str, limit: usize) -> RequestBuilder {
        let body = json!({
            "query": cut(words, QUERY_CHARS_MAX),
            "max_results": limit.min(RESULTS_MAX),
            "include_raw_content": "text",
        });
        http.post(http.url("search"))
            .header(AUTHORIZATION, &self.key)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string())
    }

    fn read(&self, answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
        if let status @ (432 | 433) = answer.status.as_u16() {
            let detail = format!("status {status}, the limit of its plan is reached");
            return Err(SearchTrouble::BadKey { detail });
        }
        Ok(shortened(parse(answer.body()?)?, self.text_chars_max))
    }
}

/// Reads an answer.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    SHAPE.read(&listing::json(body)?)
}
