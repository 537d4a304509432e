//! What runs of a group do not have in common: they share a system's name, and that is free text.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Group;

/// Warnings: parts and machines that differ.
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
    let machines = infos().map(|(label, info)| {
        let machine = format!("{}, {} cores", info.machine.cpu, info.machine.cores);
        (label, machine)
    });
    warnings.extend(differ(title, "machine", machines));
    warnings
}

/// One warning for all runs: with every change of the program they are of another commit, and what else
/// there is to be warned of would be lost among them.
pub(super) fn commits(groups: &[Group<'_>]) -> Option<String> {
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for view in groups.iter().flat_map(|group| &group.views) {
        *runs.entry(&view.run.info.commit).or_default() += 1;
    }
    let changed = runs.keys().any(|commit| commit.contains('+'));
    if runs.len() < 2 && !changed {
        return None;
    }
    let counted = runs.iter().map(|(commit, count)| {
        let (hash, changes) = match commit.split_once('+') {
            Some((hash, changes)) => (hash, format!("+{changes:.4}")),
            None => (*commit, String::new()),
        };
        format!("{hash:.12}{changes} ({count})")
    });
    let counted: Vec<String> = counted.collect();
    let plus = if changed {
        " (+: with changes that were not committed)"
    } else {
        ""
    };
    Some(format!(
        "The runs were made at these commits of the program{plus}: {}.",
        counted.join(", ")
    ))
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
