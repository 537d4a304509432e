//! The binary with real models. `make test` pulls them and then runs this target; plain `cargo test`
//! leaves it out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod alone;
mod chaos;
mod demo_web;
mod eval_smoke;
mod mcp;
mod page;
mod quantize;
mod serve;
#[path = "../shell/mod.rs"]
mod shell;

use std::fs::{File, read_to_string, write};
use std::path::Path;
use std::process::{Child, Command};

use shell::{in_data_dir, output, ready};
use spechop_testkit::assets;

/// A server process, killed when the test ends.
struct Server(Child);

impl Server {
    /// Starts the command, which says the rest to this file, and waits until it is ready. Its address.
    #[track_caller]
    fn start(command: &mut Command, log: &Path) -> (Self, String) {
        let (child, address) = ready(command.stderr(File::create(log).unwrap()));
        let said = || read_to_string(log).unwrap();
        (Self(child), address.unwrap_or_else(|| panic!("{}", said())))
    }
}

/// Two passages, of which each answers a question.
const CORPUS: &str = r#"{"id":"p1","title":"Halcón","text":"Halcón is a film directed by Ana Ruiz."}
{"id":"p2","title":"Ana Ruiz","text":"Ana Ruiz is a director who was born in Cádiz."}
"#;

/// Writes a corpus into this folder, and an index of it by the default encoder. Gives both paths.
#[track_caller]
fn indexed(folder: &Path, corpus: &str) -> [String; 2] {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (from, to) = (path("corpus.jsonl"), path("index"));
    write(&from, corpus).unwrap();
    let build = ["index", "build", "--corpus", &from, "--out", &to];
    let (code, _, stderr) = output(&mut in_data_dir(&assets::data_dir(), &build));
    assert_eq!(code, 0, "{stderr}");
    [from, to]
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
