//! Brave's search API.

use reqwest::RequestBuilder;
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::Value;
use spechop_ports::{SearchResult, SearchTrouble};

use super::asked::EngineAdapter;
use super::listing::{Shape, cut, json};
use crate::http::{Answer, Http};

const SHAPE: Shape = Shape {
    list: "/web/results",
    // There may be no web results beside others.
    proof: Some("/query"),
    url: "url",
    title: "title",
    snippet: "description",
    text: None,
    is_escaped: true,
};

/// What it takes.
const QUERY_CHARS_MAX: usize = 400;
const QUERY_WORDS_MAX: usize = 50;
const COUNT_MAX: usize = 20;

/// Brave.
pub(super) struct Brave {
    pub(super) key: HeaderValue,
}

impl EngineAdapter for Brave {
    fn request(&self, http: &Http, words: &str, limit: usize) -> RequestBuilder {
        let words: Vec<_> = words.split(' ').take(QUERY_WORDS_MAX).collect();
        let mut url = http.url("web/search");
        url.query_pairs_mut()
            .append_pair("q", cut(&words.join(" "), QUERY_CHARS_MAX))
            .append_pair("count", &limit.min(COUNT_MAX).to_string())
            .append_pair("result_filter", "web")
            .append_pair("text_decorations", "false");
        http.get(url)
            .header(ACCEPT, "application/json")
            .header("x-subscription-token", &self.key)
    }

    fn read(&self, answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
        // A wrong key is an invalid parameter to it.
        let is_bad_key = || {
            let said = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
            let code = said.pointer("/error/code").and_then(Value::as_str);
            code.is_some_and(|code| code.contains("TOKEN"))
        };
        if answer.status.as_u16() == 422 && is_bad_key() {
            let detail = "status 422, invalid token".to_owned();
            return Err(SearchTrouble::BadKey { detail });
        }
        parse(answer.body()?)
    }
}

/// Reads an answer.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    SHAPE.read(&json(body)?)
}
