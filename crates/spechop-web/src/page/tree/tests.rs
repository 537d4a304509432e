//! Tag soup, within limits.

use proptest::prelude::*;

use super::*;
use crate::page::extract::{Kind, extract};
use crate::search::duckduckgo;

const SMALL: Limits = Limits {
    depth: 8,
    elements: 40,
};

fn within(page: &str) -> Result<Document, TooMuch> {
    build_within(page, SMALL)
}

/// What the tree really holds: how deep, and how many elements.
fn measured(document: &Document) -> (usize, usize) {
    let tree = &document.tree;
    let ids = tree.descendant_ids_of_it(&tree.root_id());
    let depths = ids.filter(|id| tree.get(id).is_some_and(|node| node.is_element()));
    let depths = depths.map(|id| tree.ancestor_ids_of_it(&id, None).count());
    depths.fold((0, 0), |(deepest, count), depth| {
        (deepest.max(depth), count + 1)
    })
}

#[test]
fn limits_hold_to_the_element() {
    let nested = |n: usize| "<div>".repeat(n);
    // `html` and `body` stand around them, and `head` beside.
    assert_eq!(measured(&within(&nested(6)).unwrap()), (8, 9));
    assert_eq!(within(&nested(7)).err().unwrap(), TooMuch::Depth);
    assert_eq!(measured(&within(&"<br>".repeat(37)).unwrap()), (3, 40));
    assert_eq!(within(&"<br>".repeat(38)).err().unwrap(), TooMuch::Elements);
    let attributes = |n: usize| format!("<p{}>", " a".repeat(n));
    assert!(within(&attributes(256)).is_ok());
    assert_eq!(within(&attributes(257)).err().unwrap(), TooMuch::Attributes);

    assert!(build(&nested(254)).is_ok());
    assert_eq!(build(&nested(255)).err().unwrap(), TooMuch::Depth);
    assert!(build(&"<br>".repeat(19_997)).is_ok());
    assert_eq!(
        build(&"<br>".repeat(19_998)).err().unwrap(),
        TooMuch::Elements
    );
}

#[test]
fn what_people_forget_to_close_is_not_deep() {
    for (page, fits) in [
        ("<p>".repeat(30), true),
        ("<ul>".to_owned() + &"<li>".repeat(30), true),
        ("<table>".to_owned() + &"<tr><td>".repeat(10), true),
        ("<dl>".to_owned() + &"<dt>a<dd>b".repeat(10), true),
        ("<select>".to_owned() + &"<option>".repeat(30), true),
        ("<b><i></b></i>".repeat(10), true),
        ("<p><b>".repeat(10), false),
        // A `</span>` does not close what stands outside of a block.
        ("<span><div></span>".repeat(7), false),
        // A table in a table ends it, and what stands in it wrongly is put before it.
        ("<table><div>".repeat(7), true),
        ("<a><div>".repeat(7), false),
        ("<svg>".repeat(7), false),
        // Few tags, and many elements: each paragraph opens all of them anew.
        (
            (0..5)
                .map(|n| format!("<p><b id={n}></p>"))
                .collect::<String>()
                + &"<p>x".repeat(9),
            false,
        ),
    ] {
        assert_eq!(within(&page).is_ok(), fits, "{page}");
    }
}

#[test]
fn no_text_is_longer_than_the_limit_wherever_it_comes_from() {
    let letters = "&amp;".repeat(TEXT_BYTES_MAX - 1_000);
    let pages = [
        letters.repeat(3),
        // What stands in a table wrongly is put before it, and each row lies between two such texts.
        format!("<table>{}", format!("{letters}<tr>").repeat(4)),
        format!("{letters}<table>{letters}</table>"),
        format!(
            "<table>{}",
            format!("{letters}<input type=hidden>").repeat(3)
        ),
        format!("{letters}<b><p></b>{letters}</p>{letters}"),
    ];
    for page in pages {
        let document = build(&page).unwrap();
        let tree = &document.tree;
        let nodes = tree.descendant_ids_of_it(&tree.root_id());
        let nodes = nodes.filter_map(|id| tree.get(&id));
        let texts = nodes.filter(|node| node.is_text());
        let longest = texts.map(|node| node.text().len()).max().unwrap();
        let begin = &page[..30];
        assert!(
            (TEXT_BYTES_MAX - 1_000..=TEXT_BYTES_MAX).contains(&longest),
            "{begin}: {longest}"
        );
    }
}

