//! Texts from outside, cut to a length.

/// At the end of a text that was cut.
pub(super) const MARK: &str = "…";

/// A text of at most so many bytes, the mark of a cut included.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max - MARK.len());
    [&text[..end], MARK].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        for (text, bytes_max, expected) in [
            ("as it is", 8, "as it is"),
            ("as it is.", 8, "as it…"),
            ("ééééé", 10, "ééééé"),
            ("ééééé", 9, "ééé…"),
            ("ééééé", 8, "éé…"),
            ("", 0, ""),
        ] {
            let cut = cut(text, bytes_max);
            assert_eq!(cut, expected);
            assert!(cut.len() <= bytes_max);
        }
    }
}
