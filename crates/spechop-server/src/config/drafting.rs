//! The drafter.

use super::keys::Keys;
use super::{Drafting, PatternSource};

pub(super) fn drafter(keys: &mut Keys<'_>) -> Drafting {
    let kinds = [("patterns", true), ("none", false)];
    let is_there = keys.one_of("drafter.kind", &kinds).unwrap_or(true);
    let file = keys.path("drafter.patterns");
    Drafting {
        patterns: match file {
            _ if !is_there => PatternSource::None,
            Some(file) => PatternSource::File(file),
            None => PatternSource::Shipped,
        },
        learns: keys.flag("drafter.learn").unwrap_or(true),
        file: keys.path("drafter.file"),
    }
}
