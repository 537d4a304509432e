//! The table of cases: no false accept at all, and hardly a false reject.

#![expect(clippy::panic, reason = "a test's data is right or the test fails")]
#![expect(clippy::print_stdout, reason = "the misses, for whoever runs the test")]

use spechop_types::Observation;
use spechop_verifier::{Mode, Verdict, verify};

/// Least share of the pairs to accept that must be accepted.
const RECALL_MIN: f64 = 0.96;

struct Case<'a> {
    line: usize,
    observed: &'a str,
    guess: &'a str,
    accept: bool,
    why: &'a str,
}

fn cases() -> Vec<Case<'static>> {
    include_str!("cases.tsv")
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with('#'))
        .map(
            |(at, line)| match line.split('\t').collect::<Vec<_>>()[..] {
                [observed, guess, wanted, why] => Case {
                    line: at + 1,
                    observed,
                    guess,
                    accept: match wanted {
                        "accept" => true,
                        "reject" => false,
                        other => panic!("line {}: neither accept nor reject: {other}", at + 1),
                    },
                    why,
                },
                _ => panic!("line {}: needs four fields", at + 1),
            },
        )
        .collect()
}

fn miss(case: &Case<'_>, verdict: &Verdict) -> String {
    format!(
        "line {}: {:?} / {:?} ({}): {verdict:?}\n",
        case.line, case.observed, case.guess, case.why
    )
}

#[test]
fn what_nobody_sees_changes_nothing() {
    for (observed, guess) in [
        ("Donau\u{ad}dampf\u{ad}schiff", "Donaudampfschiff"),
        ("\u{feff}12 May\u{2060} 1914", "12 May 1914"),
        ("Ka\u{200d}rl", "Karl"),
    ] {
        assert!(verify(Mode::Rule, observed, guess).accepted, "{observed:?}");
        assert!(verify(Mode::Rule, guess, observed).accepted, "{observed:?}");
    }
}

#[test]
fn no_false_accept_and_hardly_a_false_reject() {
    let (mut accepts, mut rejects) = (0, 0);
    let (mut false_accepts, mut false_rejects) = (Vec::new(), Vec::new());
    for case in cases() {
        let verdict = verify(Mode::Rule, case.observed, case.guess);
        *(if case.accept {
            &mut accepts
        } else {
            &mut rejects
        }) += 1;
        match (case.accept, verdict.accepted) {
            (true, false) => false_rejects.push(miss(&case, &verdict)),
            (false, true) => false_accepts.push(miss(&case, &verdict)),
            _ => {}
        }
    }
    let recall = 1.0 - false_rejects.len() as f64 / f64::from(accepts);
    println!("{accepts} to accept, {rejects} to reject, recall {recall:.3}");
    println!("falsely rejected:\n{}", false_rejects.concat());
    assert!(accepts >= 100 && rejects >= 150, "the table has shrunk");
    assert!(false_accepts.is_empty(), "\n{}", false_accepts.concat());
    assert!(recall >= RECALL_MIN, "\n{}", false_rejects.concat());
}

/// Whether two texts say the same does not depend on which of them was guessed.
#[test]
fn verdicts_are_symmetric() {
    let one_sided: String = cases()
        .iter()
        .map(|case| (case, verify(Mode::Rule, case.observed, case.guess)))
        .filter(|(case, verdict)| {
            verify(Mode::Rule, case.guess, case.observed).accepted != verdict.accepted
        })
        .map(|(case, verdict)| miss(case, &verdict))
        .collect();
    assert!(one_sided.is_empty(), "\n{one_sided}");
}

