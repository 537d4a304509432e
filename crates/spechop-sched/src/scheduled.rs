//! The ports, with every call's turn in front: a port, a backend for calls of its kind, a rule.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use async_trait::async_trait;
use spechop_ports::{
    BackInLine, Call, DraftWriter, Encoded, Encoder, Guess, GuessRequest, Guessed, Lane,
    PlanRequest, Planned, Planner, PortError, Ranked, ReadRequest, Reader, Reading, Retriever,
    RewriteRequest, Rewriter, Rewritten, Speculator, TextKind, WeakLife, WrittenDraft,
};
use spechop_types::{Passage, Refusal};

use crate::backend::Backend;
use crate::eligibility::{Grade, Rule};
use crate::flight::Flights;
use crate::worth::Kind;

/// A port whose calls take their turns at a backend, under a rule. `Scheduled<dyn Planner>` is a planner,
/// and so on.
pub struct Scheduled<P: ?Sized> {
    pub(crate) inner: Arc<P>,
    backend: Backend,
    /// The same places for warming up, which takes less time than a call.
    warming: Backend,
    rule: Rule,
}

impl<P: ?Sized> Scheduled<P> {
    /// `inner` behind the backend's lanes.
    pub fn new(inner: Arc<P>, backend: &Backend, rule: Rule) -> Self {
        Self {
            inner,
            backend: backend.clone(),
            warming: backend.of_kind(Kind::default()),
            rule,
        }
    }

    /// A guess that may not be called ahead ends before it begins; when its branch is head, it is
    /// called again.
    fn admit(&self, call: &Call) -> Result<(), PortError> {
        match self.rule.grade {
            Grade::Full => Ok(()),
            Grade::Warmup | Grade::Never if call.lane() == Lane::Authoritative => Ok(()),
            Grade::Warmup | Grade::Never => Err(self.backend.deny()),
        }
    }

    /// Warms a tool up for a call that may not be made ahead, in a turn like that of any guess. A
    /// failed warm-up is ignored: the real call reports the failure.
    async fn warm_up(&self, call: &Call, work: impl Future<Output = Result<(), PortError>>) {
        if self.rule.grade == Grade::Warmup {
            let _ = self.warming.run(call, self.rule.cost, work).await;
        }
    }

    pub(crate) async fn run<T, E: From<PortError>>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.admit(call)?;
        self.backend.run_any(call, self.rule.cost, work).await
    }

    /// How many turns of a call may begin. A guess that takes nothing but cores goes back into line if it had to
    /// end for one: a needed call has that core for a moment, and the look-up that the guess goes ahead of may
    /// take seconds. Calls that others are paid for are made once.
    fn turns(&self, call: &Call) -> usize {
        let may_wait = call.lane() == Lane::Speculative && !call.has_one_turn();
        if may_wait && self.backend.is_on_cores() {
            TURNS_MAX
        } else {
            1
        }
    }

    /// The same as often as a turn of the call may begin. What is lost before it begins has cost nothing.
    async fn run_again<T, R: Clone, F>(
        &self,
        call: &Call,
        request: R,
        work: impl Fn(R) -> F,
    ) -> Result<T, PortError>
    where
        F: Future<Output = Result<T, PortError>>,
    {
        let turns = self.turns(call);
        if turns == 1 {
            return self.run(call, work(request)).await;
        }
        let (mut begun, mut waited) = (0, None);
        loop {
            let turn = begin(&mut begun, waited.take(), work(request.clone()));
            let outcome = self.run(call, turn).await;
            if begun == turns || !has_lost_turn(&outcome) {
                return outcome;
            }
            waited = Some(call.lost_turn());
        }
    }
}

fn has_lost_turn<T>(outcome: &Result<T, PortError>) -> bool {
    matches!(outcome, Err(PortError::NotSpeculated { why, .. }) if *why == Refusal::Preempted)
}

/// The work of a turn, which is begun, and counted, when the turn comes: the call is in line no more.
async fn begin<T>(
    begun: &mut usize,
    waited: Option<BackInLine>,
    work: impl Future<Output = T>,
) -> T {
    *begun += 1;
    drop(waited);
    work.await
}

/// Turns of one guess: what it may waste is bounded on a machine that is never idle for long.
const TURNS_MAX: usize = 4;

#[async_trait]
impl Planner for Scheduled<dyn Planner> {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        if let Err(refused) = self.admit(call) {
            let work = self.inner.warm(call, request.clone());
            self.warm_up(call, work).await;
            // It may have become needed meanwhile.
            if call.lane() == Lane::Speculative {
                return Err(refused);
            }
        }
        self.run_again(call, request, |request| self.inner.plan(call, request))
            .await
    }
}

