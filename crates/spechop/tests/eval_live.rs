//! `spechop eval live` as scripts see it, as far as there is no server.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::shell;

/// Exit code, stdout, stderr.
fn run(args: &[&str]) -> (i32, String, String) {
    shell::run(&[&["eval", "live"], args].concat())
}

const WHOLE: &str = "--dataset 2wiki --questions /nowhere.jsonl --system ours --out /nowhere/run";

#[test]
fn what_is_written_wrong_is_told_by_the_parser() {
    let whole = shell::words(WHOLE);
    for (more, words) in [
        (
            &["--k", "0"][..],
            "expected numbers from 1 to 64, inf, or auto",
        ),
        (
            &["--k", "1,some"],
            "expected numbers from 1 to 64, inf, or auto",
        ),
        (
            &["--variant", "k=3,salvage=maybe"],
            "is nothing that a variant can say",
        ),
        (&["--variant", "salvage=off"], "does not say k"),
        (&["--part", "planner"], "expected NAME=VALUE"),
        (
            &["--dataset", "hotpot"],
            "expected 2wiki, musique, deepresearch",
        ),
        (&["--ids-part", "test"], "--ids <FILE>"),
        (&["--concurrency", "many"], "invalid value"),
    ] {
        // What may be given once is given once.
        let args: Vec<_> = match more {
            ["--dataset", name] => [&["--dataset", name], &whole[2..]].concat(),
            more => [&whole[..], more].concat(),
        };
        let (code, stdout, stderr) = run(&args);
        assert_eq!((code, &*stdout), (2, ""), "{args:?}");
        assert!(
            stderr.contains("error: ") && stderr.contains(words),
            "{args:?}: {stderr}"
        );
    }
    let (code, _, stderr) = run(&[]);
    assert_eq!(code, 2);
    for needed in ["--dataset", "--questions", "--system", "--out"] {
        assert!(stderr.contains(needed), "{stderr}");
    }
}

#[test]
fn errors_are_one_clear_line_and_an_exit_code() {
    let (code, stdout, stderr) = run(&shell::words(WHOLE));
    assert_eq!((code, &*stdout), (1, ""), "{stderr}");
    assert!(stderr.starts_with("spechop: "), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
}
