//! Texts with their names taken out.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::HOPS_MAX;

/// Longest form in bytes, its slots included.
const FORM_BYTES_MAX: usize = 512;

/// Where the words of a gap come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    /// `{q1}`: the first name in the question.
    Name(u8),
    /// `{a1}`: the answer of the first hop.
    Answer(u8),
    /// `{s1}`: the first gap of the last sub-question.
    Again(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Piece {
    Text(Box<str>),
    Slot(Slot),
}

/// A text with gaps: `Who is the father of {a1}?`. Two gaps never touch, since nobody could tell
/// where one of them ends. Written `{{` and `}}`, braces are text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Form(Box<[Piece]>);

/// Why a text is no form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidForm {
    /// Nothing but gaps.
    #[error("a form needs words of its own")]
    Empty,
    /// Longer than a form may be.
    #[error("a form has at most {FORM_BYTES_MAX} bytes")]
    TooLong,
    /// Two gaps without a character between them.
    #[error("two slots touch each other, so their words cannot be told apart")]
    Touching,
    /// A pattern that nobody follows to its end.
    #[error("a pattern has at most {HOPS_MAX} sub-questions in a row")]
    TooDeep,
    /// No such slot, or a brace that stands alone.
    #[error("`{0}` is no slot: known are {{q1}}, {{a1}} and {{s1}}, with numbers from 1")]
    Slot(String),
}

/// The words for the gaps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Words<'a> {
    pub(crate) names: &'a [&'a str],
    pub(crate) answers: &'a [&'a str],
    pub(crate) again: &'a [&'a str],
}

impl<'a> Words<'a> {
    fn of(self, slot: Slot) -> Option<&'a str> {
        let word = match slot {
            Slot::Name(at) => self.names.get(usize::from(at)),
            Slot::Answer(at) => self.answers.get(usize::from(at)),
            Slot::Again(at) => self.again.get(usize::from(at)),
        };
        word.copied().filter(|word| !word.is_empty())
    }
}

impl Form {
    /// Checks what [`Form`] promises. Empty texts are left out.
    pub(crate) fn new(pieces: Vec<Piece>) -> Result<Self, InvalidForm> {
        let is_text = |piece: &Piece| matches!(piece, Piece::Text(_));
        let empty = |piece: &Piece| matches!(piece, Piece::Text(text) if text.is_empty());
        let pieces: Vec<_> = pieces.into_iter().filter(|piece| !empty(piece)).collect();
        if pieces.windows(2).any(|two| !two.iter().any(is_text)) {
            return Err(InvalidForm::Touching);
        }
        let form = Self(pieces.into());
        if form.own_bytes() == 0 {
            return Err(InvalidForm::Empty);
        }
        if form.to_string().len() > FORM_BYTES_MAX {
            return Err(InvalidForm::TooLong);
        }
        Ok(form)
    }

    /// The gaps in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Slot(slot) => Some(*slot),
            Piece::Text(_) => None,
        })
    }

    /// The same words with other gaps; `None` if one of them has no other.
    pub(crate) fn with_slots(&self, other: impl Fn(Slot) -> Option<Slot>) -> Option<Self> {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Slot(slot) => other(*slot).map(Piece::Slot),
            Piece::Text(_) => Some(piece.clone()),
        });
        Some(Self(pieces.collect::<Option<_>>()?))
    }

    /// The bytes outside of gaps: the more, the more a match says.
    pub(crate) fn own_bytes(&self) -> usize {
        let bytes = |piece: &Piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Slot(_) => 0,
        };
        self.0.iter().map(bytes).sum()
    }

    /// The words before the first gap.
    pub(crate) fn head(&self) -> &str {
        match self.0.first() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// The text with its gaps filled; `None` if the words for one of them are missing.
    pub(crate) fn filled(&self, words: Words<'_>) -> Option<String> {
        let mut text = String::with_capacity(96);
        for piece in &self.0 {
            text.push_str(match piece {
                Piece::Text(own) => own,
                Piece::Slot(slot) => words.of(*slot)?,
            });
        }
        Some(text)
    }

    /// Whether [`Form::filled`] gives this text; builds nothing.
    pub(crate) fn says(&self, text: &str, words: Words<'_>) -> bool {
        let mut rest = text;
        for piece in &self.0 {
            let part = match piece {
                Piece::Text(own) => Some(&**own),
                Piece::Slot(slot) => words.of(*slot),
            };
            let Some(after) = part.and_then(|part| rest.strip_prefix(part)) else {
                return false;
            };
            rest = after;
        }
        rest.is_empty()
    }

    /// The words of a text that stand where the form has its gaps, if the text has this form.
    ///
    /// A gap ends where the text behind it begins for the first time, save the last one, which ends where
    /// the form's last text begins.
    pub(crate) fn gaps<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let mut rest = text.strip_prefix(self.head())?;
        let mut pieces = &self.0[usize::from(!self.head().is_empty())..];
        if let [inner @ .., Piece::Text(tail)] = pieces {
            rest = rest.strip_suffix(&**tail)?;
            pieces = inner;
        }
        if pieces.is_empty() {
            return rest.is_empty().then(Vec::new);
        }
        let mut gaps = Vec::with_capacity(pieces.len().div_ceil(2));
        for between in pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(&**text),
            Piece::Slot(_) => None,
        }) {
            let (gap, after) = rest.split_once(between)?;
            gaps.push(gap);
            rest = after;
        }
        gaps.push(rest);
        let is_name = |gap: &&str| !gap.is_empty() && gap.trim().len() == gap.len();
        gaps.iter().all(is_name).then_some(gaps)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(at) => write!(f, "{{q{}}}", u32::from(*at) + 1),
            Self::Answer(at) => write!(f, "{{a{}}}", u32::from(*at) + 1),
            Self::Again(at) => write!(f, "{{s{}}}", u32::from(*at) + 1),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) if text.contains(['{', '}']) => {
                    f.write_str(&text.replace('{', "{{").replace('}', "}}"))?;
                }
                Piece::Text(text) => f.write_str(text)?,
                Piece::Slot(slot) => slot.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl From<Form> for String {
    fn from(form: Form) -> Self {
        form.to_string()
    }
}

