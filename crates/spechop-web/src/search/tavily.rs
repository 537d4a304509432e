//! Tavily's search API.

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::json;
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult, SearchTrouble};

use super::listing::{self, Shape, cut, in_mere_words, shortened};
use crate::http::{Answer, Endpoint, Http, InvalidEndpoint, key};

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
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How to ask Tavily.
#[derive(Clone, Debug)]
pub struct TavilyOptions {
    /// Where it is; the key is needed. 8 MiB a search by default.
    pub endpoint: Endpoint,
    /// Whether it brings the texts of the pages along, so that none is fetched; by default it does.
    pub with_text: bool,
    /// Characters of each text. What is longer is cut at a word.
    pub text_chars_max: usize,
}

impl Default for TavilyOptions {
    fn default() -> Self {
        let mut endpoint = Endpoint::new("tavily", "https://api.tavily.com");
        endpoint.body_bytes_max = BODY_BYTES_MAX;
        Self {
            endpoint,
            with_text: true,
            text_chars_max: 10_000,
        }
    }
}

/// Tavily.
#[derive(Debug)]
pub struct Tavily {
    http: Http,
    key: HeaderValue,
    with_text: bool,
    text_chars_max: usize,
}

impl Tavily {
    /// Checks the options; connects to nothing yet.
    pub fn new(options: &TavilyOptions) -> Result<Self, InvalidEndpoint> {
        Ok(Self {
            key: key(&options.endpoint, "Bearer ")?,
            http: Http::new(&options.endpoint)?,
            with_text: options.with_text,
            text_chars_max: options.text_chars_max,
        })
    }
}

#[async_trait]
impl SearchProvider for Tavily {
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
        let raw = if self.with_text {
            json!("text")
        } else {
            json!(false)
        };
        let body = json!({
            "query": cut(&query, QUERY_CHARS_MAX),
            "max_results": limit.min(RESULTS_MAX),
            "include_raw_content": raw,
        });
        let request = self
            .http
            .post(self.http.url("search"))
            .header(AUTHORIZATION, &self.key)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        let most = self.text_chars_max;
        let read = |answer: &Answer| read(answer).map(|found| shortened(found, most));
        self.http.search(call, limit, request, read).await
    }

    async fn warm(&self, _call: &Call) {
        self.http.warm().await;
    }
}

fn read(answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
    if let status @ (432 | 433) = answer.status.as_u16() {
        let detail = format!("status {status}, the limit of its plan is reached");
        return Err(SearchTrouble::BadKey { detail });
    }
    parse(answer.body()?)
}

/// Reads an answer.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    SHAPE.read(&listing::json(body)?)
}
