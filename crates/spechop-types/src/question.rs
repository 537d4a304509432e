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

    /// Whether the answer can only be yes or no: it begins with an auxiliary verb, and neither names alternatives nor asks
    /// for something else behind that (`Can you tell me …`, `Does anyone know who …`).
    pub fn asks_yes_or_no(&self) -> bool {
        // With a capital they stand in titles.
        const ASKING: [&str; 9] = [
            "what", "which", "when", "where", "how", "whom", "whose", "why", "tell",
        ];
        const KNOWS: [&str; 4] = ["know", "knows", "me", "say"];
        let words: Vec<&str> = self.0.split(' ').collect();
        let is_to_you = words
            .get(1)
            .is_none_or(|word| word.eq_ignore_ascii_case("you"));
        let wants_another = words.iter().any(|word| ASKING.contains(word))
            || words
                .windows(2)
                .any(|two| KNOWS.contains(&two[0]) && two[1] == "who");
        let wants_another = wants_another || self.has_alternatives();
        self.begins_with_auxiliary() && !is_to_you && !wants_another
    }

    /// Whether its first word is an auxiliary verb.
    pub fn begins_with_auxiliary(&self) -> bool {
        #[rustfmt::skip]
        const AUXILIARIES: [&str; 14] = [
            "is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can", "could", "will", "would",
        ];
        let first = self.0.split(' ').next().unwrap_or_default();
        AUXILIARIES.contains(&&*first.to_lowercase())
    }

    /// Between alternatives. With one capital it stands in titles.
    fn has_alternatives(&self) -> bool {
        self.0.contains(" or ") || self.0.contains(" OR ")
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
        self.has_alternatives() || from.into_iter().any(lists)
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
            ("Does anyone know who directed Up?", false, false),
            ("Could anybody tell me the director of Up?", false, false),
            ("Will Smith was born in which city?", false, false),
            ("Was Ann OR Ben born first?", false, true),
            (
                "Do the films Who and When Ann Met Ben have directors who are French?",
                true,
                false,
            ),
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
