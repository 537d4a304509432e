//! The question service: admit a question, answer it, and leave nothing behind.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use spechop_agent::{Agent, Bill, Finish, Ports, Report, Settings, TraceEvent, TraceKind, Width};
use spechop_proto::spec_hop_server::SpecHop;
use spechop_proto::{
    AskEvent, AskRequest, AskResponse, FinishNowRequest, FinishNowResponse, Tuned,
};
use spechop_types::{Budget, Money, Owned, Tenant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_types::FieldViolation;

use crate::accounts::{Accounts, Hold};
use crate::config::{Config, PlanAhead, SpeculatorKind};
use crate::metrics::Metrics;
use crate::reply;
use crate::request::{Asked, QuestionId, Rules, finish_now};
use crate::sparingly::Sparingly;
use crate::status::{AskError, chain};
use crate::toolbox::Toolbox;
use crate::tuning::{TuningOf, Tunings};
use crate::unread::{Reader, queue};

/// The service behind `spechop.v1.SpecHop`. Clones share everything.
#[derive(Clone)]
pub(crate) struct Service {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) toolbox: Toolbox,
    /// The speculators that the server offers, the default one first.
    pub(crate) speculators: Vec<SpeculatorKind>,
    pub(crate) tunings: Arc<Tunings>,
    pub(crate) metrics: Metrics,
    accounts: Option<Arc<Accounts>>,
    /// Open questions that have names.
    named: Mutex<HashMap<QuestionId, Finish>>,
    places: Arc<Semaphore>,
    phases: Phases,
    warnings: Sparingly,
    /// Whose turn it is to weigh what planning ahead brings.
    weighing: Arc<Semaphore>,
}

/// The two phases of a shutdown.
#[derive(Clone, Default)]
pub(crate) struct Phases {
    /// New questions are refused.
    pub(crate) closing: CancellationToken,
    /// Open questions end with an error.
    pub(crate) closed: CancellationToken,
}

impl Service {
    pub(crate) fn new(config: Config, toolbox: Toolbox, phases: Phases) -> Self {
        let speculators = toolbox.speculators(config.speculator.default);
        let places = Arc::new(Semaphore::new(config.server.questions_max));
        let tunings = Tunings::new(config.scheduler.tuner, config.scheduler.history);
        let tunings = Arc::new(tunings);
        let metrics = Metrics::new(toolbox.backends.clone(), toolbox.cores.clone());
        let accounts = config.allowance.map(Accounts::new);
        Self {
            shared: Arc::new(Shared {
                config,
                toolbox,
                speculators,
                tunings,
                metrics,
                accounts,
                named: Mutex::default(),
                places,
                phases,
                warnings: Sparingly::default(),
                weighing: Arc::new(Semaphore::new(1)),
            }),
        }
    }

    /// What the admin calls and the metrics look at.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Questions that have a place: they are being answered, or their streams being read.
    pub(crate) fn questions_open(&self) -> usize {
        self.shared.config.server.questions_max - self.shared.places.available_permits()
    }

    /// Waits until no question is being answered.
    pub(crate) async fn idle(&self) {
        let all = u32::try_from(self.shared.config.server.questions_max).unwrap_or(u32::MAX);
        // It fails if the semaphore is closed, which nobody does.
        let _ = self.shared.places.acquire_many(all).await;
    }

    fn admit(&self, request: &Request<AskRequest>) -> Result<(Work, Place), Status> {
        let work = self.take_up(request);
        let work = work.inspect_err(|error| self.shared.metrics.ended(error.outcome()));
        work.map_err(|error| self.shared.refuse(error))
    }

