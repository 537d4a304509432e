//! Pages as people write them, and as nobody should.

use std::time::Duration;

use super::*;
use crate::document::shown;

#[track_caller]
fn check(page: &str, title: Option<&str>, blocks: &[&str]) {
    let document = parse(page).unwrap();
    assert_eq!(document.title.as_deref(), title, "{page}");
    assert_eq!(shown(&document), blocks, "{page}");
}

#[test]
fn a_page_is_its_title_and_its_visible_text() {
    check("", None, &[]);
    check("no markup &amp; &eacute;&#x21;", None, &["no markup & é!"]);
    check(
        "<!DOCTYPE html><html><head><meta charset=utf-8><title>Ana &amp; Co</title>\
         <style>p { color: red }</style><script>if (1 < 2) document.write('<p>no</p>')</script></head>\
         <body><nav><ul><li>Home</ul></nav><h1>Ana Ruiz</h1><p>She <b>fil</b>ms.<br>A lot.\
         <!-- <p>not this</p> --><p>Second<div>Third</div></body></html>",
        Some("Ana & Co"),
        &["# Ana Ruiz", "She films. A lot.", "Second", "Third"],
    );
    check(
        "<h2>Early life</h2>Born <i>in</i>\n Cádiz",
        Some("Early life"),
        &["Born in Cádiz"],
    );
    check(
        "<table><tr><th>Born<td>5 May<tr><td>Died<td>never</table>",
        None,
        &["Born 5 May", "Died never"],
    );
}

#[test]
fn text_goes_on_across_what_ends_no_block() {
    for (page, block) in [
        ("<p>www<wbr/>.apple<wbr>.com", "www.apple.com"),
        (
            "<p>Directed by <span itemprop=director><meta itemprop=url content=/x>Jan Kot</span>.",
            "Directed by Jan Kot.",
        ),
        (
            "<p>a <nobr>b</nobr> <picture><source srcset=x><img src=x></picture> c<link href=x>d",
            "a b cd",
        ),
        // How a word is spoken is not read twice, whether or not that has an end.
        (
            "私は<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>が好き。",
            "私は漢字が好き。",
        ),
        (
            "私は<ruby><rb>漢字<rp>(<rt>かんじ<rp>)</ruby>が好き。",
            "私は漢字が好き。",
        ),
        ("<p>Donau&shy;dampf &shy; &#xfeff;b", "Donaudampf b"),
    ] {
        check(page, None, &[block]);
    }
}

#[test]
fn headings_are_known_by_element_class_or_boldness() {
    for (page, blocks) in [
        ("<p>a<h4>Life</h4>b", &["a", "# Life", "b"][..]),
        (
            "<p>a<div class='post-title x'><a href=/>Life</a></div>b",
            &["a", "# Life", "b"],
        ),
        (
            "<p>a<div class=Headline>Life</div><p>b",
            &["a", "# Life", "b"],
        ),
        ("<p>a<p><b>Life</b></p><p>b", &["a", "# Life", "b"]),
        (
            "<p>a<p><a href=/><strong>Life</strong></a><br>b c",
            &["a", "# Life", "b c"],
        ),
        // A bold word, a bold beginning, a bold end.
        ("<p>a<p>b <b>bold</b> c", &["a", "b bold c"]),
        ("<p>a<p><b>Life</b> b<br>c", &["a", "Life b c"]),
        ("<p>a<p>b <b>Life</b><br>c", &["a", "b Life c"]),
        // Words of a row, a name of no heading, an inline element.
        (
            "<p>a<table><tr><th><b>Born</b><td>5 May</table>",
            &["a", "Born 5 May"],
        ),
        ("<p>a<div class='untitled subtitles'>b</div>", &["a", "b"]),
        ("<p>a <span class=title>b</span> c", &["a b c"]),
        // One that was never closed.
        ("<p>a<p><b>Life<p>b c", &["a", "# Life", "b c"]),
        // Something else comes before its text.
        (
            "<p>a<h2><svg><path/></svg> Life</h2><p>b",
            &["a", "# Life", "b"],
        ),
        ("<p>a<h2><div>Life</div></h2><p>b", &["a", "# Life", "b"]),
        ("<p>a<h2></h2><p>b", &["a", "b"]),
        ("<body class=no-title><div>a</div><p>b", &["a", "b"]),
        // What holds more than a heading may have such a class, too.
        (
            "<p>a<div class='box no-title'><p>b</p><p>c</p></div>",
            &["a", "b", "c"],
        ),
    ] {
        check(page, first(blocks), blocks);
    }
    let long = "word ".repeat(31);
    let page = format!("<p>a<div class=title>{long}</div>");
    check(&page, None, &["a", long.trim()]);
}