#[async_trait]
impl Reader for Scheduled<dyn Reader> {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        self.run_again(call, request, |request| self.inner.read(call, request))
            .await
    }

    async fn read_ranked(
        &self,
        call: &Call,
        request: ReadRequest,
        limit: NonZeroUsize,
    ) -> Result<Ranked, PortError> {
        let work = |request| self.inner.read_ranked(call, request, limit);
        self.run_again(call, request, work).await
    }
}

#[async_trait]
impl Speculator for Scheduled<dyn Speculator> {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        self.run_again(call, request, |request| self.inner.guess(call, request))
            .await
    }

    async fn guess_streaming(
        &self,
        call: &Call,
        request: GuessRequest,
        early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        let turns = self.turns(call);
        if turns == 1 {
            let work = self.inner.guess_streaming(call, request, early);
            return self.run(call, work).await;
        }
        // What was told is not told again.
        let has_told = AtomicBool::new(false);
        let mut tell = |guess| {
            has_told.store(true, Relaxed);
            early(guess);
        };
        let (mut begun, mut waited) = (0, None);
        loop {
            let work = self.inner.guess_streaming(call, request.clone(), &mut tell);
            let turn = begin(&mut begun, waited.take(), work);
            let outcome = self.run(call, turn).await;
            if begun == turns || has_told.load(Relaxed) || !has_lost_turn(&outcome) {
                return outcome;
            }
            waited = Some(call.lost_turn());
        }
    }
}

/// Every sample takes a turn of its own.
#[async_trait]
impl DraftWriter for Scheduled<dyn DraftWriter> {
    async fn write_draft(
        &self,
        call: &Call,
        request: PlanRequest,
        sample: u32,
    ) -> Result<WrittenDraft, PortError> {
        let work = |request| self.inner.write_draft(call, request, sample);
        self.run_again(call, request, work).await
    }
}

#[async_trait]
impl Rewriter for Scheduled<dyn Rewriter> {
    async fn rewrite(&self, call: &Call, request: RewriteRequest) -> Result<Rewritten, PortError> {
        self.run(call, self.inner.rewrite(call, request)).await
    }
}

/// For those who want vectors and no passages.
#[async_trait]
impl Encoder for Scheduled<dyn Encoder> {
    fn fingerprint(&self) -> &str {
        self.inner.fingerprint()
    }

    fn width(&self) -> usize {
        self.inner.width()
    }

    async fn encode_query(&self, call: &Call, text: &str) -> Result<Vec<f32>, PortError> {
        self.run(call, self.inner.encode_query(call, text)).await
    }

    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let work = self.inner.encode(call, kind, texts);
        self.run(call, work).await
    }
}

/// A retriever whose calls take their turns; identical ones of a tenant share one, and those that want fresh
/// results with others of their question only.
pub struct ScheduledRetriever {
    scheduled: Arc<Scheduled<dyn Retriever>>,
    flights: Arc<Flights<Query, Vec<Passage>>>,
}

/// The query as it was written, the limit, and whose it is if no kept result may serve it: whoever wants a
/// fresh result must not be given what left the tool before its question was asked.
type Query = (Arc<str>, usize, Option<WeakLife>);

impl ScheduledRetriever {
    /// `inner` behind the backend's lanes.
    pub fn new(inner: Arc<dyn Retriever>, backend: &Backend, rule: Rule) -> Self {
        Self {
            scheduled: Arc::new(Scheduled::new(inner, backend, rule)),
            flights: Arc::new(Flights::new(backend.clone())),
        }
    }

    /// The same retriever for calls under another rule and of another kind; identical ones of both share
    /// one.
    #[must_use]
    pub fn sharing(&self, backend: &Backend, rule: Rule) -> Self {
        let inner = Arc::clone(&self.scheduled.inner);
        Self {
            scheduled: Arc::new(Scheduled::new(inner, backend, rule)),
            flights: Arc::clone(&self.flights),
        }
    }
}

#[async_trait]
impl Retriever for ScheduledRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        // Before it joins: a guess must not have a part in what it may not ask for.
        if let Err(refused) = self.scheduled.admit(call) {
            let work = self.scheduled.inner.warm(call, query);
            self.scheduled.warm_up(call, work).await;
            if call.lane() == Lane::Speculative {
                return Err(refused);
            }
        }
        let scheduled = Arc::clone(&self.scheduled);
        let query: Arc<str> = query.into();
        let asked = Arc::clone(&query);
        let start = move |call: Call| async move {
            let work = scheduled.inner.retrieve(&call, &asked, limit);
            scheduled.run(&call, work).await
        };
        let fresh_for = match (call.is_fresh(), call.life()) {
            (false, _) => None,
            (true, Some(life)) => Some(life.downgrade()),
            (true, None) => return start(call.clone()).await,
        };
        let key = (query, limit, fresh_for);
        self.flights.join(key, call, start).await
    }
}
