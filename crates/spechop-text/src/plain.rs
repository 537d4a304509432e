//! Plain text: blank lines part the paragraphs.

use crate::document::{Block, Builder, Document};
use crate::sentences;

/// A first line of more words is no title.
const TITLE_WORDS_MAX: usize = 12;
/// Nor is one of more characters: some scripts put no blanks between words.
const TITLE_CHARS_MAX: usize = 120;

/// Reads plain text. A short first line that a blank line follows, and that is no sentence, is the
/// title.
pub fn parse(text: &str) -> Document {
    let mut builder = Builder::default();
    let mut lines = text.trim_start().lines().peekable();
    if let Some(first) = lines.peek().copied() {
        let blank = |line: &str| line.trim().is_empty();
        let followed = text.trim_start().lines().nth(1).is_some_and(blank)
            && text.trim_start().lines().skip(2).any(|line| !blank(line));
        if followed && is_title(first) {
            builder.set_title(first);
            lines.next();
        }
    }
    read_paragraphs(&mut builder, lines);
    builder.finish()
}

/// The paragraphs of plain text that has no title in it.
pub fn paragraphs(text: &str) -> Vec<Block> {
    let mut builder = Builder::default();
    read_paragraphs(&mut builder, text.lines());
    builder.finish().blocks
}

fn read_paragraphs<'a>(builder: &mut Builder, lines: impl Iterator<Item = &'a str>) {
    for line in lines {
        if line.trim().is_empty() {
            builder.end_block();
        } else {
            builder.push(line);
            builder.push(" ");
        }
    }
}

fn is_title(line: &str) -> bool {
    let line = line.trim();
    let goes_on = |c: char| matches!(c, ':' | ';' | ',' | '：' | '；' | '，' | '、' | '؛' | '،');
    line.split_whitespace().count() <= TITLE_WORDS_MAX
        && line.chars().nth(TITLE_CHARS_MAX).is_none()
        && !line.ends_with(|c: char| sentences::is_end(c) || goes_on(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::shown;

    #[test]
    fn paragraphs_and_a_title_if_the_first_line_is_one() {
        for (text, title, blocks) in [
            ("", None, &[][..]),
            (" \n\n", None, &[]),
            ("One line", None, &["One line"]),
            (
                "Ana Ruiz\n\nShe films.\nA lot.\r\n\r\nYes.",
                Some("Ana Ruiz"),
                &["She films. A lot.", "Yes."],
            ),
            (
                "\n\nAna Ruiz\n\nShe\tfilms.",
                Some("Ana Ruiz"),
                &["She films."],
            ),
            ("She films.\n\nA lot.", None, &["She films.", "A lot."]),
            ("Ana Ruiz\nShe films.", None, &["Ana Ruiz She films."]),
            ("Ana Ruiz\n\n", None, &["Ana Ruiz"]),
            (
                "東京\n\n日本の首都である。",
                Some("東京"),
                &["日本の首都である。"],
            ),
            (
                "東京は日本の首都である。\n\n人口は多い。",
                None,
                &["東京は日本の首都である。", "人口は多い。"],
            ),
        ] {
            let document = parse(text);
            assert_eq!(document.title.as_deref(), title, "{text:?}");
            assert_eq!(shown(&document), blocks, "{text:?}");
        }
        let long = "字".repeat(TITLE_CHARS_MAX + 1);
        assert_eq!(parse(&format!("{long}\n\n字")).title, None);
    }
}