#[test]
fn a_block_that_is_a_link_from_end_to_end_is_one() {
    for (page, links) in [
        (
            "<p>a<li><a href=/home>Home <b>page</b></a><p>b",
            &["Home page"][..],
        ),
        (
            "<p>a<h2><a href='https://h/x'>Life</a> <small>[edit]</small></h2><p>b",
            &["# Life"],
        ),
        (
            "<p>a<a href=/x><h3>Life</h3><p>A teaser.</p></a><p>b",
            &["# Life", "A teaser."],
        ),
        // A place on this page, or none; words around a link.
        (
            "<p>a<h2><a href=' #life'>Life</a></h2><p><a name=b>b</a>",
            &[],
        ),
        ("<p>See <a href=/x>Life</a><p><a href=/x>Life</a>!", &[]),
        (
            "<p><a href=/x>Life</a><a href=/y>Death</a><p>b",
            &["LifeDeath"],
        ),
        ("<p><a href=/x>Life<p>b</a><p>c", &["Life", "b"]),
        // The number of a note is no word of it.
        (
            "<p>a<p><a href=/x>Life</a><sup><a href=/n>[1]</a></sup><p>b",
            &["Life"],
        ),
    ] {
        let document = parse(page).unwrap();
        let found = document.blocks.iter().filter(|block| block.link);
        let found: Vec<String> = found.map(ToString::to_string).collect();
        assert_eq!(found, links, "{page}");
    }
}

#[test]
fn marks_of_notes_and_for_editors_are_left_out() {
    for (page, block) in [
        (
            "<p>a<h2>Life<span>[<a href=/>edit</a>]</span></h2>",
            "# Life",
        ),
        (
            "<p>a<h2>Life <small>[Edit source]</small> [hide]</h2>",
            "# Life",
        ),
        (
            "<p>a<h2>Life<sup>[1]</sup><a href=#life>¶</a></h2>",
            "# Life",
        ),
        // Part of a name, and all that there is.
        ("<p>a<h2>Life [live]</h2>", "# Life [live]"),
        ("<p>a<h2>[edit]</h2>", "# [edit]"),
        (
            "<p>a<p>Born in 1970.<sup>[1]</sup><sup id=x><a href=#n>[note 2]</a></sup> Died.",
            "Born in 1970. Died.",
        ),
        (
            "<p>a<p>Умер.<sup>[примечание 12]</sup> Ждёт.",
            "Умер. Ждёт.",
        ),
        (
            "<p>a<p>m<sup>2</sup>, x<sup>[a long remark that is more]</sup>",
            "m2, x[a long remark that is more]",
        ),
        ("<p>a<p>in [1] it says [edit]", "in [1] it says [edit]"),
        ("<p>a<p>b<sup><p>[1]</sup>", "b"),
    ] {
        let document = parse(page).unwrap();
        assert_eq!(shown(&document)[1], block, "{page}");
    }
}

/// Without a title, a page has that of its first heading.
fn first<'a>(blocks: &[&'a str]) -> Option<&'a str> {
    blocks.iter().find_map(|block| block.strip_prefix("# "))
}

