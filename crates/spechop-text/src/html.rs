//! HTML: the text that a reader of the page would see.
//!
//! The tokeniser of html5ever is enough for that, so no tree is built: a tree costs the square of its
//! depth, and pages nested ten thousand deep exist. What remains is linear in the size of the page,
//! once [`check`] has refused the one thing that is not.

mod attributes;

pub use attributes::{ATTRIBUTES_MAX, is_raw};

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use crate::document::{Builder, Document};

/// Elements that no reader sees, or that are the same on every page of a site.
const UNSEEN: &[&str] = &[
    "audio", "button", "canvas", "datalist", "dialog", "footer", "iframe", "math", "menu", "nav",
    "noembed", "noframes", "noscript", "object", "script", "select", "style", "svg", "template",
    "textarea", "title", "video", "xmp",
];
/// Elements whose content is no markup: it ends at the first end tag of the same name.
const RAW: &[&str] = &[
    "iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp",
];
/// Elements without content and end.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements that text goes on across.
const INLINE: &[&str] = &[
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "img", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var",
];
/// Elements that part words and nothing more.
const GAPS: &[&str] = &["br", "td", "th", "wbr"];
/// Elements whose end is the end of every unseen element inside, even of one that was never closed.
const CONTAINERS: &[&str] = &[
    "article", "aside", "body", "div", "header", "html", "main", "section", "table", "ul",
];
/// Open elements that are kept track of inside an unseen one. Deeper ones may end it too early.
const UNSEEN_DEPTH_MAX: usize = 256;

/// A page that would keep a parser busy for hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hostile;

/// Refuses a page that the tokeniser of html5ever must not see. Linear in the size of the page.
///
/// It holds for a tokeniser that takes the content of [raw](is_raw) elements for raw text, self-closing
/// ones aside, whatever stands around them. A tree builder asks for something else now and then; do as
/// [`parse`] does and do not listen to it.
pub fn check(text: &str) -> Result<(), Hostile> {
    match attributes::fit(text) {
        true => Ok(()),
        false => Err(Hostile),
    }
}

/// Reads a page. The title is that of `<title>`, else the first heading.
pub fn parse(text: &str) -> Result<Document, Hostile> {
    check(text)?;
    let tokenizer = Tokenizer::new(Page::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(text));
    // It stops for scripts alone, and the page asks for no stop.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    Ok(tokenizer.sink.0.into_inner().builder.finish())
}

#[derive(Default)]
struct Page(RefCell<State>);

#[derive(Default)]
struct State {
    builder: Builder,
    /// The text of `<title>`, while it is open.
    title: Option<String>,
    /// Open elements from the unseen one on; empty outside of one.
    unseen: Vec<String>,
}

impl TokenSink for Page {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut state = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => state.start(&tag),
            Token::TagToken(tag) => {
                state.end(&tag.name);
                TokenSinkResult::Continue
            }
            Token::CharacterTokens(text) => {
                state.text(&text);
                TokenSinkResult::Continue
            }
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => TokenSinkResult::Continue,
        }
    }
}

impl State {
    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        let seen = self.unseen.is_empty();
        let closed = tag.self_closing || VOID.contains(&name);
        if seen && !closed && name == "title" {
            self.title = Some(String::new());
        }
        if closed {
            self.part(name);
        } else if !seen || UNSEEN.contains(&name) || is_hidden(tag) {
            self.enter_unseen(name);
        } else if matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6") {
            self.builder.begin_heading();
        } else {
            self.part(name);
        }
        match attributes::is_raw(name) && !tag.self_closing {
            true if name == "title" || name == "textarea" => {
                TokenSinkResult::RawData(RawKind::Rcdata)
            }
            // Of a script, too: its own rules for comments would hide its end from `attributes`.
            true => TokenSinkResult::RawData(RawKind::Rawtext),
            false => TokenSinkResult::Continue,
        }
    }

    fn end(&mut self, name: &str) {
        if self.unseen.is_empty() {
            self.part(name);
            return;
        }
        if let Some(title) = self.title.take() {
            self.builder.set_title(&title);
        }
        match self.unseen.iter().rposition(|open| open == name) {
            Some(at) => self.unseen.truncate(at),
            None if CONTAINERS.contains(&name) => self.unseen.clear(),
            None => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(title) = &mut self.title {
            title.push_str(text);
        } else if self.unseen.is_empty() {
            self.builder.push(text);
        }
    }

    fn enter_unseen(&mut self, name: &str) {
        if self.unseen.is_empty() && !INLINE.contains(&name) {
            self.builder.end_block();
        }
        if self.unseen.len() < UNSEEN_DEPTH_MAX {
            self.unseen.push(name.to_owned());
        }
    }

    /// Parts the text before a tag from the text behind it.
    fn part(&mut self, name: &str) {
        if !self.unseen.is_empty() || INLINE.contains(&name) {
            return;
        }
        if GAPS.contains(&name) {
            self.builder.push(" ");
        } else {
            self.builder.end_block();
        }
    }
}

/// Whether the page itself keeps the element from its readers.
fn is_hidden(tag: &Tag) -> bool {
    tag.attrs.iter().any(|attribute| {
        let value = attribute.value.trim().to_ascii_lowercase();
        match &*attribute.name.local {
            "hidden" => true,
            "aria-hidden" => value == "true",
            "role" => value == "navigation",
            "style" => value.replace(' ', "").contains("display:none"),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests;
