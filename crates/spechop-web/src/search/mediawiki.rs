//! A MediaWiki, such as Wikipedia: search and texts in one request, so that no page is fetched.
//!
//! A wiki brings several texts along only up to their first heading. Whoever wants whole articles
//! leaves the texts away and has the pages fetched.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult, SearchTrouble};

use super::listing::{Shape, cut, in_mere_words, json, malformed, shortened};
use crate::http::{Answer, Endpoint, Http, InvalidEndpoint};

const SHAPE: Shape = Shape {
    list: "/query/pages",
    // Where nothing is found, no query is answered.
    proof: Some("/batchcomplete"),
    url: "fullurl",
    title: "title",
    snippet: "",
    text: Some("extract"),
    is_escaped: false,
};

/// What its search takes, and the most texts at once.
const QUERY_CHARS_MAX: usize = 300;
const LIMIT_MAX: usize = 20;

/// What it says if the fault is the query's, not its own. A wiki has limits of its own for them.
const OF_THE_QUERY: [&str; 5] = [
    "cirrussearch-parse-error",
    "cirrussearch-query-too-long",
    "cirrussearch-query-too-long-with-exemptions",
    "cirrussearch-regex-syntax-error",
    "cirrussearch-regex-too-complex-error",
];

/// How long to wait if it is busy and does not say until when.
const BUSY: Duration = Duration::from_secs(5);

/// How to ask a MediaWiki.
#[derive(Clone, Debug)]
pub struct MediaWikiOptions {
    /// Its `api.php`; by default the English Wikipedia's. Wikipedia insists on a contact.
    pub endpoint: Endpoint,
    /// Whether it brings the beginnings of the pages along, so that none is fetched; by default it does.
    pub with_text: bool,
    /// Characters of each of them. What is longer is cut at a word.
    pub text_chars_max: usize,
}

impl Default for MediaWikiOptions {
    fn default() -> Self {
        Self {
            endpoint: Endpoint::new("mediawiki", "https://en.wikipedia.org/w/api.php"),
            with_text: true,
            text_chars_max: 10_000,
        }
    }
}

/// A MediaWiki.
#[derive(Debug)]
pub struct MediaWiki {
    http: Http,
    with_text: bool,
    text_chars_max: usize,
}

impl MediaWiki {
    /// Checks the options; connects to nothing yet.
    pub fn new(options: &MediaWikiOptions) -> Result<Self, InvalidEndpoint> {
        Ok(Self {
            http: Http::new(&options.endpoint)?,
            with_text: options.with_text,
            text_chars_max: options.text_chars_max,
        })
    }
}

#[async_trait]
impl SearchProvider for MediaWiki {
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
        // A colon makes a command of the word before it: another namespace, or a search by a regular expression, which
        // may take longer than anybody waits.
        let query = in_mere_words(&query.replace(':', " "), &[]);
        if limit == 0 || query.is_empty() {
            return Ok(Vec::new());
        }
        let mut url = self.http.base().clone();
        url.query_pairs_mut().extend_pairs([
            ("action", "query"),
            ("format", "json"),
            ("formatversion", "2"),
            ("generator", "search"),
            ("gsrsearch", cut(&query, QUERY_CHARS_MAX)),
            ("gsrlimit", &limit.min(LIMIT_MAX).to_string()),
            (
                "prop",
                if self.with_text {
                    "info|extracts"
                } else {
                    "info"
                },
            ),
            ("inprop", "url"),
        ]);
        if self.with_text {
            url.query_pairs_mut().extend_pairs([
                ("exintro", "1"),
                ("explaintext", "1"),
                ("exlimit", "max"),
            ]);
        }
        let request = self.http.get(url);
        let most = self.text_chars_max;
        let read = |answer: &Answer| read(answer).map(|found| shortened(found, most));
        self.http.search(call, limit, request, read).await
    }

    async fn warm(&self, _call: &Call) {
        self.http.warm().await;
    }
}

fn read(answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
    match answer.body() {
        // It has no keys: this is what it says to those who do not say who they are.
        Err(SearchTrouble::BadKey { detail }) => Err(SearchTrouble::Misconfigured {
            remedy: format!("{detail}: it wants to know whom to contact; set the contact"),
        }),
        body => parse(body?).map_err(|trouble| match (trouble, answer.rate_limited()) {
            // The headers may say more than the answer does.
            (
                SearchTrouble::RateLimited { .. },
                told @ SearchTrouble::RateLimited {
                    retry_after: Some(_),
                },
            ) => told,
            (trouble, _) => trouble,
        }),
    }
}

/// Reads an answer. It lists pages by their number; their rank is a field.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    let mut answer = json(body)?;
    if let Some(error) = answer.get("error") {
        let code = error.get("code").and_then(Value::as_str);
        return match code {
            Some(code) if OF_THE_QUERY.contains(&code) => Err(SearchTrouble::QueryRefused {
                detail: code.to_owned(),
            }),
            Some("ratelimited" | "maxlag") => Err(SearchTrouble::RateLimited {
                retry_after: Some(BUSY),
            }),
            Some(code) => Err(malformed(format!(
                "error {}",
                code.chars().take(40).collect::<String>()
            ))),
            None => Err(malformed("an error without a code")),
        };
    }
    if let Some(Value::Array(pages)) = answer.pointer_mut(SHAPE.list) {
        let rank = |page: &Value| page.get("index").and_then(Value::as_u64);
        pages.sort_by_key(|page| rank(page).unwrap_or(u64::MAX));
    }
    SHAPE.read(&answer)
}
