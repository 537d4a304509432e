//! Serper's API to Google's results.

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult, SearchTrouble};

use super::listing::{self, Shape, cut, in_mere_words};
use crate::http::{Answer, Endpoint, Http, InvalidEndpoint, key};

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

/// How to ask Serper.
#[derive(Clone, Debug)]
pub struct SerperOptions {
    /// Where it is; the key is needed.
    pub endpoint: Endpoint,
}

impl Default for SerperOptions {
    fn default() -> Self {
        Self {
            endpoint: Endpoint::new("serper", "https://google.serper.dev"),
        }
    }
}

/// Serper.
#[derive(Debug)]
pub struct Serper {
    http: Http,
    key: HeaderValue,
}

impl Serper {
    /// Checks the options; connects to nothing yet.
    pub fn new(options: &SerperOptions) -> Result<Self, InvalidEndpoint> {
        Ok(Self {
            key: key(&options.endpoint, "")?,
            http: Http::new(&options.endpoint)?,
        })
    }
}

#[async_trait]
impl SearchProvider for Serper {
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
        let body = json!({
            "q": cut(&query, QUERY_CHARS_MAX),
            "num": limit.min(NUM_MAX),
        });
        let request = self
            .http
            .post(self.http.url("search"))
            .header("x-api-key", &self.key)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        self.http.search(call, limit, request, read).await
    }

    async fn warm(&self, _call: &Call) {
        self.http.warm().await;
    }
}

fn read(answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
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

/// Reads an answer.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    SHAPE.read(&listing::json(body)?)
}
