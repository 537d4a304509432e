//! What a provider lists, made into results.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use scraper::Html;
use serde_json::Value;
use spechop_ports::{SearchResult, SearchTrouble};
pub(super) use spechop_types::cut_at_word as cut;
use spechop_types::{Passage, one_line, words};
use url::Url;

/// Most results that are taken from one answer.
const RESULTS_MAX: usize = 100;

/// Longest title and snippet, in characters.
const TITLE_CHARS_MAX: usize = 300;
const SNIPPET_CHARS_MAX: usize = 2000;

/// How much of an answer is searched for the words of a challenge, in bytes.
const CHALLENGE_BYTES: usize = 64 * 1024;

/// Results so far. What has no usable URL is left out, and no URL is taken twice.
#[derive(Debug, Default)]
pub(super) struct Listing {
    results: Vec<SearchResult>,
    seen: HashSet<Url>,
    /// So many had no URL of any kind.
    nowhere: usize,
}

impl Listing {
    /// A result. Without a URL it is none.
    pub(super) fn push(&mut self, url: &str, title: &str, snippet: &str, text: Option<&str>) {
        if self.results.len() == RESULTS_MAX {
            return;
        }
        let Ok(mut url) = Url::parse(url.trim()) else {
            self.nowhere += 1;
            return;
        };
        // Places in a page are one page.
        url.set_fragment(None);
        // Signs that stood there as they are have been encoded, so it may be longer than what was sent.
        let is_short = url.as_str().len() <= Passage::URL_BYTES_MAX;
        let is_page = is_short && matches!(url.scheme(), "http" | "https");
        if !is_page || !self.seen.insert(url.clone()) {
            return;
        }
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        self.results.push(SearchResult {
            url,
            title: folded(title, TITLE_CHARS_MAX),
            snippet: folded(snippet, SNIPPET_CHARS_MAX),
            text: text.map(Arc::from),
        });
    }

    /// Those that can be fetched. If there is none, and some have no address, something else than results was sent. One
    /// elsewhere than on the web is only left out.
    pub(super) fn results(self) -> Result<Vec<SearchResult>, SearchTrouble> {
        match (self.results.len(), self.nowhere) {
            (0, nowhere @ 1..) => {
                let said = format!("results without an address: {nowhere}");
                Err(malformed(said))
            }
            _ => Ok(self.results),
        }
    }
}

/// Where a JSON answer has what.
pub(super) struct Shape {
    /// The list of results, as a JSON pointer.
    pub(super) list: &'static str,
    /// What an answer has that may be without a list: then nothing was found.
    pub(super) proof: Option<&'static str>,
    /// Fields of a result.
    pub(super) url: &'static str,
    pub(super) title: &'static str,
    pub(super) snippet: &'static str,
    pub(super) text: Option<&'static str>,
    /// Whether title and snippet are escaped as in HTML, though they have no tags.
    pub(super) is_escaped: bool,
}

impl Shape {
    /// A result that is not as it should be is left out; a list that is not, is trouble.
    pub(super) fn read(&self, answer: &Value) -> Result<Vec<SearchResult>, SearchTrouble> {
        let mut listing = Listing::default();
        match answer.pointer(self.list) {
            Some(Value::Array(list)) => {
                for item in list {
                    let field = |name: &str| item.get(name).and_then(Value::as_str);
                    let or_empty = |name| field(name).unwrap_or_default();
                    let text = self.text.and_then(field);
                    let words = |name| match or_empty(name) {
                        escaped if self.is_escaped && escaped.contains('&') => unescaped(escaped),
                        plain => Cow::Borrowed(plain),
                    };
                    let (title, snippet) = (words(self.title), words(self.snippet));
                    listing.push(or_empty(self.url), &title, &snippet, text);
                }
            }
            None | Some(Value::Null) if self.is_proven(answer) => {}
            _ => {
                let list = self.list.trim_start_matches('/').replace('/', ".");
                return Err(malformed(format!("no list `{list}` in it")));
            }
        }
        listing.results()
    }

    fn is_proven(&self, answer: &Value) -> bool {
        self.proof
            .is_some_and(|proof| answer.pointer(proof).is_some())
    }
}

