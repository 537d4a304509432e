//! `spechop index` as scripts see it, as far as it needs no model.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::shell;
use std::path::Path;

/// Exit code, stdout, stderr.
fn spechop(data_dir: &Path, args: &[&str]) -> (i32, String, String) {
    shell::output(&mut shell::in_data_dir(data_dir, args))
}

#[test]
fn what_is_no_index_is_told_by_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere").display().to_string();
    let index = dir.path().join("index");
    std::fs::create_dir(&index).unwrap();
    let index = index.to_str().unwrap();
    for args in [
        &["index", "info", index][..],
        &["index", "verify", index],
        &["index", "check", index],
        &["index", "remove", index, "p1"],
        &["index", "hot", index, "--fraction", "0.1"],
        &["index", "merge", index, "--out", "whole"],
    ] {
        let (code, stdout, stderr) = spechop(dir.path(), args);
        assert_eq!((code, &*stdout), (1, ""), "{args:?}: {stderr}");
        assert!(
            stderr.contains("it has no manifest.json") && stderr.lines().count() == 1,
            "{args:?}: {stderr}"
        );
        let elsewhere = args.iter().map(|arg| match *arg == index {
            true => &*nowhere,
            false => *arg,
        });
        let (code, stdout, stderr) = spechop(dir.path(), &elsewhere.collect::<Vec<_>>());
        let said = format!("spechop: there is no folder {nowhere}\n");
        assert_eq!((code, &*stdout, stderr), (1, "", said), "{args:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_shows_at_once_is_told_before_the_encoder_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (index, there, nowhere) = (path("index"), path("c.jsonl"), path("nowhere.jsonl"));
    std::fs::write(&there, "{}\n").unwrap();
    let build = ["index", "build", "--out", &index, "--corpus"];
    let hot = ["--hot-fraction", "0.1", "--in-degree", &nowhere];
    let missing = "nowhere.jsonl failed: ";
    for (args, words) in [
        (&[&build[..], &[&*there]].concat()[..], "models pull "),
        (&[&build[..], &[&*nowhere]].concat(), missing),
        (&[&build[..], &[&*there], &hot].concat(), missing),
        (
            &["index", "add", &index, "--corpus", &there],
            "there is no folder ",
        ),
        (
            &["index", "search", "Who?", "--index", &index],
            "models pull ",
        ),
    ] {
        let (code, _, stderr) = spechop(dir.path(), args);
        assert_eq!(code, 1, "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
    // No lock either.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let build = ["index", "build", "--corpus", "c"];
    for (more, words) in [
        (
            &["--format", "csv"][..],
            "formats are documents, jsonl, 2wiki",
        ),
        (&["--shard", "8/8"], "write 0/8 for the first of eight"),
        (
            &["--shard", "0/8", "--hot-fraction", "0.1"],
            "cannot be used with",
        ),
    ] {
        let (code, _, stderr) = spechop(dir.path(), &[&build[..], more].concat());
        assert!(code == 2 && stderr.contains(words), "{more:?}: {stderr}");
    }
    for args in [
        &["index", "remove", "dir"][..],
        &["index", "merge", "--out", "o"],
        &["index", "hot", "dir"],
        &["index", "hot", "dir", "--fraction", "0.1", "--tenant", "a"],
    ] {
        let (code, _, stderr) = spechop(dir.path(), args);
        assert!(
            code == 2 && stderr.contains("required"),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn a_file_that_holds_no_traffic_is_told_before_the_index_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("traffic.json");
    let path = file.to_str().unwrap();
    let args = ["index", "hot", "i", "--fraction", "0.1", "--traffic", path];
    for (text, said) in [
        (None, "there is no such file"),
        (Some("{}"), "it is damaged"),
        (
            Some("{\"content\":{\"format\":7},\"crc32\":0}"),
            "it is of format 7, not 1",
        ),
    ] {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let (code, stdout, stderr) = spechop(dir.path(), &args);
        assert_eq!((code, &*stdout), (1, ""), "{stderr}");
        assert!(stderr.contains(said) && stderr.contains(path), "{stderr}");
        assert!(
            stderr.contains("speculator.traffic_file") && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
}

#[test]
fn the_help_of_a_change_names_what_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["add", "remove"] {
        let (code, help, stderr) = spechop(dir.path(), &["index", command, "--help"]);
        assert_eq!(code, 0, "{stderr}");
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("spechop index hot"), "{help}");
        // Which would undo the change.
        assert!(!help.contains("build the index again"), "{help}");
    }
}
