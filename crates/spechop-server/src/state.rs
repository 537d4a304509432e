//! Files in which something survives a restart: sealed JSON ([`spechop_store::sealed`]), readable by its
//! owner alone. If two servers share a file, each replaces the other's: the last one's stays.

use std::convert::Infallible;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spechop_store::sealed;
use tokio::time::{MissedTickBehavior, interval};

/// What a file is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    /// Its content, in words of the log: `what was learnt`.
    pub(crate) content: &'static str,
    /// The key that names it.
    pub(crate) key: &'static str,
    /// Changes whenever an older program would misread a new file, or the other way round.
    pub(crate) format: u64,
    /// Longer files are not ours.
    pub(crate) bytes_max: u64,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Useless {
    /// The file system's reason.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// A folder, a pipe, a device.
    #[error("it is not a file")]
    NotAFile,
    /// Nothing that this program has written.
    #[error("it has {bytes} bytes, more than {most}")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The greatest length.
        most: u64,
    },
    /// Written by another version of this program.
    #[error("it is of format {found}, not {wanted}")]
    Version {
        /// Its format.
        found: u64,
        /// Ours.
        wanted: u64,
    },
    /// Its checksum does not match, or it is not JSON.
    #[error("it is damaged")]
    Damaged,
}

impl Useless {
    /// Whether this program, or another version of it, may have written the file: then it may be
    /// replaced.
    fn may_be_ours(&self) -> bool {
        match self {
            Self::TooLong { .. } | Self::Version { .. } | Self::Damaged => true,
            Self::Io(_) | Self::NotAFile => false,
        }
    }
}

impl Purpose {
    /// What the file holds; `None` if there is no file. **Blocks.**
    pub(crate) fn read<T>(&self, path: &Path) -> Result<Option<T>, Useless>
    where
        T: Serialize + for<'de> Deserialize<'de>,
    {
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Opening a pipe would wait for somebody to write into it.
        if !found.is_file() {
            return Err(Useless::NotAFile);
        }
        let (bytes, most) = (found.len(), self.bytes_max);
        if bytes > most {
            return Err(Useless::TooLong { bytes, most });
        }
        let mut json = Vec::new();
        // It may have grown since.
        File::open(path)?.take(most).read_to_end(&mut json)?;
        self.parse(&json).map(Some)
    }

    /// What stands in a file of this format.
    pub(crate) fn parse<T>(&self, json: &[u8]) -> Result<T, Useless>
    where
        T: Serialize + for<'de> Deserialize<'de>,
    {
        let wanted = self.format;
        match sealed::format(json) {
            Some(found) if found == wanted => sealed::open(json).ok_or(Useless::Damaged),
            Some(found) => Err(Useless::Version { found, wanted }),
            None => Err(Useless::Damaged),
        }
    }

    /// Says in one line which file is of no use, why, and what becomes of it: one that may be ours is put
    /// aside. False if it must not be written. **Blocks.**
    pub(crate) fn make_room(&self, path: &Path, useless: &Useless) -> bool {
        let Self { content, key, .. } = self;
        let mut reason = useless.to_string();
        if let Some(source) = useless.source() {
            reason = format!("{reason}: {source}");
        }
        if !useless.may_be_ours() {
            tracing::warn!(
                path = %path.display(),
                reason,
                "{content} before cannot be taken up, and this server keeps nothing: name another \
                 file in {key}"
            );
            return false;
        }
        let kept_as = put_aside(path).map_or_else(
            |error| format!("nowhere ({error})"),
            |aside| aside.display().to_string(),
        );
        tracing::warn!(
            path = %path.display(),
            reason,
            kept_as,
            "{content} before cannot be taken up: it begins anew"
        );
        true
    }
}

/// Replaces a file, wholly or not at all; its folder is made if there is none. **Blocks.**
fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    sealed::write(path, value, sealed::Readers::Owner)
}

/// How often what is new is written; a server that is killed loses so much of it at most.
pub(crate) const EVERY: Duration = Duration::from_secs(60);

/// Writes whenever it is time, for as long as it is polled.
pub(crate) async fn write_every_minute<F: Future<Output = ()>>(save: impl Fn() -> F) -> Infallible {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        save().await;
    }
}

/// Puts a file aside that is of no use, so that somebody can look at it: `tuning.json` becomes
/// `tuning.json.damaged`, in place of an earlier one. **Blocks.**
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Writes a file whenever there is something new.
pub(crate) struct Writer {
    purpose: Purpose,
    path: PathBuf,
    written: Mutex<Written>,
}

/// What the latest writing came to.
#[derive(Default)]
struct Written {
    /// The count of changes, by then.
    changes: u64,
    /// Why it failed, if it did: said once, not every minute.
    failed: Option<String>,
}

impl Writer {
    /// Nothing was written yet, and nothing has changed.
    pub(crate) fn new(purpose: Purpose, path: PathBuf) -> Self {
        Self {
            purpose,
            path,
            written: Mutex::default(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file, unless this count of changes was written before. **Blocks.**
    pub(crate) fn write<T: Serialize>(&self, changes: impl Fn() -> u64, value: impl FnOnce() -> T) {
        // Held while writing: an older state must not replace a newer one.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = changes();
        if changes == written.changes {
            return;
        }
        let content = self.purpose.content;
        let path = self.path.display();
        match write(&self.path, &value()) {
            Ok(()) => {
                written.changes = changes;
                if written.failed.take().is_some() {
                    tracing::info!(%path, "{content} can be written again");
                }
            }
            Err(error) => {
                let reason = error.to_string();
                if written.failed.as_ref() != Some(&reason) {
                    tracing::warn!(
                        %path,
                        reason,
                        "{content} cannot be written: without it the next start begins anew"
                    );
                }
                written.failed = Some(reason);
            }
        }
    }
}
