//! SearXNG: a metasearch engine that the operator runs.

use async_trait::async_trait;
use serde_json::Value;
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult, SearchTrouble};

use super::listing::{Shape, cut, folded, in_mere_words, json};
use crate::http::{Answer, Endpoint, Http, InvalidEndpoint};

const SHAPE: Shape = Shape {
    list: "/results",
    proof: None,
    url: "url",
    title: "title",
    snippet: "content",
    text: None,
    is_escaped: false,
};

/// It takes any query, but a proxy before it may not: nginx takes 8 KB of an address, where one character can be twelve
/// bytes long.
const QUERY_CHARS_MAX: usize = 400;

/// Most engines that a failure names.
const ENGINES_NAMED_MAX: usize = 5;

/// What engines may say beside results.
const ANSWERED: [&str; 4] = ["answers", "infoboxes", "suggestions", "corrections"];
/// What SearXNG says of an engine that takes it for a robot, or asks it for less.
const BLOCKS: [&str; 3] = ["captcha", "too many requests", "access denied"];

/// What a word begins with that SearXNG takes for a command: another engine (`!`), another site
/// (`!!`), a language (`:`), a time limit (`<`).
const COMMANDS: [char; 3] = ['!', ':', '<'];

/// How to ask a SearXNG.
#[derive(Clone, Debug)]
pub struct SearxngOptions {
    /// Where it is; by default on this machine, at the port of its own container.
    pub endpoint: Endpoint,
    /// Its engines to ask, separated by commas; by default those of its own settings.
    pub engines: Option<String>,
    /// Language of the results, e.g. `en`; by default that of its own settings.
    pub language: Option<String>,
}

impl Default for SearxngOptions {
    fn default() -> Self {
        Self {
            endpoint: Endpoint::new("searxng", "http://127.0.0.1:8080"),
            engines: None,
            language: None,
        }
    }
}

/// A SearXNG.
#[derive(Debug)]
pub struct Searxng {
    http: Http,
    /// What every request says.
    query: Vec<(&'static str, String)>,
}

impl Searxng {
    /// Checks the options; connects to nothing yet.
    pub fn new(options: &SearxngOptions) -> Result<Self, InvalidEndpoint> {
        let mut query = vec![("format", "json".to_owned())];
        let engines = options.engines.clone().map(|list| ("engines", list));
        let language = options.language.clone().map(|code| ("language", code));
        query.extend(engines.into_iter().chain(language));
        Ok(Self {
            http: Http::new(&options.endpoint)?,
            query,
        })
    }
}

#[async_trait]
impl SearchProvider for Searxng {
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
        let query = in_mere_words(query, &COMMANDS);
        if limit == 0 || query.is_empty() {
            return Ok(Vec::new());
        }
        let mut url = self.http.url("search");
        url.query_pairs_mut()
            .append_pair("q", cut(&query, QUERY_CHARS_MAX))
            .extend_pairs(&self.query);
        let request = self.http.get(url);
        let read = |answer: &Answer| match answer.body() {
            // It refuses a format that is not switched on.
            Err(SearchTrouble::BadKey { detail }) => Err(SearchTrouble::Misconfigured {
                remedy: format!("{detail}: add `json` to `search.formats` in its settings.yml"),
            }),
            body => parse(body?),
        };
        self.http.search(call, limit, request, read).await
    }

    async fn warm(&self, _call: &Call) {
        self.http.warm().await;
    }
}

/// Reads an answer. No results while engines did not answer is no "nothing found", unless others have had something
/// else to say: nobody knows. It is no block either, whatever the engines do: SearXNG itself leaves those alone that
/// block it, and does not say how many others it has asked.
/// Its `number_of_results` may be 0 beside results, or missing.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    let answer = json(body)?;
    let results = SHAPE.read(&answer)?;
    if !results.is_empty() {
        return Ok(results);
    }
    let silent = answer.get("unresponsive_engines").and_then(Value::as_array);
    let silent: Vec<_> = silent.into_iter().flatten().map(engine).collect();
    let has = |field: &str| {
        let said = answer.get(field).and_then(Value::as_array);
        said.is_some_and(|said| !said.is_empty())
    };
    if silent.is_empty() || ANSWERED.iter().any(|field| has(field)) {
        return Ok(results);
    }
    let is_block = |why: &str| {
        let why = why.to_lowercase();
        BLOCKS.iter().any(|block| why.contains(block))
    };
    let are_blocks = silent.iter().all(|(_, why)| is_block(why));
    let named: Vec<_> = silent
        .iter()
        .take(ENGINES_NAMED_MAX)
        .map(|(name, why)| format!("{name} ({why})"))
        .collect();
    let more = silent.len().saturating_sub(ENGINES_NAMED_MAX);
    let more = (more > 0).then(|| format!(" and {more} more"));
    let said = format!("{}{}", named.join(", "), more.unwrap_or_default());
    let what = if are_blocks {
        "are blocked"
    } else {
        "do not answer"
    };
    Err(SearchTrouble::Unreachable {
        detail: format!("its engines {what}: {said}"),
    })
}

/// Name and reason, short and of one line.
fn engine(entry: &Value) -> (String, String) {
    let part = |at: usize| {
        let said = entry.get(at).and_then(Value::as_str).unwrap_or("unknown");
        folded(said, 40).to_string()
    };
    (part(0), part(1))
}
