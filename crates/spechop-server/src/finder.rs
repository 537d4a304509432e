//! Passages for doors: what the target tool finds, and what it has found before, by its identifier.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use spechop_ports::{Call, Lane, PortError};
use spechop_types::{Chance, Owned, OwnedCache, Passage, QUESTION_BYTES_MAX, Tenant};
use tokio::time::timeout;

use crate::accounts::Hold;
use crate::caller::Caller;
use crate::outcome::Outcome;
use crate::places::NoPlace;
use crate::server_state::ServerState;
use crate::sparingly::Sparingly;
use crate::status::{AskError, chain};

/// Most queries of a request, and how many of them are under way at once: others want a turn, too.
const QUERIES_MAX: usize = 64;
const QUERIES_AT_ONCE: usize = 8;
/// Passages that can be given again by their identifiers: those of all tenants together.
const KEPT: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// Finds passages, and keeps them for a while. Every door that gives passages away asks it.
pub(crate) struct Finder {
    state: Arc<ServerState>,
    /// As many requests at once as questions.
    kept: Mutex<OwnedCache<Arc<str>, Passage>>,
    warnings: Sparingly,
}

/// Why there are no passages, or no vectors.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    /// What a question would be refused for, too, or a part that failed.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// As many requests as may be are being answered.
    #[error("{most} requests are being answered, which is the most; try again later")]
    Busy { most: usize },
    /// The tenant's budget is not enough for all of them.
    #[error("the budget of tenant {tenant} has {left} target calls left, and these are {look_ups}")]
    Short {
        tenant: Tenant,
        left: u32,
        look_ups: u32,
        /// Until the tenant has all of its budget again.
        again_in: Duration,
    },
    /// It took too long.
    #[error("there was no result within {} s", limit.as_secs_f64())]
    Late { limit: Duration },
}

impl From<PortError> for FindError {
    fn from(error: PortError) -> Self {
        Self::Ask(error.into())
    }
}

impl Finder {
    pub(crate) fn new(state: Arc<ServerState>) -> Self {
        Self {
            state,
            kept: Mutex::new(OwnedCache::new(KEPT)),
            warnings: Sparingly::default(),
        }
    }

    /// What the target tool finds for each query: `topk` passages, or as many as are read for a hop. It
    /// is counted, and charged to the caller's tenant. An error is counted and written to the log here.
    pub(crate) async fn find(
        &self,
        caller: &Caller,
        queries: Vec<String>,
        topk: Option<usize>,
    ) -> Result<Vec<Vec<Passage>>, FindError> {
        let found = self.search(&caller.tenant, queries, topk).await;
        match &found {
            Ok(_) => self.state.metrics.retrieved(Outcome::Answered),
            Err(error) => self.refused(error),
        }
        found
    }

    /// Counts a request that came to no passages, and writes it to the log.
    pub(crate) fn refused(&self, error: &FindError) {
        let outcome = error.outcome();
        self.state.metrics.retrieved(outcome);
        let reason = chain(error);
        match self.warnings.turn(outcome.as_str()) {
            Some(left_out) if error.is_ours() => {
                tracing::warn!(reason, left_out, "no passages");
            }
            _ => tracing::debug!(reason, "no passages"),
        }
    }

