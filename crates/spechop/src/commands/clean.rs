//! Texts from outside, made fit for a terminal.

use spechop_types::{is_invisible, one_line};

/// A text on one line without characters that steer a terminal or cannot be seen: control characters
/// become blanks, invisible characters (bidirectional marks, zero-width blanks, tags, variation
/// selectors, fillers) disappear.
pub(crate) fn clean(text: &str) -> String {
    let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    one_line(&visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_invisible_is_left() {
        for (text, cleaned) in [
            ("Xawery Żuławski", "Xawery Żuławski"),
            ("  two\n\tlines\r\n", "two lines"),
            ("\u{1b}[2J\u{7}bell\u{9b}31m", "[2J bell 31m"),
            ("a\u{2028}b\u{85}c", "a b c"),
            // Right to left: it would be read as `exe.txt`.
            ("a\u{202e}txt.exe\u{202c}", "atxt.exe"),
            ("\u{2067}isolated\u{2069}", "isolated"),
            ("pay\u{200b}pal\u{feff}", "paypal"),
            ("soft\u{ad}hyphen", "softhyphen"),
            // Tags, which nobody sees and a model may read.
            ("hi\u{e0068}\u{e0069}\u{e007f}", "hi"),
            // Bytes can be written in variation selectors, and fillers are letters that nobody sees.
            ("A\u{fe01}\u{e0101}\u{e01ef}B", "AB"),
            ("\u{3164}a\u{115f}b\u{ffa0}c\u{34f}", "abc"),
            ("\u{200b}\u{2066}", ""),
            // What looks like them and is seen.
            (
                "naïve — ‘quoted’ … 東京 \u{301}",
                "naïve — ‘quoted’ … 東京 \u{301}",
            ),
        ] {
            assert_eq!(clean(text), cleaned, "{text:?}");
        }
    }
}
