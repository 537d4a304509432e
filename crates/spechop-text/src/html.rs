//! HTML: the text that a reader of the page would see.
//!
//! The tokeniser of html5ever is enough for that, so no tree is built: a tree costs the square of its
//! depth, and pages nested ten thousand deep exist. What remains is linear in the size of the page,
//! once [`check`] has refused the one thing that is not.

mod attributes;

pub use attributes::{ATTRIBUTES_MAX, is_raw};

use std::cell::RefCell;

use html5ever::Attribute;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use crate::document::{Builder, Document, Position};

/// Elements that no reader sees, or that are the same on every page of a site.
const UNSEEN: &[&str] = &[
    "audio", "button", "canvas", "datalist", "dialog", "footer", "iframe", "math", "menu", "nav",
    "noembed", "noframes", "noscript", "object", "rp", "rt", "rtc", "script", "select", "style",
    "svg", "template", "textarea", "title", "video", "xmp",
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
/// Elements that text goes on across, whether or not their own is seen.
const INLINE: &[&str] = &[
    "a", "abbr", "acronym", "area", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn",
    "em", "font", "i", "img", "ins", "kbd", "label", "link", "mark", "meta", "nobr", "output",
    "param", "picture", "q", "rb", "rp", "rt", "rtc", "ruby", "s", "samp", "small", "source",
    "span", "strike", "strong", "sub", "sup", "time", "track", "tt", "u", "var", "wbr",
];
/// Elements that part words and nothing more.
const GAPS: &[&str] = &["br", "td", "th"];
/// Elements that make text bold: a line that is bold from end to end is a heading.
const BOLD: &[&str] = &["b", "strong"];
/// How the classes of headings end that are none by their elements, as many sites have them.
const HEADING_CLASSES: &[&str] = &["title", "heading", "headline"];
/// Elements whose classes say what is in them, as `no-title` does, and not that they are headings.
const WHOLE: &[&str] = &["article", "body", "html", "main"];
/// Elements whose end is the end of every unseen element inside, even of one that was never closed.
const CONTAINERS: &[&str] = &[
    "article", "aside", "body", "div", "header", "html", "main", "ruby", "section", "table", "ul",
];
/// Elements with items of their own.
const LISTS: &[&str] = &["dl", "menu", "ol"];
/// Elements that a paragraph ends before, headings aside.
const AFTER_P: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "details",
    "dialog",
    "div",
    "dl",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "hr",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "pre",
    "search",
    "section",
    "table",
    "ul",
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
    let mut state = tokenizer.sink.0.into_inner();
    state.end_block();
    Ok(state.builder.finish())
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
    /// Open bold elements of this line.
    bold: usize,
    /// Whether a link to another page is open.
    link: bool,
    /// Where the superscript of this line began that is open.
    superscript: Option<Position>,
    line: Line,
    /// Whether the block that is open is a heading by the name of its element.
    named_heading: bool,
}

