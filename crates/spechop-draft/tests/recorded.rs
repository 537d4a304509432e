//! The shipped patterns against what the planner wrote live: the bundles under `eval/runs`, whose questions
//! no pattern was mined from.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use spechop_draft::{PatternDrafter, Patterns, Score, Segment, check, read_bundle};

fn bundle(name: &str) -> Vec<Segment> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../eval/runs");
    let open = |file: &str| BufReader::new(File::open(folder.join(name).join(file)).unwrap());
    read_bundle(open("bundle/questions.jsonl"), open("bundle/stages.jsonl")).unwrap()
}

fn scores(name: &str) -> (BTreeMap<String, Score>, Score) {
    let drafter = PatternDrafter::new(Patterns::shipped().unwrap());
    let scores = check(&drafter, &bundle(name), 2);
    let all = scores
        .values()
        .fold(Score::default(), |all, one| all.and(*one));
    (scores, all)
}

/// The floors lie a little below the figures of docs/MEASURED.md.
#[test]
fn most_of_2wiki_is_drafted_word_for_word() {
    let (kinds, all) = scores("2wiki-own");
    assert!(all.segments > 1_000 && all.ends > 500, "{all:?}");
    assert!(all.share_right() >= 0.90, "{all:?}");
    assert!(all.precision() >= 0.95, "{all:?}");
    for (kind, floor) in [
        ("bridge_comparison", 0.95),
        ("comparison", 0.9),
        // Those without a draft are mostly of planning ahead behind the last answer, where nothing is left to ask.
        ("compositional", 0.84),
        ("inference", 0.75),
    ] {
        let score = kinds[kind];
        assert!(score.share_right() >= floor, "{kind}: {score:?}");
    }
}

/// MuSiQue has as many forms as questions: nearly everything is left alone, and that is what counts.
#[test]
fn musique_is_mostly_left_alone() {
    let (_, all) = scores("musique-own");
    assert!(all.segments > 800, "{all:?}");
    assert!(all.share_right() >= 0.01, "{all:?}");
    assert!(all.precision() >= 0.4, "{all:?}");
}

/// A form is what questions have in common, so a recorded question is never one.
#[test]
fn the_shipped_patterns_hold_no_recorded_question() {
    let patterns = Patterns::shipped().unwrap();
    let forms: Vec<_> = patterns.rows().into_iter().map(|row| row.form).collect();
    assert!(forms.len() > 100, "{}", forms.len());
    for name in ["2wiki-own", "musique-own"] {
        for segment in bundle(name) {
            assert!(forms.iter().all(|form| *form != segment.question.as_str()));
        }
    }
    let bytes = patterns.to_json().unwrap().len();
    assert!(bytes < 200_000, "{bytes}");
}
