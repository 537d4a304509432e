//! Errors become gRPC statuses in `status.rs` only, and protobuf types stay in the files that
//! `lib.rs` names. Both sentences are read off the sources.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below a folder, with its text.
fn sources(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// The files of this crate in which a line of code contains one of these, by their names.
fn files_with(words: &[&str]) -> Vec<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&src, &mut found);
    assert!(found.len() > 10, "the sources are read");
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let has = |text: &str| {
        let mut code = text.lines().filter(is_code);
        code.any(|line| words.iter().any(|word| line.contains(word)))
    };
    let files = found.iter().filter(|(_, text)| has(text));
    let mut names: Vec<_> = files
        .map(|(path, _)| path.strip_prefix(&src).unwrap().display().to_string())
        .collect();
    names.sort();
    names
}

/// `ServingStatus::` is the health service's and no gRPC status.
#[test]
fn statuses_are_made_in_one_file() {
    assert_eq!(
        files_with(&[" Status::", "(Status::", "tonic::Status::", "StatusExt"]),
        ["status.rs"]
    );
}

#[test]
fn protobuf_types_stay_at_the_wire() {
    let files = files_with(&["spechop_proto", "wire::"]);
    assert_eq!(
        files,
        ["admin.rs", "app.rs", "reply.rs", "request.rs", "service.rs"]
    );
}
