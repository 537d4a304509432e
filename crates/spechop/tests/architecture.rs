//! Dependencies point down only; siblings never see each other. The table is ARCHITECTURE.md's.

#![expect(clippy::expect_used, reason = "a test's own helpers")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Who may see whom of our own packages. Widening a row is an architecture change.
const MAY_USE: &[(&str, &[&str])] = &[
    ("spechop-types", &[]),
    ("spechop-window", &["spechop-types"]),
    ("spechop-verifier", &["spechop-types"]),
    ("spechop-ports", &["spechop-types"]),
    ("spechop-embed", &["spechop-types", "spechop-ports"]),
    ("spechop-store", &["spechop-types", "spechop-ports"]),
    ("spechop-llm", &["spechop-types", "spechop-ports"]),
    ("spechop-sched", &["spechop-types", "spechop-ports"]),
    ("spechop-speculate", &["spechop-types", "spechop-ports"]),
    (
        "spechop-agent",
        &[
            "spechop-types",
            "spechop-window",
            "spechop-verifier",
            "spechop-ports",
        ],
    ),
    ("spechop-theory", &[]),
    ("spechop-sim", &["spechop-types", "spechop-window"]),
    ("spechop-proto", &[]),
    (
        "spechop-server",
        &[
            "spechop-types",
            "spechop-verifier",
            "spechop-ports",
            "spechop-embed",
            "spechop-store",
            "spechop-llm",
            "spechop-speculate",
            "spechop-agent",
            "spechop-sched",
            "spechop-theory",
            "spechop-sim",
            "spechop-proto",
        ],
    ),
    (
        "spechop-index",
        &[
            "spechop-types",
            "spechop-ports",
            "spechop-embed",
            "spechop-store",
        ],
    ),
    (
        "spechop-eval",
        &[
            "spechop-types",
            "spechop-window",
            "spechop-verifier",
            "spechop-theory",
            "spechop-sim",
            "spechop-ports",
            "spechop-proto",
        ],
    ),
    (
        "spechop",
        &[
            "spechop-types",
            "spechop-window",
            "spechop-verifier",
            "spechop-theory",
            "spechop-sim",
            "spechop-ports",
            "spechop-embed",
            "spechop-store",
            "spechop-proto",
            "spechop-server",
            "spechop-eval",
            "spechop-index",
        ],
    ),
    ("spechop-testkit", &["spechop-types", "spechop-ports"]),
];

/// What a package must never see, however useful.
const NEVER: &[(&str, &[&str])] = &[
    ("spechop-sim", &["tokio", "futures"]),
    (
        "spechop-window",
        &["tokio", "futures", "rand", "async-trait"],
    ),
    ("spechop-agent", &["tonic", "prost", "reqwest", "ort"]),
    ("spechop-ports", &["tonic", "prost", "reqwest", "ort"]),
    ("spechop-store", &["tonic", "reqwest", "ort"]),
    ("spechop-embed", &["tonic", "reqwest"]),
    ("spechop-llm", &["tonic", "prost", "ort"]),
];

/// Direct dependencies by package, those of tests and benchmarks apart.
fn packages() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let uses = |package: &Value| {
        package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .map(|dependency| dependency["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    packages
        .iter()
        .map(|package| {
            (
                package["name"].as_str().expect("a name").to_owned(),
                uses(package),
            )
        })
        .collect()
}

#[test]
fn dependencies_point_down() {
    let table: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    for (package, uses) in packages() {
        let Some(allowed) = table.get(package.as_str()) else {
            panic!("{package} is not in the table");
        };
        for ours in uses.iter().filter(|name| name.starts_with("spechop")) {
            assert!(
                allowed.contains(&ours.as_str()),
                "{package} may not use {ours}"
            );
        }
    }
}

#[test]
fn nobody_sees_what_it_must_not() {
    let packages = packages();
    for (package, banned) in NEVER {
        let uses = &packages[*package];
        for name in *banned {
            assert!(!uses.contains(*name), "{package} must never see {name}");
        }
    }
}

#[test]
fn table_names_only_what_exists() {
    let packages = packages();
    for (package, allowed) in MAY_USE {
        assert!(packages.contains_key(*package), "{package} does not exist");
        for name in *allowed {
            assert!(packages.contains_key(*name), "{name} does not exist");
        }
    }
}
