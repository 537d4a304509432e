//! A changed configuration is taken up while the server runs, wholly or not at all.
//!
//! The file is looked at every now and then, and at once if somebody rings (`SIGHUP`; if a file of keys has
//! changed, as soon as that is settled). Its content is
//! compared, as that of the files of TLS is. A change counts if it was there at the last look, too: an
//! editor may be in the middle of writing it. If any part of it is wrong, nothing of it counts. It is then
//! tried again at every look: what was wrong may have been another file that it names. Questions that are
//! open keep the options that they were admitted with.

use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::ConstGauge;
use spechop_config::api_keys::Key;
use spechop_config::{Effective, Env, InvalidConfig, Reread, Written};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::metrics::single;
use crate::server_state::ServerState;
use crate::transport::Follower;

/// How soon to look again at a file that has just changed.
const SETTLED: Duration = Duration::from_millis(500);
/// The most bytes of the file. The example has a few ten thousand.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The configuration of a server that follows its file.
pub struct Reloading {
    effective: Effective,
    env: Env,
    bell: Arc<Notify>,
    /// The text of the last look.
    seen: Option<String>,
    /// Why that text was refused; `None` if it counts.
    refused: Option<String>,
    /// The keys with which a text that was refused would have counted at the last look.
    keys_seen: Option<Vec<Key>>,
}

/// What became of a text that was tried.
enum Tried {
    /// It counts.
    Taken(Box<Reread>),
    /// It would count with these keys, but they were not there at the last look.
    Unsettled(Vec<Key>),
}

impl Reloading {
    /// Follows the file of what was written, which the server has started with.
    ///
    /// # Errors
    ///
    /// The file is not TOML.
    pub fn new(written: &Written, env: Env) -> Result<Self, InvalidConfig> {
        Ok(Self {
            effective: Effective::new(written)?,
            env,
            bell: Arc::default(),
            seen: written.file.as_ref().map(|(_, text)| text.clone()),
            refused: None,
            keys_seen: None,
        })
    }

