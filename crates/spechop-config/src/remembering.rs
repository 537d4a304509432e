//! The memory and the cascade.

use std::path::Path;

use spechop_types::Chance;

use super::keys::Keys;
use super::{CascadeOptions, Memory, MemoryCollection, SpeculatorKind};

/// Which speculators are asked together; `can` tells of those that there are.
pub(super) fn cascade(keys: &mut Keys<'_>, can: impl Fn(SpeculatorKind) -> bool) -> CascadeOptions {
    let key = "speculator.cascade";
    let names = keys.list(key).unwrap_or_default();
    let members = named(keys, key, &names, can);
    let confident = keys.number("speculator.cascade_confidence");
    CascadeOptions {
        members,
        confident: confident.map_or(Chance::EVEN, Chance::of),
    }
}

fn named(
    keys: &mut Keys<'_>,
    key: &str,
    names: &[String],
    can: impl Fn(SpeculatorKind) -> bool,
) -> Vec<SpeculatorKind> {
    let mut members = Vec::new();
    for name in names {
        let kind = SpeculatorKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name);
        match kind {
            Some(kind) if members.contains(&kind) => {
                keys.mistake(key, format!("\"{name}\" is named twice"));
            }
            Some(kind) if can(kind) => members.push(kind),
            Some(SpeculatorKind::Hot) => {
                keys.mistake(
                    key,
                    "there is no hot subset for \"hot\": see speculator.hot_dir",
                );
            }
            Some(SpeculatorKind::Llm) => keys.mistake(
                key,
                "no model guesses from memory for \"llm\": describe one in [speculator.model]",
            ),
            _ => {
                let kinds = SpeculatorKind::ALL.into_iter();
                let kinds: Vec<_> = kinds
                    .filter(|kind| can(*kind))
                    .map(SpeculatorKind::as_str)
                    .collect();
                keys.mistake(key, format!("\"{name}\" is none of {}", kinds.join(", ")));
            }
        }
    }
    if names.is_empty() {
        keys.mistake(key, "it names nobody: leave it out for the default");
    }
    members
}

/// What is remembered, and where. It is written down only if it is used, or if the file is named: it
/// holds words of questions.
pub(super) fn memory(
    keys: &mut Keys<'_>,
    default: SpeculatorKind,
    cascade: &CascadeOptions,
    shared: Option<MemoryCollection>,
    state_dir: &Path,
) -> Memory {
    let is_used = match default {
        SpeculatorKind::Memory => true,
        SpeculatorKind::Cascade => cascade.members.contains(&SpeculatorKind::Memory),
        _ => false,
    };
    let key = "speculator.memory_file";
    let file = if keys.is(key, "none") {
        None
    } else {
        let usual = is_used && shared.is_none();
        let usual = usual.then(|| state_dir.join("memory.json"));
        keys.path(key).or(usual)
    };
    if shared.is_some() && file.is_some() {
        let problem = "the memory lies in the collection of speculator.memory_collection: leave one \
                       of the two out";
        keys.mistake(key, problem);
    }
    let similarity = keys.number("speculator.memory_similarity");
    Memory {
        most: keys.count("speculator.memory_max"),
        similarity: similarity.unwrap_or_default() as f32,
        file,
        shared,
    }
}