#[test]
fn verdicts_name_their_rule() {
    for (observed, guess, rule, coverage, jaccard) in [
        ("Paris", "paris", "equal", 1.0, 1.0),
        (
            "Paris",
            "The answer is Paris",
            "containment",
            1.0,
            1.0 / 3.0,
        ),
        (
            "village situated on Lake Como",
            "village on Lake Como",
            "coverage",
            0.75,
            0.75,
        ),
        (
            "island situated in Samoa",
            "island in Samoa",
            "jaccard",
            2.0 / 3.0,
            2.0 / 3.0,
        ),
        (
            "John F. Kennedy",
            "John Fitzgerald Kennedy",
            "name",
            2.0 / 3.0,
            0.5,
        ),
        (
            "Lennon and McCartney",
            "McCartney and Lennon",
            "list",
            1.0,
            1.0,
        ),
        ("UK", "United Kingdom", "place", 0.0, 0.0),
        ("Paris", "", "empty", 0.0, 0.0),
        ("Paris", "unknown", "refusal", 0.0, 0.0),
        ("Paris", Observation::NOTHING, "refusal", 0.0, 0.0),
        (Observation::NOTHING, "Paris", "refusal", 0.0, 0.0),
        (
            Observation::NOTHING,
            Observation::NOTHING,
            "equal",
            1.0,
            1.0,
        ),
        ("Paris", "maybe Paris", "hedge", 1.0, 0.5),
        ("yes", "no", "polarity", 0.0, 0.0),
        ("Paris", "not Paris", "negation", 1.0, 0.5),
        ("May 8, 1994", "1994", "date", 0.0, 0.0),
        ("Apollo 11", "Apollo 13", "number", 0.5, 1.0 / 3.0),
        ("1/3", "1:3", "number", 2.0 / 3.0, 0.5),
        ("first wife", "second wife", "ordinal", 0.5, 1.0 / 3.0),
        ("North Korea", "South Korea", "direction", 0.5, 1.0 / 3.0),
        ("Paris", "Paris or London", "alternatives", 1.0, 1.0 / 3.0),
        (
            "Portland, Oregon",
            "Portland, Maine",
            "qualifier",
            0.5,
            1.0 / 3.0,
        ),
        ("Goa", "Go", "short", 0.0, 0.0),
        ("Berlin", "Hamburg", "different", 0.0, 0.0),
    ] {
        let verdict = verify(Mode::Rule, observed, guess);
        let name = serde_json::to_value(verdict.rule).unwrap();
        assert_eq!(name, rule, "{observed:?} / {guess:?}");
        assert!(
            (verdict.coverage - coverage).abs() < 1e-9,
            "{observed:?} / {guess:?}: {verdict:?}"
        );
        assert!(
            (verdict.jaccard - jaccard).abs() < 1e-9,
            "{observed:?} / {guess:?}: {verdict:?}"
        );
    }
}

#[test]
fn exact_mode_wants_the_same_bytes() {
    for (observed, guess, accepted) in [
        ("Paris", "Paris", true),
        (" Paris\n", "Paris", true),
        ("Paris", "paris", false),
        ("Paris", "Paris.", false),
        ("8 May 1994", "May 8, 1994", false),
        ("", "", false),
        ("…", "…", false),
        ("unknown", "unknown", false),
    ] {
        let verdict = verify(Mode::Exact, observed, guess);
        assert_eq!(verdict.accepted, accepted, "{observed:?} / {guess:?}");
    }
}

/// A page where an answer should be takes no time, whatever it is made of.
#[test]
fn long_texts_are_compared_byte_for_byte() {
    for piece in [
        "word ",
        "+",
        "a+",
        "(",
        "J.",
        "1,",
        "per cent ",
        "- ",
        "don't know ",
    ] {
        let long = format!("a{}", piece.repeat(200_000));
        assert!(verify(Mode::Rule, &long, &long).accepted, "{piece:?}");
        assert!(!verify(Mode::Rule, &long, "word").accepted, "{piece:?}");
        assert!(
            !verify(Mode::Rule, "word", &format!("{long}x")).accepted,
            "{piece:?}"
        );
    }
    assert!(!verify(Mode::Exact, &" ".repeat(100_000), "").accepted);
}