    /// Whoever rings this bell has the file read at once, and the files of TLS and of keys, too.
    pub fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// Follows the file for as long as it is polled.
    pub(crate) async fn keep(mut self, state: Arc<ServerState>, follower: Follower) -> Infallible {
        let every = state.config().server.reload;
        let mut next = every;
        let mut unsettled = None;
        loop {
            let is_rung = tokio::select! {
                () = self.bell.notified() => true,
                () = sleep(next) => false,
            };
            next = every;
            // Keys count once they were there at two looks.
            if is_rung && follower.look_again().await {
                sleep(every.min(SETTLED)).await;
                follower.look_again().await;
            }
            let Some(path) = self.effective.path().map(Path::to_owned) else {
                continue;
            };
            let text = spawn_blocking(move || read(&path)).await;
            let text = match text.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(text) => text,
                Err(problem) => {
                    // A file that stays away is told once.
                    let was_there = self.seen.take().is_some();
                    if is_rung || was_there {
                        state.reloads.refused(&problem);
                    }
                    continue;
                }
            };
            let is_seen = !is_rung && self.seen.as_ref() == Some(&text);
            if is_seen && self.refused.is_none() {
                continue;
            }
            if !is_rung && !is_seen && unsettled.as_ref() != Some(&text) {
                unsettled = Some(text);
                next = every.min(SETTLED);
                continue;
            }
            unsettled = None;
            self.seen = Some(text.clone());
            let tried = self.take_up(text, is_seen, &state, &follower).await;
            match tried {
                Ok(Tried::Taken(reread)) => {
                    let Reread {
                        effective,
                        changed,
                        waiting,
                        ..
                    } = *reread;
                    self.refused = None;
                    self.effective = effective;
                    state.reloads.taken(&changed, &waiting);
                }
                Ok(Tried::Unsettled(keys)) => {
                    self.keys_seen = Some(keys);
                    next = every.min(SETTLED);
                }
                Err(problem) => {
                    // What stays wrong is told once.
                    if !is_seen || self.refused.as_ref() != Some(&problem) {
                        state.reloads.refused(&problem);
                    }
                    self.refused = Some(problem);
                }
            }
        }
    }

    /// Has a text count, or says why it cannot. If it `is_seen`, it was refused before.
    async fn take_up(
        &mut self,
        text: String,
        is_seen: bool,
        state: &Arc<ServerState>,
        follower: &Follower,
    ) -> Result<Tried, String> {
        let keys_seen = self.keys_seen.take();
        let (effective, env) = (self.effective.clone(), self.env.clone());
        let (state, follower) = (Arc::clone(state), follower.clone());
        // It looks at files, and it ends by itself.
        let tried = spawn_blocking(move || {
            let reread = effective.reread(&text, &env, &state.config().callers)?;
            if is_seen {
                // Another file has changed, just now perhaps, and half a list of keys is a list.
                let keys = reread.config.callers.read()?;
                if keys_seen.as_ref() != Some(&keys) {
                    return Ok(Tried::Unsettled(keys));
                }
            }
            follower.take_up(&reread.config.callers)?;
            state.reconfigure(reread.config.clone());
            // The file of keys may have changed in between.
            follower.tell_several_again();
            Ok::<_, InvalidConfig>(Tried::Taken(Box::new(reread)))
        });
        match tried.await {
            Ok(tried) => tried.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let told = |problem: String| format!("{} cannot be read: {problem}", path.display());
    let bytes = fs::metadata(path).map_err(|error| told(error.to_string()))?;
    if !bytes.is_file() || bytes.len() > FILE_BYTES_MAX {
        return Err(told(format!(
            "it is no file of at most {FILE_BYTES_MAX} bytes"
        )));
    }
    fs::read_to_string(path).map_err(|error| told(error.to_string()))
}

/// What became of the file so far.
#[derive(Debug)]
pub(crate) struct Reloads {
    generation: AtomicU64,
    last: Mutex<Last>,
}

/// The same, as the metrics tell it.
#[derive(Debug)]
pub(crate) struct Told(pub(crate) Arc<Reloads>);

/// The last times.
#[derive(Clone, Debug)]
pub(crate) struct Last {
    /// When the configuration was taken up that counts.
    pub(crate) taken: SystemTime,
    /// How many changed files were refused.
    pub(crate) refusals: u64,
    /// When one was refused for the last time, and why.
    pub(crate) refused: Option<(SystemTime, String)>,
    /// Whether the last file was taken up.
    pub(crate) is_fine: bool,
    /// The keys that have changed in the file and wait for a restart.
    pub(crate) waiting: Vec<String>,
}

impl Reloads {
    /// The first generation.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            generation: AtomicU64::new(1),
            last: Mutex::new(Last {
                taken: SystemTime::now(),
                refusals: 0,
                refused: None,
                is_fine: true,
                waiting: Vec::new(),
            }),
        })
    }

    /// 1 from the start, and one more for each file that was taken up.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn last(&self) -> Last {
        self.last.lock().clone()
    }

    fn taken(&self, changed: &[String], waiting: &[String]) {
        {
            let mut last = self.last.lock();
            last.taken = SystemTime::now();
            last.is_fine = true;
            last.waiting = waiting.to_vec();
        }
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        tracing::info!(generation, ?changed, "the configuration was read again");
        if !waiting.is_empty() {
            tracing::warn!(
                ?waiting,
                "these keys have changed in the file and stay as they were until a restart"
            );
        }
    }

    fn refused(&self, problem: &str) {
        {
            let mut last = self.last.lock();
            last.refusals += 1;
            last.refused = Some((SystemTime::now(), problem.to_owned()));
            last.is_fine = false;
        }
        tracing::warn!(problem, "the configuration stays as it was");
    }
}

/// In `GET /metrics`.
impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let last = self.0.last();
        for (name, help, value) in [
            (
                "config_generation",
                "1 from the start, and one more for each file that was taken up, changed or not",
                self.0.generation(),
            ),
            (
                "config_refusals",
                "Changed configurations that were refused",
                last.refusals,
            ),
            (
                "config_last_reload_successful",
                "Whether the last changed configuration was taken up; 1 before the first one",
                u64::from(last.is_fine),
            ),
            (
                "config_waiting_keys",
                "Keys that have changed in the file and wait for a restart",
                last.waiting.len() as u64,
            ),
        ] {
            single(&mut encoder, name, help, &ConstGauge::new(value))?;
        }
        let refused = last.refused.map_or(0.0, |(time, _)| unix_seconds(time));
        for (name, help, value) in [
            (
                "config_last_success_timestamp_seconds",
                "When the configuration was taken up that counts",
                unix_seconds(last.taken),
            ),
            (
                "config_last_failure_timestamp_seconds",
                "When a changed configuration was refused for the last time; 0 for never",
                refused,
            ),
        ] {
            single(&mut encoder, name, help, &ConstGauge::new(value))?;
        }
        Ok(())
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
