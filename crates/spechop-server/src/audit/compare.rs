//! An answer against that of its audit. Pure.

use spechop_agent::Report;
use spechop_types::{CommitKind, Observation, SubQuestion, normalise};

/// What of an answered question is compared.
#[derive(Clone, Debug)]
pub(super) struct Told {
    answer: String,
    hops: Vec<ToldHop>,
}

#[derive(Clone, Debug)]
struct ToldHop {
    sub_question: SubQuestion,
    /// With what it was committed.
    answer: String,
    /// What its look-up found.
    observed: String,
    /// Whether a guess stood in for the observation.
    is_guess: bool,
}

/// What an audit has found out about one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether the answers differ.
    pub(crate) differs: bool,
    /// Accepted guesses that could be compared with what the audit observed.
    pub(crate) accepts: u64,
    /// Those of them that say something else.
    pub(crate) false_accepts: u64,
}

impl Told {
    pub(super) fn of(report: &Report) -> Self {
        let observed = |observation: &Observation| observation.answer.to_string();
        let hops = report.hops.iter().map(|hop| ToldHop {
            sub_question: hop.hop.sub_question.clone(),
            answer: hop.hop.answer.to_string(),
            observed: observed(&hop.hop.observation),
            is_guess: hop.hop.kind == CommitKind::Accepted,
        });
        Self {
            answer: report.answer.to_string(),
            hops: hops.collect(),
        }
    }

    /// Compares with what was found without speculation. Hops are compared for as long as both asked the
    /// same: behind the first difference they are about something else.
    pub(super) fn compare(&self, audit: &Self) -> Found {
        let mut found = Found {
            differs: !same(&self.answer, &audit.answer),
            ..Found::default()
        };
        let both = self.hops.iter().zip(&audit.hops);
        let both =
            both.take_while(|(ours, theirs)| ours.sub_question.has_words_of(&theirs.sub_question));
        for (ours, theirs) in both.filter(|(ours, _)| ours.is_guess) {
            found.accepts += 1;
            found.false_accepts += u64::from(!same(&ours.answer, &theirs.observed));
        }
        found
    }
}

/// Whether two answers are one, as the scorers of question answering see it.
fn same(one: &str, other: &str) -> bool {
    normalise(one) == normalise(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(answer: &str, hops: &[(&str, &str, &str, bool)]) -> Told {
        let hop = |&(asked, answer, observed, is_guess): &(&str, &str, &str, bool)| ToldHop {
            sub_question: SubQuestion::new(asked),
            answer: answer.to_owned(),
            observed: observed.to_owned(),
            is_guess,
        };
        Told {
            answer: answer.to_owned(),
            hops: hops.iter().map(hop).collect(),
        }
    }

    fn found(differs: bool, accepts: u64, false_accepts: u64) -> Found {
        Found {
            differs,
            accepts,
            false_accepts,
        }
    }

    #[test]
    fn hops_are_compared_until_the_questions_part() {
        let audit = told(
            "Paris",
            &[
                ("q1", "Ann", "Ann", false),
                ("q2 Ann", "Paris", "Paris", false),
            ],
        );
        for (ours, expected) in [
            // Nothing was guessed.
            (
                told("the Paris.", &[("q1", "Ann", "Ann", false)]),
                found(false, 0, 0),
            ),
            (
                told("Paris", &[("q1", "ann", "Ann", true)]),
                found(false, 1, 0),
            ),
            // Accepted wrongly: what follows is about something else.
            (
                told(
                    "Rome",
                    &[("q1", "Bob", "Ann", true), ("q2 Bob", "Rome", "Rome", true)],
                ),
                found(true, 1, 1),
            ),
            // It was wrong, and did no harm.
            (
                told("Paris", &[("q1", "Bob", "Ann", true)]),
                found(false, 1, 1),
            ),
            // The planner differed, and no guess.
            (
                told("Rome", &[("q0", "Rome", "Rome", true)]),
                found(true, 0, 0),
            ),
        ] {
            assert_eq!(ours.compare(&audit), expected, "{ours:?}");
        }
    }
}
