//! What the pure readers make of an answer.

use spechop_ports::{SearchResult, SearchTrouble};
use spechop_web::search::{brave, duckduckgo, mediawiki, searxng, serper, tavily};

use super::recorded;

/// Each result as a line: host and path, title, and how many bytes of snippet and text.
fn lines(found: Result<Vec<SearchResult>, SearchTrouble>) -> Vec<String> {
    let found = found.expect("results");
    let line = |result: SearchResult| {
        let SearchResult {
            url,
            title,
            snippet,
            text,
        } = result;
        let (host, path) = (url.host_str().unwrap_or_default(), url.path());
        let text = text.map_or_else(|| "none".to_owned(), |text| text.len().to_string());
        format!("{host}{path} | {title} | {} | {text}", snippet.len())
    };
    found.into_iter().map(line).collect()
}

#[test]
fn results_are_read_in_order_and_what_is_none_is_left_out() {
    assert_eq!(
        lines(searxng::parse(recorded!("searxng.json"))),
        [
            "en.wikipedia.org/wiki/Polish-Russian_War_(film) | Polish-Russian War (film) | 92 | none",
            "www.imdb.com/title/tt1288570/ | Snow White and Russian Red (2009) - IMDb | 45 | none",
        ]
    );
    assert_eq!(
        lines(duckduckgo::parse(recorded!("duckduckgo.html"))),
        [
            "en.wikipedia.org/wiki/Polish-Russian_War_(film) | Polish-Russian War (film) - Wikipedia \
             | 124 | none",
            "www.imdb.com/title/tt1288570/ | Snow White and Russian Red (2009) | 0 | none",
        ]
    );
    assert_eq!(
        lines(brave::parse(recorded!("brave.json"))),
        [
            "en.wikipedia.org/wiki/List_of_rivers_of_France | List of rivers of France - Wikipedia \
             | 63 | none",
            "www.worldatlas.com/rivers-france.html | Rivers in France | 41 | none",
        ]
    );
    assert_eq!(
        lines(tavily::parse(recorded!("tavily.json"))),
        [
            "en.wikipedia.org/wiki/Polish-Russian_War_(film) | Polish-Russian War (film) - Wikipedia \
             | 71 | 159",
            "www.filmweb.pl/film/Wojna+polsko-ruska-2009-427423 | Wojna polsko-ruska (2009) | 23 | none",
        ]
    );
    assert_eq!(
        lines(serper::parse(recorded!("serper.json"))),
        [
            "en.wikipedia.org/wiki/Xawery_%C5%BBu%C5%82awski | Xawery Żuławski | 95 | none",
            "www.imdb.com/name/nm0956867/ | Xawery Zulawski - IMDb | 9 | none",
        ]
    );
    // By rank, not by number of page.
    assert_eq!(
        lines(mediawiki::parse(recorded!("mediawiki.json"))),
        [
            "en.wikipedia.org/wiki/Polish%E2%80%93Russian_War_(film) | Polish–Russian War (film) \
             | 0 | 176",
            "en.wikipedia.org/wiki/Xawery_%C5%BBu%C5%82awski | Xawery Żuławski | 0 | 78",
            "en.wikipedia.org/wiki/Dorota_Mas%C5%82owska | Dorota Masłowska | 0 | none",
        ]
    );
}

#[test]
fn nothing_found_is_no_trouble() {
    for found in [
        searxng::parse(recorded!("searxng-none.json")),
        duckduckgo::parse(recorded!("duckduckgo-none.html")),
        brave::parse(recorded!("brave-none.json")),
        tavily::parse(recorded!("tavily-none.json")),
        serper::parse(recorded!("serper-none.json")),
        mediawiki::parse(recorded!("mediawiki-none.json")),
    ] {
        assert_eq!(found, Ok(Vec::new()));
    }
}

#[test]
fn what_brave_escapes_is_text_again() {
    let answer =
        br#"{"query": {}, "web": {"results": [{"url": "http://a.example/", "title": "R&amp;D",
        "description": "meaning &quot;good&quot; &lt; O&#x27;Brien & 3 <5> <b>"}]}}"#;
    let found = brave::parse(answer).unwrap();
    assert_eq!(&*found[0].title, "R&D");
    assert_eq!(&*found[0].snippet, "meaning \"good\" < O'Brien & 3 <5> <b>");
}

#[test]
fn a_searxng_whose_engines_do_not_answer_has_not_found_nothing() {
    let said = |body: &[u8]| searxng::parse(body).unwrap_err().to_string();
    assert_eq!(
        said(recorded!("searxng-blocked.json")),
        "cannot be reached: its engines are blocked: duckduckgo (Suspended: CAPTCHA), \
         google (Suspended: too many requests), startpage (access denied)"
    );
    assert_eq!(
        said(recorded!("searxng-unresponsive.json")),
        "cannot be reached: its engines do not answer: bing (timeout), google (CAPTCHA), \
         qwant (HTTP connection error), mojeek (timeout), brave (timeout) and 1 more"
    );
    // Others have answered.
    let some =
        br#"{"results":[],"suggestions":["r"],"unresponsive_engines":[["google","CAPTCHA"]]}"#;
    assert_eq!(searxng::parse(some).unwrap(), []);
    // What they said may be anything.
    let odd = br#"{"results":[],"unresponsive_engines":["x",["y"],[1,2],{}]}"#;
    assert!(
        said(odd).ends_with("y (unknown), unknown (unknown), unknown (unknown)"),
        "{}",
        said(odd)
    );
}

#[test]
fn a_page_that_only_costs_time_and_memory_is_not_read() {
    let said = |page: &str| duckduckgo::parse(page.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        said(&"<div>".repeat(100_000)),
        "gave an unusable answer: a page of 100000 tags"
    );
    // Each paragraph opens again what was open in the first: a tree of a million nodes.
    let mut page = "<p>".to_owned();
    page.extend((0..990).map(|n| format!("<b x={n}>")));
    page.push_str(&"</p><p>x".repeat(990));
    assert_eq!(
        said(&page),
        "gave an unusable answer: a page of more than 20000 nodes"
    );
}
