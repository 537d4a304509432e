//! One line on the terminal for one pull: bytes, parts, time left. Plain lines where nobody watches.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

/// The bar of one model. Dropping it clears the line.
pub(crate) struct Bar {
    bar: ProgressBar,
    name: String,
    parts: u32,
}

impl Bar {
    /// A bar for `bytes` of downloads, of which `fetched` of `parts` parts are already here.
    pub(crate) fn new(name: &str, bytes: u64, parts: u32, fetched: u32) -> Self {
        let bar = ProgressBar::new(bytes);
        let style = ProgressStyle::with_template(
            "{prefix} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left {msg}",
        );
        // The template is a constant; were it broken, indicatif's own would do.
        bar.set_style(
            style
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> "),
        );
        bar.set_prefix(name.to_owned());
        let bar = Self {
            bar,
            name: name.to_owned(),
            parts,
        };
        bar.part(fetched);
        bar.bar.set_position(bar.share(fetched));
        bar.bar.reset_eta();
        bar
    }

    /// So many parts are fetched, and `in_flight` bytes of the next ones.
    pub(crate) fn fetched(&self, parts: u32, in_flight: u64) {
        let total = self.bar.length().unwrap_or(0);
        // Clients keep copies of what they load, so the bytes seen may run ahead of the truth.
        self.bar.set_position(
            (self.share(parts) + in_flight)
                .min(total)
                .max(self.bar.position()),
        );
    }

    /// Part `fetched` has just come.
    pub(crate) fn part(&self, fetched: u32) {
        if self.parts > 1 {
            self.bar
                .set_message(format!("· part {fetched}/{}", self.parts));
        }
    }

    /// From here on bytes are joined and hashed, not loaded.
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
        self.bar.suspend(|| eprintln!("{}: {line}", self.name));
    }

    /// Seconds since the bar was made.
    pub(crate) fn seconds(&self) -> f64 {
        self.bar.elapsed().as_secs_f64()
    }

    fn share(&self, parts: u32) -> u64 {
        self.bar.length().unwrap_or(0) / u64::from(self.parts.max(1)) * u64::from(parts)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Bytes of all files under `dir`; what vanishes meanwhile counts as nothing.
pub(crate) fn bytes_under(dir: &Path) -> u64 {
    let Ok(entries) = dir.read_dir() else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_under(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