    /// Checks a request and gives it a place.
    fn take_up(&self, request: &Request<AskRequest>) -> Result<(Work, Place), AskError> {
        let shared = Arc::clone(&self.shared);
        if shared.phases.closing.is_cancelled() {
            return Err(AskError::ShuttingDown);
        }
        let rules = Rules {
            questions: &shared.config.questions,
            speculators: &shared.speculators,
        };
        let mut asked = Asked::read(request.get_ref(), request.metadata(), &rules)?;
        let place = Arc::clone(&shared.places)
            .try_acquire_owned()
            .map_err(|_| AskError::Busy {
                questions_max: shared.config.server.questions_max,
            })?;
        let named = match asked.id.take() {
            Some(id) => Some(shared.name(id)?),
            None => None,
        };
        let settings = &mut asked.settings;
        // The last thing that can be refused: whoever is refused has nothing set aside.
        let hold = shared.hold(settings)?;
        let tunings = &shared.tunings;
        let tuning = Owned::new(&settings.tenant, asked.speculator);
        settings.guess_chance = tunings.guess_chance(&tuning);
        let mut tuned = None;
        if asked.auto {
            let choice = tunings.choose(&tuning, shared.toolbox.load());
            let k = choice.k.min(shared.config.questions.k_max);
            settings.width = Width::bounded(k);
            tuned = Some(reply::tuned(k, &choice.reason));
        }
        if asked.ahead_if_it_pays {
            asked.settings.policy.plan_ahead = tunings.ahead(&tuning).pays;
        }
        asked.settings.finish = named.as_ref().map(|named| named.finish.clone());
        let bill = Bill::default();
        asked.settings.bill = Some(bill.clone());
        let ports = shared.toolbox.ports(asked.speculator);
        let work = Work {
            _named: named,
            tally: Tally {
                shared: Some(Arc::clone(&shared)),
                bill,
                hold,
            },
            shared,
            asked,
            tuned,
            ports,
        };
        Ok((work, place))
    }
}

/// One of the questions that may be open. Dropping it makes room for another.
type Place = OwnedSemaphorePermit;

/// A question that is to be answered. Whoever works on it holds its place.
struct Work {
    shared: Arc<Shared>,
    asked: Asked,
    /// The k that the server chose for it; `None` if the question or the configuration named one.
    tuned: Option<Tuned>,
    ports: Ports,
    tally: Tally,
    _named: Option<Named>,
}

/// A question that can be asked to finish by its name. Dropping it frees the name.
struct Named {
    shared: Arc<Shared>,
    id: QuestionId,
    finish: Finish,
}

impl Drop for Named {
    fn drop(&mut self) {
        self.shared.lock_named().remove(&self.id);
    }
}

impl Shared {
    fn name(self: &Arc<Self>, id: QuestionId) -> Result<Named, AskError> {
        let finish = Finish::default();
        match self.lock_named().entry(id.clone()) {
            Entry::Occupied(_) => {
                let problem = "is the name of another question that is still open";
                let violation = FieldViolation::new("question_id", problem);
                return Err(AskError::Invalid(vec![violation]));
            }
            Entry::Vacant(free) => free.insert(finish.clone()),
        };
        Ok(Named {
            shared: Arc::clone(self),
            id,
            finish,
        })
    }

    /// Sets aside what a question may cost, if tenants have accounts, and narrows its budget to that.
    fn hold(&self, settings: &mut Settings) -> Result<Option<Hold>, AskError> {
        let Some(accounts) = &self.accounts else {
            return Ok(None);
        };
        let tenant = &settings.tenant;
        let held = accounts.hold(tenant, settings.budget);
        let (hold, budget) = held.map_err(|shortage| AskError::Overdrawn {
            tenant: tenant.clone(),
            shortage,
        })?;
        settings.budget = budget;
        Ok(Some(hold))
    }

    /// Sets aside look-ups that belong to no question, if tenants have accounts. Says how many
    /// of them it has left.
    pub(crate) fn hold_look_ups(
        &self,
        tenant: &Tenant,
        look_ups: u32,
    ) -> Result<Option<(Hold, u32)>, AskError> {
        let Some(accounts) = &self.accounts else {
            return Ok(None);
        };
        let overdrawn = |shortage| AskError::Overdrawn {
            tenant: tenant.clone(),
            shortage,
        };
        let only_calls = Budget {
            time: Some(Duration::ZERO),
            target_calls: Some(look_ups),
            tokens: Some(0),
            money: Some(Money(0)),
        };
        let (hold, granted) = accounts.hold(tenant, only_calls).map_err(overdrawn)?;
        Ok(Some((hold, granted.target_calls.unwrap_or(look_ups))))
    }

