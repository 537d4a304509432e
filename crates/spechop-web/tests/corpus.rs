//! The inputs that fuzzing begins with, each through the check of its target: what was a bug once stays
//! mended, and a target that compiles no more is noticed. `fuzz/` itself is built apart.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
// Files of `fuzz/` are written for that package: each target is the root of a crate.
#![allow(unused_attributes, unreachable_pub, reason = "see above")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

// The targets call two crates that only `fuzz/` has. Here both are this one.
extern crate self as libfuzzer_sys;
extern crate self as spechop_fuzz;

/// In place of libFuzzer's macro: makes a function of a target.
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:block) => {
        pub(crate) fn check($input: &[u8]) $body
    };
    (|$input:ident: &str| $body:block) => {
        pub(crate) fn check(bytes: &[u8]) {
            // Up to the first byte that is not UTF-8, as libFuzzer does it.
            let $input = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            $body
        }
    };
}
pub(crate) use checks::check;
pub(crate) use fuzz_target;

#[rustfmt::skip]
#[allow(clippy::all, reason = "of another package")]
#[path = "../../../fuzz/src/lib.rs"]
mod checks;

#[rustfmt::skip]
#[allow(clippy::all, reason = "of another package")]
#[path = "../../../fuzz/fuzz_targets/charset.rs"]
mod charset;

#[rustfmt::skip]
#[allow(clippy::all, reason = "of another package")]
#[path = "../../../fuzz/fuzz_targets/duckduckgo.rs"]
mod duckduckgo;

#[rustfmt::skip]
#[allow(clippy::all, reason = "of another package")]
#[path = "../../../fuzz/fuzz_targets/json_providers.rs"]
mod json_providers;

#[rustfmt::skip]
#[allow(clippy::all, reason = "of another package")]
#[path = "../../../fuzz/fuzz_targets/page.rs"]
mod page;

#[rustfmt::skip]
#[allow(clippy::all, reason = "of another package")]
#[path = "../../../fuzz/fuzz_targets/prescan.rs"]
mod prescan;

#[rustfmt::skip]
#[allow(clippy::all, reason = "of another package")]
#[path = "../../../fuzz/fuzz_targets/searxng.rs"]
mod searxng;

/// A target: its name, and its check of an input.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 6] = [
    ("charset", charset::check),
    ("duckduckgo", duckduckgo::check),
    ("json_providers", json_providers::check),
    ("page", page::check),
    ("prescan", prescan::check),
    ("searxng", searxng::check),
];

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// What lies in a folder of `fuzz/`.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(fuzz().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_input_passes_its_check() {
    for (name, check) in TARGETS {
        let inputs = files(&format!("corpus/{name}"));
        assert!(!inputs.is_empty(), "no input of {name}");
        for input in inputs {
            // Told if it fails: a check does not know the name of the file.
            eprintln!("{}", input.display());
            check(&fs::read(input).unwrap());
        }
    }
}

#[test]
fn every_target_is_here() {
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let here: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    for folder in ["fuzz_targets", "corpus"] {
        let there: BTreeSet<_> = files(folder).iter().map(stem).collect();
        assert_eq!(here, there, "{folder}");
    }
}
