//! Every metric is in the documents, and nothing else is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spechop_agent::{TraceEvent, TraceKind};
use spechop_sched::Millicores;
use spechop_testkit::Script;
use spechop_types::{BranchId, Stage};

use super::*;
use crate::server_state::scripted;

const DOCUMENT: &str = include_str!("../../../../docs/METRICS.md");

/// The names in the tables of the section *Metrics*, as they are in the first column.
fn documented() -> BTreeSet<String> {
    let section = DOCUMENT.split("\n## Metrics\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `spechop_"));
    rows.map(|row| {
        let name = row.split('`').next().unwrap();
        format!("spechop_{}", name.split('{').next().unwrap())
    })
    .collect()
}

/// All sources of this crate in one text.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => fs::read_to_string(path).unwrap_or_default(),
    };
    entries.map(text).collect()
}

#[tokio::test]
async fn the_documents_name_every_metric() {
    let (state, _) = scripted::state(Script::instant(1), "");
    // The ports of that state compute nothing, so it has no cores to share.
    let cores = Cores::new(Millicores(1000));
    let text = state.metrics.text() + &Metrics::new(Vec::new(), Some(cores)).text();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let exposed: BTreeSet<_> = types
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            // As it is asked for.
            match kind {
                "counter" => format!("{name}_total"),
                _ => name.to_owned(),
            }
        })
        .collect();
    // A family tells its name only once it has counted something.
    assert!(exposed.len() > 30, "{exposed:?}");
    let documented = documented();
    let missing: Vec<_> = exposed.difference(&documented).collect();
    assert!(missing.is_empty(), "not in docs/METRICS.md: {missing:?}");
    let source = sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")));
    let is_gone = |name: &&String| {
        let name = name.trim_start_matches("spechop_");
        // A counter is exposed with the one ending, what is registered with a unit with the other.
        let name = name.trim_end_matches("_total");
        let names = [name, name.trim_end_matches("_seconds")];
        names
            .iter()
            .all(|name| !source.contains(&format!("\"{name}\"")))
    };
    let gone: Vec<_> = documented.iter().filter(is_gone).collect();
    assert!(
        gone.is_empty(),
        "docs/METRICS.md names what there is not: {gone:?}"
    );
}

#[test]
fn a_window_is_as_full_as_its_branches_live() {
    let mut occupancy = Occupancy::default();
    let mut tell = |at_ms: u64, branch: u32, kind: TraceKind| {
        occupancy.hear(&TraceEvent {
            at: Duration::from_millis(at_ms),
            branch: BranchId(branch),
            hop: 1,
            provisional: false,
            kind,
        });
    };
    let launched = || TraceKind::Launched {
        stage: Stage::Segment,
    };
    tell(0, 0, launched());
    tell(100, 1, launched());
    // It is tried again, and is no second branch.
    tell(150, 1, launched());
    tell(300, 1, TraceKind::RolledBack);
    tell(400, 2, launched());
    assert_eq!(occupancy.most, 2);
    occupancy.ended(Duration::from_millis(1000));
    assert_eq!(occupancy.time, Duration::from_millis(200 + 600 + 1000));
}