    /// For `map_err`: errors are logged where they leave. A client can cause most of them at will, so
    /// that of each kind only a line in a while is a warning.
    fn refuse(&self, error: AskError) -> Status {
        let reason = chain(&error);
        let warning = match &error {
            AskError::Invalid(_) | AskError::NotOpen(_) => None,
            AskError::Busy { .. }
            | AskError::Overdrawn { .. }
            | AskError::Unread { .. }
            | AskError::ShuttingDown
            | AskError::Lost
            | AskError::Agent(_) => self.warnings.turn(error.outcome()),
        };
        match warning {
            Some(left_out) => tracing::warn!(reason, left_out, "no answer"),
            None => tracing::debug!(reason, "no answer"),
        }
        error.into()
    }

    /// Every few questions it is asked anew whether planning ahead pays, beside the answers. One at a time,
    /// since it computes; if it is left out, the next question asks again.
    fn weigh_ahead(self: &Arc<Self>, tuning: TuningOf) {
        let auto = self.config.questions.plan_ahead == PlanAhead::Auto;
        if !auto || !self.tunings.is_ahead_due(&tuning) {
            return;
        }
        let Ok(turn) = Arc::clone(&self.weighing).try_acquire_owned() else {
            return;
        };
        let shared = Arc::clone(self);
        // It ends by itself, after milliseconds.
        drop(spawn_blocking(move || {
            let _turn = turn;
            let questions = &shared.config.questions;
            let orphan_ms = questions.salvage_time.as_secs_f64() * 1000.0;
            let policy = questions.policy(true);
            shared.tunings.weigh_ahead(&tuning, policy, orphan_ms);
        }));
    }

    fn unread(&self) -> AskError {
        AskError::Unread {
            limit: self.config.server.unread,
        }
    }

    fn lock_named(&self) -> MutexGuard<'_, HashMap<QuestionId, Finish>> {
        // Nothing panics while it is held.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Charges a question for what it has cost, and counts how it ended. A question that came to no end at
/// all is one that went away.
struct Tally {
    /// `None` once the question is over.
    shared: Option<Arc<Shared>>,
    bill: Bill,
    hold: Option<Hold>,
}

impl Tally {
    fn answered(&mut self, speculator: SpeculatorKind, report: &Report) {
        if let Some(shared) = self.shared.take() {
            shared.metrics.answered(speculator, report);
        }
        if let Some(mut hold) = self.hold.take() {
            hold.answered(report);
        }
    }

    /// The question came to no answer. If it had not begun, there is no bill.
    fn ended(&mut self, outcome: &'static str) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        shared.metrics.ended(outcome);
        let (due, hold) = (self.bill.take(), self.hold.take());
        if let Some(due) = due {
            shared.metrics.used(&due.usage);
            if let Some(mut hold) = hold {
                hold.unanswered(&due);
            }
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.ended("cancelled");
    }
}

impl Work {
    /// Answers the question. The end of the server has priority over news of the question, and so has
    /// a reader that is `unread`: one that has taken nothing for too long.
    async fn answer(
        mut self,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
        unread: impl Future<Output = ()> + Send,
    ) -> Result<AskResponse, AskError> {
        let Asked {
            question,
            settings,
            speculator,
            ..
        } = &self.asked;
        let agent = Agent::new(self.ports);
        let shared = Arc::clone(&self.shared);
        let trace = &mut |event: TraceEvent| {
            if let TraceKind::Committed { hop, .. } = &event.kind {
                shared.toolbox.committed(settings, hop);
            }
            trace(event);
        };
        let report = tokio::select! {
            biased;
            () = self.shared.phases.closed.cancelled() => Err(AskError::ShuttingDown),
            () = unread => Err(self.shared.unread()),
            report = agent.answer(question, settings, trace) => report.map_err(AskError::from),
        };
        let report = report.inspect_err(|error| self.tally.ended(error.outcome()))?;
        self.tally.answered(*speculator, &report);
        let shared = &self.shared;
        let tuning = Owned::new(&settings.tenant, *speculator);
        shared
            .tunings
            .record(tuning.clone(), settings.width, &report);
        shared.weigh_ahead(tuning);
        let injected = shared.config.injected_latency;
        tracing::info!(
            k = %settings.width,
            speculator = speculator.as_str(),
            hops = report.hops.len(),
            elapsed_ms = report.elapsed.as_millis(),
            injected_latency = injected.is_some(),
            "answered"
        );
        let tuned = self.tuned;
        Ok(reply::answer(
            &report,
            settings,
            *speculator,
            injected,
            tuned,
        ))
    }
}

#[tonic::async_trait]
impl SpecHop for Service {
    /// The work is part of this future, which tonic drops when the client goes away.
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let (work, _place) = self.admit(&request)?;
        let answer = Box::pin(work.answer(&mut |_| {}, pending())).await;
        let answer = answer.map(Response::new);
        answer.map_err(|error| self.shared.refuse(error))
    }

