//! SearXNG: a metasearch engine that the operator runs.

use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::Value;
use spechop_ports::{SearchResult, SearchTrouble};

use super::asked::{EngineAdapter, of_this_search};
use super::listing::{Shape, cut, folded, in_mere_words, json};
use crate::http::{Answer, Http};

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

/// A SearXNG.
pub(super) struct Searxng {
    pub(super) engines: Option<String>,
    pub(super) language: Option<String>,
}

impl EngineAdapter for Searxng {
    fn words(&self, query: &str) -> String {
        in_mere_words(query, &COMMANDS)
    }

    fn request(&self, http: &Http, words: &str, _limit: usize) -> RequestBuilder {
        let engines = self.engines.iter().map(|list| ("engines", list));
        let language = self.language.iter().map(|code| ("language", code));
        let mut url = http.url("search");
        url.query_pairs_mut()
            .append_pair("q", cut(words, QUERY_CHARS_MAX))
            .append_pair("format", "json")
            .extend_pairs(engines.chain(language));
        http.get(url)
    }

    fn read(&self, answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
        match answer.body() {
            Err(SearchTrouble::BadKey { detail }) => {
                let remedy = match answer.status.as_u16() {
                    // It refuses a format that is not switched on.
                    403 => "add `json` to `search.formats` in its settings.yml",
                    // It has no keys.
                    _ => "something before it wants a login; check its base URL",
                };
                let remedy = format!("{detail}: {remedy}");
                Err(SearchTrouble::Misconfigured { remedy })
            }
            body => parse(body?).map_err(|trouble| match trouble {
                // Others may have found nothing. Of another query they may know more.
                SearchTrouble::Unreachable { .. } if !has_no_answer(&answer.headers) => {
                    of_this_search(trouble, "a part of it")
                }
                trouble => trouble,
            }),
        }
    }
}

/// Reads an answer. No results while engines did not answer is no "nothing found", unless others have had something
/// else to say: nobody knows. It is no block either, whatever the engines do: SearXNG itself leaves those alone that
/// block it, and does not say here how many others it has asked.
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

/// Whether it says that none of its engines has answered. It tells how long it took itself (`total;dur=815.0`), and how
/// long each engine took that has answered, if only with nothing (`total_0_bing;dur=812.5`). If the former is missing,
/// something on the way has taken its times out, and nobody knows.
fn has_no_answer(headers: &HeaderMap) -> bool {
    let lists = headers.get_all("server-timing").iter();
    let times = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    let times: Vec<_> = times.map(<[u8]>::trim_ascii_start).collect();
    let has = |name: &[u8]| times.iter().any(|time| time.starts_with(name));
    has(b"total;") && !has(b"total_")
}

/// Name and reason, short and of one line.
fn engine(entry: &Value) -> (String, String) {
    let part = |at: usize| {
        let said = entry.get(at).and_then(Value::as_str).unwrap_or("unknown");
        folded(said, 40).to_string()
    };
    (part(0), part(1))
}