/// The text whose characters are written as in HTML. Nothing of it is taken for a tag.
fn unescaped(text: &str) -> Cow<'static, str> {
    let without_tags = text.replace('<', "&lt;");
    let parsed = Html::parse_fragment(&without_tags);
    Cow::Owned(parsed.root_element().text().collect())
}

/// The answer as JSON. A challenge in its place is a block.
pub(super) fn json(body: &[u8]) -> Result<Value, SearchTrouble> {
    serde_json::from_slice(body).map_err(|error| match challenge(body) {
        Some(word) => SearchTrouble::Blocked {
            how: format!("a page with a {word} in place of an answer"),
        },
        None if is_html(body) => malformed("a web page in place of JSON"),
        None => malformed(format!("no JSON: {error}")),
    })
}

pub(super) fn malformed(detail: impl Into<String>) -> SearchTrouble {
    SearchTrouble::Malformed {
        detail: detail.into(),
    }
}

/// The word that gives a web page away as a challenge for robots.
pub(super) fn challenge(body: &[u8]) -> Option<&'static str> {
    if !is_html(body) {
        return None;
    }
    let head = &body[..body.len().min(CHALLENGE_BYTES)];
    let head = head.to_ascii_lowercase();
    ["captcha", "challenge"]
        .into_iter()
        .find(|word| head.windows(word.len()).any(|at| at == word.as_bytes()))
}

