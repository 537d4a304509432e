//! The drafter of this server: opened, kept from harm, and kept over a restart.

use std::convert::Infallible;
use std::fs;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use spechop_draft::{DRAFT_BYTES_MAX, Learnt, PatternDrafter, PatternError, Patterns};
use spechop_ports::{Draft, DraftRequest, Drafter, panic_text};
use spechop_types::{Hop, Question, Tenant};
use tokio::task::spawn_blocking;

use crate::config::{Drafting, PatternSource};
use crate::state::{Purpose, Writer, write_every_minute};

const PURPOSE: Purpose = Purpose {
    content: "what the drafter has learnt",
    key: "drafter.file",
    format: 1,
    bytes_max: 64 << 20,
};

/// A file of patterns that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DraftsError {
    #[error("cannot read {path}; `spechop patterns mine` makes such a file")]
    Read {
        path: String,
        source: std::io::Error,
    },
    #[error("{path} holds no patterns; `spechop patterns mine` makes such a file")]
    Patterns { path: String, source: PatternError },
    #[error("the shipped patterns are damaged")]
    Shipped(#[from] PatternError),
}

/// The drafter of the configuration; `None` if there is to be none. **Blocks.**
pub(crate) fn open(drafting: &Drafting) -> Result<Option<Arc<Guarded>>, DraftsError> {
    let patterns = match &drafting.patterns {
        PatternSource::None => return Ok(None),
        PatternSource::Shipped => Patterns::shipped()?,
        PatternSource::File(path) => {
            let shown = || path.display().to_string();
            let json = fs::read_to_string(path).map_err(|source| DraftsError::Read {
                path: shown(),
                source,
            })?;
            Patterns::from_json(&json).map_err(|source| DraftsError::Patterns {
                path: shown(),
                source,
            })?
        }
    };
    Ok(Some(Arc::new(Guarded {
        drafter: PatternDrafter::new(patterns),
        learns: drafting.learns,
        is_broken: AtomicBool::new(false),
    })))
}

/// A drafter whose mistakes harm no question: one that panics is not asked again, and what no planner
/// writes is left out.
pub struct Guarded<D = PatternDrafter> {
    drafter: D,
    learns: bool,
    is_broken: AtomicBool,
}

impl<D: Drafter> Guarded<D> {
    fn guard<T: Default>(&self, work: impl FnOnce(&D) -> T) -> T {
        if self.is_broken.load(Relaxed) {
            return T::default();
        }
        catch_unwind(AssertUnwindSafe(|| work(&self.drafter))).unwrap_or_else(|panic| {
            self.is_broken.store(true, Relaxed);
            let said = panic_text(&*panic);
            tracing::error!("the drafter panicked and is not asked again: {said}");
            T::default()
        })
    }
}

impl<D: Drafter> Drafter for Guarded<D> {
    fn draft(&self, request: &DraftRequest<'_>) -> Vec<Draft> {
        let mut drafts = self.guard(|drafter| drafter.draft(request));
        drafts.retain(|draft| {
            let text = draft.sub_question.as_str();
            !text.trim().is_empty()
                && text.len() <= DRAFT_BYTES_MAX
                && text != request.question.as_str()
        });
        drafts.truncate(request.limit);
        drafts
    }

    fn learn(&self, tenant: &Tenant, question: &Question, hops: &[Hop]) {
        if self.learns {
            self.guard(|drafter| drafter.learn(tenant, question, hops));
        }
    }
}

/// Everything in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    format: u64,
    learnt: Learnt,
}

/// Keeps what the drafter learns in a file. Without one it does nothing.
#[derive(Clone)]
pub(crate) struct DraftKeeper(Option<Arc<Inner>>);

struct Inner {
    drafter: Arc<Guarded>,
    writer: Writer,
}

impl DraftKeeper {
    /// Gives to the drafter what the file holds. If the file is of no use, the log says so. One that could
    /// be ours is put aside; any other is left alone, and nothing is kept.
    pub(crate) async fn open(drafter: Option<&Arc<Guarded>>, file: Option<&Path>) -> Self {
        let (Some(drafter), Some(path)) = (drafter.cloned(), file.map(Path::to_owned)) else {
            return Self(None);
        };
        let opened = spawn_blocking(move || {
            take_up(&drafter.drafter, &path).then(|| {
                let writer = Writer::new(PURPOSE, path);
                Arc::new(Inner { drafter, writer })
            })
        });
        match opened.await {
            Ok(inner) => Self(inner),
            Err(error) => {
                tracing::warn!(%error, "what the drafter learns is not kept by this server");
                Self(None)
            }
        }
    }

    /// Writes whenever it is time, for as long as it is polled.
    pub(crate) async fn keep(&self) -> Infallible {
        if self.0.is_none() {
            return pending().await;
        }
        write_every_minute(|| self.save()).await
    }

    /// Writes what was learnt since the last time, if anything was.
    pub(crate) async fn save(&self) {
        let Some(inner) = self.0.clone() else { return };
        let write = move || {
            let drafter = &inner.drafter.drafter;
            let kept = || Kept {
                format: PURPOSE.format,
                learnt: drafter.learnt(),
            };
            inner.writer.write(|| drafter.changes(), kept);
        };
        // It ends by itself: a writing that is not waited for any more goes before the next.
        if let Err(error) = spawn_blocking(write).await {
            tracing::warn!(%error, "what the drafter has learnt could not be written");
        }
    }
}

/// Reads the file. False if it must not be written.
fn take_up(drafter: &PatternDrafter, path: &Path) -> bool {
    let kept: Kept = match PURPOSE.read(path) {
        Ok(Some(kept)) => kept,
        Ok(None) => return true,
        Err(useless) => return PURPOSE.make_room(path, &useless),
    };
    if let Err(error) = drafter.restore(kept.learnt) {
        let path = path.display();
        tracing::warn!(%path, %error, "what the drafter had learnt cannot be taken up: it begins anew");
    }
    true
}

#[cfg(test)]
mod tests;
