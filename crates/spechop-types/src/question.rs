//! The question as asked.

use std::fmt;
use std::sync::Arc;

use crate::one_line;

/// Longest question accepted, in bytes. The longest of 2WikiMultihopQA and MuSiQue is under 400.
pub const QUESTION_BYTES_MAX: usize = 4096;

/// A question that is worth sending to a model: trimmed, not empty, not huge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question(Arc<str>);

/// Why a text is no question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidQuestion {
    /// Nothing but white space and control characters.
    Empty,
    /// Longer than [`QUESTION_BYTES_MAX`]; holds the length in bytes.
    TooLong(usize),
}

impl Question {
    /// Trims the text and folds control characters and runs of white space into single spaces.
    pub fn new(text: &str) -> Result<Self, InvalidQuestion> {
        if text.len() > QUESTION_BYTES_MAX {
            return Err(InvalidQuestion::TooLong(text.len()));
        }
        let folded = one_line(text);
        if !folded.chars().any(char::is_alphanumeric) {
            return Err(InvalidQuestion::Empty);
        }
        Ok(Self(folded.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InvalidQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the question is empty"),
            Self::TooLong(bytes) => write!(
                f,
                "the question has {bytes} bytes; the most is {QUESTION_BYTES_MAX}"
            ),
        }
    }
}

impl std::error::Error for InvalidQuestion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_white_space_and_control_characters() {
        let question = Question::new("  Who\tdirected\n\u{0} the film?  ").unwrap();
        assert_eq!(question.as_str(), "Who directed the film?");
    }

    #[test]
    fn refuses_what_is_no_question() {
        for empty in ["", "  \n\t", "\u{0}\u{7}", "?!", "…"] {
            assert_eq!(
                Question::new(empty),
                Err(InvalidQuestion::Empty),
                "{empty:?}"
            );
        }
        assert_eq!(
            Question::new(&"a".repeat(100_000)),
            Err(InvalidQuestion::TooLong(100_000))
        );
    }
}