/// What the line so far is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    Bold,
    Mixed,
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
        if self.ends_unsaid(name) {
            self.unseen.clear();
        }
        let seen = self.unseen.is_empty();
        let closed = tag.self_closing || VOID.contains(&name);
        if seen && !closed && name == "title" {
            self.title = Some(String::new());
        }
        if closed {
            self.part(tag.kind, name);
        } else if !seen || UNSEEN.contains(&name) || is_hidden(tag) {
            self.enter_unseen(name);
        } else if is_heading(tag) {
            self.part(tag.kind, name);
            self.builder.begin_heading();
            self.named_heading = is_named_heading(name);
        } else {
            self.part(tag.kind, name);
            self.bold += usize::from(BOLD.contains(&name));
            if name == "a" {
                self.link = leads_away(tag);
            }
            if name == "sup" {
                self.superscript = Some(self.builder.position());
            }
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
            self.part(TagKind::EndTag, name);
            if BOLD.contains(&name) {
                self.bold = self.bold.saturating_sub(1);
            }
            self.link &= name != "a";
            if name == "sup"
                && let Some(since) = self.superscript.take()
            {
                self.builder.drop_note(since);
            }
            return;
        }
        if let Some(title) = self.title.take() {
            self.builder.set_title(&title);
        }
        match self.unseen.iter().rposition(|open| open == name) {
            Some(at) => self.unseen.truncate(at),
            None if CONTAINERS.contains(&name) => self.unseen.clear(),
            None if self
                .unseen
                .first()
                .is_some_and(|open| ends_within(open, name)) =>
            {
                self.unseen.clear();
            }
            None => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(title) = &mut self.title {
            title.push_str(text);
        } else if self.unseen.is_empty() {
            if !text.trim().is_empty() {
                self.line = match (self.line, self.bold) {
                    (Line::Mixed, _) | (_, 0) => Line::Mixed,
                    (Line::Empty | Line::Bold, _) => Line::Bold,
                };
            }
            match self.link {
                true => self.builder.push_link(text),
                false => self.builder.push(text),
            }
        }
    }

    /// Ends the block that is open, if there is one.
    fn end_block(&mut self) {
        match std::mem::take(&mut self.line) {
            Line::Bold => self.builder.end_heading(),
            Line::Empty | Line::Mixed => self.builder.end_block(),
        }
        // Nobody who forgets to close it means the whole page.
        self.bold = 0;
        self.superscript = None;
        self.named_heading = false;
    }

    /// Ends the block that is open, since an element begins. An `<h2>` without text so far is the heading that
    /// this element is in: its text is still to come. A class may stand on what holds more than a heading.
    fn end_block_before_element(&mut self) {
        let is_to_come = self.line == Line::Empty && self.named_heading;
        self.end_block();
        if is_to_come {
            self.builder.begin_heading();
            self.named_heading = true;
        }
    }

    /// Whether the unseen element ends before this one, although no end tag says so.
    fn ends_unsaid(&self, next: &str) -> bool {
        let Some((first, inside)) = self.unseen.split_first() else {
            return false;
        };
        let holds = |open: &String| CONTAINERS.contains(&&**open) || LISTS.contains(&&**open);
        is_ended_by(first, next) && !inside.iter().any(holds)
    }

    fn enter_unseen(&mut self, name: &str) {
        if self.unseen.is_empty() && !INLINE.contains(&name) {
            self.end_block_before_element();
        }
        if self.unseen.len() < UNSEEN_DEPTH_MAX {
            self.unseen.push(name.to_owned());
        }
    }

    /// Parts the text before a tag from the text behind it.
    fn part(&mut self, kind: TagKind, name: &str) {
        if !self.unseen.is_empty() || INLINE.contains(&name) {
            return;
        }
        if GAPS.contains(&name) && (name != "br" || self.line != Line::Bold) {
            self.builder.push(" ");
        } else if kind == TagKind::StartTag {
            self.end_block_before_element();
        } else {
            self.end_block();
        }
    }
}

/// Whether the end tag of an element may be left out before the next one (HTML standard, 13.1.2.4).
fn is_ended_by(open: &str, next: &str) -> bool {
    match open {
        "li" | "tr" => next == open,
        "dt" | "dd" => matches!(next, "dt" | "dd"),
        "td" | "th" => matches!(next, "td" | "th" | "tr"),
        "p" => {
            AFTER_P.contains(&next)
                || is_named_heading(next)
                || matches!(next, "dd" | "dt" | "li" | "td" | "th" | "tr")
        }
        _ => false,
    }
}

/// Whether an element whose end tag may be left out ends with this one, in which it must stand.
fn ends_within(open: &str, outer: &str) -> bool {
    match open {
        "li" => matches!(outer, "menu" | "ol"),
        "tr" => matches!(outer, "tbody" | "tfoot" | "thead"),
        "dt" | "dd" => outer == "dl",
        "td" | "th" => matches!(outer, "tbody" | "tfoot" | "thead" | "tr"),
        "p" => !INLINE.contains(&outer) && !VOID.contains(&outer),
        _ => false,
    }
}

fn is_named_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

/// Whether the element is a heading, by its name or by its class.
fn is_heading(tag: &Tag) -> bool {
    if is_named_heading(&tag.name) {
        return true;
    }
    let class = |name: &str| {
        let ending = name.rsplit(['-', '_']).next().unwrap_or(name);
        HEADING_CLASSES
            .iter()
            .any(|heading| ending.eq_ignore_ascii_case(heading))
    };
    let attributes = tag.attrs.iter();
    let mut classes = attributes.filter(|attribute| &*attribute.name.local == "class");
    ![INLINE, GAPS, WHOLE]
        .iter()
        .any(|names| names.contains(&&*tag.name))
        && classes.any(|attribute| attribute.value.split_ascii_whitespace().any(class))
}

/// Whether it is a link to another page, not to a place on this one.
fn leads_away(tag: &Tag) -> bool {
    let target = |attribute: &Attribute| {
        &*attribute.name.local == "href" && !attribute.value.trim_start().starts_with('#')
    };
    tag.attrs.iter().any(target)
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
