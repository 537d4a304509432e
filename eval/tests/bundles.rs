//! Bundles on the disk: what they refuse to be mixed with, and what they refuse to be read as.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fs;
use std::path::Path;

use crate::recording::{info, question, recorder, variant};
use spechop_eval::{Bundle, BundleError, BundleInfo, Dataset, Question};
use spechop_testkit::{Script, ScriptedPorts};
use tempfile::{TempDir, tempdir};

fn questions() -> Vec<Question> {
    let named = |id: &str| Question {
        id: id.into(),
        ..question(5)
    };
    vec![named("q0"), named("q1")]
}

/// A bundle of two questions at commit `c1`.
fn begun() -> TempDir {
    let dir = tempdir().unwrap();
    Bundle::record(dir.path(), info(), &questions(), false).unwrap();
    dir
}

/// What is not as it was.
type Change = fn(&mut BundleInfo, &mut Vec<Question>);

/// Goes on with this difference.
fn go_on(dir: &Path, change: Change, mix_commits: bool) -> Result<Bundle, BundleError> {
    let (mut info, mut questions) = (info(), questions());
    change(&mut info, &mut questions);
    Bundle::record(dir, info, &questions, mix_commits)
}

#[test]
fn what_does_not_belong_to_it_is_refused() {
    let table: &[(&str, &str, &str, Change)] = &[
        ("system", "scripted", "llm", |info, _| {
            info.system = "llm".into();
        }),
        ("data set", "2wiki", "musique", |info, _| {
            info.dataset = Dataset::Musique;
        }),
        ("seed", "1", "2", |info, _| info.seed = 2),
        ("number of passages", "5", "3", |info, _| info.passages = 3),
        ("number of questions", "2", "1", |_, asked| {
            asked.pop();
        }),
        ("question", "q1", "q2", |_, asked| {
            asked[1].id = "q2".into();
        }),
        ("question", "q0", "q0", |_, asked| asked[0].hop_budget = 4),
        ("question", "q0", "q1", |_, asked| asked.swap(0, 1)),
        ("machine", "2 × any", "4 × any", |info, _| {
            info.machine.cores = 4;
        }),
        ("machine", "2 × any", "2 × other", |info, _| {
            info.machine.cpu = "other".into();
        }),
        ("planner", "abc", "def", |info, _| {
            info.parts.insert("planner".into(), "def".into());
        }),
        // Whoever plans or reads without a part of its own is another one.
        ("planner", "abc", "none", |info, _| info.parts.clear()),
        ("reader", "none", "ghi", |info, _| {
            info.parts.insert("reader".into(), "ghi".into());
        }),
        ("commit", "c1", "c2", |info, _| {
            info.commits = vec!["c2".into()];
        }),
    ];
    let dir = begun();
    let written = fs::read(dir.path().join("bundle.json")).unwrap();
    for (what, there, here, change) in table {
        let allowed = *what == "commit";
        for mix_commits in [false, true] {
            if allowed && mix_commits {
                continue;
            }
            let error = go_on(dir.path(), *change, mix_commits).unwrap_err();
            assert!(matches!(error, BundleError::Other { .. }), "{error}");
            let shown = dir.path().display();
            let mut expected = format!(
                "{shown} was recorded with another {what}: `{there}` there, `{here}` now; take another folder"
            );
            if allowed {
                expected.push_str(", or allow it with --mix-commits");
            }
            assert_eq!(error.to_string(), expected);
            let now = fs::read(dir.path().join("bundle.json")).unwrap();
            assert_eq!(now, written, "{what}: it is as it was");
        }
    }
}

#[test]
fn what_belongs_to_it_is_added() {
    let dir = begun();
    let speculator: Change = |info, _| {
        info.parts.insert("speculator llm".into(), "ghi".into());
        info.commands = vec!["another test".into()];
    };
    // It says nothing of the speculator that is there.
    let commit: Change = |info, _| info.commits = vec!["c2".into()];
    for (change, mix_commits) in [(speculator, false), (speculator, false), (commit, true)] {
        let bundle = go_on(dir.path(), change, mix_commits).unwrap();
        let read = Bundle::read(dir.path()).unwrap();
        assert_eq!(read.info(), bundle.info());
        assert_eq!(read.questions(), questions());
    }
    let info = Bundle::read(dir.path()).unwrap().info().clone();
    let parts: Vec<_> = info.parts.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(parts, [("planner", "abc"), ("speculator llm", "ghi")]);
    assert_eq!(info.commands, ["a test", "another test"]);
    assert_eq!(info.commits, ["c1", "c2"]);
}

