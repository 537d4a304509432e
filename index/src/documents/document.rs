//! A document as all formats are brought to: a title, and blocks of text.

/// What is read out of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// The title that the document itself gives.
    pub(super) title: Option<String>,
    pub(super) blocks: Vec<Block>,
}

/// A paragraph, a heading, an item of a list, a row of a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Not empty; its white space is folded.
    pub(super) text: String,
    pub(super) heading: bool,
}

/// Puts a [`Document`] together from what a parser meets.
#[derive(Debug, Default)]
pub(super) struct Builder {
    document: Document,
    open: String,
    heading: bool,
}

impl Builder {
    /// More text of the block that is open.
    pub(super) fn push(&mut self, text: &str) {
        self.open.push_str(text);
    }

    /// Ends the block that is open; without text in it there is none.
    pub(super) fn end_block(&mut self) {
        let text = folded(&self.open);
        self.open.clear();
        let heading = std::mem::take(&mut self.heading);
        if !text.is_empty() {
            self.document.blocks.push(Block { text, heading });
        }
    }

    /// Begins a block that is a heading.
    pub(super) fn begin_heading(&mut self) {
        self.end_block();
        self.heading = true;
    }

    /// What the document says its title is. The first one holds.
    pub(super) fn set_title(&mut self, title: &str) {
        let title = folded(title);
        if self.document.title.is_none() && !title.is_empty() {
            self.document.title = Some(title);
        }
    }

    /// All blocks of another document.
    pub(super) fn append(&mut self, other: Document) {
        self.end_block();
        self.document.blocks.extend(other.blocks);
    }

    /// The document. Without a title of its own its first heading is the title.
    pub(super) fn finish(mut self) -> Document {
        self.end_block();
        let Document { title, blocks } = &mut self.document;
        let first = blocks.iter().find(|block| block.heading);
        let first = first.map(|block| block.text.clone());
        *title = title.take().or(first);
        // It is encoded with every passage already.
        let repeats = |block: &Block| block.heading && Some(&block.text) == title.as_ref();
        if blocks.first().is_some_and(repeats) {
            blocks.remove(0);
        }
        self.document
    }
}

/// The text with every run of white space and control characters as one space.
pub(super) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let gap = |c: char| c.is_whitespace() || c.is_control();
    for word in text.split(gap).filter(|word| !word.is_empty()) {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.push_str(word);
    }
    folded
}

/// Paragraphs as blocks, for tables of tests: `# ` before a heading.
#[cfg(test)]
pub(super) fn shown(document: &Document) -> Vec<String> {
    let shown = |block: &Block| format!("{}{}", if block.heading { "# " } else { "" }, block.text);
    document.blocks.iter().map(shown).collect()
}
