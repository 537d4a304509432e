//! Room on the disk, looked at before a pull rather than found missing after a gigabyte.

use std::path::Path;

use anyhow::Context;
use indicatif::HumanBytes;

use super::catalogue::Model;

/// What a pull of `model` takes at most while it runs: the pieces, the joined files, and the archives in flight.
pub(crate) fn needed(model: &Model, in_flight_max: u32) -> u64 {
    let parts = model.parts();
    let copies = if parts > 1 { 2 } else { 1 };
    let archives =
        model.download_bytes() / u64::from(parts.max(1)) * u64::from(parts.min(in_flight_max));
    model.bytes() * copies + archives
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
    fn a_model_in_parts_needs_room_for_the_parts_and_the_whole() {
        let catalogue = Catalogue::load().unwrap();
        let whole = catalogue.find("e5-small-v2").unwrap();
        assert_eq!(needed(whole, 4), whole.bytes() + whole.download_bytes());
        let cut = catalogue.find("qwen2.5-coder-1.5b-instruct").unwrap();
        assert!(
            needed(cut, 4) > 2 * cut.bytes()
                && needed(cut, 4) < 2 * cut.bytes() + cut.download_bytes() / 4
        );
        let own = catalogue.find("spechop-reader").unwrap();
        assert_eq!(needed(own, 4), own.bytes());
    }
}
