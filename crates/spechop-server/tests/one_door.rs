//! Errors become statuses in `status.rs` and below it only, and protobuf types stay in the files that
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
    let files = files_with(&[" Status::", "(Status::", "tonic::Status::", "StatusExt"]);
    assert!(files.iter().any(|file| file == "status.rs"));
    // The exporter of spans is a client of gRPC: the status says what came of its own call.
    let elsewhere = |file: &&String| {
        *file != "status.rs" && !file.starts_with("status/") && *file != "spans/exporter.rs"
    };
    assert_eq!(files.iter().find(elsewhere), None);
}

#[test]
fn protobuf_types_stay_at_the_wire() {
    let files = files_with(&["spechop_proto", "wire::"]);
    let (doors, below): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.starts_with("doors"));
    assert!(doors.len() > 2);
    assert_eq!(
        below,
        [
            "admission.rs",
            "admission/resolve/tests.rs",
            "app.rs",
            "audit/tests.rs",
            "events.rs",
            "questions/log.rs",
            "questions/log/found.rs",
            "questions/tests.rs",
            "reply.rs",
            "reply/cost.rs",
            "request.rs",
            "status/http.rs"
        ]
    );
}

/// What a file may not name: whatever stands above it in the picture of `lib.rs`.
#[test]
fn the_servers_middle_is_a_staircase() {
    for (above, files) in [
        (
            "crate::events",
            &["admission.rs", "app.rs", "doors.rs", "server_state.rs"][..],
        ),
        ("crate::admission", &["server_state.rs", "request.rs"]),
        ("crate::doors", &["admission.rs", "events.rs"]),
        (
            "crate::server_state",
            &["questions.rs", "questions/log.rs", "request.rs"],
        ),
    ] {
        let named = files_with(&[above]);
        assert!(!named.is_empty(), "{above} is used");
        for file in files {
            assert!(
                !named.iter().any(|name| name == file),
                "{file} names {above}"
            );
        }
    }
    // No door knows another one.
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/doors");
    let mut doors = Vec::new();
    sources(&src, &mut doors);
    assert!(doors.len() > 2, "the doors are read");
    let of = |path: &Path| {
        let inside = path.strip_prefix(&src).unwrap().iter().next().unwrap();
        Path::new(inside).file_stem().unwrap().to_owned()
    };
    for (path, text) in &doors {
        for (other, _) in doors.iter().filter(|(other, _)| of(other) != of(path)) {
            let name = of(other).into_string().unwrap();
            for way in ["super::", "crate::doors::"] {
                let named = format!("use {way}{name}");
                assert!(!text.contains(&named), "{} names {name}", path.display());
            }
        }
    }
}
