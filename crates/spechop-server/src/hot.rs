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
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spechop_config::Config;
use spechop_index::{Chosen, Hot};
use spechop_types::with_causes;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::state::{Keeper, Writing};
pub use kept::{Counted, NoTraffic, read_traffic};
pub use subset::HotSubset;
pub use traffic::Traffic;

/// Keeps the counts in a file, and the hot subset up to date. Without tenants that are counted it does
/// nothing.
pub(crate) struct HotKeeper {
    counts: Keeper<Traffic>,
    /// `None` if nothing is to be chosen anew.
    choosing: Option<Arc<Choosing>>,
}

/// The counts, and what chooses the subset by them.
struct Choosing {
    traffic: Arc<Traffic>,
    rebuilder: Rebuilder,
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
    /// A chosen subset is not open yet.
    is_stale: bool,
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
    pub(crate) async fn open(
        config: &Config,
        traffic: Option<&Arc<Traffic>>,
        subset: Option<&Arc<HotSubset>>,
        writing: &Writing,
    ) -> Self {
        let rebuilder = Rebuilder::of(config, subset);
        let file = config.speculator.hot.file.as_deref();
        Self::with(traffic, file, writing, rebuilder).await
    }

    pub(crate) async fn with(
        traffic: Option<&Arc<Traffic>>,
        file: Option<&Path>,
        writing: &Writing,
        rebuilder: Option<Rebuilder>,
    ) -> Self {
        let traffic = traffic.cloned();
        let choosing = traffic.clone().zip(rebuilder);
        let choosing = choosing.map(|(traffic, rebuilder)| Choosing { traffic, rebuilder });
        Self {
            counts: Keeper::at(file, writing, move || traffic).await,
            choosing: choosing.map(Arc::new),
        }
    }

    /// Writes and chooses anew whenever it is time, for as long as it is polled.
    pub(crate) async fn keep(&self) -> Infallible {
        let choosing = async {
            let Some(choosing) = &self.choosing else {
                return pending().await;
            };
            let every = choosing.rebuilder.every;
            let mut ticks = interval_at(Instant::now() + every, every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                self.rebuild().await;
            }
        };
        tokio::select! {
            never = self.counts.keep() => never,
            never = choosing => never,
        }
    }

    /// Writes what is new since the last time, if anything is.
    pub(crate) async fn save(&self) {
        self.counts.save().await;
    }

    /// Chooses the subset anew and swaps it in, if anything was counted since the last time. Questions
    /// that have the old one finish on it.
    pub(crate) async fn rebuild(&self) {
        let Some(choosing) = self.choosing.clone() else {
            return;
        };
        let (done, rebuilt) = oneshot::channel();
        // A thread of its own, since reading a large index takes long: the end of the server does not
        // wait for it. What it has half written is taken up or thrown away by the next.
        let spawned = std::thread::Builder::new()
            .name("hot-subset".to_owned())
            .spawn(move || {
                choosing.rebuild();
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

impl Choosing {
    fn rebuild(&self) {
        let rebuilder = &self.rebuilder;
        // Held for the whole turn: there is one at a time.
        let mut tried = rebuilder.tried.lock();
        let changes = self.traffic.changes();
        if changes == tried.changes && tried.failed.is_none() {
            return;
        }
        match rebuilder.run(&self.traffic, &mut tried.is_stale) {
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
                let reason = with_causes(&*error);
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
    fn run(
        &self,
        traffic: &Traffic,
        is_stale: &mut bool,
    ) -> Result<Chosen, Box<dyn std::error::Error + Send + Sync>> {
        let out = self.subset.dir();
        let counts = traffic.counts();
        if counts.is_empty() {
            return Ok(Chosen::default());
        }
        let chosen = self.hot.choose_for(&self.index_dir, Some(out), &counts)?;
        // It stays so until it could be opened.
        *is_stale |= chosen.is_new || !self.subset.is_there();
        if *is_stale {
            self.subset.reopen()?;
            *is_stale = false;
        }
        Ok(chosen)
    }
}