    /// Keeps passages that this caller has been told of.
    pub(crate) fn keep<'a>(
        &self,
        caller: &Caller,
        passages: impl IntoIterator<Item = &'a Passage>,
    ) {
        let mut kept = self.lock();
        for passage in passages {
            let key = Owned::new(&caller.tenant, Arc::clone(&passage.id));
            kept.insert(key, passage.clone());
        }
    }

    /// The passage with this identifier: one that this caller's tenant has been told of not long ago, or
    /// one of the index.
    pub(crate) async fn passage(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Option<Passage>, FindError> {
        if let Some(kept) = self.kept(caller, id) {
            return Ok(Some(kept));
        }
        match &self.state.toolbox.passages {
            Some(index) => Ok(index.passage(id).await?),
            None => Ok(None),
        }
    }

    fn kept(&self, caller: &Caller, id: &str) -> Option<Passage> {
        let key = Owned::new(&caller.tenant, id.into());
        self.lock().get(&key).cloned()
    }

    async fn search(
        &self,
        tenant: &Tenant,
        queries: Vec<String>,
        topk: Option<usize>,
    ) -> Result<Vec<Vec<Passage>>, FindError> {
        let config = self.state.config();
        let questions = &config.questions;
        if self.state.phases.closing.is_cancelled() {
            return Err(AskError::ShuttingDown.into());
        }
        check(&queries, topk, questions.passages_max)?;
        let topk = topk.unwrap_or(questions.passages().get());
        let _place = self.state.retrievals.take(tenant).map_err(|full| {
            let (NoPlace::Full(most) | NoPlace::TenantFull(most)) = full;
            FindError::Busy { most }
        })?;
        let mut hold = self.hold(tenant, queries.len()).await?;
        if let Some(hold) = &mut hold {
            // Charged from here on: whoever hangs up has had the work done.
            hold.looked_up(queries.len() as u64);
        }
        let retriever = &self.state.toolbox.retriever;
        let searches = queries.into_iter().map(|query| {
            let call = Call::of(tenant.clone(), Lane::Authoritative, Chance::CERTAIN);
            async move { retriever.retrieve(&call, &query, topk).await }
        });
        let limit = questions.limits.target;
        let all = stream::iter(searches)
            .buffered(QUERIES_AT_ONCE)
            .try_collect();
        tokio::select! {
            biased;
            () = self.state.phases.closed.cancelled() => Err(AskError::ShuttingDown.into()),
            found = timeout(limit, all) => Ok(found.map_err(|_| FindError::Late { limit })??),
        }
    }

    /// Sets the look-ups aside in the tenant's account, all of them or none.
    async fn hold(&self, tenant: &Tenant, queries: usize) -> Result<Option<Hold>, FindError> {
        let look_ups = u32::try_from(queries).unwrap_or(u32::MAX);
        match self.state.hold_look_ups(tenant, look_ups).await? {
            Some((hold, left)) if left < look_ups => Err(FindError::Short {
                tenant: tenant.clone(),
                left,
                look_ups,
                again_in: hold.renewed_in(),
            }),
            held => Ok(held.map(|(hold, _)| hold)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OwnedCache<Arc<str>, Passage>> {
        // Nothing panics while it is held.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with queries, if anything is.
fn check(queries: &[String], topk: Option<usize>, topk_max: NonZeroUsize) -> Result<(), AskError> {
    if queries.is_empty() || queries.len() > QUERIES_MAX {
        let count = queries.len();
        let problem = format!("there are {count} queries; 1 to {QUERIES_MAX} are taken");
        return Err(AskError::wrong("queries", problem));
    }
    for (at, query) in queries.iter().enumerate() {
        if query.trim().is_empty() || query.len() > QUESTION_BYTES_MAX {
            let problem = format!(
                "query {} must have some text, and {QUESTION_BYTES_MAX} bytes at most",
                at + 1
            );
            return Err(AskError::wrong("queries", problem));
        }
    }
    match topk {
        Some(topk) if topk == 0 || topk > topk_max.get() => {
            let problem = format!("topk is {topk}; 1 to {topk_max} are found");
            Err(AskError::wrong("topk", problem))
        }
        _ => Ok(()),
    }
}

impl FindError {
    /// How the request ended.
    fn outcome(&self) -> Outcome {
        match self {
            Self::Ask(error) => error.outcome(),
            Self::Busy { .. } => Outcome::Busy,
            Self::Short { .. } => Outcome::Overdrawn,
            Self::Late { .. } => Outcome::Late,
        }
    }

    /// Whether the operator should know.
    fn is_ours(&self) -> bool {
        !matches!(self, Self::Ask(AskError::Invalid(_)))
    }
}
