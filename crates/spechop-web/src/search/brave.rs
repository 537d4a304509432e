//! Brave's search API.

use async_trait::async_trait;
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::Value;
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult, SearchTrouble};

use super::listing::{Shape, cut, in_mere_words, json};
use crate::http::{Answer, Endpoint, Http, InvalidEndpoint, key};

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

/// How to ask Brave.
#[derive(Clone, Debug)]
pub struct BraveOptions {
    /// Where it is; the key is needed.
    pub endpoint: Endpoint,
}

impl Default for BraveOptions {
    fn default() -> Self {
        Self {
            endpoint: Endpoint::new("brave", "https://api.search.brave.com/res/v1"),
        }
    }
}

/// Brave.
#[derive(Debug)]
pub struct Brave {
    http: Http,
    key: HeaderValue,
}

impl Brave {
    /// Checks the options; connects to nothing yet.
    pub fn new(options: &BraveOptions) -> Result<Self, InvalidEndpoint> {
        Ok(Self {
            key: key(&options.endpoint, "")?,
            http: Http::new(&options.endpoint)?,
        })
    }
}

#[async_trait]
impl SearchProvider for Brave {
    fn name(&self) -> &str {
        self.http.name()
    }

    async fn search_as_they_come(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
        _: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let query = in_mere_words(query, &[]);
        if limit == 0 || query.is_empty() {
            return Ok(Vec::new());
        }
        let words: Vec<_> = query.split(' ').take(QUERY_WORDS_MAX).collect();
        let mut url = self.http.url("web/search");
        url.query_pairs_mut()
            .append_pair("q", cut(&words.join(" "), QUERY_CHARS_MAX))
            .append_pair("count", &limit.min(COUNT_MAX).to_string())
            .append_pair("result_filter", "web")
            .append_pair("text_decorations", "false");
        let request = self
            .http
            .get(url)
            .header(ACCEPT, "application/json")
            .header("x-subscription-token", &self.key);
        self.http.search(call, limit, request, read).await
    }

    async fn warm(&self, _call: &Call) {
        self.http.warm().await;
    }
}

fn read(answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
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

/// Reads an answer.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    SHAPE.read(&json(body)?)
}
