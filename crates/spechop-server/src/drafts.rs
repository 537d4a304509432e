//! The drafter of this server: opened, kept from harm, and kept over a restart.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use spechop_config::{Drafting, PatternSource};
use spechop_draft::{DRAFT_BYTES_MAX, LearntPatterns, PatternDrafter, PatternError, Patterns};
use spechop_ports::{
    Call, DraftRequest, DraftWriter, Drafter, PlanRequest, PortError, WrittenDraft, panic_text,
};
use spechop_types::{Draft, Hop, Question, Tenant, with_causes};
use tokio::time::Instant;

use crate::state::{BYTES_MAX, Keeper, Persisted, Purpose, Writing};

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
    Read { path: String, source: io::Error },
    #[error("{path} holds no patterns; `spechop patterns mine` makes such a file")]
    Patterns { path: String, source: PatternError },
    #[error("the thread of the drafter cannot be started")]
    Thread(#[source] io::Error),
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
    let guarded = Guarded::new(drafter, drafting.learns).map_err(DraftsError::Thread)?;
    Ok(Some(Arc::new(guarded)))
}

/// A drafter whose mistakes harm no question: one that panics, is slow or does not come back is not asked
/// again, and what no planner writes is left out.
///
/// Nothing can end such a call from outside. So unless every call is known to [come back at
/// once](Drafter::ends_at_once), a thread of its own makes them, one after the other, and whoever asks waits for
/// 20 ms at most, between two steps of a question. If the answer is late, the question is answered without it.
pub struct Guarded<D = PatternDrafter> {
    drafter: Arc<D>,
    learns: bool,
    /// How long who asks waits.
    patience: Duration,
    /// To the thread that makes the calls; `None` if they are made in place.
    jobs: Option<Sender<Job<D>>>,
    health: Arc<Health>,
}

/// A call that the drafter's thread makes.
type Job<D> = Box<dyn FnOnce(&D) + Send>;

/// A draft by patterns takes microseconds (`cargo bench -p spechop-draft`). To hand a call over to a thread that sleeps,
/// and its answer back, takes some fifty (`cargo bench -p spechop-server --bench drafts`).
const PATIENCE: Duration = Duration::from_millis(20);
/// A call that takes so long is a mistake.
const TIME_MAX: Duration = Duration::from_secs(1);
/// So are so many calls, one after the other, each of which takes longer than anybody waits.
const LATE_MAX: u32 = 8;

/// Whether a drafter is still to be asked.
#[derive(Default)]
struct Health {
    is_broken: AtomicBool,
    /// When the call under way began.
    began: Mutex<Option<Instant>>,
}

impl Health {
    fn give_up(&self, why: &str) {
        if !self.is_broken.swap(true, Relaxed) {
            tracing::error!("the drafter {why} and is not asked again");
        }
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }

    /// For how long the call under way has been made.
    fn busy(&self) -> Duration {
        let began = *self.began.lock();
        began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Whether there is any use in asking now.
    fn may_answer(&self, patience: Duration) -> bool {
        let busy = self.busy();
        if busy > TIME_MAX {
            self.give_up("does not come back");
        }
        busy <= patience && !self.is_broken()
    }

    /// What a call brings; `None` if it panics.
    fn caught<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let made = catch_unwind(AssertUnwindSafe(call));
        made.map_err(|panic| {
            let said = panic_text(&*panic);
            self.give_up(&format!("panicked ({said})"));
        })
        .ok()
    }

    /// A call that is made in place.
    fn in_place<T: Default>(&self, call: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let made = self.caught(call);
        if began.elapsed() > TIME_MAX {
            self.give_up("is too slow");
        }
        made.unwrap_or_default()
    }

    /// Makes calls until nobody can ask any more.
    fn make<D>(&self, drafter: &D, jobs: &Receiver<Job<D>>) {
        let mut late = 0;
        while let Ok(job) = jobs.recv() {
            if self.is_broken() {
                continue;
            }
            let began = Instant::now();
            *self.began.lock() = Some(began);
            job(drafter);
            *self.began.lock() = None;
            let took = began.elapsed();
            late = if took > PATIENCE { late + 1 } else { 0 };
            if took > TIME_MAX || late >= LATE_MAX {
                self.give_up("is too slow");
            }
        }
    }
}

