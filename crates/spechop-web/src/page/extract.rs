//! Bytes of a page to its title and visible text.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use dom_smoothie::{Config, Readability, TextMode};
use spechop_text::{Block, Document, folded, html, plain};
use spechop_types::{canonical, cut_at_word};

use super::charset;
use super::title::{self, Names};
use super::tree::{self, TooMuch};

/// An article of fewer bytes may not be all that there is to read.
const LITTLE_BYTES: usize = 500;
/// No title is longer.
const TITLE_CHARS_MAX: usize = 300;
/// A page that sends its reader on after so many seconds at most, and says no more than that in so many characters,
/// is none.
const PAUSE_S_MAX: f32 = 5.0;
const STUB_CHARS_MAX: usize = 200;

/// What can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HTML or XHTML.
    Html,
    /// Plain text.
    Text,
}

/// What a reader of the page would see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extract {
    /// May be empty.
    pub title: String,
    /// Blocks of text, parted by newlines.
    pub text: String,
    /// Which lines of it are headings, in order.
    pub headings: Vec<Heading>,
}

/// A line that is the heading of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Its number.
    pub line: usize,
    /// Whether all of it is a link to another page. What follows is about that page.
    pub link: bool,
}

/// Reads a page, or says why it cannot be read. `charset` is what its header says, `whole` whether all
/// of it has come. Its time is bounded by the size of the body, whoever wrote it.
pub fn extract(
    body: &[u8],
    kind: Kind,
    charset: Option<&str>,
    whole: bool,
    text_chars_max: usize,
) -> Result<Extract, String> {
    let page = charset::decode(body, charset, kind == Kind::Html, whole);
    let page = page.ok_or("its bytes are no text")?;
    let mut extract = match kind {
        Kind::Html => of_html(&page)?,
        Kind::Text => {
            let document = plain::parse(&page);
            of_blocks(&document.blocks, document.title.unwrap_or_default())
        }
    };
    extract
        .title
        .truncate(cut_at_word(&extract.title, TITLE_CHARS_MAX).len());
    extract
        .text
        .truncate(cut_at_word(&extract.text, text_chars_max).len());
    let lines = extract.text.lines().count();
    extract.headings.retain(|heading| heading.line < lines);
    match lines {
        0 => Err("it has no text".to_owned()),
        _ => Ok(extract),
    }
}

fn of_html(page: &str) -> Result<Extract, String> {
    let (article, names, leads_on) = article(page)?;
    let found = worth_ranking(page, article, &names);
    match leads_on && found.text.chars().nth(STUB_CHARS_MAX).is_none() {
        true => Err("it only leads to another page".to_owned()),
        false => Ok(found),
    }
}

/// What of a page is worth ranking against a question. Readability tells the article from what stands
/// around it, but it drops short paragraphs and headings, and with them whom a text is about. So it only
/// says what place the article has; what stands there is taken from all that can be seen.
fn worth_ranking(page: &str, article: Article, names: &Names) -> Extract {
    // The same attributes were counted for the tree.
    let Document {
        title,
        blocks,
        is_headed,
    } = html::parse(page).unwrap_or_default();
    // The heading that is left out before the blocks.
    let headed = title.clone().filter(|_| is_headed).unwrap_or_default();
    let title = match article.title.is_empty() {
        true => title.unwrap_or_default(),
        false => article.title.clone(),
    };
    let headings = article.headings.iter().map(String::as_str);
    // Before its parts are compared with headings, which takes the square of its length.
    let title = cut_at_word(&title, TITLE_CHARS_MAX);
    let title = title::of_page(title, names, headings).to_owned();
    if let Some(place) = article.place(&blocks, &headed, &title) {
        return of_blocks(&blocks[place], title);
    }
    // Much may stand where `html` sees nothing.
    if prose(&blocks) * 2 < article.text.len() {
        return Extract {
            title,
            text: article.text,
            headings: Vec::new(),
        };
    }
    let menu = |block: &Block| block.link && !block.heading;
    match blocks.iter().all(menu) {
        true => of_blocks(&blocks, title),
        false => of_blocks(blocks.iter().filter(|block| !menu(block)), title),
    }
}

/// What stands out on a page as its main text.
#[derive(Default)]
struct Article {
    title: String,
    /// A block a line.
    text: String,
    /// The texts of its headings, in order.
    headings: Vec<String>,
    /// The texts of its other blocks.
    blocks: HashSet<String>,
}

