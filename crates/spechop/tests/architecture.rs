//! The code map of ARCHITECTURE.md is true: this test reads the table out of the page and compares
//! it with `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PAGE: &str = include_str!("../../../ARCHITECTURE.md");
/// The cells of the table's first line.
const HEADER: [&str; 4] = ["package", "its one job", "uses", "never"];
/// What all of our packages are called.
const OURS: &str = "spechop";
/// All models in the repository together: everybody who clones it gets them.
const MODELS_BYTES_MAX: u64 = 80_000_000;

/// What the page says about one package.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    /// The packages of ours that it depends on.
    uses: BTreeSet<String>,
    /// Packages that it must not depend on.
    never: BTreeSet<String>,
}

type Table = BTreeMap<String, Row>;

/// Direct dependencies by package, those of tests and benchmarks aside.
type Packages = BTreeMap<String, BTreeSet<String>>;

/// The code map of a page, or what is wrong with it.
fn table(page: &str) -> Result<Table, String> {
    let mut lines = page.lines().skip_while(|line| cells(line) != HEADER);
    lines.next().ok_or("the page has no code map")?;
    let mut table = Table::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let [package, _, uses, never] = cells(line)[..] else {
            return Err(format!("not four cells: {line}"));
        };
        let name = package.split('`').nth(1);
        let name = name.ok_or_else(|| format!("no package in backticks: {line}"))?;
        let row = Row {
            uses: names(uses, &format!("{OURS}-")),
            never: names(never, ""),
        };
        if table.insert(name.to_owned(), row).is_some() {
            return Err(format!("{name} has two rows"));
        }
    }
    Ok(table)
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

/// `types, ports` with a prefix each; `–` for none.
fn names(cell: &str, prefix: &str) -> BTreeSet<String> {
    let names = cell.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty() && *name != "–");
    names.map(|name| format!("{prefix}{name}")).collect()
}

/// Every difference between the page and the packages, a line each.
fn differences(table: &Table, packages: &Packages) -> Vec<String> {
    let mut found = Vec::new();
    for (package, uses) in packages {
        let Some(row) = table.get(package) else {
            found.push(format!("{package} has no row"));
            continue;
        };
        let ours: BTreeSet<_> = uses
            .iter()
            .filter(|name| name.starts_with(OURS))
            .cloned()
            .collect();
        for name in ours.difference(&row.uses) {
            found.push(format!("{package} uses {name}; the page does not say so"));
        }
        for name in row.uses.difference(&ours) {
            found.push(format!("the page says {package} uses {name}; it does not"));
        }
        for name in row.never.intersection(uses) {
            found.push(format!("{package} must never use {name}"));
        }
    }
    for package in table.keys().filter(|name| !packages.contains_key(*name)) {
        found.push(format!("the page names {package}, which does not exist"));
    }
    found
}

fn metadata() -> Result<Value, Box<dyn std::error::Error>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn packages() -> Result<Packages, Box<dyn std::error::Error>> {
    let metadata = metadata()?;
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let uses = |package: &Value| {
        let dependencies = list(&package["dependencies"]);
        let built = dependencies.iter().filter(|used| used["kind"] != "dev");
        built.map(name).collect()
    };
    let packages = list(&metadata["packages"]);
    Ok(packages.iter().map(|p| (name(p), uses(p))).collect())
}

#[test]
fn the_page_and_the_packages_agree() {
    let packages = packages().unwrap();
    assert!(packages.contains_key("spechop-window"), "{packages:?}");
    let differences = differences(&table(PAGE).unwrap(), &packages);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A package may use only what stands above it in the table, so no circle can be written down.
#[test]
fn dependencies_point_up_the_table() {
    let mut above = BTreeSet::new();
    let rows = PAGE.lines().skip_while(|line| cells(line) != HEADER);
    let table = table(PAGE).unwrap();
    for line in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let name = line.split('`').nth(1).unwrap();
        let early: Vec<_> = table[name].uses.difference(&above).collect();
        assert!(early.is_empty(), "{name} stands above {early:?}");
        above.insert(name.to_owned());
    }
}

/// A page with these rows.
fn page(rows: &str) -> String {
    format!(
        "Words.\n\n| package | its one job | uses | never |\n|---|---|---|---|\n{rows}\n\nMore."
    )
}

/// Two packages, `spechop-b` on top of `spechop-a` and of tokio.
fn two() -> Packages {
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Packages::from([
        ("spechop-a".to_owned(), set(&[])),
        ("spechop-b".to_owned(), set(&["spechop-a", "tokio"])),
    ])
}

#[test]
fn every_wrong_row_is_found() {
    let a = "| `spechop-a` | nouns | – | tokio |\n";
    for (rows, expected) in [
        ("| `spechop-b` (`b/`) | verbs | a | ort |", ""),
        (
            "| `spechop-b` | verbs | – | – |",
            "spechop-b uses spechop-a; the page does not say so",
        ),
        (
            "| `spechop-b` | verbs | a | rand, tokio |",
            "spechop-b must never use tokio",
        ),
        (
            "| `spechop-b` | verbs | a, c | – |",
            "the page says spechop-b uses spechop-c; it does not",
        ),
        ("", "spechop-b has no row"),
        (
            "| `spechop-b` | verbs | a | – |\n| `spechop-c` | adverbs | – | – |",
            "the page names spechop-c, which does not exist",
        ),
    ] {
        let table = table(&page(&format!("{a}{rows}"))).unwrap();
        assert_eq!(differences(&table, &two()).join("\n"), expected, "{rows}");
    }
}

#[test]
fn a_page_that_cannot_be_read_is_no_agreement() {
    for (page, expected) in [
        ("No table here.".to_owned(), "the page has no code map"),
        (
            page("| `spechop-a` | nouns | – |"),
            "not four cells: | `spechop-a` | nouns | – |",
        ),
        (
            page("| spechop | x | – | – |"),
            "no package in backticks: | spechop | x | – | – |",
        ),
        (
            page("| `spechop-a` | x | – | – |\n| `spechop-a` | x | – | – |"),
            "spechop-a has two rows",
        ),
    ] {
        assert_eq!(table(&page).unwrap_err(), expected);
    }
}

/// `tests/it.rs` joins a crate's tests into one program (`autotests = false`): a file that it forgets would
/// never run.
#[test]
fn no_test_file_is_left_out() {
    let metadata = metadata().unwrap();
    let mut joined = 0;
    for package in list(&metadata["packages"]) {
        let folder = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = folder.with_file_name("tests");
        let Ok(modules) = fs::read_to_string(folder.join("it.rs")) else {
            continue;
        };
        joined += 1;
        let targets = list(&package["targets"]);
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            // A folder may be a program of its own.
            let main = Some(path.join("main.rs")).filter(|main| main.exists());
            let path = main.unwrap_or(path);
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            let is_module = modules.contains(&format!("mod {stem};"));
            let is_target = |target: &Value| target["src_path"].as_str() == path.to_str();
            let runs = is_module || targets.iter().any(is_target);
            assert!(!is_rust || runs, "{} never runs", path.display());
        }
    }
    assert!(joined > 10, "only {joined} crates have tests/it.rs");
}

/// A file's bytes, or those of all files below a folder.
fn bytes(path: &Path) -> io::Result<u64> {
    if !path.is_dir() {
        return Ok(fs::metadata(path)?.len());
    }
    fs::read_dir(path)?.map(|entry| bytes(&entry?.path())).sum()
}

#[test]
fn the_models_in_the_repository_are_small() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/models");
    let found = bytes(&models).unwrap();
    assert!(found <= MODELS_BYTES_MAX, "{found} bytes");
}
