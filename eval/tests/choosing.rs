//! Which of the loaded questions a run is about: samples, kinds, and lists of ids.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use spechop_eval::dataset::{LoadError, load, of_kinds, only, read_ids, sample};
use spechop_eval::{Dataset, Question};

fn shipped(dataset: Dataset, file: &str) -> Vec<Question> {
    let datasets = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets");
    load(dataset, &[datasets.join(file)]).unwrap()
}

fn wiki() -> Vec<Question> {
    shipped(Dataset::Wiki, "2wikimultihopqa/questions.jsonl.gz")
}

fn deep() -> Vec<Question> {
    shipped(Dataset::DeepResearch, "deepresearch/sample.jsonl")
}

fn written(dir: &tempfile::TempDir, content: &str) -> PathBuf {
    let file = dir.path().join("ids.json");
    fs::write(&file, content).unwrap();
    file
}

#[test]
fn a_longer_sample_begins_with_the_shorter() {
    let questions = wiki();
    let mut backwards = questions.clone();
    backwards.reverse();
    for seed in 0..5 {
        let whole = sample(questions.clone(), None, seed).unwrap();
        assert_eq!(whole.len(), questions.len());
        for count in [1, 7, 120] {
            let drawn = sample(backwards.clone(), Some(count), seed).unwrap();
            assert_eq!(drawn, whole[..count], "seed {seed}");
        }
    }
    let first = |seed| sample(questions.clone(), Some(12), seed).unwrap();
    assert_ne!(first(1), first(2));
    let said = sample(questions.clone(), Some(121), 1).unwrap_err();
    assert_eq!(
        said.to_string(),
        "121 questions are asked for, and there are 120: ask for fewer"
    );
    assert!(matches!(
        sample(questions, Some(0), 1),
        Err(LoadError::SampleOfNone)
    ));
}

#[test]
fn every_sample_has_the_kinds_in_the_shares_of_all() {
    let questions = wiki();
    let of = |questions: &[Question]| {
        let mut kinds = BTreeMap::new();
        for question in questions {
            *kinds.entry(question.kind.clone()).or_insert(0.0) += 1.0;
        }
        kinds
    };
    let whole = of(&questions);
    for (seed, count) in [(1, 12), (2, 30), (3, 60), (4, 100)] {
        let drawn = of(&sample(questions.clone(), Some(count), seed).unwrap());
        for (kind, all) in &whole {
            let share = all * count as f64 / questions.len() as f64;
            let has = drawn.get(kind).copied().unwrap_or(0.0);
            assert!(f64::abs(has - share) <= 1.0, "{kind}: {has} of {count}");
        }
    }
}

/// Thresholds were chosen on them.
#[test]
fn validation_questions_of_our_models_have_their_share_of_a_sample() {
    let listed = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/untrained.json");
    let validation = read_ids(&listed, Dataset::Musique, Some("validation")).unwrap();
    let questions = shipped(Dataset::Musique, "musique/questions.jsonl.gz");
    let of = |questions: &[Question]| {
        let is_one = |question: &&Question| validation.contains(&question.id);
        questions.iter().filter(is_one).count()
    };
    assert_eq!((of(&questions), questions.len()), (66, 120));
    // By chance 22 of 40. In the order in which the training draws them all 40 would be.
    let drawn = of(&sample(questions, Some(40), 1).unwrap());
    assert!((16..=28).contains(&drawn), "{drawn} of 40");
}

#[test]
fn kinds_are_taken_by_name() {
    let questions = deep();
    let taken = of_kinds(questions.clone(), &["L3".into(), "L1".into()]).unwrap();
    let kinds: Vec<&str> = taken
        .iter()
        .map(|question| question.kind.as_str())
        .collect();
    assert_eq!(kinds, ["L1", "L1", "L3", "L3"]);
    assert_eq!(of_kinds(questions.clone(), &[]).unwrap(), questions);
    let said = of_kinds(questions, &["L1".into(), "hard".into()]).unwrap_err();
    assert_eq!(
        said.to_string(),
        "no question is of the kind `hard`; there are: L1, L2, L3"
    );
}

#[test]
fn ids_are_read_in_each_shape() {
    let dir = tempfile::tempdir().unwrap();
    let read = |content: &str, part| read_ids(&written(&dir, content), Dataset::Wiki, part);
    let ids = |wanted: &[&str]| {
        wanted
            .iter()
            .map(|&id| id.to_owned())
            .collect::<HashSet<_>>()
    };
    let parts = r#"{"2wiki": {"one": ["a"], "two": ["b", "c"]}, "musique": ["d"]}"#;
    assert_eq!(read(r#"["a", "b"]"#, None).unwrap(), ids(&["a", "b"]));
    assert_eq!(read(r#"{"2wiki": ["a"]}"#, None).unwrap(), ids(&["a"]));
    assert_eq!(read(parts, None).unwrap(), ids(&["a", "b", "c"]));
    assert_eq!(read(parts, Some("two")).unwrap(), ids(&["b", "c"]));
    for (content, part, wanted) in [
        (
            r#"{"musique": ["a"]}"#,
            None,
            "has no `2wiki`; there are: musique",
        ),
        (parts, Some("three"), "has no `three`; there are: one, two"),
        (r#"["a"]"#, Some("one"), "has no `one`; there are: none"),
        (r#"["a", 1]"#, None, "is no list of ids"),
        (r#"{"2wiki": "a"}"#, None, "is no list of ids"),
        ("[]", None, "is no list of ids"),
        ("a", None, "is not JSON"),
    ] {
        let said = read(content, part).unwrap_err().to_string();
        assert!(said.contains(wanted), "{wanted:?} is not in {said:?}");
    }
    let said = only(deep(), &ids(&["a"])).unwrap_err();
    assert!(
        said.to_string()
            .starts_with("none of the 6 questions is among the 1 ids")
    );
}
