//! The binary as scripts see it: stdout, stderr, exit code.
#![allow(dead_code, clippy::unwrap_used, reason = "helpers of several tests")]

pub(crate) mod scripted;

use std::io::{BufRead, BufReader, PipeWriter};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) fn spechop(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spechop"));
    command.env_clear().stdin(Stdio::null()).args(args);
    command
}

/// The words of a command line, none of which has a blank in it.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A pipe that nobody reads any more.
pub(crate) fn unread() -> PipeWriter {
    let (_, writer) = std::io::pipe().unwrap();
    writer
}

/// Starts a server and waits until it is ready. Its address, or, if it ended instead, `None`.
pub(crate) fn ready(command: &mut Command) -> (Child, Option<String>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("ready on ").map(str::to_owned);
    (child, address)
}

/// As on a full disk: not one byte can be written to a file.
pub(crate) fn without_room(args: &[&str]) -> Command {
    let mut command = Command::new("/bin/bash");
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
    command
        .env_clear()
        .stdin(Stdio::null())
        .args(["-c", script, env!("CARGO_BIN_EXE_spechop")])
        .args(args);
    command
}

/// With its models and indexes in `data_dir`.
pub(crate) fn in_data_dir(data_dir: &Path, args: &[&str]) -> Command {
    let mut command = spechop(args);
    command.env("SPECHOP_DATA_DIR", data_dir);
    command
}

/// Exit code, stdout, stderr.
pub(crate) fn run(args: &[&str]) -> (i32, String, String) {
    output(&mut spechop(args))
}

/// As [`run`], of a command made up elsewhere.
pub(crate) fn output(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
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

/// A file of recorded questions.
pub(crate) struct Recorded {
    path: String,
    _dir: TempDir,
}

impl Recorded {
    pub(crate) fn new(content: impl AsRef<[u8]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hops.jsonl");
        std::fs::write(&path, content).unwrap();
        Self {
            path: path.to_str().unwrap().to_owned(),
            _dir: dir,
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What simulating it is refused with. Both forms of output must keep silent.
    #[track_caller]
    pub(crate) fn is_refused(&self, words: &str) {
        let args = ["simulate", "--hops", &self.path];
        refused(&args, words);
        refused(&[&args[..], &["--json"]].concat(), words);
    }
}

/// A recorded question with nothing wrong in it.
pub(crate) const GOOD: &str = r#"{"id":"a","hops":[{"segment_ms":330,"target_ms":4150,"speculation_ms":180,"accepted":true}],"final_ms":300}"#;

/// [`GOOD`] with something in it replaced.
#[track_caller]
pub(crate) fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}
