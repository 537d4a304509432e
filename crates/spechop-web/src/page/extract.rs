//! Bytes of a page to its title and visible text.

use dom_smoothie::{Config, Readability, TextMode};
use spechop_text::{Document, folded, html, plain};

use super::charset;
use super::title::{self, Names};
use super::tree::{self, TooMuch};

/// An article of fewer characters may not be all that there is to read.
const LITTLE_CHARS: usize = 500;
/// No title is longer.
const TITLE_CHARS_MAX: usize = 300;
/// A word that is longer is cut, too.
const WORD_CHARS_MAX: usize = 100;

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
    /// Which lines of it are headings, by number, in order.
    pub headings: Vec<usize>,
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
        Kind::Text => of_document(plain::parse(&page)),
    };
    extract
        .title
        .truncate(cut(&extract.title, TITLE_CHARS_MAX).len());
    extract
        .text
        .truncate(cut(&extract.text, text_chars_max).len());
    let lines = extract.text.lines().count();
    extract.headings.retain(|line| *line < lines);
    match lines {
        0 => Err("it has no text".to_owned()),
        _ => Ok(extract),
    }
}

/// The article of a page, or all that can be seen of it if there is hardly any article.
fn of_html(page: &str) -> Result<Extract, String> {
    let (article, names) = article(page)?;
    let enough = article.text.chars().nth(LITTLE_CHARS).is_some();
    if enough && !article.title.is_empty() {
        return Ok(named(article, &names));
    }
    // The same attributes were counted for the tree.
    let visible = of_document(html::parse(page).unwrap_or_default());
    let title = if article.title.is_empty() {
        visible.title.clone()
    } else {
        article.title.clone()
    };
    let more = !enough && visible.text.len() > article.text.len();
    let seen = if more { visible } else { article };
    Ok(named(Extract { title, ..seen }, &names))
}

/// With the title of the page alone, without that of its site.
fn named(extract: Extract, names: &Names) -> Extract {
    let lines: Vec<&str> = extract.text.lines().collect();
    let headings = extract.headings.iter().filter_map(|line| lines.get(*line));
    let title = title::of_page(&extract.title, names, headings.copied()).to_owned();
    Extract { title, ..extract }
}

/// What stands out on a page as its main text, and its names for itself. Empty if nothing does, or if it
/// takes too much to find out.
fn article(page: &str) -> Result<(Extract, Names), String> {
    let document = match tree::build(page) {
        Ok(document) => document,
        Err(TooMuch::Attributes) => return Err("a tag with too many attributes".to_owned()),
        Err(TooMuch::Depth | TooMuch::Elements) => return Ok(Default::default()),
    };
    let names = Names::of(&document);
    let config = Config {
        // Its text is marked-up data for machines, and parsing it is not bounded.
        disable_json_ld: true,
        text_mode: TextMode::Formatted,
        // They tell headings.
        keep_classes: true,
        ..Config::default()
    };
    let Ok(mut readability) = Readability::with_document(document, None, Some(config)) else {
        return Ok((Extract::default(), names));
    };
    let title = folded(&readability.get_article_title());
    let extract = match readability.parse() {
        Ok(article) => {
            // Its text does not say what is a heading; its HTML does.
            let structured = of_document(html::parse(&article.content).unwrap_or_default());
            let plain = lines(&article.text_content);
            // Much of it may stand where `html` sees nothing.
            let seen = match structured.text.len() * 2 < plain.len() {
                true => Extract {
                    text: plain,
                    ..Extract::default()
                },
                false => structured,
            };
            let title = folded(&article.title);
            Extract { title, ..seen }
        }
        Err(_) => Extract {
            title,
            ..Extract::default()
        },
    };
    Ok((extract, names))
}

fn of_document(document: Document) -> Extract {
    let blocks = document.blocks.iter().enumerate();
    let headings = blocks.filter(|(_, block)| block.heading);
    let headings = headings.map(|(line, _)| line).collect();
    let texts: Vec<&str> = document.blocks.iter().map(|block| &*block.text).collect();
    Extract {
        text: texts.join("\n"),
        title: document.title.unwrap_or_default(),
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

/// At most so many characters, cut between words if there is a gap near the end.
fn cut(text: &str, chars_max: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(chars_max) else {
        return text;
    };
    let (head, rest) = text.split_at(end);
    if rest.starts_with(char::is_whitespace) {
        return head.trim_end();
    }
    match head.rfind(char::is_whitespace) {
        Some(gap) if head[gap..].chars().count() <= WORD_CHARS_MAX => head[..gap].trim_end(),
        _ => head,
    }
}

#[cfg(test)]
mod tests;
