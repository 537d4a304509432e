//! Guess against observation: a verdict.
//!
//! A false accept changes an answer, a false reject only costs time: precision comes first. The
//! paper (SpecHop, appendix D.4) accepts on shared words. Here a guess is accepted only where
//! everything in which the two texts differ is known to say nothing: the way a date or a number is
//! written, an article, a title, the sentence around the answer. What is not known to be harmless
//! is a difference. Where two texts alone cannot tell (`John Adams`, `John Quincy Adams`), the guess
//! is rejected.
//!
//! Pure: text in, verdict out. No model, no I/O.

mod compare;
mod dates;
mod frames;
mod lists;
mod names;
mod numbers;
mod overlap;
mod paper;
mod places;
mod polarity;
mod reason;
mod spelling;
mod tokens;

use serde::{Deserialize, Serialize};

pub use dates::Date;
/// How strictly a guess is compared. [`Mode::Rule`] is by the rules of this crate.
pub use spechop_types::VerifierMode as Mode;

/// The rule that decided. The names are stable: they appear in verdicts, traces and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Accepted: the same words, numbers and dates.
    Equal,
    /// Accepted: one holds the other, and the rest identifies nothing.
    Containment,
    /// Accepted: the guess covers the observation, save for words that identify nothing.
    Coverage,
    /// Accepted: both have most words in common, and the others identify nothing.
    Jaccard,
    /// Accepted: one spells out what the other gives as initials, or puts the surname first.
    Name,
    /// Accepted: the same items in another order.
    List,
    /// Accepted: two names of one place.
    Place,
    /// Rejected: one of the texts has no letter and no digit.
    Empty,
    /// Rejected: one of the texts refuses to answer.
    Refusal,
    /// Rejected: one of the texts is a supposition.
    Hedge,
    /// Rejected: yes against no, or against neither.
    Polarity,
    /// Rejected: one negates.
    Negation,
    /// Rejected: days, months or years differ, or one is less exact.
    Date,
    /// Rejected: numbers differ, or one text has more.
    Number,
    /// Rejected: first, second; Junior, Senior.
    Ordinal,
    /// Rejected: north or south, older or younger, mother or father.
    Direction,
    /// Rejected: "A or B" or "A and B" against something else.
    Alternatives,
    /// Rejected: another title, relation, region or remark in parentheses.
    Qualifier,
    /// Rejected: under five characters, and not equal.
    Short,
    /// Rejected: other words.
    Different,
}

/// What the comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// May the hop be committed with the guess?
    pub accepted: bool,
    /// The rule that decided.
    pub rule: Rule,
    /// Share of the observation's words, stop words aside, that the guess holds; 0 to 1.
    pub coverage: f64,
    /// Words in common over all words of both, stop words aside; 0 to 1.
    pub jaccard: f64,
}

impl Rule {
    /// Every rule, for tables.
    pub const ALL: [Self; 20] = [
        Self::Equal,
        Self::Containment,
        Self::Coverage,
        Self::Jaccard,
        Self::Name,
        Self::List,
        Self::Place,
        Self::Empty,
        Self::Refusal,
        Self::Hedge,
        Self::Polarity,
        Self::Negation,
        Self::Date,
        Self::Number,
        Self::Ordinal,
        Self::Direction,
        Self::Alternatives,
        Self::Qualifier,
        Self::Short,
        Self::Different,
    ];

    /// The rule's name in verdicts, traces and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Containment => "containment",
            Self::Coverage => "coverage",
            Self::Jaccard => "jaccard",
            Self::Name => "name",
            Self::List => "list",
            Self::Place => "place",
            Self::Empty => "empty",
            Self::Refusal => "refusal",
            Self::Hedge => "hedge",
            Self::Polarity => "polarity",
            Self::Negation => "negation",
            Self::Date => "date",
            Self::Number => "number",
            Self::Ordinal => "ordinal",
            Self::Direction => "direction",
            Self::Alternatives => "alternatives",
            Self::Qualifier => "qualifier",
            Self::Short => "short",
            Self::Different => "different",
        }
    }

    /// Does this rule accept?
    pub fn accepts(self) -> bool {
        match self {
            Self::Equal
            | Self::Containment
            | Self::Coverage
            | Self::Jaccard
            | Self::Name
            | Self::List
            | Self::Place => true,
            Self::Empty
            | Self::Refusal
            | Self::Hedge
            | Self::Polarity
            | Self::Negation
            | Self::Date
            | Self::Number
            | Self::Ordinal
            | Self::Direction
            | Self::Alternatives
            | Self::Qualifier
            | Self::Short
            | Self::Different => false,
        }
    }
}

/// Compares a guess with what was observed. Never fails; whatever it cannot read is different, and
/// a text beyond 8 KiB, which is no answer, is only compared byte for byte.
///
/// In every mode an empty text and a guess that refuses are rejected, so that accepting in
/// [`Mode::Exact`] implies accepting in [`Mode::Rule`]. [`Mode::Paper`] rejects a doubtful guess whatever
/// it is compared with.
pub fn verify(mode: Mode, observed: &str, guess: &str) -> Verdict {
    let (rule, scores) = compare::judge(mode, observed, guess);
    Verdict {
        accepted: rule.accepts(),
        rule,
        coverage: scores.coverage,
        jaccard: scores.jaccard,
    }
}

#[cfg(test)]
mod tests {
    use super::Rule;

    #[test]
    fn a_rule_has_one_name_everywhere() {
        for rule in Rule::ALL {
            let written = serde_json::to_value(rule).unwrap();
            assert_eq!(written, rule.as_str());
        }
    }
}
