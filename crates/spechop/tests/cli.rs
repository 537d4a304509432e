//! The binary as scripts see it: stdout, stderr, exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

fn spechop(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spechop"));
    command
        .env_clear()
        .env("SPECHOP_DATA_DIR", data_dir)
        .stdin(Stdio::null());
    command
}

/// Exit code, stdout, stderr.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn errors_are_one_clear_line_and_an_exit_code() {
    let empty = tempfile::tempdir().unwrap();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let not_toml = empty.path().join("c.toml");
    std::fs::write(&not_toml, "[server\nlisten = 1").unwrap();
    for (args, words) in [
        (
            &["ask", "Who?", "--addr", &closed][..],
            "start it with `spechop serve`",
        ),
        (
            &["ask", "Who?", "--addr", "https://h:1"],
            "`https` is not spoken",
        ),
        (&["ask", "Who?", "--addr", "no address"], "is no HOST:PORT"),
        (
            &["serve", "--config", "/nowhere.toml"],
            "cannot read the configuration /nowhere.toml",
        ),
        (
            &["serve", "--config", not_toml.to_str().unwrap()],
            "not TOML",
        ),
        (&["serve", "--log", "a=b=c"], "is no log filter"),
    ] {
        let (code, stdout, stderr) = run(spechop(empty.path()).args(args));
        assert_eq!((code, &*stdout), (1, ""), "{args:?}: {stderr}");
        assert!(
            stderr.starts_with("spechop: ") && stderr.contains(words),
            "{args:?}: {stderr}"
        );
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    }
    // What was written wrong is told by the parser of the command line.
    for args in [
        &["ask"][..],
        &["ask", "Who?", "--k", "many"],
        &["serve", "--listen", "here"],
        &["nothing"],
    ] {
        let (code, stdout, stderr) = run(spechop(empty.path()).args(args));
        assert_eq!((code, &*stdout), (2, ""), "{args:?}");
        assert!(stderr.contains("error: "), "{args:?}: {stderr}");
    }
    // Everything that is missing, at once, each with the command that fetches it.
    let (code, _, stderr) = run(spechop(empty.path()).arg("serve"));
    assert_eq!(code, 1);
    for words in [
        "6 mistakes",
        "`spechop models pull encoder`",
        "`spechop models pull onnxruntime`",
        "`spechop models pull smollm2-135m-instruct`",
        "`make models`",
        "`spechop index build --corpus",
    ] {
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn help_teaches_by_example() {
    let empty = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["--help"][..], "spechop ask --watch"),
        (&["ask", "--help"], "jq -r .answer"),
        (&["serve", "--help"], "--set speculator.kind=none"),
    ] {
        let (code, stdout, _) = run(spechop(empty.path()).args(args));
        assert!(code == 0 && stdout.contains(words), "{stdout}");
    }
}