fn is_html(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// The results with no more of their texts than this: results are kept, and a provider may send whole books along.
pub(super) fn shortened(mut results: Vec<SearchResult>, chars_max: usize) -> Vec<SearchResult> {
    for result in &mut results {
        let text = result.text.as_deref().map(|text| cut(text, chars_max));
        result.text = text.map(Arc::from);
    }
    results
}

/// On one line, and not too long.
pub(super) fn folded(text: &str, chars_max: usize) -> Arc<str> {
    cut(&one_line(text), chars_max).into()
}

/// What excludes the word behind it, whichever engine is asked. A question means a number below zero, or a dash.
const EXCLUDES: char = '-';

/// A query without what an engine takes for `commands` at the beginning of a word: what the operator has chosen,
/// a question must not choose otherwise. Engines part words at control characters, too, so no query holds any.
pub(super) fn in_mere_words(query: &str, commands: &[char]) -> String {
    let commands = |c: char| c == EXCLUDES || commands.contains(&c);
    let words = words(query).map(|word| {
        let plain = word.trim_start_matches(commands);
        // By themselves they command nothing, and may be a name: `!!!`.
        if plain.is_empty() { word } else { plain }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SHAPE: Shape = Shape {
        list: "/web/results",
        proof: Some("/query"),
        url: "url",
        title: "title",
        snippet: "text",
        text: Some("raw"),
        is_escaped: false,
    };

    #[test]
    fn what_has_no_url_to_fetch_is_left_out_and_no_page_is_listed_twice() {
        let long = format!("https://a.example/{}", "x".repeat(Passage::URL_BYTES_MAX));
        // Three bytes as it stands there, and nine as an address.
        let wide = format!("https://a.example/{}", "か".repeat(500));
        let results = json!([
            { "url": " https://a.example/1#top ", "title": " A\n \u{1b} title ", "text": "s", "raw": " r " },
            { "url": "https://a.example/1", "title": "again" },
            { "url": "HTTPS://A.example:443/1", "title": "and again" },
            { "title": "none" },
            { "url": null },
            { "url": 7 },
            { "url": "/relative" },
            { "url": "javascript:alert(1)" },
            { "url": "ftp://a.example/" },
            { "url": "file:///etc/passwd" },
            { "url": long },
            { "url": wide },
            "no object",
            { "url": "http://b.example/", "title": ["odd"], "raw": " " },
        ]);
        let found = SHAPE
            .read(&json!({ "web": { "results": results } }))
            .unwrap();
        let [first, second] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(first.url.as_str(), "https://a.example/1");
        assert_eq!(&*first.title, "A title");
        assert_eq!(first.text.as_deref(), Some("r"));
        assert_eq!(second.url.as_str(), "http://b.example/");
        assert_eq!((&*second.title, &second.text), ("", &None));
    }

    /// Otherwise a few such answers would have the provider left alone.
    #[test]
    fn results_elsewhere_than_on_the_web_are_nothing_found_and_those_nowhere_are_trouble() {
        let long = format!("https://a.example/{}", "x".repeat(Passage::URL_BYTES_MAX));
        for (url, is_somewhere) in [
            ("ftp://a.example/", true),
            ("magnet:?xt=urn:btih:0", true),
            (long.as_str(), true),
            ("/relative", false),
            ("", false),
        ] {
            let results = json!([{ "url": "ftp://b.example/" }, { "url": url, "title": "x" }]);
            let found = SHAPE.read(&json!({ "web": { "results": results } }));
            match is_somewhere {
                true => assert_eq!(found, Ok(Vec::new()), "{url}"),
                false => assert_eq!(found, Err(malformed("results without an address: 1"))),
            }
        }
    }

    #[test]
    fn a_book_that_comes_along_is_cut() {
        let book = "word ".repeat(20_000);
        let results = json!([{ "url": "http://a.example/", "raw": book }]);
        let found = SHAPE
            .read(&json!({ "web": { "results": results } }))
            .unwrap();
        for (chars_max, chars) in [(2_000, 1_999), (50_000, 49_999), (1 << 20, 99_999)] {
            let found = shortened(found.clone(), chars_max);
            let text = found[0].text.as_deref().map(str::len);
            assert_eq!(text, Some(chars), "{chars_max}");
        }
        // A menu with blanks, and a text of a script without them.
        let book = format!("a menu {}", "か".repeat(20_000));
        let results = json!([{ "url": "http://a.example/", "raw": book }]);
        let found = SHAPE
            .read(&json!({ "web": { "results": results } }))
            .unwrap();
        let found = shortened(found, 2_000);
        let text = found[0].text.as_deref().map(|text| text.chars().count());
        assert_eq!(text, Some(2_000));
    }

    #[test]
    fn no_list_is_no_result_only_if_the_rest_proves_it() {
        for (answer, is_none) in [
            (json!({ "query": {} }), true),
            (json!({ "query": {}, "web": null }), true),
            (json!({ "query": {}, "web": { "results": [] } }), true),
            (json!({ "web": { "results": [] } }), true),
            (json!({}), false),
            (json!([]), false),
            (json!({ "query": {}, "web": { "results": {} } }), false),
            (json!({ "error": "no" }), false),
        ] {
            match SHAPE.read(&answer) {
                Ok(found) => assert!(is_none && found.is_empty(), "{answer}"),
                Err(trouble) => {
                    assert!(!is_none, "{answer}");
                    let said = trouble.to_string();
                    assert!(said.ends_with("no list `web.results` in it"), "{said}");
                }
            }
        }
    }

    #[test]
    fn a_challenge_is_told_from_other_pages() {
        let page = |body: &str| json(body.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            page("\n<html><form id=CAPTCHA>"),
            "blocks this server: a page with a captcha in place of an answer"
        );
        assert_eq!(
            page("<h1>Welcome</h1>"),
            "gave an unusable answer: a web page in place of JSON"
        );
        assert!(page("challenge").starts_with("gave an unusable answer: no JSON"));
        // It may be the answer to a question about them.
        assert!(json(br#"{"results":["captcha"]}"#).is_ok());
    }

    proptest! {
        #[test]
        fn a_cut_is_a_short_beginning(text: String, chars_max in 0..40_usize) {
            let cut = cut(&text, chars_max);
            prop_assert!(text.starts_with(cut) && cut.chars().count() <= chars_max);
        }
    }

    #[test]
    fn a_query_is_sent_in_mere_words() {
        for (query, sent) in [
            ("Who directed Airplane! ?", "Who directed Airplane! ?"),
            ("!!g :fr <3 !images <!cats", "g fr 3 images cats"),
            ("Who sings in !!! ?", "Who sings in !!! ?"),
            ("who\u{1f}!!g \u{0}!images\u{9f}", "who g images"),
            ("\u{1c} \u{0}", ""),
            ("Is -40 - or -!1 - low-key", "Is 40 - or 1 - low-key"),
        ] {
            assert_eq!(in_mere_words(query, &['!', ':', '<']), sent);
        }
    }
}
