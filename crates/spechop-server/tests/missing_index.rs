//! A web as the target and no index to guess from: one clear line or status, and questions that go on.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{Server, bare, home, options, question};
use spechop_config::{Config, Env, InvalidConfig, SpeculatorKind, Written};
use spechop_server::Bare;
use spechop_testkit::Script;
use tempfile::TempDir;
use tonic::Code;

/// Everything that the defaults name, but no index.
fn home_without_index() -> TempDir {
    let home = home();
    fs::remove_dir_all(home.path().join("indexes")).unwrap();
    for part in ["spechop-planner-merged/model.gguf", "spechop-reader"] {
        fs::create_dir_all(home.path().join("models").join(part)).unwrap();
    }
    home
}

/// The web as the target, with these lines of configuration.
fn read(home: &Path, toml: &str) -> Result<Config, InvalidConfig> {
    let data = [("SPECHOP_DATA_DIR", home.to_str().unwrap())];
    let env: Env = data.into_iter().collect();
    let toml = format!("[target]\nkind = \"web\"\n{toml}");
    let written = Written {
        file: Some(("test.toml".into(), toml)),
        // Nothing is learnt for a later server.
        flags: vec![["tuning.state", "--set", "none"].map(str::to_owned).into()],
    };
    Config::read(written, &env)
}

/// Whoever names an index wants its guesses: the server does not start without them.
#[test]
fn an_index_that_is_named_and_missing_is_told_in_one_line() {
    let home = home_without_index();
    let usual = home.path().join("indexes/default");
    let build = |out| format!("run `spechop index build --corpus FOLDER{out}`");
    for (toml, expected) in [
        (
            "[speculator]\nkind = \"index\"",
            format!(
                "index.dir (default): {} is missing: {}",
                usual.display(),
                build("")
            ),
        ),
        (
            "[index]\ndir = \"/nowhere\"",
            format!(
                "index.dir (test.toml): /nowhere is missing: {}",
                build(" --out /nowhere")
            ),
        ),
        (
            "[index]\ndir = \"/nowhere\"\n[speculator]\nkind = \"index\"",
            format!(
                "index.dir (test.toml): /nowhere is missing: {}",
                build(" --out /nowhere")
            ),
        ),
        // The index is among those that are asked together.
        (
            "[speculator]\nkind = \"cascade\"",
            format!(
                "index.dir (default): {} is missing: {}",
                usual.display(),
                build("")
            ),
        ),
    ] {
        let wrong = read(home.path(), toml).expect_err(toml);
        assert_eq!(wrong.to_string(), format!("configuration: {expected}"));
    }
    read(
        home.path(),
        "[speculator]\nkind = \"cascade\"\ncascade = [\"memory\"]",
    )
    .unwrap();
    // With one nothing is wrong, so nothing else was.
    fs::create_dir_all(&usual).unwrap();
    let config = read(home.path(), "[speculator]\nkind = \"index\"").unwrap();
    assert_eq!(config.speculator.default, SpeculatorKind::Index);
}

/// By default the index guesses where there is one. Without it nobody does, and the web answers.
#[tokio::test(flavor = "multi_thread")]
async fn without_an_index_questions_are_answered_and_say_that_nobody_guessed() {
    let home = home_without_index();
    let config = read(home.path(), "").unwrap();
    assert_eq!(config.speculator.default, SpeculatorKind::None);
    let script = Script::steady(&[true, true, true], 1, 5, 1);
    let server = Server::with(script, config, |ports| Bare {
        speculators: BTreeMap::new(),
        ..bare(ports)
    })
    .await;
    let answer = server.ask(question()).await.unwrap();
    assert_eq!((&*answer.answer, answer.hops.len()), ("so fact 2", 3));
    assert_eq!(options(&answer).speculator.as_deref(), Some("none"));
    let guesses = answer.usage.unwrap().speculations.unwrap();
    assert_eq!(guesses.started, 0);
    // Whoever insists on the index is told who there is.
    let index = question().with(|asked| asked.speculator = Some("index".to_owned()));
    let status = server.ask(index).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let told = "options.speculator: there is none of this name; this server has none";
    assert_eq!(status.message(), told);
}

/// If another speculator is there, it guesses instead.
#[tokio::test(flavor = "multi_thread")]
async fn without_an_index_another_speculator_guesses() {
    let home = home_without_index();
    let config = read(home.path(), "[generator]\nstyle = \"tagged\"").unwrap();
    assert_eq!(config.speculator.default, SpeculatorKind::Llm);
    let server = Server::of(Script::steady(&[true, true, true], 1, 120, 1), config).await;
    let answer = server.ask(question()).await.unwrap();
    assert_eq!(answer.answer, "so fact 2");
    assert_eq!(options(&answer).speculator.as_deref(), Some("llm"));
    let guesses = answer.usage.unwrap().speculations.unwrap();
    assert!(guesses.started > 0, "{guesses:?}");
}
