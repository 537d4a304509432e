//! A host of MCP that is not the official SDK: the client of Vercel's AI SDK, unmodified.

use std::path::Path;

use serde_json::Value;
use spechop_testkit::Script;
use tokio::process::Command;

use crate::support::{Server, question};
use crate::unmodified_client::{output, tool};

/// `deploy/real-tests.sh` leaves it out if the package is not installed.
#[tokio::test(flavor = "multi_thread")]
async fn the_ai_sdk_for_node_searches_fetches_and_asks() {
    let server = Server::start(Script::instant(2)).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/mcp_host.mjs");
    let mut node = Command::new("node");
    node.env("NODE_TOOLS", tool("node-tests")).arg(script);
    node.arg(format!("http://{}", server.address));
    let out = output(node.arg(question().question)).await;
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(said["tools"], serde_json::json!(["search", "fetch", "ask"]));
    let found = said["searched"].as_array().unwrap();
    assert!(!found.is_empty(), "{said}");
    assert_eq!(said["fetched"]["id"], found[0]["id"]);
    assert_eq!(said["fetched"]["title"], found[0]["title"]);
    assert!(!said["fetched"]["text"].as_str().unwrap().is_empty());
    assert!(said["answer"].as_str().unwrap().starts_with("so fact 1"));
    assert_eq!(said["structured"]["hops"].as_array().unwrap().len(), 2);
    assert_eq!(said["wrong"][0], true);
    assert!(said["wrong"][1].as_str().unwrap().contains("question"));
    server.is_idle().await;
}