impl TryFrom<String> for Form {
    type Error = InvalidForm;

    fn try_from(text: String) -> Result<Self, InvalidForm> {
        text.parse()
    }
}

impl std::str::FromStr for Form {
    type Err = InvalidForm;

    fn from_str(text: &str) -> Result<Self, InvalidForm> {
        if text.len() > FORM_BYTES_MAX {
            return Err(InvalidForm::TooLong);
        }
        let mut pieces = Vec::new();
        let mut own = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            own.push_str(&rest[..at]);
            rest = &rest[at..];
            let doubled = ["{{", "}}"].iter().find(|two| rest.starts_with(**two));
            if let Some(two) = doubled {
                own.push_str(&two[..1]);
                rest = &rest[2..];
                continue;
            }
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            let slot = slot(&rest[..end]);
            let slot = slot.ok_or_else(|| InvalidForm::Slot(rest[..end].to_owned()))?;
            pieces.push(Piece::Text(std::mem::take(&mut own).into()));
            pieces.push(Piece::Slot(slot));
            rest = &rest[end..];
        }
        own.push_str(rest);
        pieces.push(Piece::Text(own.into()));
        Self::new(pieces)
    }
}

/// `{q1}` and its kind.
fn slot(text: &str) -> Option<Slot> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    let number = |rest: &str| {
        let plain = rest.bytes().all(|byte| byte.is_ascii_digit()) && !rest.starts_with('0');
        let number: u8 = rest.parse().ok().filter(|_| plain)?;
        number.checked_sub(1)
    };
    match name.split_at_checked(1)? {
        ("q", rest) => number(rest).map(Slot::Name),
        ("a", rest) => number(rest).map(Slot::Answer),
        ("s", rest) => number(rest).map(Slot::Again),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Form {
        text.parse().unwrap()
    }

    #[test]
    fn forms_read_back_as_they_are_written() {
        for text in [
            "Who is the father of {q1}?",
            "{s1} was directed by whom?",
            "Is {a2} in {q2} or in {a12}?",
            "a {{brace}} and {q1}{{",
            "no gap",
        ] {
            assert_eq!(form(text).to_string(), text);
        }
        for (bad, why) in [
            ("{q1}", InvalidForm::Empty),
            ("", InvalidForm::Empty),
            ("x {q1}{a1}", InvalidForm::Touching),
            ("x {q0}", InvalidForm::Slot("{q0}".into())),
            ("x {q01}", InvalidForm::Slot("{q01}".into())),
            ("x {z1}", InvalidForm::Slot("{z1}".into())),
            ("x {q300}", InvalidForm::Slot("{q300}".into())),
            ("x {q1", InvalidForm::Slot("{q1".into())),
            ("x {é}", InvalidForm::Slot("{é}".into())),
            ("x } y", InvalidForm::Slot("}".into())),
            (&"x".repeat(513), InvalidForm::TooLong),
        ] {
            assert_eq!(bad.parse::<Form>(), Err(why), "{bad}");
        }
    }

    #[test]
    fn gaps_are_found_by_the_words_around_them() {
        for (text, pattern, gaps) in [
            (
                "Who is Al's father?",
                "Who is {q1}'s father?",
                Some(vec!["Al"]),
            ),
            ("A or B?", "{q1} or {q2}?", Some(vec!["A", "B"])),
            (
                "Which, A or B or C?",
                "Which, {q1} or {q2}?",
                Some(vec!["A", "B or C"]),
            ),
            ("Who?", "Who?", Some(vec![])),
            ("Who? Me?", "Who?", None),
            ("Who is 's father?", "Who is {q1}'s father?", None),
            ("Who is  Al's father?", "Who is {q1}'s father?", None),
            ("Who is Al", "Who is {q1}'s father?", None),
            ("who is Al's father?", "Who is {q1}'s father?", None),
        ] {
            assert_eq!(form(pattern).gaps(text), gaps, "{text}");
        }
    }

    #[test]
    fn what_is_filled_in_is_said() {
        let words = Words {
            names: &["Al", "Bo"],
            answers: &["Cy", ""],
            again: &["Di"],
        };
        let filled = |text: &str| form(text).filled(words);
        assert_eq!(filled("{q2}, {a1} and {s1}"), Some("Bo, Cy and Di".into()));
        // An answer that is empty, and gaps that nothing fills.
        for missing in ["x {a2}", "x {a3}", "x {q3}", "x {s2}"] {
            assert_eq!(filled(missing), None, "{missing}");
        }
        assert!(form("{q2}, {a1}!").says("Bo, Cy!", words));
        for other in ["Bo, Cy", "Bo, Cy!!", "bo, Cy!", ""] {
            assert!(!form("{q2}, {a1}!").says(other, words), "{other}");
        }
    }
}
