//! The drafter of this server: opened, kept from harm, and kept over a restart.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use spechop_config::{Drafting, PatternSource};
use spechop_draft::{DRAFT_BYTES_MAX, LearntPatterns, PatternDrafter, PatternError, Patterns};
use spechop_ports::{
    Call, DraftRequest, DraftWriter, Drafter, PlanRequest, PortError, WrittenDraft, panic_text,
};
use spechop_types::{Draft, Hop, Question, Tenant, with_causes};
use tokio::time::Instant;

use crate::state::{BYTES_MAX, Keeper, Persisted, Purpose};

mod shared;

pub(crate) use shared::SharedDrafts;

const PURPOSE: Purpose = Purpose {
    content: "what the drafter has learnt",
    key: "drafter.file",
    format: 1,
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
///
/// `is_shared` if other servers are to know what it learns.
pub(crate) fn open(
    drafting: &Drafting,
    is_shared: bool,
) -> Result<Option<Arc<Guarded>>, DraftsError> {
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
    let drafter = PatternDrafter::new(patterns);
    let drafter = match is_shared {
        true => drafter.shared(),
        false => drafter,
    };
    let guarded = Guarded::new(drafter, drafting.learns, TIME_MAX);
    Ok(Some(Arc::new(guarded)))
}

/// A drafter whose mistakes harm no question: one that panics or is slow is not asked again, and what no
/// planner writes is left out.
///
/// It is asked between two steps of a question, so the question's other branches stand still meanwhile.
/// Nothing can end such a call from outside. Our patterns end it themselves: they look at the bytes of one
/// question and of at most eight hops, and never wait for anything.
pub struct Guarded<D = PatternDrafter> {
    drafter: D,
    learns: bool,
    /// The longest that it may take.
    time_max: Duration,
    is_broken: AtomicBool,
}

/// A draft by patterns takes microseconds (`cargo bench -p spechop-draft`). What takes so much longer is a mistake.
const TIME_MAX: Duration = Duration::from_secs(1);

impl<D> Guarded<D> {
    fn new(drafter: D, learns: bool, time_max: Duration) -> Self {
        Self {
            drafter,
            learns,
            time_max,
            is_broken: AtomicBool::new(false),
        }
    }
}

impl<D: Drafter> Guarded<D> {
    fn guard<T: Default>(&self, work: impl FnOnce(&D) -> T) -> T {
        if self.is_broken.load(Relaxed) {
            return T::default();
        }
        let started = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| work(&self.drafter))).unwrap_or_else(|panic| {
            self.is_broken.store(true, Relaxed);
            let said = panic_text(&*panic);
            tracing::error!("the drafter panicked and is not asked again: {said}");
            T::default()
        });
        let took = started.elapsed();
        if took > self.time_max && !self.is_broken.swap(true, Relaxed) {
            tracing::error!(
                took_ms = took.as_millis(),
                "the drafter is too slow and is not asked again"
            );
        }
        done
    }
}

impl<D: Drafter> Drafter for Guarded<D> {
    fn draft(&self, request: &DraftRequest<'_>) -> Vec<Draft> {
        let mut drafts = self.guard(|drafter| drafter.draft(request));
        drafts.retain(|draft| may_be_written(draft, request.question));
        drafts.truncate(request.limit);
        drafts
    }

    fn learn(&self, tenant: &Tenant, question: &Question, hops: &[Hop], ended: bool) {
        if self.learns {
            self.guard(|drafter| drafter.learn(tenant, question, hops, ended));
        }
    }
}

/// Whether a planner could write such a thing.
fn may_be_written(draft: &Draft, question: &Question) -> bool {
    let text = draft.sub_question.as_str();
    !text.trim().is_empty() && text.len() <= DRAFT_BYTES_MAX && text != question.as_str()
}

/// A writer of drafts whose mistakes harm no question: if it panics, that draft has failed, and what no
/// planner writes is left out. Its time limit is that of the stage.
pub(crate) struct GuardedWriter<W: ?Sized>(Arc<W>);

impl<W: DraftWriter + ?Sized> GuardedWriter<W> {
    pub(crate) fn new(writer: Arc<W>) -> Self {
        Self(writer)
    }
}

#[async_trait]
impl<W: DraftWriter + ?Sized> DraftWriter for GuardedWriter<W> {
    async fn write_draft(
        &self,
        call: &Call,
        request: PlanRequest,
        sample: u32,
    ) -> Result<WrittenDraft, PortError> {
        let question = request.question.clone();
        let writing = AssertUnwindSafe(self.0.write_draft(call, request, sample));
        let mut written = writing.catch_unwind().await.unwrap_or_else(|panic| {
            let said = panic_text(&*panic);
            tracing::error!("a writer of drafts panicked: {said}");
            Err(PortError::malformed("the writer of drafts", said))
        })?;
        written.draft = written
            .draft
            .filter(|draft| may_be_written(draft, &question));
        Ok(written)
    }
}

/// Everything in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    format: u64,
    learnt: LearntPatterns,
}

/// Keeps what the drafter learns in a file. Without one it does nothing.
pub(crate) type DraftKeeper = Keeper<Guarded>;

impl DraftKeeper {
    pub(crate) async fn open(drafter: Option<&Arc<Guarded>>, file: Option<&Path>) -> Self {
        let drafter = drafter.cloned();
        Self::at(file, move || drafter).await
    }
}

impl Persisted for Guarded {
    const PURPOSE: Purpose = PURPOSE;

    type Kept = Kept;

    fn take_up(&self, kept: Kept, path: &Path) {
        if let Err(error) = self.drafter.restore(kept.learnt) {
            let path = path.display();
            let reason = with_causes(&error);
            tracing::warn!(%path, reason, "what the drafter had learnt cannot be taken up: it begins anew");
        }
    }

    fn revision(&self) -> u64 {
        self.drafter.changes()
    }

    fn kept(&self) -> Kept {
        Kept {
            format: PURPOSE.format,
            // A longer file would not be read again.
            learnt: self.drafter.learnt().within(BYTES_MAX),
        }
    }
}

#[cfg(test)]
mod tests;
