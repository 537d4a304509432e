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

    /// Whether the answer can only be yes or no: it begins with an auxiliary verb and names no alternatives. `Can you
    /// tell me …` asks for something else.
    pub fn asks_yes_or_no(&self) -> bool {
        #[rustfmt::skip]
        const AUXILIARIES: [&str; 14] = [
            "is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can", "could", "will", "would",
        ];
        let mut words = self.0.split(' ').map(str::to_lowercase);
        let begins = words
            .next()
            .is_some_and(|word| AUXILIARIES.contains(&&*word));
        begins && words.next().is_some_and(|word| word != "you") && !self.0.contains(OR)
    }

    /// Whether it names what to choose from: `A or B`, `out of A and B`, `which of A and B`.
    pub fn offers_a_choice(&self) -> bool {
        let text = format!(" {}", self.0.to_lowercase());
        let lists = |behind: &str| {
            let listed = text.split_once(behind);
            listed.is_some_and(|(before, listed)| {
                // `the directors of A and B` are none of them.
                let asks = behind != " of " || before.is_empty();
                asks && listed.contains(" and ")
            })
        };
        let from = [" out of ", " between ", " which of ", " who of ", " of "];
        self.0.contains(OR) || from.into_iter().any(lists)
    }
}

/// Between alternatives. In titles it is often written with a capital.
const OR: &str = " or ";

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
    fn a_question_may_offer_its_answers() {
        for (text, yes_or_no, choice) in [
            ("Are Ann and Ben from the same country?", true, false),
            (
                "are the directors of A Wife Or Two and Up from one country",
                true,
                false,
            ),
            ("Was Ann or Ben born first?", false, true),
            ("Who was born first out of Ann and Ben?", false, true),
            ("Which of Ann and Ben is older?", false, true),
            ("Of Ann and Ben, who is older?", false, true),
            ("Who is the child of Ann and Ben?", false, false),
            ("Can you tell me who Ann is?", false, false),
            ("Is", false, false),
        ] {
            let question = Question::new(text).unwrap();
            assert_eq!(question.asks_yes_or_no(), yes_or_no, "{text}");
            assert_eq!(question.offers_a_choice(), choice, "{text}");
        }
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
