//! Thoughts that a model writes before its text, between `<think>` and `</think>`: an endpoint may leave them
//! there, and a model in the process always does.

/// Tokens that a model may think before it writes, beside those of its text.
pub(crate) const THOUGHT_TOKENS_MAX: u32 = 2_048;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// What stands before a text that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thoughts {
    /// The text itself.
    None,
    /// Nothing but thoughts as yet.
    Unfinished,
    /// Thoughts, which end at this byte.
    Until(usize),
}

/// What stands before a text. Some templates open its thoughts (`are_opened`), so that it only closes them.
pub(crate) fn thoughts(text: &str, are_opened: bool) -> Thoughts {
    match text.rfind(CLOSE) {
        Some(at) => Thoughts::Until(at + CLOSE.len()),
        None if are_opened || opens(text) => Thoughts::Unfinished,
        None => Thoughts::None,
    }
}

/// Whether a text opens its thoughts itself.
pub(crate) fn opens(text: &str) -> bool {
    text.trim_start().starts_with(OPEN)
}

/// What stands behind the thoughts that a growing text opens, and behind the blanks after them; `None` while it
/// thinks. In UTF-8, it may end inside a character.
pub(crate) fn behind_thoughts(text: &[u8]) -> Option<&[u8]> {
    if !text.trim_ascii_start().starts_with(OPEN.as_bytes()) {
        return Some(text);
    }
    let close = CLOSE.as_bytes();
    let at = text.windows(close.len()).position(|place| place == close)?;
    Some(text.get(at + close.len()..)?.trim_ascii_start())
}

/// What a model has said behind its thoughts.
pub(crate) fn spoken(text: &str) -> &str {
    match thoughts(text, false) {
        Thoughts::None => text,
        Thoughts::Unfinished => "",
        Thoughts::Until(end) => &text[end..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_stands_behind_the_thoughts() {
        for (text, said) in [
            ("Paris", "Paris"),
            ("", ""),
            ("<think>\nIs it Paris?", ""),
            ("\n<think>Is it?</think>\n\nParis", "\n\nParis"),
            ("Is it Paris?\n</think>Paris", "Paris"),
            ("Paris <think>", "Paris <think>"),
        ] {
            assert_eq!(spoken(text), said, "{text:?}");
        }
    }

    #[test]
    fn thoughts_may_have_been_opened_before_the_text() {
        for (text, are_opened, expected) in [
            ("Is it", false, Thoughts::None),
            ("Is it", true, Thoughts::Unfinished),
            ("<think>Is it", true, Thoughts::Unfinished),
            ("Is it?</think>Paris", true, Thoughts::Until(14)),
            ("Is it?</think>Paris", false, Thoughts::Until(14)),
        ] {
            assert_eq!(thoughts(text, are_opened), expected, "{text:?}");
        }
    }
}
