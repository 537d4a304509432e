//! Scores, by a table that was checked by hand and that `score_reference.py` holds to Python.

use serde::Deserialize;
use spechop_eval::score::{exact_match, f1, holds, recall};

#[derive(Deserialize)]
struct Case {
    answer: String,
    golds: Vec<String>,
    em: bool,
    /// As a fraction.
    f1: (u32, u32),
}

#[test]
fn answers_score_as_the_table_says() {
    let cases: Vec<Case> = include_str!("score_cases.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(cases.len() >= 60);
    for Case {
        answer,
        golds,
        em,
        f1: (part, whole),
    } in cases
    {
        assert_eq!(exact_match(&answer, &golds), em, "{answer:?}, {golds:?}");
        let (scored, wanted) = (f1(&answer, &golds), f64::from(part) / f64::from(whole));
        assert!(
            (scored - wanted).abs() < 1e-12,
            "{answer:?}, {golds:?}: F1 is {scored}, not {wanted}"
        );
    }
}

#[test]
fn recall_counts_each_gold_page_once() {
    let gold = ["Eldon, Missouri", "Lloyd Dane"].map(str::to_owned);
    for (read, wanted) in [
        (vec![], 0.0),
        (vec!["Lloyd Dane"], 0.5),
        (vec!["Lloyd Dane", "Lloyd Dane", "Paris"], 0.5),
        (vec!["lloyd dane"], 0.0),
        (vec!["Eldon, Missouri", "Paris", "Lloyd Dane"], 1.0),
    ] {
        assert_eq!(
            recall(read.iter().copied(), &gold),
            Some(wanted),
            "{read:?}"
        );
    }
    assert_eq!(recall(["Paris"], &[]), None);
    let twice = ["Paris", "Paris"].map(str::to_owned);
    assert_eq!(recall(["Paris"], &twice), Some(1.0));
}

#[test]
fn a_guess_holds_what_it_says_in_full() {
    for (guess, gold, wanted) in [
        ("Apple Records", "Apple Records", true),
        ("the label is Apple Records.", "apple records", true),
        ("Records, Apple", "Apple Records", true),
        ("Apple", "Apple Records", false),
        ("Apple Recordsman", "Apple Records", false),
        ("New York", "New York, New York", true),
        ("a United States company", "the United States", true),
        ("", "Paris", false),
        ("Paris", "", false),
        ("Paris", "The", false),
        ("", "", false),
        ("1,844 people", "1844", true),
    ] {
        assert_eq!(holds(guess, gold), wanted, "{guess:?} for {gold:?}");
    }
}
