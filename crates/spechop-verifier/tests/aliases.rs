//! Answers and aliases of real multi-hop questions; `eval/datasets/aliases/README.md` says whence.

#![expect(
    clippy::unwrap_used,
    reason = "a test's data is right or the test fails"
)]
#![expect(clippy::print_stdout, reason = "the misses, for whoever runs the test")]

use std::collections::BTreeMap;

use serde::Deserialize;
use spechop_verifier::{Mode, verify};

/// Least share of the pairs to accept that must be accepted.
const RECALL_MIN: f64 = 0.96;

/// Pairs that are the same only to someone who knows the world; accepting them is not asked for.
const BEYOND: &str = "beyond";

#[derive(Deserialize)]
struct Pair {
    observed: String,
    guess: String,
    accept: bool,
    class: String,
}

fn pairs() -> Vec<Pair> {
    include_str!("../../../eval/datasets/aliases/aliases.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn real_aliases() {
    let mut by_class: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let (mut false_accepts, mut false_rejects) = (String::new(), String::new());
    let (mut right, mut all) = (0, 0);
    for pair in pairs() {
        let verdict = verify(Mode::Rule, &pair.observed, &pair.guess);
        let (accepted, seen) = by_class.entry(pair.class.clone()).or_default();
        *accepted += u32::from(verdict.accepted);
        *seen += 1;
        let line = format!(
            "{}: {:?} / {:?}: {verdict:?}\n",
            pair.class, pair.observed, pair.guess
        );
        if !pair.accept {
            false_accepts.push_str(if verdict.accepted { &line } else { "" });
        } else if pair.class != BEYOND {
            all += 1;
            right += u32::from(verdict.accepted);
            false_rejects.push_str(if verdict.accepted { "" } else { &line });
        }
    }
    let recall = f64::from(right) / f64::from(all);
    for (class, (accepted, seen)) in &by_class {
        println!("{class}: {accepted} of {seen} accepted");
    }
    println!("recall {recall:.3} of {all}\nfalsely rejected:\n{false_rejects}");
    assert!(by_class.len() >= 15, "the sample has lost classes");
    assert!(false_accepts.is_empty(), "\n{false_accepts}");
    assert!(recall >= RECALL_MIN, "\n{false_rejects}");
}
