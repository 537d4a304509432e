//! DuckDuckGo's page for browsers without scripts: the paper's engine. It has no interface for
//! programs, and shuts out whoever asks often; so it wants a slow pace.

use std::sync::LazyLock;

use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;
use scraper::{ElementRef, Html, HtmlTreeSink, Selector};
use spechop_ports::{SearchResult, SearchTrouble};
use spechop_text::html;
use url::{Url, form_urlencoded};

use super::asked::EngineAdapter;
use super::listing::{Listing, cut, in_mere_words, malformed};
use crate::http::{Answer, Http};
use crate::markup::{self, Tree};

/// What it takes.
const QUERY_CHARS_MAX: usize = 499;

/// What a word begins with that sends the browser elsewhere: to another site (`!`), or to the first result (`\`).
const COMMANDS: [char; 2] = ['!', '\\'];

/// Most tags of a page, and most nodes of the tree that they make. Its own pages have about 1,200 tags;
/// more would only cost time and memory. Some orders of tags make a tree of the square of their number.
const TAGS_MAX: usize = 3000;
const NODES_MAX: usize = 20_000;

/// DuckDuckGo.
pub(super) struct DuckDuckGo {
    pub(super) region: String,
}

impl EngineAdapter for DuckDuckGo {
    fn words(&self, query: &str) -> String {
        in_mere_words(query, &COMMANDS)
    }

    fn request(&self, http: &Http, words: &str, _limit: usize) -> RequestBuilder {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("q", cut(words, QUERY_CHARS_MAX))
            .append_pair("b", "")
            .append_pair("kl", &self.region)
            .finish();
        http.post(http.base().clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form)
    }

    fn read(&self, answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
        match answer.status.as_u16() {
            // To what it has no page for.
            303 => Ok(Vec::new()),
            status @ (202 | 403) => Err(SearchTrouble::Blocked {
                how: format!("status {status}"),
            }),
            _ => parse(answer.body()?),
        }
    }

    fn so_far(&self, body: &[u8]) -> Option<Vec<SearchResult>> {
        so_far(body)
    }
}

/// What a page that is still coming lists so far.
fn so_far(body: &[u8]) -> Option<Vec<SearchResult>> {
    let page = tree(body).ok()?;
    Some(listing(&page, selectors()?).results().unwrap_or_default())
}

/// What is looked for in a page.
struct Selectors {
    challenge: Selector,
    list: Selector,
    result: Selector,
    title: Selector,
    snippet: Selector,
}

/// What a whole page ends with.
const END: &[u8] = b"</html>";

/// Reads a page.
pub fn parse(body: &[u8]) -> Result<Vec<SearchResult>, SearchTrouble> {
    let Some(selectors) = selectors() else {
        return Err(malformed("our own selectors do not parse"));
    };
    let page = tree(body)?;
    if page.select(&selectors.challenge).next().is_some() {
        let how = "a challenge in place of results".to_owned();
        return Err(SearchTrouble::Blocked { how });
    }
    if page.select(&selectors.list).next().is_none() {
        return Err(malformed("no list of results in the page"));
    }
    let results = listing(&page, selectors).results()?;
    // Half a page without results is not a page without results.
    if results.is_empty()
        && !body
            .windows(END.len())
            .any(|end| end.eq_ignore_ascii_case(END))
    {
        return Err(malformed("the page ends before its end"));
    }
    Ok(results)
}

/// What a page lists.
fn listing(page: &Html, selectors: &Selectors) -> Listing {
    let mut listing = Listing::default();
    for result in page.select(&selectors.result) {
        let title = result.select(&selectors.title).next();
        let url = title.and_then(|title| title.attr("href")).and_then(target);
        let url = url.as_ref().map_or("", Url::as_str);
        let snippet = result.select(&selectors.snippet).next();
        let snippet = snippet.map(text).unwrap_or_default();
        let title = title.map(text).unwrap_or_default();
        listing.push(url, &title, &snippet, None);
    }
    listing
}

/// The page as a tree, within bounds.
fn tree(body: &[u8]) -> Result<Html, SearchTrouble> {
    let tags = body.iter().filter(|&&byte| byte == b'<').count();
    if tags > TAGS_MAX {
        return Err(malformed(format!("a page of {tags} tags")));
    }
    let text = String::from_utf8_lossy(body);
    let page = markup::build(&text, HtmlTreeSink::new(Html::new_document()));
    let many = |html::Hostile| malformed("a tag with too many attributes");
    let page = page.map_err(many)?;
    match has_too_many_nodes(&page) {
        true => Err(malformed(format!("a page of more than {NODES_MAX} nodes"))),
        false => Ok(page),
    }
}

