//! Markdown: its text without its marks.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use spechop_text::{Builder, Document, html};

/// Reads Markdown with tables, footnotes and a block of metadata at its beginning, whose `title:`
/// is the title. Else the first heading is.
pub(super) fn parse(text: &str) -> Document {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut page = Page::default();
    for event in Parser::new_ext(text, options) {
        page.take(event);
    }
    page.builder.finish()
}

#[derive(Default)]
struct Page {
    builder: Builder,
    /// The block of HTML that is open.
    html: String,
    in_metadata: bool,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::MetadataBlock(_)) => self.in_metadata = true,
            Event::End(TagEnd::MetadataBlock(_)) => self.in_metadata = false,
            Event::Text(text) if self.in_metadata => self.take_title(&text),
            Event::Start(Tag::Heading { .. }) => self.builder.begin_heading(),
            Event::Start(tag) if is_inline(&tag.to_end()) => {}
            Event::End(TagEnd::TableCell) => self.builder.push(" "),
            Event::Start(Tag::TableCell) => {}
            Event::End(TagEnd::HtmlBlock) => self.take_html(),
            Event::Start(_) | Event::Rule => self.builder.end_block(),
            Event::End(tag) if is_inline(&tag) => {}
            Event::End(_) => self.builder.end_block(),
            Event::Text(text) | Event::Code(text) => self.builder.push(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.builder.push(&text),
            Event::SoftBreak | Event::HardBreak => self.builder.push(" "),
            Event::Html(html) => self.html.push_str(&html),
            Event::InlineHtml(tag) if is_break(&tag) => self.builder.push(" "),
            Event::InlineHtml(_) | Event::FootnoteReference(_) | Event::TaskListMarker(_) => {}
        }
    }

    fn take_title(&mut self, metadata: &str) {
        let title = metadata
            .lines()
            .find_map(|line| line.strip_prefix("title:"));
        if let Some(title) = title {
            self.builder
                .set_title(title.trim().trim_matches(['"', '\'']));
        }
    }

    fn take_html(&mut self) {
        // Of HTML that is hostile nothing is taken; the Markdown around it is.
        if let Ok(document) = html::parse(&std::mem::take(&mut self.html)) {
            self.builder.append(document);
        }
    }
}

/// Whether text goes on across the tag.
fn is_inline(tag: &TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::Link
            | TagEnd::Image
    )
}

fn is_break(tag: &str) -> bool {
    tag.get(..3)
        .is_some_and(|name| name.eq_ignore_ascii_case("<br"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(document: &Document) -> Vec<String> {
        document.blocks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn text_without_its_marks() {
        for (text, title, blocks) in [
            ("", None, &[][..]),
            ("plain *words* and `code`", None, &["plain words and code"]),
            (
                "# Ana Ruiz\n\nShe [films](x \"t\").",
                Some("Ana Ruiz"),
                &["She films."],
            ),
            (
                "Ana Ruiz\n===\nShe\nfilms.\n## Early *life*\n- Born\n- Grew",
                Some("Ana Ruiz"),
                &["She films.", "# Early life", "Born", "Grew"],
            ),
            (
                "---\ntitle: \"Ana Ruiz\"\ndate: 1990\n---\n# About\nText",
                Some("Ana Ruiz"),
                &["# About", "Text"],
            ),
            ("| a | b |\n|---|---|\n| c | d |", None, &["a b", "c d"]),
            ("one<br>two <b>three</b>", None, &["one two three"]),
            ("one<BR/>two", None, &["one two"]),
            (
                "<div>\n<p>In HTML</p><script>no()</script>\n</div>\n\nAfter",
                None,
                &["In HTML", "After"],
            ),
            (
                "<div align=\"center\">\n<h1>Foo</h1>\n<p>Foo finds films.</p>\n</div>\n\n\
                 ## Install\n\nRun it.",
                Some("Foo"),
                &["Foo finds films.", "# Install", "Run it."],
            ),
            (
                "> quoted\n\n![a map](m.png)\n\n***\n\nend[^1]\n\n[^1]: note",
                None,
                &["quoted", "a map", "end", "note"],
            ),
        ] {
            let document = parse(text);
            assert_eq!(document.title.as_deref(), title, "{text:?}");
            assert_eq!(shown(&document), blocks, "{text:?}");
        }
    }

    #[test]
    fn hostile_text_is_read_in_no_time() {
        let n = 100_000;
        let started = tokio::time::Instant::now();
        for text in [
            "> ", "- ", "[", "![", "*a ", "*a_ ", "`a ``", "<a ", "| a ", "[^1]: ", "[a]: b\n",
            "  - a\n", "<!--",
        ] {
            parse(&format!("{}end", text.repeat(n)));
        }
        let took = started.elapsed();
        assert!(took < std::time::Duration::from_secs(30), "{took:?}");
    }
}
