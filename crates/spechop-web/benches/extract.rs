//! What the text of a page costs on one core, beside `scraper`, which only parses and takes everything.
//! And what the worst pages cost that the limits let through.
//!
//! `cargo bench -p spechop-web --bench extract`
#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot be set up has nothing to measure"
)]

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::{fs, hint};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use scraper::Html;
use spechop_lexical::Bm25;
use spechop_types::Passage;
use spechop_web::page::extract::{Kind, extract};
use spechop_web::page::{Page, chunks};

const CORPUS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../eval/datasets/2wikimultihopqa/corpus.jsonl.gz"
);
const TEXT_CHARS_MAX: usize = 10_000;

/// Title and text of the first passages of a real corpus.
fn passages(most: usize) -> Vec<(String, String)> {
    let file = fs::File::open(CORPUS).expect("the corpus");
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    let passage = |line: String| {
        let value: serde_json::Value = serde_json::from_str(&line).expect("a passage");
        let field = |name: &str| value[name].as_str().expect("a field").to_owned();
        (field("title"), field("text"))
    };
    lines
        .take(most)
        .map(|line| passage(line.expect("a line")))
        .collect()
}

/// A page as sites make them: menus, an article, things beside it, a footer, scripts.
fn page(passages: &[(String, String)], links: usize, script_bytes: usize) -> String {
    let title = &passages[0].0;
    let mut page = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>{title} - Site</title>\
         <style>{}</style><script>{}</script></head><body class='page skin'>\
         <header><a class=logo href=/>Site</a></header><nav class=menu><ul>",
        ".item { color: #333; margin: 0 auto }\n".repeat(100),
        "for (let i = 0; i < n; i++) { f('<p>', i && j); }\n".repeat(script_bytes / 50),
    );
    let link = |page: &mut String, n: usize| {
        let class = ["menu-item", "menu-item active", "sub"][n % 3];
        write!(page, "<li class='{class}'><a href='/section/{n}?ref=menu' title='Section {n}'>Section {n}</a></li>")
            .expect("memory");
    };
    (0..links).for_each(|n| link(&mut page, n));
    page.push_str("</ul></nav><main id=content><article class=post>");
    for (n, (title, text)) in passages.iter().enumerate() {
        write!(page, "<h2 id=s{n}>{title}</h2>").expect("memory");
        for sentences in text.split(". ").collect::<Vec<_>>().chunks(2) {
            let linked = sentences
                .join(". ")
                .replacen(" the ", " <a href='/wiki/the'>the</a> ", 2);
            write!(page, "<p>{linked}.<sup><a href='#c{n}'>[{n}]</a></sup></p>").expect("memory");
        }
    }
    page.push_str("</article></main><aside class=related><h3>Related</h3><ul>");
    (0..links / 2).for_each(|n| link(&mut page, n));
    page.push_str("</ul></aside><footer><p>Terms. Privacy. About us.</p></footer></body></html>");
    page
}

/// All text that `scraper` finds, scripts and styles aside.
fn with_scraper(page: &str) -> String {
    let html = Html::parse_document(page);
    let mut text = String::new();
    for node in html.tree.nodes() {
        if let Some(found) = node.value().as_text()
            && !node.ancestors().any(|above| {
                above
                    .value()
                    .as_element()
                    .is_some_and(|element| matches!(element.name(), "script" | "style"))
            })
        {
            text.push_str(found);
        }
    }
    text
}

fn real_pages(criterion: &mut Criterion) {
    let passages = passages(200);
    let pages = [
        ("short", page(&passages[..4], 30, 2_000)),
        ("article", page(&passages[10..30], 100, 20_000)),
        ("long", page(&passages[40..140], 200, 50_000)),
        ("menus", page(&passages[150..152], 1_500, 100_000)),
    ];
    let mut group = criterion.benchmark_group("page");
    for (name, page) in &pages {
        group.throughput(Throughput::Bytes(page.len() as u64));
        group.bench_function(format!("{name}/ours"), |bencher| {
            bencher.iter(|| {
                extract(page.as_bytes(), Kind::Html, None, true, TEXT_CHARS_MAX).expect("text")
            });
        });
        group.bench_function(format!("{name}/scraper"), |bencher| {
            bencher.iter(|| with_scraper(hint::black_box(page)));
        });
    }
    group.finish();
}

