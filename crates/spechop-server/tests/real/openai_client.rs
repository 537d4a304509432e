//! The unmodified client of OpenAI for Python.

use std::path::Path;

use serde_json::{Value, json};
use spechop_testkit::Script;
use tokio::process::Command;

use crate::support::{Server, question};
use crate::unmodified_client::{output, tool};

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_openai_gets_an_answer() {
    let python = tool("venv/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/openai_client.py");
    let server = Server::start(Script::steady(&[true, false], 1, 10, 1)).await;
    let base = format!("http://{}/v1", server.address);
    let asked = [base, question().question];
    let out = output(Command::new(python).arg(script).args(asked)).await;
    let said: Value = serde_json::from_str(&out).unwrap();

    assert_eq!(
        said["models"],
        json!(["spechop", "spechop-k1", "spechop-auto"])
    );
    assert_eq!(said["model"], "spechop-auto");
    assert_eq!(said["content"], "so fact 1");
    assert_eq!(said["finish_reason"], "stop");
    let reasoning = "1. q0 after nothing? → fact 0\n2. q1 after fact 0? → fact 1\n";
    assert_eq!(said["reasoning"], reasoning);
    let streamed = &said["streamed"];
    assert_eq!(streamed["content"], said["content"]);
    assert_eq!(streamed["reasoning"], said["reasoning"]);
    assert_eq!(streamed["finish_reasons"], "stop");
    assert_eq!(streamed["usage"], said["tokens"]);
    assert_eq!(streamed["choices_at_the_end"], 0);
    assert_eq!(said["one hop"], 1);
    for (what, status, param) in [
        ("tools", 400, json!("tools")),
        ("n", 400, json!("n")),
        ("image", 400, json!("messages")),
        ("option", 400, json!("spechop.kk")),
        ("k", 400, json!("spechop.k")),
        ("model", 404, json!("model")),
    ] {
        let refused = &said["refused"][what];
        assert_eq!(refused["status"], status, "{what}: {refused}");
        assert_eq!(refused["param"], param, "{what}");
    }
    server.is_idle().await;
}
