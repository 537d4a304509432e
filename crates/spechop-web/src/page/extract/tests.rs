//! What of a page is its text.

use super::*;

fn read(page: &str) -> Result<Extract, String> {
    extract(page.as_bytes(), Kind::Html, None, true, 10_000)
}

fn prose(words: usize) -> String {
    let sentence =
        "The river rises in the hills, turns east at the old mill, and reaches the sea. ";
    sentence.repeat(words.div_ceil(16))
}

#[test]
fn the_article_is_taken_and_not_what_stands_around_it() {
    let page = format!(
        "<title>The river Ouse - Rivers</title><nav><a href=/>Home</a></nav><div class=sidebar>Popular: lakes</div>\
         <article><h1>The river Ouse</h1><p>{}</p><p>{}</p><ul><li>First bridge</li><li>Second bridge</li></ul>\
         </article><div class=comments><p>Nice!</p></div><footer>Terms</footer>",
        prose(100),
        prose(100)
    );
    let found = read(&page).unwrap();
    assert_eq!(found.title, "The river Ouse");
    let lines: Vec<&str> = found.text.lines().collect();
    assert!(
        lines.contains(&"First bridge") && lines.contains(&"Second bridge"),
        "{lines:?}"
    );
    for around in ["Home", "Popular", "Terms"] {
        assert!(!found.text.contains(around), "{around}: {}", found.text);
    }
}

/// To compare every part of it would take an hour.
#[test]
fn a_title_is_cut_before_its_parts_are_compared() {
    let title = "a - ".repeat(470_000);
    let nested = "<div>".repeat(300);
    let found = read(&format!("<title>{title}</title>{nested}text")).unwrap();
    assert!(title.starts_with(&found.title) && found.title.len() <= TITLE_CHARS_MAX);
    assert_eq!(found.text, "text");
}

#[test]
fn headings_are_known_as_such() {
    let page = format!(
        "<title>Rivers</title><article><p>{0}</p><h2>The Ouse <small>[1]</small></h2><p>{0}</p><h3>Bridges</h3><p>{0}</p></article>",
        prose(80)
    );
    let found = read(&page).unwrap();
    let lines: Vec<&str> = found.text.lines().collect();
    let headings: Vec<&str> = found.headings.iter().map(|h| lines[h.line]).collect();
    assert_eq!(headings, ["The Ouse", "Bridges"]);
    // Those that are cut off are none.
    let short = extract(page.as_bytes(), Kind::Html, None, true, 700).unwrap();
    assert!(
        short.headings.len() < 2
            && short
                .headings
                .iter()
                .all(|heading| heading.line < short.text.lines().count())
    );
}

/// Readability drops short paragraphs before the article, which often say whom it is about.
#[test]
fn what_stands_between_a_heading_and_its_article_is_read_whatever_the_title_adds() {
    for title in ["The Ouse", "The Ouse - Rivers"] {
        let page = format!(
            "<title>{title}</title><div class=header><h1>The Ouse</h1><p>A river.</p></div>\
             <div class=article><p>{0}</p><p>{0}</p></div>",
            prose(100)
        );
        let found = read(&page).unwrap();
        assert_eq!(found.title, "The Ouse", "{title}");
        let lead = found.text.lines().find(|line| *line != "The Ouse");
        assert_eq!(lead, Some("A river."), "{title}");
    }
}

/// A banner is no heading of an article that has another title.
#[test]
fn what_stands_between_a_banner_and_the_article_is_not_read() {
    let page = format!(
        "<title>Example News</title><meta property=og:title content=\"Ana Ruiz\"><h1>Example News</h1>\
         <div class=sidebar><p>We use cookies.</p></div><h2>Ana Ruiz</h2><div class=article><p>{0}</p><p>{0}</p></div>",
        prose(100)
    );
    let found = read(&page).unwrap();
    assert_eq!(found.title, "Ana Ruiz");
    assert_eq!(
        found.text.lines().next(),
        Some("Ana Ruiz"),
        "{}",
        found.text
    );
}

/// Readability takes the long teasers for the article and drops the heading of the first.
#[test]
fn a_short_article_keeps_its_place_before_long_teasers() {
    let teaser = |name: &str| format!("<h3><a href=/{name}>{name}</a></h3><p>{}</p>", prose(60));
    let page = format!(
        "<title>The Ouse | Rivers</title><ul><li><a href=/>Home</a></ul><article><h1>The Ouse</h1><p>A river.</p></article>\
         <section><h2>More</h2>{}{}</section>",
        teaser("Oder"),
        teaser("Elbe")
    );
    let found = read(&page).unwrap();
    let lines: Vec<&str> = found.text.lines().collect();
    let headings = found.headings.iter().map(|h| (lines[h.line], h.link));
    assert_eq!(found.title, "The Ouse");
    assert_eq!(lines[..2], ["The Ouse", "A river."]);
    assert_eq!(
        headings.collect::<Vec<_>>(),
        [
            ("The Ouse", false),
            ("More", false),
            ("Oder", true),
            ("Elbe", true)
        ]
    );
}

