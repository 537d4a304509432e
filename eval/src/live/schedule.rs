//! The order in which questions and variants are asked. Pure.

use std::collections::HashSet;

use spechop_types::K;

use super::LiveOptions;
use crate::{Question, Row, Variant};

/// One asking: places in the lists of questions and variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) question: usize,
    pub(super) variant: usize,
    pub(super) concurrency: u32,
}

/// The missing answers, one list for each concurrency. The order does not depend on the stored answers.
pub(super) fn turns(
    options: &LiveOptions,
    questions: &[Question],
    there: &[Row],
) -> Vec<Vec<Turn>> {
    let there: HashSet<(&str, String, u32)> = there
        .iter()
        .map(|row| (&*row.id, row.variant.to_string(), row.concurrency))
        .collect();
    let names: Vec<_> = options.variants.iter().map(ToString::to_string).collect();
    let of = names.len();
    let level = |&concurrency: &u32| {
        let all = (0..of).flat_map(|turn| {
            questions.iter().enumerate().map(move |(n, question)| {
                let variant = (n + turn) % of;
                (n, question, variant)
            })
        });
        let missing = all.filter(|(_, question, variant)| {
            !there.contains(&(&*question.id, names[*variant].clone(), concurrency))
        });
        missing
            .map(|(question, _, variant)| Turn {
                question,
                variant,
                concurrency,
            })
            .collect()
    };
    options.concurrency.iter().map(level).collect()
}

/// Turns of `k = auto` whose variant has rows already.
pub(super) fn anew(options: &LiveOptions, turns: &[Vec<Turn>], there: &[Row]) -> usize {
    let goes_on = |variant: &Variant| {
        variant.k() == K::Auto && there.iter().any(|row| row.variant == *variant)
    };
    let goes_on: Vec<_> = options.variants.iter().map(goes_on).collect();
    let turns = turns.iter().flatten();
    turns.filter(|turn| goes_on[turn.variant]).count()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Calls, Dataset};

    fn questions(count: usize) -> Vec<Question> {
        let question = |n: usize| Question {
            id: n.to_string(),
            dataset: Dataset::Musique,
            kind: "3hop1".into(),
            text: "Who?".into(),
            answers: vec!["Ana".into()],
            titles: Vec::new(),
            hops: Vec::new(),
            hop_budget: 5,
        };
        (0..count).map(question).collect()
    }

    fn options() -> LiveOptions {
        LiveOptions {
            address: String::new(),
            target_off: None,
            variants: ["k=1", "k=3"].map(|way| way.parse().unwrap()).to_vec(),
            concurrency: vec![1, 2],
            retry_for: Duration::ZERO,
            deadline: Duration::ZERO,
        }
    }

    /// Question and k, in their order.
    fn check(there: &[Row], expected: &str) {
        let options = options();
        let levels = turns(&options, &questions(3), there)
            .into_iter()
            .map(|turns| {
                let turns = turns.iter().map(|turn| {
                    let k = options.variants[turn.variant].k();
                    format!("{}:{k}", turn.question)
                });
                turns.collect::<Vec<_>>().join(" ")
            });
        assert_eq!(levels.collect::<Vec<_>>().join(" | "), expected);
    }

    #[test]
    fn all_other_questions_lie_between_two_askings_of_one() {
        check(&[], "0:1 1:3 2:1 0:3 1:1 2:3 | 0:1 1:3 2:1 0:3 1:1 2:3");
    }

    #[test]
    fn what_is_there_is_not_asked_and_moves_nothing() {
        let row = |id: &str, k, concurrency| Row {
            id: id.into(),
            variant: Variant::at(k),
            concurrency,
            answer: String::new(),
            confidence: None,
            latency_ms: 0.0,
            first_answer_ms: None,
            first_answer_chance: None,
            stall_ms: None,
            hops: Vec::new(),
            final_ms: 0.0,
            segments: Calls::default(),
            targets: Calls::default(),
            speculations: Calls::default(),
            drafts: Calls::default(),
            salvaged: 0,
            drafted: crate::Drafted::default(),
            unrecorded: 0,
        };
        let there = [
            row("0", K::ONE, 1),
            row("1", K::ONE, 1),
            row("2", K::of(3).unwrap(), 2),
            // Of an earlier call with more variants.
            row("2", K::Unbounded, 1),
        ];
        check(&there, "1:3 2:1 0:3 2:3 | 0:1 1:3 2:1 0:3 1:1");
    }
}
