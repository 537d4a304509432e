//! How much of a text from outside may be a part of something that has to fit: of a reader's input, where the
//! passage needs room, too, or of a planner's prompt.

use spechop_ports::PlanRequest;
use spechop_types::{Step, SubQuestion};

/// Most characters of such a part. Sub-questions and sub-answers are far shorter.
const CHARS_MAX: usize = 300;

/// Most tokens of it, as they are counted here. The shipped reader takes 256 for sub-question and passage: a
/// hundred are left for the passage.
const TOKENS_MAX: usize = 150;

/// ASCII letters in a row that count as one token.
const WORD_LETTERS: usize = 4;

/// The step of a planner that has none and knows nothing yet: the question itself is looked up, or as much of
/// it as can be.
pub(crate) fn whole_question(request: &PlanRequest) -> Step {
    Step::Ask(SubQuestion::new(beginning(request.question.as_str())))
}

/// The text, or its beginning if it is a page, or much in a script that takes many tokens.
///
/// Whose tokens they will be is not known here, so they are counted as a reader's English vocabulary cuts
/// other scripts: a letter is a token, and a Hangul syllable is taken apart into its three letters. A
/// planner's may take more, and says so if its prompt is too long ([`spechop_ports::PortError::TooLong`]).
/// English words have fewer tokens than are counted; digits may be cut as letters of other scripts
/// are.
pub(crate) fn beginning(text: &str) -> &str {
    let (mut tokens, mut letters) = (0, 0);
    for (chars, (at, c)) in text.char_indices().enumerate() {
        letters = if c.is_ascii_alphabetic() {
            letters + 1
        } else {
            0
        };
        tokens += match c {
            _ if letters > 0 => usize::from(letters % WORD_LETTERS == 1),
            '가'..='힣' => 3,
            _ => usize::from(!c.is_whitespace()),
        };
        if chars == CHARS_MAX || tokens > TOKENS_MAX {
            return text[..at].trim_end();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_takes_many_tokens_is_cut_sooner() {
        for (text, chars) in [
            ("", 0),
            (" word ", 6),
            // As much of it as there may be characters.
            ("word ", 299),
            ("extraordinarily ", 300),
            // Three tokens: the letters on either side are words of their own.
            ("wörd ", 249),
            // Five tokens.
            ("слово ", 179),
            ("1987 ", 187),
            ("東", 150),
            ("?!", 150),
            // Six tokens.
            ("한국 ", 74),
        ] {
            let long = match chars {
                0..=6 => text.to_owned(),
                _ => text.repeat(400),
            };
            assert_eq!(beginning(&long).chars().count(), chars, "{text}");
        }
    }

    proptest! {
        /// Whatever the text, what is left is its beginning, and short enough to stay as it is.
        #[test]
        fn it_is_a_beginning(text in r"(word|слово|東|한|1987|[ ?.,]|\PC){0,400}") {
            let cut = beginning(&text);
            prop_assert!(text.starts_with(cut));
            prop_assert!(cut.chars().count() <= CHARS_MAX);
            prop_assert_eq!(beginning(cut), cut);
        }
    }
}
