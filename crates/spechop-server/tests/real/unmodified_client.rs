//! Clients that know nothing of this repository: they ask the server what it offers, by reflection,
//! and then ask it a question.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use spechop_testkit::{Script, assets};
use tokio::process::Command;

use crate::support::Server;

/// A tool that `make test` installs.
pub(super) fn tool(path: &str) -> PathBuf {
    let tool = assets::data_dir().join(path);
    assert!(
        tool.exists(),
        "{} is missing: `make test` installs it",
        tool.display()
    );
    tool
}

/// What a program prints.
pub(super) async fn output(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn python_with_reflection_gets_an_answer() {
    let python = tool("venv/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/unmodified_client.py");
    let server = Server::start(Script::steady(&[true, false], 1, 10, 1)).await;
    let address = server.address.to_string();
    let out = output(Command::new(python).arg(script).arg(address)).await;
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();

    let services: Vec<_> = said["services"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    for service in [
        "spechop.v1.SpecHop",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
    ] {
        assert!(services.contains(&service), "{services:?}");
    }
    assert_eq!(said["health"], "SERVING");
    assert_eq!(said["answer"], "so fact 1");
    assert_eq!(said["hops"][0]["passage_id"], "p0-q0 after nothing?");
    assert_eq!(said["hops"][1]["kind"], "COMMIT_KIND_REJECTED");
    assert_eq!(said["streamed"]["answer"], "so fact 1");
    let count = said["streamed"]["events"].as_u64().unwrap();
    assert!(
        count > 10 && said["streamed"]["last_sequence"].as_u64() == Some(count),
        "{said}"
    );
    assert_eq!(said["bad"]["k = 0"], "INVALID_ARGUMENT");
    assert_eq!(said["bad"]["empty"], "INVALID_ARGUMENT");
    assert_eq!(said["bad"]["not utf-8"], "INVALID_ARGUMENT");
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_gets_an_answer() {
    let grpcurl = tool("bin/grpcurl");
    let server = Server::start(Script::instant(2)).await;
    let address = server.address.to_string();
    let described = output(Command::new(&grpcurl).args([
        "-plaintext",
        &address,
        "describe",
        "spechop.v1.AskRequest",
    ]))
    .await;
    assert!(described.contains("string question = 1;"), "{described}");
    let data = r#"{"question": "What comes of it?", "options": {"k": 2}}"#;
    let out = output(Command::new(&grpcurl).args([
        "-plaintext",
        "-d",
        data,
        &address,
        "spechop.v1.SpecHop/Ask",
    ]))
    .await;
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["answer"], "so fact 1");
    assert_eq!(
        answer["hops"][0]["observation"]["evidence"][0]["passageId"],
        "p0-q0 after nothing?"
    );
}
