//! Thoughts that a model writes before its text, between `<think>` and `</think>`: an endpoint may leave them there, and a
//! model in the process always does.

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

pub(crate) fn thoughts(text: &str) -> Thoughts {
    let Some(thought) = text.trim_start().strip_prefix(OPEN) else {
        return Thoughts::None;
    };
    let begin = text.len() - thought.len();
    let end = thought.find(CLOSE).map(|at| begin + at + CLOSE.len());
    end.map_or(Thoughts::Unfinished, Thoughts::Until)
}

/// What a model has said behind its thoughts. Some templates open them for the model, which then only closes them.
pub(crate) fn spoken(text: &str) -> &str {
    match thoughts(text) {
        Thoughts::None => text.rsplit_once(CLOSE).map_or(text, |(_, said)| said),
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
}