    async fn finish_now(
        &self,
        request: Request<FinishNowRequest>,
    ) -> Result<Response<FinishNowResponse>, Status> {
        let shared = &self.shared;
        let id = finish_now(request.get_ref(), request.metadata());
        let id = id.map_err(|error| shared.refuse(error))?;
        let finish = shared.lock_named().get(&id).cloned();
        let finish = finish.ok_or_else(|| shared.refuse(AskError::NotOpen(id.item)))?;
        finish.now();
        Ok(Response::new(FinishNowResponse {}))
    }

    type AskStreamStream = Events;

    async fn ask_stream(&self, request: Request<AskRequest>) -> Result<Response<Events>, Status> {
        let (work, place) = self.admit(&request)?;
        Ok(Response::new(Events::of(work, place)))
    }
}

/// The events of one question. Dropping it ends the question.
///
/// The question keeps its place until its last event has been taken: a client that does not read must
/// not have the next question answered as well. If nothing is taken for `server.unread_ms` although
/// something waits, the stream is ended, and the place is free.
pub(crate) struct Events {
    shared: Arc<Shared>,
    queue: Reader<Result<AskEvent, Status>>,
    /// Holds the one task that answers, and aborts it when dropped. A task of its own, since a
    /// stream is not polled while its reader is slow, and a slow reader must not slow the question.
    _work: JoinSet<()>,
    over: bool,
}

impl Events {
    fn of(work: Work, place: Place) -> Self {
        let (writer, queue) = queue();
        let shared = Arc::clone(&work.shared);
        let mut owner = JoinSet::new();
        let server = Arc::clone(&shared);
        owner.spawn(async move {
            let _place = place;
            let limit = server.config.server.unread;
            let mut sequence = 0;
            if let Some(tuned) = work.tuned.clone() {
                sequence += 1;
                writer.send(Ok(reply::tuned_event(sequence, tuned)));
            }
            let mut tell = |event: TraceEvent| {
                sequence += 1;
                writer.send(Ok(reply::event(sequence, &event)));
            };
            let answer = Box::pin(work.answer(&mut tell, writer.unread(limit))).await;
            let last = answer.map(|answer| reply::answer_event(sequence + 1, answer));
            if !matches!(last, Err(AskError::Unread { .. })) {
                writer.send(last.map_err(|error| server.refuse(error)));
                tokio::select! {
                    () = writer.read_up() => return,
                    // The client may still read for as long as the server is there.
                    () = server.phases.closed.cancelled() => return,
                    () = writer.unread(limit) => {}
                }
            }
            writer.end_with(Err(server.refuse(server.unread())));
        });
        Self {
            shared,
            queue,
            _work: owner,
            over: false,
        }
    }
}

impl Stream for Events {
    type Item = Result<AskEvent, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.queue.poll_recv(context));
        let next = next.unwrap_or_else(|| Err(self.shared.refuse(AskError::Lost)));
        self.over = next.as_ref().map_or(true, |event| {
            matches!(
                event.event,
                Some(spechop_proto::ask_event::Event::Answer(_))
            )
        });
        Poll::Ready(Some(next))
    }
}