/// What a look-up then does with the text of its five pages, each cut to its limit: passages, and their words.
fn ranking(criterion: &mut Criterion) {
    let texts = passages(600);
    let page = |part: &[(String, String)]| {
        let title = &part[0].0;
        let mut text: String = part.iter().map(|(_, text)| text.clone() + "\n").collect();
        text.truncate(text.floor_char_boundary(TEXT_CHARS_MAX));
        let url = format!("https://example.org/{}", title.len());
        Page::of_text(
            &url.parse().expect("an address"),
            &title.as_str().into(),
            &text.into(),
        )
    };
    let pages: Vec<Page> = texts.chunks(120).map(page).collect();
    let passages: Vec<Passage> = pages.iter().flat_map(chunks).collect();
    let query = &texts[7].0;
    let mut group = criterion.benchmark_group("look-up");
    group.bench_function("passages of five pages", |bencher| {
        bencher.iter(|| pages.iter().flat_map(chunks).count());
    });
    group.bench_function(format!("words of {} passages", passages.len()), |bencher| {
        let texts = || passages.iter().map(|passage| &*passage.text);
        bencher.iter(|| Bm25::new(texts()).shares(hint::black_box(query)));
    });
    group.finish();
}

/// Just within the limits.
fn worst_pages(criterion: &mut Criterion) {
    let pages = [
        (
            "deep",
            format!(
                "{}{}",
                "<div class=a>".repeat(250),
                "<p>Some, text.</p>".repeat(19_000)
            ),
        ),
        (
            "combs",
            format!(
                "{}{}",
                "<div>".repeat(240),
                "<div><p>a, b<b>c"
                    .repeat(6_000)
                    .replace("<b>c", "<b>c</b></p></div>")
            ),
        ),
        (
            "links",
            "<p><a href=x>text, and, text</a></p>".repeat(9_000),
        ),
        ("breaks", "text<br>".repeat(19_000)),
        (
            "divs",
            "<div class='article body content'><div>text, more text</div></div>".repeat(9_000),
        ),
        ("comment", format!("<p>text<!--{}", "x".repeat(1_900_000))),
        ("dashes", format!("<p>text<!--{}", "-".repeat(1_900_000))),
        (
            "prose",
            format!("<p>{}", "Words, and more words. ".repeat(80_000)),
        ),
        ("entities", format!("<p>{}", "&amp;&eacute".repeat(150_000))),
        ("spaces", format!("<p>{}x", " \n".repeat(900_000))),
        (
            "attribute",
            format!("<p title='{}'>text", "x ".repeat(900_000)),
        ),
        (
            "script",
            format!(
                "<script>{}</script>text",
                "a < b && c > d;\n".repeat(110_000)
            ),
        ),
        (
            "tables",
            format!("<table>{}", "<tr><td>text<td>text".repeat(6_000)),
        ),
        ("fonts", "<font color=red>text</font><br><br>".repeat(6_000)),
        ("bytes", "\u{fffd}ä".repeat(380_000)),
    ];
    let mut group = criterion.benchmark_group("worst");
    group.sample_size(10);
    for (name, page) in &pages {
        group.throughput(Throughput::Bytes(page.len() as u64));
        group.bench_function(*name, |bencher| {
            bencher.iter(|| extract(page.as_bytes(), Kind::Html, None, true, TEXT_CHARS_MAX));
        });
    }
    group.finish();
}

criterion_group!(benches, real_pages, ranking, worst_pages);
criterion_main!(benches);
