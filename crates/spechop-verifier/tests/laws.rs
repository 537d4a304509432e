//! What holds for any two texts.

use proptest::prelude::*;
use spechop_verifier::{Mode, Rule, verify};

/// Texts of the kinds that the rules look at, in any order, and anything else.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(vec![
            "Paris",
            "France",
            ", Texas",
            "the",
            "a",
            "of",
            "and",
            "or",
            "not",
            "no",
            "yes",
            "II",
            "X",
            "May",
            "8,",
            "8th",
            "1994",
            "-5",
            "5 million",
            "1,000",
            "1.5",
            "3.10",
            "$",
            "A$5",
            "-$5",
            "%",
            "10⁹",
            "10⁻⁹",
            "2½",
            "1/3",
            "10:30",
            "३.५",
            "٣٫٥",
            "-५",
            "(film)",
            "(country)",
            "(Belgium)",
            "(",
            ")",
            "/",
            "J.",
            "R.R.",
            "Sir",
            "King",
            "Inc.",
            "River",
            "M*A*S*H",
            "Georgia",
            "Night and Day",
            "1954 and 1957",
            "Jr.",
            "Müller",
            "born",
            "in",
            "is",
            "was",
            "The answer is",
            "it",
            "North",
            "twenty",
            "five",
            "C++",
            "Disney+",
            "Python",
            "1990s",
            "BC",
            "が",
            "Ёлки",
            "1994-05-08",
            "05/08/1994",
            "unknown",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..7).prop_map(|pieces| pieces.join(" "))
}

fn pairs() -> Vec<(&'static str, &'static str)> {
    include_str!("cases.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(observed, rest)| rest.split_once('\t').map(|(guess, _)| (observed, guess)))
        .collect()
}

/// The same text in other dress: case, accents, quotation marks, spaces, a final full stop.
fn redressed(text: &str, dress: u8) -> String {
    match dress % 5 {
        0 => text.to_uppercase(),
        1 => text.to_lowercase(),
        2 => text.replace('e', "e\u{301}").replace('o', "ô"),
        3 => format!("  “{}”.", text.trim()),
        _ => text.replace(' ', "   "),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_two_texts_get_a_verdict(observed in text(), guess in text()) {
        for mode in [Mode::Exact, Mode::Rule] {
            let verdict = verify(mode, &observed, &guess);
            prop_assert_eq!(verdict.accepted, verdict.rule.accepts());
            prop_assert!((0.0..=1.0).contains(&verdict.coverage));
            prop_assert!((0.0..=verdict.coverage).contains(&verdict.jaccard));
        }
    }

    #[test]
    fn exact_implies_rule(text in text(), guess in text()) {
        for guess in [&text, &guess] {
            if verify(Mode::Exact, &text, guess).accepted {
                prop_assert!(verify(Mode::Rule, &text, guess).accepted);
            }
        }
    }

    /// Every text says the same as itself, unless it says nothing.
    #[test]
    fn a_text_equals_itself(text in text()) {
        let verdict = verify(Mode::Rule, &text, &text);
        prop_assert!(matches!(verdict.rule, Rule::Equal | Rule::Empty | Rule::Refusal));
        prop_assert_eq!(verify(Mode::Exact, &text, &text), verdict);
    }

    #[test]
    fn verdicts_are_symmetric(observed in text(), guess in text()) {
        prop_assert_eq!(
            verify(Mode::Rule, &observed, &guess).accepted,
            verify(Mode::Rule, &guess, &observed).accepted
        );
    }

    #[test]
    fn empty_is_never_accepted(text in text(), blank in "[\\s\\p{P}]{0,8}") {
        for mode in [Mode::Exact, Mode::Rule] {
            prop_assert!(!verify(mode, &text, &blank).accepted);
            prop_assert!(!verify(mode, &blank, &text).accepted);
        }
    }

    #[test]
    fn a_refusal_is_rejected_from_either_side(
        text in text(),
        refusal in proptest::sample::select(vec![
            "I don't know", "Unknown.", "not available", "No relevant information found",
            "It cannot be determined.", "N/A", "",
        ]),
    ) {
        for mode in [Mode::Exact, Mode::Rule] {
            prop_assert!(!verify(mode, &text, refusal).accepted);
            prop_assert!(!verify(mode, refusal, &text).accepted);
        }
    }

    /// Case, accents, quotation marks and spaces decide nothing.
    #[test]
    fn dress_does_not_matter(
        (observed, guess) in proptest::sample::select(pairs()),
        observed_dress: u8,
        guess_dress: u8,
    ) {
        prop_assert_eq!(
            verify(Mode::Rule, observed, guess).accepted,
            verify(
                Mode::Rule,
                &redressed(observed, observed_dress),
                &redressed(guess, guess_dress),
            )
            .accepted
        );
    }

    /// A number that differs by one is another number, in whatever sentence.
    #[test]
    fn another_number_is_never_accepted(
        number in 1u32..100_000,
        step in 1u32..500,
        (before, after) in proptest::sample::select(vec![
            ("", ""), ("in ", ""), ("about ", " people"), ("Apollo ", ""), ("The answer is ", "."),
            ("8 May ", ""), ("-", ""), ("", " BC"), ("", "%"), ("", " million"), ("Room ", "b"),
        ]),
    ) {
        let write = |number: u32| format!("{before}{number}{after}");
        prop_assert!(!verify(Mode::Rule, &write(number), &write(number + step)).accepted);
    }
}
