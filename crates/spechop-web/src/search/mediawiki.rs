//! A MediaWiki, such as Wikipedia: search and texts in one request, so that no page is fetched.
//!
//! A wiki brings several texts along only up to their first heading.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::Value;
use spechop_ports::{SearchResult, SearchTrouble};

use super::asked::EngineAdapter;
use super::listing::{Shape, cut, in_mere_words, json, malformed, shortened};
use crate::http::{Answer, Http};

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

/// What also excludes the word behind it.
const EXCLUDES: [char; 1] = ['!'];

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

/// A MediaWiki.
pub(super) struct MediaWiki {
    pub(super) text_chars_max: usize,
}

impl EngineAdapter for MediaWiki {
    fn words(&self, query: &str) -> String {
        // A colon makes a command of the word before it: another namespace, or a search by a regular expression, which
        // may take longer than anybody waits.
        in_mere_words(&query.replace(':', " "), &EXCLUDES)
    }

    fn request(&self, http: &Http, words: &str, limit: usize) -> RequestBuilder {
        let mut url = http.base().clone();
        url.query_pairs_mut().extend_pairs([
            ("action", "query"),
            ("format", "json"),
            ("formatversion", "2"),
            ("generator", "search"),
            ("gsrsearch", cut(words, QUERY_CHARS_MAX)),
            ("gsrlimit", &limit.min(LIMIT_MAX).to_string()),
            ("prop", "info|extracts"),
            ("inprop", "url"),
            ("exintro", "1"),
            ("explaintext", "1"),
            ("exlimit", "max"),
        ]);
        http.get(url)
    }

    fn read(&self, answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
        let body = match answer.body() {
            Err(SearchTrouble::BadKey { detail }) => {
                let remedy = match answer.status.as_u16() {
                    // It says so to those who do not say who they are.
                    403 => "it wants to know whom to contact; set web.contact",
                    // It has no keys.
                    _ => "something before it wants a login; check its base URL",
                };
                let remedy = format!("{detail}: {remedy}");
                return Err(SearchTrouble::Misconfigured { remedy });
            }
            body => body?,
        };
        let found = parse(body).map_err(|trouble| match (trouble, answer.rate_limited()) {
            // The headers may say more than the answer does.
            (
                SearchTrouble::RateLimited { .. },
                told @ SearchTrouble::RateLimited {
                    retry_after: Some(_),
                },
            ) => told,
            (trouble, _) => trouble,
        });
        Ok(shortened(found?, self.text_chars_max))
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
