//! Passages for doors: what the target tool finds, and what it has found before, by its identifier.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use spechop_config::Allowance;
use spechop_ports::{Call, Lane, PortError, Sparingly, Wishes};
use spechop_types::{Chance, Owned, OwnedCache, Passage, QUESTION_BYTES_MAX, Tenant, with_causes};
use tokio::time::timeout;

use crate::accounts::Hold;
use crate::caller::{Caller, named};
use crate::outcome::{Awaited, Outcome};
use crate::places::NoPlace;
use crate::server_state::ServerState;
use crate::status::AskError;
use crate::tool_cache::bytes_of;

/// Most queries of a request, and how many of them are under way at once: others want a turn, too.
const QUERIES_MAX: usize = 64;
const QUERIES_AT_ONCE: usize = 8;
/// Passages that can be given again by their identifiers, and their bytes: those of all tenants together.
const KEPT_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
const KEPT_BYTES_MAX: usize = 64 << 20;
/// The most bytes of a passage that is kept. Nobody's one passage may push out all others.
const PASSAGE_BYTES_MAX: usize = 1 << 20;

/// Finds passages, and keeps them for a while. Every door that gives passages away asks it.
pub(crate) struct Finder {
    state: Arc<ServerState>,
    kept: Mutex<Kept>,
    warnings: Sparingly,
}

/// A passage as a caller has been told of it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) passage: Passage,
    /// Its text is only the beginning of the passage's.
    pub(crate) is_cut: bool,
}

/// What callers have been told of. What was not asked for the longest leaves first.
struct Kept {
    all: OwnedCache<Arc<str>, Told>,
    bytes: usize,
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
    /// As many requests of one tenant as may be are being answered.
    #[error(
        "{most} requests of this tenant are being answered, which is the most; try again later"
    )]
    TenantBusy { most: usize },
    /// The tenant's budget is not enough for all of them.
    #[error(
        "the budget of {} has {left} target calls left, and these are {look_ups}",
        named(.tenant)
    )]
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

impl From<NoPlace> for FindError {
    fn from(full: NoPlace) -> Self {
        match full {
            NoPlace::Full(most) => Self::Busy { most },
            NoPlace::TenantFull(most) => Self::TenantBusy { most },
        }
    }
}

impl Finder {
    pub(crate) fn new(state: Arc<ServerState>) -> Self {
        Self {
            state,
            kept: Mutex::new(Kept {
                all: OwnedCache::new(KEPT_MAX),
                bytes: 0,
            }),
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
        let wishes = Wishes::default();
        self.find_as_wished(caller, queries, topk, wishes).await
    }

    /// The same for a caller with wishes.
    pub(crate) async fn find_as_wished(
        &self,
        caller: &Caller,
        queries: Vec<String>,
        topk: Option<usize>,
        wishes: Wishes,
    ) -> Result<Vec<Vec<Passage>>, FindError> {
        let metrics = &self.state.metrics;
        let awaited = Awaited::counted_by(|outcome| metrics.retrieved(outcome));
        let found = self.search(caller, queries, topk, wishes).await;
        awaited.arrives();
        match &found {
            Ok(_) => metrics.retrieved(Outcome::Answered),
            Err(error) => self.refused(error),
        }
        found
    }

    /// Counts a request that came to no passages, and writes it to the log.
    pub(crate) fn refused(&self, error: &FindError) {
        let outcome = error.outcome();
        self.state.metrics.retrieved(outcome);
        let reason = with_causes(error);
        match self.warnings.turn(outcome.into_str()) {
            Some(left_out) if error.is_ours() => {
                tracing::warn!(reason, left_out, "no passages");
            }
            _ => tracing::debug!(reason, "no passages"),
        }
    }

    /// Keeps passages that this caller has been told of.
    pub(crate) fn keep(&self, caller: &Caller, told: impl IntoIterator<Item = Told>) {
        let mut kept = self.kept.lock();
        for told in told {
            kept.put(&caller.tenant, told);
        }
    }

    /// The passage with this identifier: one that this caller's tenant has been told of not long ago, or
    /// one of the index. If the tenant was told of a part of it, the index may have the whole. An error is
    /// written to the log here.
    pub(crate) async fn passage(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Option<Passage>, FindError> {
        let kept = self.kept.lock().get(&caller.tenant, id);
        let part = match kept {
            Some(told) if !told.is_cut => return Ok(Some(told.passage)),
            kept => kept.map(|told| told.passage),
        };
        let found = match &self.state.toolbox.passages {
            Some(index) => index.passage(id).await,
            None => Ok(None),
        };
        match (found, part) {
            (Ok(None), part) => Ok(part),
            // The part is true, and its end says that there is more.
            (Err(error), Some(part)) => {
                let reason = with_causes(&error);
                tracing::debug!(reason, "only a part of a passage can be given");
                Ok(Some(part))
            }
            (found, _) => {
                let found = found.map_err(AskError::from);
                Ok(found.inspect_err(|error| self.state.refuse(error))?)
            }
        }
    }

    async fn search(
        &self,
        Caller { tenant, trace }: &Caller,
        queries: Vec<String>,
        topk: Option<usize>,
        wishes: Wishes,
    ) -> Result<Vec<Vec<Passage>>, FindError> {
        let config = self.state.config();
        let questions = &config.questions;
        if self.state.phases.closing.is_cancelled() {
            return Err(AskError::ShuttingDown.into());
        }
        check(&queries, topk, questions.passages_max)?;
        check_allowance(queries.len(), config.allowance)?;
        let topk = topk.unwrap_or(questions.passages().get());
        let _place = self.state.retrievals.take(tenant)?;
        let mut hold = self.hold(tenant, queries.len()).await?;
        if let Some(hold) = &mut hold {
            // Charged from here on: whoever hangs up has had the work done.
            hold.looked_up(queries.len() as u64);
        }
        let retriever = &self.state.toolbox.retriever;
        let searches = queries.into_iter().map(|query| {
            let call = Call::of(tenant.clone(), Lane::Authoritative, Chance::CERTAIN);
            let call = call.traced(trace.clone()).with(wishes);
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
                again_in: hold.look_ups_in(look_ups),
            }),
            held => Ok(held.map(|(hold, _)| hold)),
        }
    }
}

impl Told {
    pub(crate) fn whole(passage: &Passage) -> Self {
        Self {
            passage: passage.clone(),
            is_cut: false,
        }
    }
}

impl Kept {
    fn put(&mut self, tenant: &Tenant, told: Told) {
        let key = Owned::new(tenant, Arc::clone(&told.passage.id));
        // The whole says more than a part of it. Whoever was told of the part may ask for it next, so this
        // look counts as a use.
        if told.is_cut && self.all.get(&key).is_some_and(|known| !known.is_cut) {
            return;
        }
        let bytes = bytes_of(&told.passage);
        let left = if bytes <= PASSAGE_BYTES_MAX {
            self.bytes += bytes;
            self.all.insert(key, told).map(|(_, left)| left)
        } else {
            // What was kept by this name is another text by now.
            self.all.remove(&key)
        };
        self.forget(left);
        while self.bytes > KEPT_BYTES_MAX
            && let Some((_, oldest)) = self.all.pop_oldest()
        {
            self.forget(Some(oldest));
        }
    }