/// Replaces a file of the bundle and reads it; the message without the folder.
fn read_with(file: &str, text: impl AsRef<[u8]>) -> Result<Bundle, String> {
    let dir = begun();
    fs::write(dir.path().join(file), text).unwrap();
    Bundle::read(dir.path()).map_err(|error| {
        let shown = format!("{}/", dir.path().display());
        error.to_string().replace(&shown, "")
    })
}

const SEGMENT: &str =
    r#"{"stage":"segment","question":"q","hops":[["a?","b"]],"must_answer":true}"#;
const RETRIEVAL: &str = r#"{"stage":"retrieval","query":"q","limit":5}"#;
const READING: &str = r#"{"stage":"reading","sub_question":"q","passages":["p"]}"#;
const SPECULATION: &str = r#"{"stage":"speculation","speculator":"hot","question":"q","hops":[],"sub_question":"a?","limit":1}"#;

fn stage(input: &str, output: &str, ms: &str) -> String {
    format!(r#"{{"input":{input},"output":{output},"ms":{ms}}}"#)
}

#[test]
fn every_kind_of_stage_is_read() {
    let may_ask = SEGMENT.replace("true", "false");
    let lines = [
        stage(SEGMENT, r#"{"answer":"a"}"#, "0"),
        stage(&may_ask, r#"{"ask":"a"}"#, "1.5"),
        stage(&may_ask.replace("a?", "c?"), r#"{"answer":"a"}"#, "1.5"),
        stage(RETRIEVAL, r#"{"passages":[{"id":"p","title":"P"}]}"#, "1"),
        stage(READING, r#"{"read":null}"#, "1"),
        stage(SPECULATION, r#"{"guesses":[{"text":"g"}]}"#, "1"),
    ];
    // The last line is torn, and the one before it was written twice.
    let text = format!("{0}\n{1}\n{1}", lines.join("\n"), lines[5]);
    assert_eq!(read_with("stages.jsonl", text).unwrap().len(), 6);
    assert!(read_with("stages.jsonl", "").unwrap().is_empty());
}

#[test]
fn unsound_lines_are_refused_with_their_number() {
    let unsound = "its output is not of its stage, or its time or a confidence cannot be";
    let answer = r#"{"answer":"a"}"#;
    for (line, words) in [
        (stage(SEGMENT, r#"{"ask":"a"}"#, "1"), unsound),
        (stage(SEGMENT, r#"{"read":"a"}"#, "1"), unsound),
        (stage(RETRIEVAL, r#"{"read":null}"#, "1"), unsound),
        (stage(READING, r#"{"passages":[]}"#, "1"), unsound),
        (stage(SPECULATION, answer, "1"), unsound),
        (
            stage(
                SPECULATION,
                r#"{"guesses":[{"text":"g","confidence":1.5}]}"#,
                "1",
            ),
            unsound,
        ),
        (stage(SEGMENT, answer, r#"1,"sure":-0.5"#), unsound),
        (stage(SEGMENT, answer, "-0.1"), unsound),
        (stage(SEGMENT, answer, "NaN"), "expected value"),
        (stage(SEGMENT, answer, "null"), "invalid type: null"),
        (stage(SEGMENT, answer, "1e999"), "number out of range"),
        (stage(SEGMENT, r#"{"sing":"a"}"#, "1"), "unknown variant"),
        (stage(r#"{"stage":"nap"}"#, answer, "1"), "unknown variant"),
        (
            stage(SEGMENT, answer, r#"1,"colour":"red""#),
            "unknown field",
        ),
        (SEGMENT.to_owned(), "unknown field"),
        (String::new(), "EOF"),
        ("no JSON".to_owned(), "expected ident"),
    ] {
        let good = stage(SEGMENT, answer, "1");
        let said = read_with("stages.jsonl", format!("{good}\n{line}\n{good}\n"));
        let said = said.unwrap_err();
        let place = "stages.jsonl:2 cannot be read: ";
        assert!(
            said.starts_with(place) && said.contains(words),
            "{line}: {said}"
        );
    }
    let said = read_with("stages.jsonl", b"\"\xff\"\n").unwrap_err();
    assert!(
        said.starts_with("stages.jsonl:1 cannot be read: "),
        "{said}"
    );
    let said = read_with("questions.jsonl", "{}\n").unwrap_err();
    assert!(
        said.starts_with("questions.jsonl:1 cannot be read: "),
        "{said}"
    );
    let said = read_with("bundle.json", "{\n  \"seed\": 1,\n  \"x\": 2\n}").unwrap_err();
    assert!(said.starts_with("bundle.json:3 cannot be read: "), "{said}");
}

#[test]
fn what_is_no_bundle_or_cannot_be_read_is_told_apart() {
    let dir = tempdir().unwrap();
    let none = Bundle::read(dir.path()).unwrap_err();
    let shown = dir.path().display();
    assert_eq!(
        none.to_string(),
        format!("{shown} is no bundle: it has no bundle.json; make one with `spechop eval record`")
    );
    assert!(matches!(none, BundleError::None(_)));

    let dir = begun();
    fs::remove_file(dir.path().join("questions.jsonl")).unwrap();
    let said = Bundle::read(dir.path()).unwrap_err().to_string();
    assert!(
        said.starts_with("cannot read ") && said.ends_with("questions.jsonl"),
        "{said}"
    );

    let dir = begun();
    fs::remove_file(dir.path().join("stages.jsonl")).unwrap();
    assert!(
        Bundle::read(dir.path()).unwrap().is_empty(),
        "not begun yet"
    );
    fs::create_dir(dir.path().join("stages.jsonl")).unwrap();
    let said = Bundle::read(dir.path()).unwrap_err().to_string();
    assert!(
        said.starts_with("cannot read ") && said.ends_with("stages.jsonl"),
        "{said}"
    );

    let within = begun();
    let file = within.path().join("bundle.json");
    let said = Bundle::record(&file.join("within"), info(), &questions(), false);
    let said = said.unwrap_err().to_string();
    assert!(said.starts_with("cannot make the folder "), "{said}");
}

#[test]
fn a_run_keeps_its_questions() {
    let dir = tempdir().unwrap();
    for file in ["run.json", "questions.jsonl"] {
        fs::write(dir.path().join(file), "of a run").unwrap();
    }
    let error = go_on(dir.path(), |_, _| {}, false).unwrap_err();
    assert!(matches!(error, BundleError::Run(_)), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    let questions = fs::read_to_string(dir.path().join("questions.jsonl"));
    assert_eq!(questions.unwrap(), "of a run");
}

#[test]
fn stages_of_nobody_knows_what_are_not_added_to() {
    let dir = begun();
    fs::remove_file(dir.path().join("bundle.json")).unwrap();
    fs::write(dir.path().join("stages.jsonl"), "{").unwrap();
    let error = go_on(dir.path(), |_, _| {}, true).unwrap_err();
    assert!(matches!(error, BundleError::Stray(_)), "{error}");
    // Killed before it began: then there are no stages yet.
    fs::write(dir.path().join("stages.jsonl"), "").unwrap();
    let bundle = go_on(dir.path(), |_, _| {}, false).unwrap();
    assert_eq!((bundle.questions(), bundle.len()), (&questions()[..], 0));
}

#[tokio::test(start_paused = true)]
async fn every_stage_is_on_the_disk_before_the_next_begins() {
    let dir = begun();
    let mut bundle = go_on(dir.path(), |_, _| {}, false).unwrap();
    let script = Script::steady(&[true, false], 100, 1000, 50);
    let mut recorder = recorder(&ScriptedPorts::new(script));
    let mut ran = 0;
    // Told of a stage, the one before it is written.
    let mut tell = |_: &spechop_eval::Stage| {
        assert_eq!(Bundle::read(dir.path()).unwrap().len(), ran);
        ran += 1;
    };
    for at in [0, 1] {
        let way = variant("k=3");
        let row = recorder
            .record(&mut bundle, at, &way, None, &mut tell)
            .await;
        assert_eq!(row.unwrap().id, format!("q{at}"));
    }
    // Both ask the same: the second question has cost nothing.
    assert_eq!(Bundle::read(dir.path()).unwrap().len(), ran);
}
