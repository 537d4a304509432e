//! `spechop patterns` as scripts see it: stdout, stderr, exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{miswritten, object, output, printed, refused, without_room, words};
use tempfile::TempDir;

/// Ten questions of one form, a line each.
fn traces(folder: &TempDir) -> PathBuf {
    let line = |n: usize| {
        format!(
            r#"{{"question":"Who is Name{n}'s aunt?","hops":[{{"sub_question":"Who is the mother of Name{n}?","answer":"Eve{n}"}},{{"sub_question":"Who is the sister of Eve{n}?","answer":"Amy"}}]}}"#
        )
    };
    let lines: Vec<_> = (0..10).map(line).collect();
    let file = folder.path().join("traces.jsonl");
    let none = r#"{"question":"Who?","hops":[]}"#;
    fs::write(&file, format!("{}\n{none}\n", lines.join("\n"))).unwrap();
    file
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// `spechop patterns mine` of this file into that one.
fn mining<'a>(traces: &'a Path, out: &'a Path) -> Vec<&'a str> {
    let files = [text(traces), "--out", text(out)];
    [&words("patterns mine --trajectories")[..], &files].concat()
}

#[test]
fn patterns_are_mined_shown_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (traces, out) = (traces(&folder), folder.path().join("patterns.json"));
    let mine = mining(&traces, &out);
    let report = printed(&mine);
    for words in [
        "trajectories          10 of 10 questions",
        "without hops          1, which teach nothing",
        "100.0 % of 20 segments right",
        "       10          Who is {q1}'s aunt?\n",
        "             0.95    Who is the mother of {q1}?\n             0.95    Who is the sister of {a1}?\n",
    ] {
        assert!(report.contains(words), "{report} does not say {words:?}");
    }
    assert_eq!(object(&mine)["report"]["kept"], 1);
    let mined = fs::read(&out).unwrap();
    let (code, stdout, stderr) = output(&mut without_room(&mine));
    assert_eq!((code, &*stdout), (1, ""), "{stderr}");
    assert!(stderr.contains("cannot write "), "{stderr}");
    assert_eq!(fs::read(&out).unwrap(), mined);

    let shown = printed(&["patterns", "show", "--patterns", text(&out)]);
    assert!(report.ends_with(&shown), "{shown}");
    let shipped = printed(&["patterns", "show", "--top", "3"]);
    assert!(
        shipped.contains("maternal grandfather") || shipped.contains("{q1}"),
        "{shipped}"
    );
    assert!(shipped.trim_end().ends_with(" more"), "{shipped}");

    let files = [text(&out), "--trajectories", text(&traces)];
    let check = [&words("patterns check --patterns")[..], &files].concat();
    let scores = object(&check);
    let score = &scores["traces.jsonl"];
    assert_eq!(
        [&score["right"], &score["segments"], &score["ends"]],
        [20, 20, 10]
    );
    assert!(
        printed(&check).contains("traces.jsonl        20  100.0%      0.0%     100.0%        0\n")
    );
}

#[test]
fn a_bundle_is_read_too() {
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../eval/runs/2wiki-own/bundle");
    let scores = object(&["patterns", "check", "--bundle", text(&bundle)]);
    assert!(
        scores["compositional"]["right"].as_u64().unwrap() > 200,
        "{scores}"
    );
}

#[test]
fn bad_input_is_refused_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let traces = traces(&folder);
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let out = folder.path().join("out.json");
    let mine = |from: &Path, words: &str| refused(&mining(from, &out), words);
    mine(&folder.path().join("gone"), "cannot read ");
    mine(
        &file("none", "{\"question\":\"Who?\",\"hops\":[]}\n"),
        "no trajectory has a hop",
    );
    mine(&file("odd", "{}\n"), "line 1 is not {\"question\":");
    let one = fs::read_to_string(&traces).unwrap();
    mine(
        &file("one", one.lines().next().unwrap()),
        "give more of them, or lower --support",
    );
    assert!(!out.exists());
    let nowhere = folder.path().join("no/such/folder.json");
    refused(&mining(&traces, &nowhere), "cannot write ");
    for (name, content, words) in [
        ("damaged", "{\"format\":1", "damaged: mine it again"),
        ("newer", "{\"format\":9}", "format 9, not 1"),
    ] {
        let damaged = file(name, content);
        refused(&["patterns", "show", "--patterns", text(&damaged)], words);
    }
    refused(
        &["patterns", "check", "--bundle", text(folder.path())],
        "cannot read ",
    );
    let empty = file("empty", "");
    refused(
        &["patterns", "check", "--trajectories", text(&empty)],
        "there is no segment",
    );
    miswritten(&["patterns", "check"], "required");
    let args = words("patterns mine --trajectories x --out y --precision 2");
    miswritten(&args, "invalid value '2'");
}