impl Article {
    /// Where it is on the page, from the heading that begins it to the end of its last section; `None` if that
    /// is not most of the page. `headed` is a heading before all blocks.
    fn place(&self, blocks: &[Block], headed: &str, title: &str) -> Option<RangeInclusive<usize>> {
        let is_part = |block: &Block| is_prose(block) && self.blocks.contains(&block.text);
        let (first, last) = (
            blocks.iter().position(is_part)?,
            blocks.iter().rposition(is_part)?,
        );
        let title = canonical(title);
        let is_title = |block: &Block| block.heading && canonical(&block.text) == title;
        let headings = blocks[..first].iter().rev();
        let headings = headings.take_while(|block| block.heading).count();
        let named = match canonical(headed) == title {
            true => Some(0),
            false => blocks[..first].iter().position(is_title),
        };
        let behind = blocks[last..].iter().skip(1);
        let rest = behind.take_while(|block| !block.heading).count();
        let place = named.unwrap_or(first - headings)..=last + rest;
        let found = prose(&blocks[place.clone()]);
        (found >= LITTLE_BYTES && found * 2 >= prose(blocks)).then_some(place)
    }
}

fn is_prose(block: &Block) -> bool {
    !block.heading && !block.link
}

/// The bytes of text that is neither a heading nor a menu.
fn prose(blocks: &[Block]) -> usize {
    let prose = blocks.iter().filter(|block| is_prose(block));
    prose.map(|block| block.text.len()).sum()
}

/// The article of a page, its names for itself, and whether it [leads on](leads_on). Empty if nothing stands out, or
/// if it takes too much to find out.
fn article(page: &str) -> Result<(Article, Names, bool), String> {
    let document = match tree::build(page) {
        Ok(document) => document,
        Err(TooMuch::Attributes) => return Err("a tag with too many attributes".to_owned()),
        Err(TooMuch::Depth | TooMuch::Elements) => return Ok(Default::default()),
    };
    let (names, leads_on) = (Names::of(&document), leads_on(&document));
    let config = Config {
        // Its text is marked-up data for machines, and parsing it is not bounded.
        disable_json_ld: true,
        text_mode: TextMode::Formatted,
        // They tell headings.
        keep_classes: true,
        ..Config::default()
    };
    let Ok(mut readability) = Readability::with_document(document, None, Some(config)) else {
        return Ok((Article::default(), names, leads_on));
    };
    let title = folded(&readability.get_article_title());
    let article = match readability.parse() {
        Ok(article) => {
            let text = lines(&article.text_content);
            // Two ways to part a text into blocks: what one joins, the other may part as the page does.
            let parts = html::parse(&article.content).unwrap_or_default().blocks;
            let (headings, parts): (Vec<_>, Vec<_>) =
                parts.into_iter().partition(|block| block.heading);
            let texts = |blocks: Vec<Block>| blocks.into_iter().map(|block| block.text);
            let lines = text.lines().map(str::to_owned);
            Article {
                title: folded(&article.title),
                headings: texts(headings).collect(),
                blocks: texts(parts).chain(lines).collect(),
                text,
            }
        }
        Err(_) => Article {
            title,
            ..Article::default()
        },
    };
    Ok((article, names, leads_on))
}

/// Whether a page sends its reader to another one before it could be read, as sites do that cannot redirect:
/// `<meta http-equiv="refresh" content="0; url=/there">`.
fn leads_on(document: &dom_query::Document) -> bool {
    let metas = document.select("meta[http-equiv][content]");
    metas.iter().any(|meta| {
        let (name, content) = (meta.attr_or("http-equiv", ""), meta.attr_or("content", ""));
        let (pause, target) = content.split_once([';', ',']).unwrap_or_default();
        let pause = pause.trim().parse::<f32>();
        name.trim().eq_ignore_ascii_case("refresh")
            && pause.is_ok_and(|pause| pause <= PAUSE_S_MAX)
            && !target.trim().is_empty()
    })
}

fn of_blocks<'a>(blocks: impl IntoIterator<Item = &'a Block>, title: String) -> Extract {
    let (mut texts, mut headings) = (Vec::new(), Vec::new());
    for (line, block) in blocks.into_iter().enumerate() {
        texts.push(block.text.as_str());
        if block.heading {
            let link = block.link;
            headings.push(Heading { line, link });
        }
    }
    Extract {
        title,
        text: texts.join("\n"),
        headings,
    }
}

/// A block a line, its white space folded.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(folded)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests;
