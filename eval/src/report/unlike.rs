//! What runs of a group do not have in common: they share a system's name, and that is free text.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Group;

/// Warnings: parts, commits and machines that differ, and commits of changed files.
pub(super) fn warnings(group: &Group<'_>) -> Vec<String> {
    let title = &group.title;
    let mut warnings = Vec::new();
    let infos = || group.views.iter().map(|view| (&view.label, &view.run.info));
    let parts: BTreeSet<&String> = infos().flat_map(|(_, info)| info.parts.keys()).collect();
    for part in parts {
        let named =
            infos().filter_map(|(label, info)| Some((label, info.parts.get(part)?.clone())));
        warnings.extend(differ(title, &format!("part `{part}`"), named));
    }
    let commits = infos().map(|(label, info)| (label, info.commit.clone()));
    warnings.extend(differ(title, "commit", commits));
    let machines = infos().map(|(label, info)| {
        let machine = format!("{}, {} cores", info.machine.cpu, info.machine.cores);
        (label, machine)
    });
    warnings.extend(differ(title, "machine", machines));
    for (label, info) in infos().filter(|(_, info)| info.commit.ends_with('+')) {
        warnings.push(format!(
            "{title}, {label}: commit {} had changes that were not committed.",
            info.commit
        ));
    }
    warnings
}

/// Who has which, where not all have the same.
fn differ<'a>(
    title: &str,
    what: &str,
    of: impl Iterator<Item = (&'a String, String)>,
) -> Option<String> {
    let mut runs: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (label, value) in of {
        runs.entry(value).or_default().push(label);
    }
    if runs.len() < 2 {
        return None;
    }
    let who = runs
        .iter()
        .map(|(value, labels)| format!("{} {value}", labels.join(" and ")));
    let who: Vec<String> = who.collect();
    Some(format!(
        "{title}: the runs differ in {what}: {}.",
        who.join("; ")
    ))
}
