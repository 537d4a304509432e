//! A file of what was learnt that is of no use: the log says which and why, once, and the server begins anew.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;

use crate::lines::{Lines, is_alone};
use crate::support::{Server, question};
use spechop_testkit::Script;

#[tokio::test(flavor = "multi_thread")]
async fn a_useless_file_is_named_and_put_aside() {
    if !is_alone(module_path!(), "a_useless_file_is_named_and_put_aside") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lines = Lines::default();
    let log = tracing_subscriber::fmt().with_ansi(false);
    // Files are read on other threads.
    log.with_writer(lines.clone()).init();
    for (name, content, reason) in [
        ("damaged", "{\"format\": 1, \"tenants\": [", "it is damaged"),
        ("long", &"x".repeat(65 << 20), "bytes, more than"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        let before = lines.text().len();
        let toml = format!("[tuning]\nstate = {path:?}\n");
        let server = Server::configured(Script::instant(1), &toml).await;
        server.ask(question()).await.unwrap();
        let text = lines.text().split_off(before);
        let told: Vec<_> = text
            .lines()
            .filter(|line| line.contains("begins anew"))
            .collect();
        assert_eq!(told.len(), 1, "{text}");
        let warning = told[0].contains("WARN") && told[0].contains("what was learnt");
        assert!(warning && told[0].contains(reason), "{text}");
        assert!(told[0].contains(path.to_str().unwrap()), "{text}");
        let aside = dir.path().join(format!("{name}.damaged"));
        assert!(fs::read_to_string(aside).unwrap() == content);
    }
}
