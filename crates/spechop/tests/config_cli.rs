//! `spechop config` as operators and scripts see it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;

use crate::shell::{in_data_dir, output};
use tempfile::TempDir;

/// A data folder in which everything lies that the defaults name, empty.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for file in [
        "models/e5-small-v2-int8",
        "models/spechop-reader",
        "models/onnxruntime/libonnxruntime.so",
        "models/spechop-planner-merged/model.gguf",
        "indexes/default",
    ] {
        fs::create_dir_all(home.path().join(file)).unwrap();
    }
    home
}

/// Exit code, stdout, stderr, in the folder of the configuration.
fn run(home: &Path, args: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = in_data_dir(home, &[&["config"], args].concat());
    output(command.current_dir(home).envs(variables.iter().copied()))
}

#[test]
fn check_tells_every_mistake_with_its_place_and_the_nearest_key() {
    let home = home();
    let wrong = "[question]\nk = 0\npassagess = 3\n\n[server]\nlisten = \"here\"\n";
    fs::write(home.path().join("c.toml"), wrong).unwrap();
    let variables = [("SPECHOP_QUESTION_VERIFIER", "strict")];
    let args = ["check", "c.toml", "--set", "question.hop_budget=0"];
    let (code, stdout, stderr) = run(home.path(), &args, &variables);
    assert_eq!((code, &*stdout), (1, ""), "{stderr}");
    insta::assert_snapshot!(stderr, @r#"
    spechop: c.toml has 5 mistakes:
      c.toml:6: server.listen (c.toml): expected an address such as 127.0.0.1:50051, found "here"
      c.toml:2: question.k (c.toml): expected "auto" or a whole number from 1 to 1024, found 0
      question.hop_budget (--set): expected a whole number from 1 to 1024, found "0"
      question.verifier (SPECHOP_QUESTION_VERIFIER): expected "rule" or "exact" or "paper", found "strict"
      c.toml:3: question.passagess (c.toml): there is no such key; did you mean question.passages?
    "#);
    fs::write(home.path().join("c.toml"), "[question]\nk = 4\n").unwrap();
    let checked = run(home.path(), &["check", "c.toml"], &[]);
    assert_eq!(checked, (0, "c.toml is right\n".to_owned(), String::new()));
    let (code, stdout, _) = run(home.path(), &["check"], &[]);
    assert_eq!((code, &*stdout), (0, "the configuration is right\n"));
    // What is missing is named with the command that brings it.
    fs::remove_dir_all(home.path().join("indexes")).unwrap();
    let (code, _, stderr) = run(home.path(), &["check"], &[]);
    assert!(
        code == 1 && stderr.contains("spechop index build"),
        "{stderr}"
    );
}

const KEYED: &str = "\
[question]
k = 4

[qdrant]
urls = [\"http://me:secret-1@h:6334\"]

[generator]
api_key_env = \"sk-secret-2\"

[[keys]]
name = \"laptop\"
hash = \"secret-3\"
";

#[test]
fn show_says_what_was_written_where_and_hides_secrets() {
    let home = home();
    fs::write(home.path().join("c.toml"), KEYED).unwrap();
    let variables = [("SPECHOP_QUESTION_PASSAGES", "7")];
    let args = ["show", "c.toml", "--set", "question.hop_budget=8"];
    let (code, stdout, stderr) = run(home.path(), &args, &variables);
    assert_eq!((code, &*stderr), (0, ""));
    assert!(!stdout.contains("secret-"), "{stdout}");
    let wanted = [
        "keys = ",
        "question.k ",
        "question.k_max",
        "question.hop_budget ",
        "question.passages ",
        "question.verifier",
        "generator.api_key_env",
        "qdrant.urls",
        "# index.dir",
        "# tenant.tokens",
    ];
    let lines = stdout.lines();
    let lines: Vec<_> = lines
        .filter(|line| wanted.iter().any(|start| line.starts_with(start)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    keys = [{ hash = "hidden", name = "laptop" }]  # c.toml:10
    question.k = 4  # c.toml:2
    question.k_max = 64  # default
    question.hop_budget = 8  # --set
    question.passages = 7  # SPECHOP_QUESTION_PASSAGES
    question.verifier = "rule"  # default
    # index.dir = "~/.local/share/spechop/indexes/default"  # usually; not set
    generator.api_key_env = "hidden"  # c.toml:8
    qdrant.urls = ["http://hidden@h:6334"]  # c.toml:5
    # tenant.tokens  # not set
    "#);
    // All of it is TOML, which later programs can read.
    stdout.parse::<toml::Table>().unwrap();
    // Whoever asks for secrets sees them.
    let (_, stdout, _) = run(home.path(), &["show", "c.toml", "--secrets"], &[]);
    assert!(stdout.contains("secret-1") && stdout.contains("secret-3"));
}

/// A fallback and a reader are asked in conversations, unless somebody says otherwise.
#[test]
fn show_states_the_defaults_of_each_section() {
    let home = home();
    let (code, stdout, stderr) = run(home.path(), &["show"], &[]);
    assert_eq!((code, &*stderr), (0, ""));
    let lines = stdout.lines();
    let lines: Vec<_> = lines
        .filter(|line| line.contains("style = ") || line.contains("context_tokens = "))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    # generator.style = "steps"  # usually; not set
    # generator.context_tokens = 1024  # usually; not set
    fallback.style = "tagged"  # default
    # fallback.context_tokens = 4096  # usually; not set
    reader.style = "tagged"  # default
    reader.context_tokens = 4096  # default
    speculator.model.style = "tagged"  # default
    speculator.model.context_tokens = 4096  # default
    drafter.model.style = "tagged"  # default
    drafter.model.context_tokens = 4096  # default
    "#);
}

/// TOML has more ways to write a number than a flag or a variable.
#[test]
fn a_value_is_shown_as_it_is_read() {
    let home = home();
    for (written, shown) in [("7", "question.k = 7 "), ("1_0", "question.k = \"1_0\" ")] {
        let variables = [("SPECHOP_QUESTION_K", written)];
        let (_, stdout, _) = run(home.path(), &["show"], &variables);
        assert!(stdout.contains(shown), "{written}:\n{stdout}");
    }
}

#[test]
fn show_can_write_a_file_that_means_the_same() {
    let home = home();
    fs::write(
        home.path().join("c.toml"),
        // A list without entries has no table of its own.
        "keys = []\n[question]\nk = 4\n[web.brave]\nms_max = 7\n",
    )
    .unwrap();
    let variables = [
        ("SPECHOP_QUESTION_CHANCE_MIN", "0.5"),
        ("SPECHOP_TENANT_QUIET", "a, b"),
    ];
    let args = [
        "show",
        "c.toml",
        "--toml",
        "--set",
        "question.salvage=false",
    ];
    let (code, same, stderr) = run(home.path(), &args, &variables);
    assert_eq!((code, &*stderr), (0, ""));
    fs::write(home.path().join("same.toml"), &same).unwrap();
    let checked = run(home.path(), &["check", "same.toml"], &[]);
    assert_eq!(checked.0, 0, "{}", checked.2);
    // Shown again without variables and flags it is the same to the last line.
    let (_, again, _) = run(home.path(), &["show", "same.toml", "--toml"], &[]);
    assert_eq!(again, same);
    for line in [
        "k = 4",
        "chance_min = 0.5",
        "quiet = \"a, b\"",
        "salvage = false",
        "ms_max = 7",
    ] {
        assert!(
            same.lines().any(|written| written == line),
            "{line}:\n{same}"
        );
    }
}

#[test]
fn show_prints_the_reference_and_a_file_to_begin_with() {
    let home = home();
    let (code, reference, _) = run(home.path(), &["show", "--keys"], &[]);
    assert_eq!(code, 0);
    assert!(reference.contains("| `k` | \"auto\" or a whole number from 1 to 1024 | `3` | live |"));
    let (code, example, _) = run(home.path(), &["show", "--example"], &[]);
    assert_eq!(code, 0);
    fs::write(home.path().join("c.toml"), example).unwrap();
    let checked = run(home.path(), &["check", "c.toml"], &[]);
    assert_eq!(checked.0, 0, "{}", checked.2);
    let (code, _, _) = run(home.path(), &["show", "--keys", "--toml"], &[]);
    assert_eq!(code, 2);
}
