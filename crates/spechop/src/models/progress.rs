//! One line on the terminal for one pull: bytes, parts, time left. Plain lines where nobody watches.

use std::path::Path;

use indicatif::ProgressBar;

use super::catalogue::Package;
use crate::bar::bar;

/// The bar of one model. Dropping it clears the line.
pub(crate) struct Bar {
    bar: ProgressBar,
    name: String,
}

impl Bar {
    /// A bar that stands at nothing.
    pub(crate) fn new(name: &str) -> Self {
        let bar = bar(
            0,
            "{prefix} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left {msg}",
        );
        bar.set_style(bar.style().progress_chars("=> "));
        bar.set_prefix(name.to_owned());
        Self {
            bar,
            name: name.to_owned(),
        }
    }

    /// From here on `package` is loaded, of which `parts` parts are already here.
    pub(crate) fn fetching(&self, package: &Package, parts: u32) {
        self.bar.set_length(package.bytes);
        self.bar.set_position(share(package, parts));
        self.bar.reset_eta();
        self.fetched(package, parts, 0);
    }

    /// So many parts are fetched, and `in_flight` bytes of the next ones.
    pub(crate) fn fetched(&self, package: &Package, parts: u32, in_flight: u64) {
        let seen = (share(package, parts) + in_flight).min(package.bytes);
        self.bar.set_position(seen.max(self.bar.position()));
        if package.parts > 1 {
            self.bar
                .set_message(format!("· part {parts}/{}", package.parts));
        }
    }

    /// From here on a file of `bytes` is joined and hashed, not loaded.
    pub(crate) fn checking(&self, bytes: u64) {
        self.bar.set_length(bytes);
        self.bar.set_position(0);
        self.bar.reset_eta();
        self.bar.set_message("· checking");
    }

    /// So many more bytes are checked.
    pub(crate) fn checked(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// A line of its own, above the bar.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| say!("{}: {line}", self.name));
    }

    /// Seconds since the bar was made.
    pub(crate) fn seconds(&self) -> f64 {
        self.bar.elapsed().as_secs_f64()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What `parts` parts of a package weigh, about.
fn share(package: &Package, parts: u32) -> u64 {
    package.bytes / u64::from(package.parts) * u64::from(parts)
}

/// What clients have loaded into the folders in `loading`: the largest file of each, for they keep copies.
pub(crate) fn bytes_loaded(loading: &Path) -> u64 {
    let Ok(folders) = loading.read_dir() else {
        return 0;
    };
    folders
        .flatten()
        .filter_map(|folder| sizes(&folder.path()).into_iter().max())
        .sum()
}

/// Bytes of all files under `dir`.
pub(crate) fn bytes_under(dir: &Path) -> u64 {
    sizes(dir).into_iter().sum()
}

/// Sizes of the files under `dir`; what vanishes meanwhile is left out.
fn sizes(dir: &Path) -> Vec<u64> {
    let Ok(entries) = dir.read_dir() else {
        return Vec::new();
    };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => sizes(&entry.path()),
        Ok(found) => vec![found.len()],
        Err(_) => Vec::new(),
    };
    entries.flatten().flat_map(size).collect()
}