#[test]
fn what_no_reader_sees_is_left_out() {
    for unseen in [
        "<template><p>no<div>no</div></template>",
        "<noscript><img src=x>no</noscript>",
        "<div hidden>no<div>no</div>no</div>",
        "<p style='Display: none'>no</p>",
        "<div role=navigation>no</div>",
        "<svg><title>no</title><style>no</style><path d='M 1 2'/></svg>",
        "<select><option>no<option>no</select>",
        "<textarea><p>no</textarea>",
        "<nav><ul><li>no<li><nav>no</nav>no</ul></nav>",
        "<script>'<!--<script>no'</script>",
        "<iframe><p>no</iframe>",
        "<footer>no</footer>",
    ] {
        let page = format!("<div>before {unseen} behind</div>");
        check(&page, None, &["before", "behind"]);
    }
    let page = "before <span aria-hidden=true>no<br>no</span> behind";
    check(page, None, &["before behind"]);
    // An unseen element that is never closed ends with what it stands in.
    check("<div><nav>no<p>no</div><p>yes", None, &["yes"]);
    check("<nav>no</b>no", None, &[]);
    // One whose end tag is left out ends with the next of its kind.
    for (page, seen) in [
        ("<div><p hidden>no<p>yes<p>too</div>", &["yes", "too"][..]),
        ("<p hidden>no<pre>yes</pre>", &["yes"]),
        ("<ul><li hidden>no<ol><li>no</ol>no<li>yes</ul>", &["yes"]),
        ("<dl><dt hidden>no<dd>yes</dl>", &["yes"]),
        (
            "<table><tr style='display:none'><td>no<table><tr><td>no</table><tr><td>Born<td>5 May</table>",
            &["Born 5 May"],
        ),
        (
            "<table><tr><td hidden>no<td>yes<tr><td>too</table>",
            &["yes", "too"],
        ),
        // Or with what it stands in.
        ("<ol><li>yes<li hidden>no</ol><p>too", &["yes", "too"]),
        ("<dl><dt>yes<dd hidden>no</dl>too", &["yes", "too"]),
        (
            "<table><tbody><tr hidden><td>no</tbody><tbody><tr><td>yes</table>",
            &["yes"],
        ),
        ("<ul><li><p hidden>no</li><li>yes</ul>", &["yes"]),
        ("<ul><li><p hidden>no<li>yes</ul>", &["yes"]),
        ("<blockquote><p hidden>no</blockquote>yes", &["yes"]),
        ("<p hidden>no</b>no</p>yes", &["yes"]),
        // Within an unseen one, nothing else ends it.
        ("<div hidden><p>no<p>no</div>", &[]),
        ("<nav><li>no<li>no</nav>", &[]),
    ] {
        check(page, None, seen);
    }
}

/// How long this thread has computed, which a busy machine does not lengthen.
fn computed() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = statistics.split(' ').next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

#[test]
fn hostile_pages_are_read_in_no_time() {
    // Five times what makes a tree take seconds; what is linear takes a few tenths of one for each.
    let n = 50_000;
    let before = computed();
    for page in [
        format!("{}deep{}", "<div>".repeat(n), "</div>".repeat(n)),
        format!("<nav>{}no{}</nav>deep", "<div>".repeat(n), "</p>".repeat(n)),
        format!("{}deep", "<div><b class=x>".repeat(n)),
        format!("{}deep", "<p><b>".repeat(n)),
        format!("{}<!--deep", "<!--x-->".repeat(n) + "deep"),
        format!("deep{}", "&lt".repeat(n)),
        format!("deep{}", "<script>".repeat(n)),
        format!("deep<p title='{}", "'".repeat(n * 2)),
    ] {
        let document = parse(&page).unwrap();
        assert!(
            document
                .blocks
                .iter()
                .any(|block| block.text.starts_with("deep"))
        );
    }
    assert_eq!(parse(&format!("<p{}>", " a".repeat(n))), Err(Hostile));
    let took = computed().saturating_sub(before);
    assert!(took < Duration::from_secs(30), "{took:?}");
}