    fn get(&mut self, tenant: &Tenant, id: &str) -> Option<Told> {
        self.all.get(&Owned::new(tenant, id.into())).cloned()
    }

    /// Counts no longer what has left.
    fn forget(&mut self, left: Option<Told>) {
        self.bytes -= left.map_or(0, |left| bytes_of(&left.passage));
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

/// Whether so many look-ups can ever be paid for: more than a whole allowance would be refused again and again.
fn check_allowance(queries: usize, allowance: Option<Allowance>) -> Result<(), AskError> {
    let most = allowance.and_then(|allowance| allowance.target_calls);
    match most {
        Some(most) if queries as u64 > most => {
            let problem = format!(
                "there are {queries} queries; tenant.target_calls allows {most} in a period"
            );
            Err(AskError::wrong("queries", problem))
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
            Self::TenantBusy { .. } => Outcome::TenantBusy,
            Self::Short { .. } => Outcome::Overdrawn,
            Self::Late { .. } => Outcome::Late,
        }
    }

    /// Whether the operator should know.
    fn is_ours(&self) -> bool {
        !matches!(self, Self::Ask(AskError::Invalid(_)))
    }
}

#[cfg(test)]
mod tests {
    use spechop_testkit::{Script, passage};

    use super::*;
    use crate::server_state::scripted;

    fn finder() -> Finder {
        let (state, _) = scripted::state(Script::instant(1), "");
        Finder::new(state)
    }

    fn told(id: &str, text: &Arc<str>, is_cut: bool) -> Told {
        let passage = passage(id, "T", Arc::clone(text));
        Told { passage, is_cut }
    }

    /// How long the text is that is given by this name.
    async fn length(finder: &Finder, caller: &Caller, id: &str) -> Option<usize> {
        let found = finder.passage(caller, id).await.unwrap();
        found.map(|passage| passage.text.len())
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_has_more_kept_than_there_are_bytes_for() {
        let (finder, caller) = (finder(), Caller::default());
        let text: Arc<str> = "x".repeat(512 << 10).into();
        let all = |kept: &Kept| {
            let all = kept.all.iter().map(|(_, told)| bytes_of(&told.passage));
            all.sum::<usize>()
        };
        for n in 0..300 {
            // A second time it is the same passage.
            for _ in 0..2 {
                finder.keep(&caller, [told(&format!("p{n}"), &text, false)]);
            }
            let kept = finder.kept.lock();
            assert!(kept.bytes <= KEPT_BYTES_MAX, "{} bytes", kept.bytes);
            assert_eq!(kept.bytes, all(&kept));
        }
        assert!(finder.kept.lock().bytes > KEPT_BYTES_MAX - (1 << 20));
        assert_eq!(
            length(&finder, &caller, "p299").await,
            Some(text.len()),
            "the last ones stay"
        );
        assert_eq!(length(&finder, &caller, "p0").await, None);
        // One that is too long pushes nothing out, and takes the place of nothing but its own name.
        let long: Arc<str> = "x".repeat(PASSAGE_BYTES_MAX).into();
        let before = finder.kept.lock().all.len();
        finder.keep(
            &caller,
            [told("long", &long, false), told("p299", &long, false)],
        );
        assert_eq!(finder.kept.lock().all.len(), before - 1);
        for id in ["long", "p299"] {
            assert_eq!(length(&finder, &caller, id).await, None, "{id}");
        }
        let kept = finder.kept.lock();
        assert_eq!(kept.bytes, all(&kept));
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_takes_the_place_of_no_whole() {
        let (finder, caller) = (finder(), Caller::default());
        let (whole, part): (Arc<str>, Arc<str>) = ("The whole text.".into(), "The wh…".into());
        finder.keep(&caller, [told("p", &part, true)]);
        assert_eq!(length(&finder, &caller, "p").await, Some(part.len()));
        for is_cut in [false, true] {
            let text = if is_cut { &part } else { &whole };
            finder.keep(&caller, [told("p", text, is_cut)]);
            assert_eq!(length(&finder, &caller, "p").await, Some(whole.len()));
        }
        let other = Caller {
            tenant: Tenant::new("other").unwrap(),
            ..Caller::default()
        };
        assert_eq!(length(&finder, &other, "p").await, None);
    }
}