/// One of many entries is no more than a part of what can be read.
#[test]
fn a_page_of_many_entries_is_all_that_can_be_seen_but_its_menus() {
    let entry = |name: &str, words: usize| {
        let title = format!("<div class=post-title><a href=/{name}>{name}</a></div>");
        format!(
            "<div class=post>{title}<div class=entry>{}</div></div>",
            prose(words)
        )
    };
    let page = format!(
        "<title>Notes</title><div id=menu><p><a href=/>Home</a></p></div>{}{}{}",
        entry("Ouse", 40),
        entry("Oder", 90),
        entry("Elbe", 40)
    );
    let found = read(&page).unwrap();
    let lines: Vec<&str> = found.text.lines().collect();
    let headings: Vec<&str> = found.headings.iter().map(|h| lines[h.line]).collect();
    assert_eq!(headings, ["Ouse", "Oder", "Elbe"]);
    assert_eq!(lines.len(), 6, "{lines:?}");
}

#[test]
fn a_page_without_an_article_is_all_that_can_be_seen() {
    let page = "<title>Ana Ruiz</title><table><tr><th>Born<td>5 May 1990<tr><th>Died<td>never</table>\
        <div>Films: two</div>";
    let found = read(page).unwrap();
    assert_eq!(found.title, "Ana Ruiz");
    for seen in ["Born", "5 May 1990", "Films: two"] {
        assert!(found.text.contains(seen), "{}", found.text);
    }
    // A title in a wrong place is one, too.
    let late = format!(
        "<img src=x><title>Late</title><article><p>{}</p></article>",
        prose(200)
    );
    assert_eq!(read(&late).unwrap().title, "Late");
}

/// As of a menu: what a reader is shown there is seldom text, but here it is all of it.
#[test]
fn an_article_where_usually_no_text_is_seen_is_plain_text() {
    let page = format!(
        "<title>The Ouse</title><p>Shared by 12 people.</p><menu><div><p>{0}</p><p>{0}</p></div></menu>",
        prose(100)
    );
    let blocks = html::parse(&page).unwrap().blocks;
    assert_eq!(blocks.len(), 1, "{blocks:?}");
    let found = read(&page).unwrap();
    assert!(found.text.contains("The river rises"), "{}", found.text);
    assert_eq!((&*found.title, found.headings), ("The Ouse", Vec::new()));
}

#[test]
fn a_page_that_takes_too_much_is_all_that_can_be_seen() {
    for costly in ["<div>".repeat(1_000), "<br>".repeat(20_000)] {
        let page = format!("<title>Ana Ruiz</title><nav>Home</nav><p>She films.</p>{costly}A lot.");
        let found = read(&page).unwrap();
        assert_eq!(
            (&*found.title, &*found.text),
            ("Ana Ruiz", "She films.\nA lot.")
        );
    }
}

#[test]
fn what_cannot_be_read_says_why() {
    for (page, why) in [
        ("", "it has no text"),
        ("<p> \u{a0}\n</p>", "it has no text"),
        ("<script>text()</script>", "it has no text"),
        ("\0\0\0\0", "its bytes are no text"),
    ] {
        assert_eq!(read(page), Err(why.to_owned()), "{page:?}");
    }
    let attributes = format!("<p{}>text", " a".repeat(300));
    let why = "a tag with too many attributes".to_owned();
    assert_eq!(read(&attributes), Err(why));
}

/// Nobody sees it for longer than a moment.
#[test]
fn a_page_that_only_leads_to_another_is_none() {
    for (content, words, is_read) in [
        ("0; url=/there", 16, false),
        ("0;URL='https://there.example/'", 16, false),
        ("5, /there", 16, false),
        // It says more.
        ("0; url=/there", 200, true),
        // It may be read for a minute, or is the same again.
        ("60; url=/there", 16, true),
        ("0", 16, true),
        ("no number; url=/there", 16, true),
    ] {
        let page = format!(
            "<title>Moved</title><meta http-equiv=Refresh content=\"{content}\"><p>{}</p>",
            prose(words)
        );
        let found = read(&page);
        assert_eq!(found.is_ok(), is_read, "{content} {found:?}");
        let why = found.err().unwrap_or_default();
        assert!(is_read || why == "it only leads to another page", "{why}");
    }
}

/// What stands out is too little to be all that there is to read.
#[test]
fn a_short_article_does_not_leave_out_what_stands_around_it() {
    let page = |words: usize| {
        format!(
            "<title>The Ouse</title><ul><li><a href=/>Home</a></ul>\
             <table><tr><td>Length<td>ninety miles</table>\
             <article><h1>The Ouse</h1><p>{}</p></article>",
            prose(words)
        )
    };
    for (words, is_around) in [(48, true), (160, false)] {
        let text = read(&page(words)).unwrap().text;
        assert!(text.contains("reaches the sea"), "{text}");
        assert_eq!(text.contains("ninety miles"), is_around, "{text}");
        assert!(!text.contains("Home"), "{text}");
    }
}

#[test]
fn a_page_of_nothing_but_links_is_its_links() {
    let page = "<title>Rivers</title><ul><li><a href=/ouse>The Ouse</a><li><a href=/oder>The Oder</a></ul>";
    let found = read(page).unwrap();
    assert_eq!(
        (&*found.title, &*found.text),
        ("Rivers", "The Ouse\nThe Oder")
    );
    // Beside a text they are a menu.
    let text = prose(32);
    let found = read(&format!("{page}<p>{text}</p>")).unwrap();
    assert_eq!(&*found.text, text.trim());
}
