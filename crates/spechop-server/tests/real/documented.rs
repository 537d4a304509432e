//! The programs that `docs/INTEGRATE.md` shows run as they stand there.

use std::fs;
use std::path::{Path, PathBuf};

use spechop_testkit::Script;
use tokio::process::Command;

use crate::support::Server;
use crate::unmodified_client::{output, tool};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The first block of code in this language, made to ask this server.
fn shown(language: &str, server: &Server) -> String {
    let page = fs::read_to_string(root().join("docs/INTEGRATE.md")).unwrap();
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    let (code, _) = rest.split_once("```").unwrap();
    let address = server.address.to_string();
    assert!(code.contains("127.0.0.1:50051"), "{code}");
    code.replace("127.0.0.1:50051", &address)
}

/// `deploy/real-tests.sh` leaves it out if the packages are not installed.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_client_for_node_gets_an_answer() {
    let server = Server::start(Script::steady(&[true, false], 1, 10, 1)).await;
    let code = shown("js", &server);
    // Node looks for packages beside the program.
    let program = tempfile::Builder::new()
        .prefix("documented-")
        .suffix(".mjs")
        .tempfile_in(tool("node-tests"))
        .unwrap();
    fs::write(program.path(), code).unwrap();
    let said = output(Command::new("node").arg(program.path()).current_dir(root())).await;
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.last(), Some(&"so fact 1"), "{said}");
    assert_eq!(lines[lines.len() - 2].split_once(' ').unwrap().1, "answer");
    // Every event once, in order.
    for (at, line) in lines[..lines.len() - 1].iter().enumerate() {
        let (number, name) = line.split_once(' ').unwrap();
        assert_eq!(number, (at + 1).to_string());
        assert!(!name.is_empty() && name != "undefined", "{line}");
    }
    server.is_idle().await;
}
