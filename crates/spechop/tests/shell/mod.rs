//! The binary as scripts see it: stdout, stderr, exit code.
#![allow(dead_code, clippy::unwrap_used, reason = "helpers of several tests")]

use std::process::{Command, Stdio};

use serde_json::Value;

pub(crate) fn spechop(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spechop"));
    command.env_clear().stdin(Stdio::null()).args(args);
    command
}

/// Exit code, stdout, stderr.
pub(crate) fn run(args: &[&str]) -> (i32, String, String) {
    let output = spechop(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

/// What is printed where all is well.
#[track_caller]
pub(crate) fn printed(args: &[&str]) -> String {
    let (code, stdout, stderr) = run(args);
    assert_eq!((code, &*stderr), (0, ""), "{args:?}");
    stdout
}

/// The one JSON object of one line.
#[track_caller]
pub(crate) fn object(args: &[&str]) -> Value {
    let stdout = printed(&[args, &["--json"]].concat());
    assert_eq!(stdout.trim_end_matches('\n').lines().count(), 1, "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

/// Refused by the command: exit code 1, one clear line, nothing printed.
#[track_caller]
pub(crate) fn refused(args: &[&str], words: &str) {
    let (code, stdout, stderr) = run(args);
    assert_eq!((code, &*stdout), (1, ""), "{args:?}: {stderr}");
    assert!(
        stderr.starts_with("spechop: ") && stderr.contains(words),
        "{args:?}: {stderr:?} does not say {words:?}"
    );
    assert!(
        stderr.ends_with('\n') && stderr.lines().count() == 1,
        "{args:?}: {stderr:?}"
    );
}

/// Refused by the parser of the command line: exit code 2, its first line says why, nothing printed.
#[track_caller]
pub(crate) fn miswritten(args: &[&str], words: &str) {
    let (code, stdout, stderr) = run(args);
    assert_eq!((code, &*stdout), (2, ""), "{args:?}: {stderr}");
    let first = stderr.lines().next().unwrap();
    assert!(
        first.starts_with("error: ") && first.contains(words),
        "{args:?}: {first:?} does not say {words:?}"
    );
}
