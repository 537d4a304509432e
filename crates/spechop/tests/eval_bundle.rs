//! Bundles that are not whole or of another version, and folders and disks that make trouble.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;

use crate::eval_brought::{Bundle, WEB, ours};
use crate::shell::{output, refused, run, spechop, without_room};
use serde_json::Value;

#[test]
fn what_is_not_whole_is_left_out_of_controls_and_counts() {
    let stored = Bundle::stored("2wiki-1.5b");
    let hops = stored.hops();
    let (mine, cut) = (stored.file("mine.jsonl", ours(&hops)), stored.path("cut"));
    fs::create_dir(&cut).unwrap();
    for file in ["bundle.json", "questions.jsonl"] {
        let original = format!("{}/{file}", stored.bundle);
        fs::copy(original, format!("{cut}/{file}")).unwrap();
    }
    let stages = fs::read_to_string(format!("{}/stages.jsonl", stored.bundle)).unwrap();
    let (first, others) = stages.split_once('\n').unwrap();
    fs::write(format!("{cut}/stages.jsonl"), others).unwrap();
    let first: Value = serde_json::from_str(first).unwrap();
    let is_whole = |hop: &&Value| hop["text"] != first["input"]["question"];
    let whole: Vec<Value> = hops.iter().filter(is_whole).cloned().collect();
    assert!(whole.len() < hops.len());

    let played = ["eval", "simulate", "--bundle", &cut, "--k", "3"];
    let brought = ["--control", "blind", "--guesses", &mine];
    let args = [&played[..], &brought].concat();
    refused(&args, "stages of 1 of 5 questions are missing");
    let (code, table, told) = run(&[&args[..], &["--whole-only"]].concat());
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("of 5 questions, 4 are whole"), "{told}");
    assert!(table.contains("k=3,speculator=blind"), "{table}");
    let (guesses, hops) = (ours(&whole).count(), whole.len());
    let counted = format!("mine: guesses for {guesses} of {hops} hops\n");
    assert!(table.ends_with(&counted), "{table}");
}

#[test]
fn questions_that_cannot_be_written_leave_the_old_file() {
    let bundle = Bundle::stored("2wiki-1.5b");
    let out = bundle.path("hops.jsonl");
    fs::write(&out, "old").unwrap();
    let args = bundle.eval("questions", &["--out", &out]);
    let (code, stdout, stderr) = output(&mut without_room(&args));
    assert_eq!((code, &*stdout), (1, ""), "{stderr}");
    assert!(stderr.contains("cannot write "), "{stderr}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "old");
    assert_eq!(bundle.folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn a_bundle_of_another_version_says_so() {
    let stored = Bundle::stored("2wiki-1.5b");
    let older = stored.path("older");
    fs::create_dir(&older).unwrap();
    for file in ["questions.jsonl", "stages.jsonl"] {
        fs::copy(
            format!("{}/{file}", stored.bundle),
            format!("{older}/{file}"),
        )
        .unwrap();
    }
    let info = fs::read_to_string(format!("{}/bundle.json", stored.bundle)).unwrap();
    let mut info: Value = serde_json::from_str(&info).unwrap();
    info.as_object_mut().unwrap().remove("passages");
    fs::write(format!("{older}/bundle.json"), info.to_string()).unwrap();
    for command in [&["questions"][..], &["simulate", "--k", "2"]] {
        let args = [&["eval"][..], command, &["--bundle", &older]].concat();
        refused(&args, "another version of spechop may have recorded it");
    }
}

#[test]
fn a_run_says_at_which_commits_its_bundle_was_recorded() {
    let stored = Bundle::stored("2wiki-1.5b");
    let (mixed, out) = (stored.path("mixed"), stored.path("out"));
    fs::create_dir(&mixed).unwrap();
    for file in ["questions.jsonl", "stages.jsonl"] {
        let original = format!("{}/{file}", stored.bundle);
        fs::copy(original, format!("{mixed}/{file}")).unwrap();
    }
    let info = fs::read_to_string(format!("{}/bundle.json", stored.bundle)).unwrap();
    let mut info: Value = serde_json::from_str(&info).unwrap();
    info["commits"] = serde_json::json!(["c1", "c2"]);
    fs::write(format!("{mixed}/bundle.json"), info.to_string()).unwrap();
    let args = [
        "eval", "simulate", "--bundle", &mixed, "--k", "3", "--out", &out,
    ];
    let (code, _, told) = run(&args);
    assert_eq!(code, 0, "{told}");
    let run = fs::read_to_string(format!("{out}/run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    assert_eq!(run["parts"]["recorded at"], "c1, c2");
}

#[cfg(unix)]
#[test]
fn a_run_may_lie_in_a_folder_whose_name_is_no_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let stored = Bundle::stored("2wiki-own");
    let out = stored.folder.path().join(OsStr::from_bytes(b"run\xff"));
    let mut command = spechop(&stored.eval("simulate", &["--inject", WEB]));
    let (code, _, stderr) = output(command.args(["--k", "1,4", "--out"]).arg(&out));
    assert_eq!((code, &*stderr), (0, ""));
    let run = fs::read_to_string(out.join("run.json")).unwrap();
    assert!(run.contains("--k 1,4 --out"), "{run}");
}