#[test]
fn what_no_reader_sees_is_not_in_the_tree() {
    let page = "<title>A &amp; B</title><script>if (a<b) '</p>'</script><style>p {}</style><p>one\
        <!-- <p>no --><textarea><p>no</textarea><iframe><p>no</iframe><xmp><p>no</xmp>two\
        <noscript>three</noscript><script src=x/><p>no</script><script/>four<svg><title>five</title>\
        <style><p>no</style></svg>six<plaintext>seven<title/><b>eight</b>";
    let document = build(page).unwrap();
    assert_eq!(&*document.select("head title").text(), "A & B");
    assert_eq!(
        &*document.select("body").text(),
        "onetwothreefourfivesixseveneight"
    );
    assert_eq!(
        document
            .select("script, style, textarea, iframe, xmp")
            .length(),
        0
    );
}

#[test]
fn nothing_is_kept_that_nobody_reads() {
    let long = "x".repeat(TEXT_BYTES_MAX);
    let page = format!("<p>{long}y<p>{long}<i>z</i>{long}<a title='{long}' href=b>");
    let document = build(&page).unwrap();
    assert_eq!(document.select("body").text().len(), 3 * TEXT_BYTES_MAX + 1);
    let link = document.select("a");
    assert!(link.attr("title").is_none());
    assert_eq!(link.attr("href").as_deref(), Some("b"));
}

/// Pieces that change how everything behind them is read.
const PIECES: &[&str] = &[
    "<p>",
    "</p>",
    "<b>",
    "</b>",
    "<b id=1>",
    "<i>",
    "</i>",
    "<a>",
    "</a>",
    "<div>",
    "</div>",
    "<span>",
    "</span>",
    "<table>",
    "</table>",
    "<tr>",
    "<td>",
    "</td>",
    "<th>",
    "<caption>",
    "<col>",
    "<tbody>",
    "<li>",
    "<ul>",
    "</ul>",
    "<dd>",
    "<h1>",
    "<h2>",
    "</h1>",
    "<form>",
    "</form>",
    "<button>",
    "</button>",
    "<select>",
    "</select>",
    "<option>",
    "<optgroup>",
    "<input>",
    "<hr>",
    "<br>",
    "</br>",
    "<svg>",
    "</svg>",
    "<math>",
    "<mi>",
    "<annotation-xml encoding=text/html>",
    "<foreignObject>",
    "<desc>",
    "<title>",
    "</title>",
    "<title/>",
    "<textarea>",
    "</textarea>",
    "<script>",
    "</script>",
    "<script/>",
    "<style>",
    "</style>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<!doctype html>",
    "<html>",
    "</html>",
    "<head>",
    "</head>",
    "<body>",
    "</body>",
    "<frameset>",
    "</frameset>",
    "<frame>",
    "<template>",
    "</template>",
    "<noscript>",
    "</noscript>",
    "<plaintext>",
    "<iframe>",
    "</iframe>",
    "<xmp>",
    "<marquee>",
    "</marquee>",
    "<applet>",
    "<nobr>",
    "<ruby>",
    "<rt>",
    "<pre>",
    "\n",
    "<image>",
    "<isindex>",
    "<object>",
    "<font color=a>",
    "</font>",
    "<center>",
    "text",
    " ",
    "\0",
    "&amp",
    "<?pi?>",
    "<",
    "</",
    "<a ",
    "='",
    "'",
];

/// One more attribute than a tag may have.
fn too_many() -> String {
    let attributes = (0..=html::ATTRIBUTES_MAX).map(|n| format!(" a{n}"));
    format!("<p{}>", attributes.collect::<String>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No soup breaks the builder, and a tree that comes out is within the limits.
    #[test]
    fn no_soup_is_too_much(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..120)) {
        // A tag that is too much, or is none, as all that stands before it will have it. If the count
        // and the tokeniser differ on that, the filter notices.
        let page = pieces.concat().replace("<isindex>", &too_many());
        if let Ok(document) = within(&page) {
            let (depth, elements) = measured(&document);
            prop_assert!(depth <= SMALL.depth + 1 && elements <= SMALL.elements, "{depth} {elements}: {page}");
        }
        // Nor a tree that has its scripts.
        let _ = duckduckgo::parse(page.as_bytes());
        // Nor what stands on it.
        if let Ok(extract) = extract(page.as_bytes(), Kind::Html, None, true, 100) {
            prop_assert!((1..=100).contains(&extract.text.chars().count()));
        }
    }
}
