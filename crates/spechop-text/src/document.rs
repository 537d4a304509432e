//! A document as all formats are brought to: a title, and blocks of text.

use std::fmt;

/// What is read out of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The title that the document itself gives.
    pub title: Option<String>,
    /// In order. A heading that begins them and repeats the title is left out: every passage has the title
    /// with it already.
    pub blocks: Vec<Block>,
    /// Whether such a heading was left out.
    pub is_headed: bool,
}

/// A paragraph, a heading, an item of a list, a row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Not empty; its white space is folded.
    pub text: String,
    /// Whether it is the heading of what follows.
    pub heading: bool,
    /// Whether all of it is a link to another page: an entry of a menu, or the heading of a teaser, which is
    /// about that other page.
    pub link: bool,
}

/// As in Markdown: `# ` before a heading.
impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.heading { "# " } else { "" };
        write!(f, "{mark}{}", self.text)
    }
}

/// A block of more words is no heading, whatever it is called.
const HEADING_WORDS_MAX: usize = 30;
/// What sites write in brackets behind a heading, for those who edit or fold it.
const CONTROLS: &[&str] = &["edit", "edit source", "hide", "link", "show"];
/// A longer text in brackets is more than the number of a note.
const NOTE_CHARS_MAX: usize = 20;

/// How much of a block has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    open: usize,
    linked: usize,
}

/// Puts a [`Document`] together from what a parser meets.
#[derive(Debug, Default)]
pub struct Builder {
    document: Document,
    open: String,
    /// What of `open` is a link.
    linked: String,
    heading: bool,
}

impl Builder {
    /// More text of the block that is open.
    pub fn push(&mut self, text: &str) {
        self.open.push_str(text);
    }

    /// More text of the block that is open, and a link to another page.
    pub(crate) fn push_link(&mut self, text: &str) {
        self.open.push_str(text);
        self.linked.push_str(text);
    }

    /// The end of the text so far, for [`Self::drop_note`].
    pub(crate) fn position(&self) -> Position {
        Position {
            open: self.open.len(),
            linked: self.linked.len(),
        }
    }

    /// Takes back what came since that position if it refers to a note, as `[1]` does: that is no word of
    /// the sentence before it.
    pub(crate) fn drop_note(&mut self, since: Position) {
        let is_note = |text: &str| {
            let text = text.trim();
            text.starts_with('[')
                && text.ends_with(']')
                && text.chars().nth(NOTE_CHARS_MAX).is_none()
        };
        if self.open.get(since.open..).is_some_and(is_note) {
            self.open.truncate(since.open);
            self.linked.truncate(since.linked);
        }
    }

    /// Ends the block that is open; without text in it there is none.
    pub fn end_block(&mut self) {
        let mut text = folded(&self.open);
        let linked = folded(&self.linked);
        self.open.clear();
        self.linked.clear();
        let heading =
            std::mem::take(&mut self.heading) && text.split(' ').nth(HEADING_WORDS_MAX).is_none();
        if heading {
            text.truncate(without_marks(&text).len());
        }
        if !text.is_empty() {
            let link = text == linked;
            let block = Block {
                text,
                heading,
                link,
            };
            self.document.blocks.push(block);
        }
    }

    /// Begins a block that is a heading.
    pub fn begin_heading(&mut self) {
        self.end_block();
        self.heading = true;
    }

    /// Ends the block that is open, which was a heading.
    pub(crate) fn end_heading(&mut self) {
        self.heading = true;
        self.end_block();
    }

    /// What the document says its title is. The first one holds.
    pub fn set_title(&mut self, title: &str) {
        let title = folded(title);
        if self.document.title.is_none() && !title.is_empty() {
            self.document.title = Some(title);
        }
    }

    /// All blocks of another document, and the heading that was left out of it: its title is not with the
    /// passages of this one.
    pub fn append(&mut self, other: Document) {
        self.end_block();
        let Document {
            title,
            blocks,
            is_headed,
        } = other;
        let heading = title.filter(|_| is_headed).map(|text| Block {
            text,
            heading: true,
            link: false,
        });
        self.document.blocks.extend(heading);
        self.document.blocks.extend(blocks);
    }

    /// The document. Without a title of its own its first heading is the title.
    pub fn finish(mut self) -> Document {
        self.end_block();
        let Document {
            title,
            blocks,
            is_headed,
        } = &mut self.document;
        let first = blocks.iter().find(|block| block.heading);
        let first = first.map(|block| block.text.clone());
        *title = title.take().or(first);
        // Without a passage there is none that has the title with it.
        let repeats = |block: &Block| block.heading && Some(&block.text) == title.as_ref();
        *is_headed = blocks.len() > 1 && blocks.first().is_some_and(repeats);
        if *is_headed {
            blocks.remove(0);
        }
        self.document
    }
}

/// A heading without what stands behind it for editors: `[edit]`, the number of a note, a sign for its
/// address. One that is nothing else stays.
fn without_marks(heading: &str) -> &str {
    let shorter = |text: &'_ str| -> Option<usize> {
        let text = text.trim_end();
        if let Some(rest) = text.strip_suffix(['¶', '§']) {
            return Some(rest.len());
        }
        let (rest, inside) = text.strip_suffix(']')?.rsplit_once('[')?;
        let is_number = !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit());
        let is_control = CONTROLS
            .iter()
            .any(|word| inside.eq_ignore_ascii_case(word));
        (is_number || is_control).then_some(rest.len())
    };
    let mut bare = heading;
    while let Some(end) = shorter(bare)
        && !bare[..end].trim().is_empty()
    {
        bare = bare[..end].trim_end();
    }
    bare
}

/// The text with every run of white space and control characters as one space, and without what only says
/// where a line may or must not break: such a character would stay within words, and no reader sees it.
///
/// `spechop_types` has such a rule, too. This crate uses none of ours, and takes away less.
pub fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let gap = |c: char| c.is_whitespace() || c.is_control();
    // Soft hyphen, word joiner, and what was the word joiner before there was one.
    let unseen = |c: char| matches!(c, '\u{ad}' | '\u{2060}' | '\u{feff}');
    let words = text.split(gap).filter(|word| !word.chars().all(unseen));
    for word in words {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(word.split(unseen));
    }
    folded
}

/// Its blocks as [`Block`] shows them, for tables of tests.
#[cfg(test)]
pub(crate) fn shown(document: &Document) -> Vec<String> {
    document.blocks.iter().map(ToString::to_string).collect()
}
