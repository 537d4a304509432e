//! A hot subset that follows the traffic: which passages verified answers came from is counted, and the
//! subset is chosen anew by that at an interval.
//!
//! ```text
//! committed hop ─▶ Traffic ── every minute ─▶ the file of speculator.traffic_file
//!                     └── every hot_every_s ─▶ chosen beside the old subset ─▶ HotSubset: swapped
//! ```
//!
//! All tenants share the subset, so what is in it can tell one tenant what another has asked. Therefore
//! only the answers of tenants that the operator names (`speculator.hot_tenants`) are counted at all.
//! By default that is nobody, and no traffic changes anything for anybody.

mod kept;
mod subset;
#[cfg(test)]
mod tests;
mod traffic;

use std::convert::Infallible;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spechop_index::{Chosen, Hot};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::config::Config;
use crate::state::{Writer, write_every_minute};
pub use kept::{Counted, NoTraffic, read_traffic};
pub use subset::HotSubset;
pub use traffic::Traffic;

/// Keeps the counts in a file, and the hot subset up to date. Without tenants that are counted it does
/// nothing.
#[derive(Clone, Default)]
pub(crate) struct HotKeeper(Option<Arc<Inner>>);

struct Inner {
    traffic: Arc<Traffic>,
    writer: Option<Writer>,
    rebuilder: Option<Rebuilder>,
}

/// Chooses the subset anew.
pub(crate) struct Rebuilder {
    /// The folder of the whole index.
    pub(crate) index_dir: PathBuf,
    pub(crate) every: Duration,
    pub(crate) hot: Hot,
    pub(crate) subset: Arc<HotSubset>,
    tried: Mutex<Tried>,
}

/// What the latest turn came to.
#[derive(Default)]
struct Tried {
    /// The count of changes, by then.
    changes: u64,
    /// Why it failed, if it did: said once, not at every turn.
    failed: Option<String>,
}

impl Rebuilder {
    pub(crate) fn new(index_dir: &Path, every: Duration, hot: Hot, subset: Arc<HotSubset>) -> Self {
        Self {
            index_dir: index_dir.to_owned(),
            every,
            hot,
            subset,
            tried: Mutex::default(),
        }
    }

    /// As the configuration says; `None` if nothing is to be chosen anew.
    fn of(config: &Config, subset: Option<&Arc<HotSubset>>) -> Option<Self> {
        let settings = &config.speculator.hot;
        let hot = Hot {
            fraction: settings.fraction,
            in_degree: settings.in_degree.clone(),
        };
        Some(Self::new(
            &config.index_dir,
            settings.every?,
            hot,
            Arc::clone(subset?),
        ))
    }
}

impl HotKeeper {
    /// Gives to the counts what the file holds. If the file is of no use, the log says so. One that could
    /// be ours is put aside; any other is left alone, and nothing is kept.
    pub(crate) async fn open(
        config: &Config,
        traffic: Option<&Arc<Traffic>>,
        subset: Option<&Arc<HotSubset>>,
    ) -> Self {
        let rebuilder = Rebuilder::of(config, subset);
        Self::with(traffic, config.speculator.hot.file.as_deref(), rebuilder).await
    }

    pub(crate) async fn with(
        traffic: Option<&Arc<Traffic>>,
        file: Option<&Path>,
        rebuilder: Option<Rebuilder>,
    ) -> Self {
        let Some(traffic) = traffic.cloned() else {
            return Self(None);
        };
        let file = file.map(Path::to_owned);
        let opened = spawn_blocking(move || {
            let writer = file.filter(|path| kept::take_up(&traffic, path));
            Arc::new(Inner {
                writer: writer.map(|path| Writer::new(kept::PURPOSE, path)),
                traffic,
                rebuilder,
            })
        });
        match opened.await {
            Ok(inner) => Self(Some(inner)),
            Err(error) => {
                tracing::warn!(%error, "what answers came from is not kept by this server");
                Self(None)
            }
        }
    }

    /// Writes and chooses anew whenever it is time, for as long as it is polled.
    pub(crate) async fn keep(&self) -> Infallible {
        let Some(inner) = &self.0 else {
            return pending().await;
        };
        let writing = write_every_minute(|| self.save());
        let choosing = async {
            let Some(rebuilder) = &inner.rebuilder else {
                return pending().await;
            };
            let first = Instant::now() + rebuilder.every;
            let mut ticks = interval_at(first, rebuilder.every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                self.rebuild().await;
            }
        };
        tokio::select! {
            never = writing => never,
            never = choosing => never,
        }
    }

    /// Writes what is new since the last time, if anything is.
    pub(crate) async fn save(&self) {
        let Some(inner) = self.0.clone() else { return };
        let write = move || {
            if let Some(writer) = &inner.writer {
                writer.write(|| inner.traffic.changes(), || kept::kept(&inner.traffic));
            }
        };
        // It ends by itself: a writing that is not waited for any more goes before the next.
        if let Err(error) = spawn_blocking(write).await {
            tracing::warn!(%error, "what answers came from could not be written");
        }
    }

    /// Chooses the subset anew and swaps it in, if anything was counted since the last time. Questions
    /// that have the old one finish on it.
    pub(crate) async fn rebuild(&self) {
        let Some(inner) = self.0.clone() else { return };
        let (done, rebuilt) = oneshot::channel();
        // A thread of its own, since reading a large index takes long: the end of the server does not
        // wait for it. What it has half written is taken up or thrown away by the next.
        let spawned = std::thread::Builder::new()
            .name("hot-subset".to_owned())
            .spawn(move || {
                inner.rebuild();
                // Nobody waits any more if the server has ended.
                let _ = done.send(());
            });
        match spawned {
            Ok(_) => {
                // It is told, or the thread has panicked, which has said so.
                let _ = rebuilt.await;
            }
            Err(error) => tracing::warn!(%error, "the hot subset cannot be chosen anew"),
        }
    }
}

impl Inner {
    fn rebuild(&self) {
        let Some(rebuilder) = &self.rebuilder else {
            return;
        };
        // Held for the whole turn: there is one at a time.
        let tried = rebuilder.tried.lock();
        let mut tried = tried.unwrap_or_else(PoisonError::into_inner);
        let changes = self.traffic.changes();
        if changes == tried.changes && tried.failed.is_none() {
            return;
        }
        match rebuilder.run(&self.traffic) {
            Ok(chosen) => {
                tried.changes = changes;
                tried.failed = None;
                if chosen.is_new {
                    tracing::info!(
                        passages = chosen.rows,
                        by_traffic = chosen.by_traffic,
                        unknown = chosen.unknown,
                        "the hot subset was chosen anew"
                    );
                }
            }
            Err(error) => {
                let reason = crate::status::chain(&*error);
                if tried.failed.as_ref() != Some(&reason) {
                    tracing::warn!(
                        reason,
                        "the hot subset stays as it is: it was not chosen anew"
                    );
                }
                tried.failed = Some(reason);
            }
        }
    }
}

impl Rebuilder {
    fn run(&self, traffic: &Traffic) -> Result<Chosen, Box<dyn std::error::Error + Send + Sync>> {
        let out = self.subset.dir();
        let counts = traffic.counts();
        if counts.is_empty() {
            return Ok(Chosen::default());
        }
        let chosen = self.hot.choose_for(&self.index_dir, Some(out), &counts)?;
        if chosen.is_new || !self.subset.is_there() {
            self.subset.reopen()?;
        }
        Ok(chosen)
    }
}
