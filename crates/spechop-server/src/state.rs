//! Files in which something survives a restart: sealed JSON ([`spechop_store::sealed`]), readable by its
//! owner alone. If two servers share a file, each replaces the other's: the last one's stays.
//!
//! No question waits for a file: it is read before the first one, and written on a thread that may block, every
//! minute if anything has changed, and once more when the last question has ended.

use std::convert::Infallible;
use std::fs::{self, File};
use std::future::pending;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use spechop_store::sealed;
use spechop_types::with_causes;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::outage::Outage;

/// What a file is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    /// Its content, in words of the log: `what was learnt`.
    pub(crate) content: &'static str,
    /// The key that names it.
    pub(crate) key: &'static str,
    /// Changes whenever an older program would misread a new file, or the other way round.
    pub(crate) format: u64,
}

/// Longer files are not ours: what is kept in one takes less.
pub(crate) const BYTES_MAX: usize = 64 << 20;
/// What a byte of a text takes in a file at most.
pub(crate) const ESCAPED: usize = 6;

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
        let (bytes, most) = (found.len(), BYTES_MAX as u64);
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
    fn make_room(&self, path: &Path, useless: &Useless) -> bool {
        let Self { content, key, .. } = self;
        let reason = with_causes(useless);
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

/// What a [`Keeper`] keeps in a file.
pub(crate) trait Persisted: Send + Sync + 'static {
    const PURPOSE: Purpose;

    /// Everything in the file.
    type Kept: Serialize + for<'de> Deserialize<'de>;

    /// Takes up what an earlier server had written to this path.
    fn take_up(&self, kept: Self::Kept, path: &Path);

    /// How often anything has changed since this server began: a hint that it is time to write.
    fn revision(&self) -> u64;

    /// Whether it can be told now what is to be kept. If not, it is asked again the next time.
    fn can_tell(&self) -> bool {
        true
    }

    /// What a later server is to take up.
    fn kept(&self) -> Self::Kept;
}

/// Whether each file could be written the last time, for `GET /metrics`. Clones tell the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writing(Family<Named, Gauge>);

/// The key of the configuration that names a file.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Named {
    key: &'static str,
}

impl Writing {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        registry.register(
            "last_write_successful",
            "Whether a file that survives a restart could be written the last time, by the key that names it",
            new.0.clone(),
        );
        new
    }

    /// Before the first time it is true, unless the file is nothing that may be replaced.
    fn tell(&self, key: &'static str, could_be: bool) {
        self.0
            .get_or_create(&Named { key })
            .set(i64::from(could_be));
    }
}

/// How often what is new is written; a server that is killed loses so much of it at most.
pub(crate) const EVERY: Duration = Duration::from_secs(60);

/// Keeps something in a file. Without one it does nothing.
pub(crate) struct Keeper<P>(Option<Arc<Inner<P>>>);

struct Inner<P> {
    value: Arc<P>,
    path: PathBuf,
    /// The revision that was written; 0 if none was.
    written: Mutex<u64>,
    outage: Outage,
    writing: Writing,
}

impl<P: Persisted> Keeper<P> {
    /// Keeps what `make` returns, which may block, and has it take up what the file holds. If the file is of no
    /// use, the log says so. One that could be ours is put aside; any other is left alone, and nothing is kept.
    pub(crate) async fn at(
        file: Option<&Path>,
        writing: &Writing,
        make: impl FnOnce() -> Option<Arc<P>> + Send + 'static,
    ) -> Self {
        let Some(path) = file.map(Path::to_owned) else {
            return Self(None);
        };
        let writing = writing.clone();
        let opened = spawn_blocking(move || {
            let inner = Inner {
                value: make()?,
                path,
                written: Mutex::default(),
                outage: Outage::default(),
                writing,
            };
            let may_be_written = inner.take_up();
            inner.writing.tell(P::PURPOSE.key, may_be_written);
            may_be_written.then(|| Arc::new(inner))
        });
        match opened.await {
            Ok(inner) => Self(inner),
            Err(error) => {
                let content = P::PURPOSE.content;
                tracing::warn!(%error, "{content} is not kept by this server");
                Self(None)
            }
        }
    }

    /// Writes whenever it is time, for as long as it is polled.
    pub(crate) async fn keep(&self) -> Infallible {
        if self.0.is_none() {
            return pending().await;
        }
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.save().await;
        }
    }

    /// Writes what has changed since the last time, if anything has.
    pub(crate) async fn save(&self) {
        let Some(inner) = self.0.clone() else { return };
        // It ends by itself: a writing that is not waited for any more goes before the next.
        if let Err(error) = spawn_blocking(move || inner.write()).await {
            let content = P::PURPOSE.content;
            tracing::warn!(%error, "{content} could not be written");
        }
    }
}

impl<P: Persisted> Inner<P> {
    /// Reads the file. False if it must not be written.
    fn take_up(&self) -> bool {
        match P::PURPOSE.read(&self.path) {
            Ok(Some(kept)) => self.value.take_up(kept, &self.path),
            Ok(None) => {}
            Err(useless) => return P::PURPOSE.make_room(&self.path, &useless),
        }
        true
    }

    /// Replaces the file, unless this revision was written before.
    fn write(&self) {
        // Held while writing: an older state must not replace a newer one.
        let mut written = self.written.lock();
        if !self.value.can_tell() {
            return;
        }
        let revision = self.value.revision();
        if revision == *written {
            return;
        }
        let content = P::PURPOSE.content;
        let path = self.path.display();
        let result = write(&self.path, &self.value.kept());
        self.writing.tell(P::PURPOSE.key, result.is_ok());
        match result {
            Ok(()) => {
                *written = revision;
                if self.outage.works() {
                    tracing::info!(%path, "{content} can be written again");
                }
            }
            Err(error) => {
                let reason = error.to_string();
                if self.outage.fails_anew(&reason) {
                    tracing::warn!(
                        %path,
                        reason,
                        "{content} cannot be written: without it the next start begins anew"
                    );
                }
            }
        }
    }
}

/// As many of the newest as there is room for, the oldest first. What is left of the room stays in `room`.
pub(crate) fn newest<T>(
    newest_first: impl Iterator<Item = T>,
    room: &mut usize,
    size: impl Fn(&T) -> usize,
) -> Vec<T> {
    let fits = |one: &T| {
        let left = room.checked_sub(size(one));
        *room = left.unwrap_or(0);
        left.is_some()
    };
    let mut kept: Vec<T> = newest_first.take_while(fits).collect();
    kept.reverse();
    kept
}

/// Replaces a file, wholly or not at all; its folder is made if there is none. **Blocks.**
fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    sealed::write(path, value, sealed::Readers::Owner)
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