impl<D: Drafter + 'static> Guarded<D> {
    /// Around this one, which is told what was answered only if it `learns`.
    ///
    /// # Errors
    ///
    /// Its thread cannot be started.
    pub fn new(drafter: D, learns: bool) -> io::Result<Self> {
        Self::patient(drafter, learns, PATIENCE)
    }

    fn patient(drafter: D, learns: bool, patience: Duration) -> io::Result<Self> {
        let drafter = Arc::new(drafter);
        let health = Arc::new(Health::default());
        let jobs = if drafter.ends_at_once() {
            None
        } else {
            let (jobs, made) = mpsc::channel();
            let (its, known) = (Arc::clone(&drafter), Arc::clone(&health));
            // Whoever drops the guard does not wait for it: it may never come back.
            thread::Builder::new()
                .name("drafter".to_owned())
                .spawn(move || known.make(&*its, &made))?;
            Some(jobs)
        };
        Ok(Self {
            drafter,
            learns,
            patience,
            jobs,
            health,
        })
    }

    /// What the drafter's thread says, if it does so in time.
    fn ask<T: Default + Send + 'static>(
        &self,
        jobs: &Sender<Job<D>>,
        patience: Duration,
        work: impl FnOnce(&D) -> T + Send + 'static,
    ) -> T {
        let (tell, told) = mpsc::sync_channel(1);
        let (health, is_gone) = (Arc::clone(&self.health), Arc::new(AtomicBool::new(false)));
        let has_left = Arc::clone(&is_gone);
        let job = move |drafter: &D| {
            if !has_left.load(Relaxed) {
                // Who has left by then does not listen.
                drop(health.caught(|| tell.send(work(drafter))));
            }
        };
        if jobs.send(Box::new(job)).is_err() {
            return T::default();
        }
        told.recv_timeout(patience).unwrap_or_else(|_| {
            is_gone.store(true, Relaxed);
            T::default()
        })
    }

    /// Waits until what was told before has been learnt, if that comes to an end. **Blocks** for a second at most.
    fn settle(&self) {
        if let Some(jobs) = self
            .jobs
            .as_ref()
            .filter(|_| self.health.may_answer(TIME_MAX))
        {
            self.ask(jobs, TIME_MAX, |_| ());
        }
    }

    /// Whether a call does not come back, which may hold all that the drafter knows.
    fn hangs(&self) -> bool {
        self.health.busy() > PATIENCE
    }
}

impl<D: Drafter + 'static> Drafter for Guarded<D> {
    fn draft(&self, request: &DraftRequest<'_>) -> Vec<Draft> {
        if !self.health.may_answer(self.patience) {
            return Vec::new();
        }
        let mut drafts = match &self.jobs {
            None => self.health.in_place(|| self.drafter.draft(request)),
            Some(jobs) => {
                let (tenant, question) = (request.tenant.clone(), request.question.clone());
                let (hops, limit) = (request.hops.to_vec(), request.limit);
                self.ask(jobs, self.patience, move |drafter| {
                    drafter.draft(&DraftRequest {
                        tenant: &tenant,
                        question: &question,
                        hops: &hops,
                        limit,
                    })
                })
            }
        };
        drafts.retain(|draft| may_be_written(draft, request.question));
        drafts.truncate(request.limit);
        drafts
    }

    /// Nobody waits for a thread that learns. It does so before it makes the next call.
    fn learn(&self, tenant: &Tenant, question: &Question, hops: &[Hop], ended: bool) {
        if !self.learns || !self.health.may_answer(self.patience) {
            return;
        }
        let Some(jobs) = &self.jobs else {
            let learn = || self.drafter.learn(tenant, question, hops, ended);
            return self.health.in_place(learn);
        };
        let (tenant, question, hops) = (tenant.clone(), question.clone(), hops.to_vec());
        let health = Arc::clone(&self.health);
        let job = move |drafter: &D| {
            health.caught(|| drafter.learn(&tenant, &question, &hops, ended));
        };
        // Its thread ends when nobody asks.
        let _ = jobs.send(Box::new(job));
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
    pub(crate) async fn open(
        drafter: Option<&Arc<Guarded>>,
        file: Option<&Path>,
        writing: &Writing,
    ) -> Self {
        let drafter = drafter.cloned();
        Self::at(file, writing, move || drafter).await
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

    fn can_tell(&self) -> bool {
        self.settle();
        !self.hangs()
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