fn has_too_many_nodes(page: &Html) -> bool {
    page.tree.values().len() > NODES_MAX
}

impl Tree for HtmlTreeSink {
    /// A challenge is known by its script.
    const RAW: &'static [&'static str] = &["script"];
    /// An address is never cut.
    const ATTRIBUTE_BYTES_MAX: usize = usize::MAX;

    fn is_full(&self) -> bool {
        has_too_many_nodes(&self.0.borrow())
    }
}

fn selectors() -> Option<&'static Selectors> {
    static SELECTORS: LazyLock<Option<Selectors>> = LazyLock::new(|| {
        let parse = |selector| Selector::parse(selector).ok();
        Some(Selectors {
            challenge: parse(
                "form#challenge-form, form[action*='anomaly.js'], script[src*='anomaly.js']",
            )?,
            list: parse("#links")?,
            result: parse("#links > div.web-result:not(.result--ad)")?,
            title: parse("h2 a[href]")?,
            snippet: parse("a.result__snippet")?,
        })
    });
    SELECTORS.as_ref()
}

/// Where a link of its own leads to: it redirects, and the target is a parameter.
fn target(href: &str) -> Option<Url> {
    let own = Url::parse("https://duckduckgo.com/").ok()?;
    let url = own.join(href).ok()?;
    let host = url.host_str()?;
    if host != "duckduckgo.com" && !host.ends_with(".duckduckgo.com") {
        return Some(url);
    }
    let target = url.query_pairs().find(|(name, _)| name == "uddg");
    // Without a target it is a page of its own: an advertisement, or help.
    Url::parse(&target?.1).ok()
}

fn text(element: ElementRef<'_>) -> String {
    element.text().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::asked::{LOOK_BYTES, Listed};

    const PAGE: &[u8] = include_bytes!("../../tests/recorded/duckduckgo.html");

    #[test]
    fn results_are_told_while_the_page_comes_each_once_and_whole() {
        let all = parse(PAGE).unwrap();
        for limit in [1, all.len()] {
            for piece in [1, 700, LOOK_BYTES, PAGE.len()] {
                let (mut listed, mut told) = (Listed::default(), Vec::new());
                let ends = (piece..PAGE.len()).step_by(piece).chain([PAGE.len()]);
                for end in ends {
                    listed.tell(&PAGE[..end], limit, so_far, &mut |result| told.push(result));
                }
                assert!(!told.is_empty(), "{limit} {piece}");
                assert_eq!(told[..], all[..told.len()], "{limit} {piece}");
                assert!(told.len() <= limit);
            }
        }
    }

    #[test]
    fn a_long_page_is_looked_at_a_few_times() {
        let body = "x".repeat(2 << 20);
        let (mut listed, mut looks) = (Listed::default(), 0);
        for end in (500..=body.len()).step_by(500) {
            let next = listed.next;
            listed.tell(&body.as_bytes()[..end], 5, so_far, &mut |result| {
                panic!("{result:?}")
            });
            looks += usize::from(listed.next != next);
        }
        assert!((2..60).contains(&looks), "{looks}");
    }

    #[test]
    fn what_is_no_page_of_results_tells_nothing() {
        let challenge = include_bytes!("../../tests/recorded/duckduckgo-challenge.html");
        let none = include_bytes!("../../tests/recorded/duckduckgo-none.html");
        let tags = "<b>".repeat(TAGS_MAX + 1);
        let attributes = format!("<a{}>", " a".repeat(html::ATTRIBUTES_MAX + 1));
        assert!(parse(attributes.as_bytes()).is_err());
        // Raw text for whoever counts attributes, and tags for a tree builder that is asked.
        let hidden = format!("<svg><style>{attributes}{}", String::from_utf8_lossy(PAGE));
        for body in [
            &challenge[..],
            &none[..],
            tags.as_bytes(),
            attributes.as_bytes(),
            hidden.as_bytes(),
        ] {
            let mut listed = Listed::default();
            listed.tell(&body.repeat(10), 5, so_far, &mut |result| {
                panic!("{result:?}")
            });
        }
    }
}
