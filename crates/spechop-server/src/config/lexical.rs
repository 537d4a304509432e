//! How much words count beside vectors.

use std::fmt;

use super::keys::Keys;

/// Fitted by `spechop eval fit-words`; docs/MEASURED.md says on what, and what it brings.
const FITTED: f32 = 0.2;
/// The postings of so many passages take three seconds of a core at the start, and 12 MB.
const PASSAGES_MAX: usize = 50_000;

/// How much the words of a query count beside its vector when the index is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LexicalWeight {
    /// As fitted on other questions, if the index is so small that the start is not held up.
    Auto,
    /// From 0, which is not at all, to 10.
    Fixed(f32),
}

impl LexicalWeight {
    /// The key.
    pub(crate) const KEY: &str = "index.lexical_weight";

    /// The weight over an index of so many passages.
    pub fn over(self, passages: usize) -> f32 {
        match self {
            Self::Auto if passages <= PASSAGES_MAX => FITTED,
            Self::Auto => 0.0,
            Self::Fixed(weight) => weight,
        }
    }

    pub(super) fn read(keys: &mut Keys<'_>) -> Self {
        if keys.is(Self::KEY, "auto") {
            return Self::Auto;
        }
        let weight = keys.number(Self::KEY);
        weight.map_or(Self::Auto, |weight| Self::Fixed(weight as f32))
    }
}

/// As in the file of settings.
impl fmt::Display for LexicalWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(weight) => weight.fmt(f),
        }
    }
}
