//! The question service: admit a question, answer it, and leave nothing behind.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use spechop_agent::{Agent, Bill, Finish, Ports, TraceEvent, Width};
use spechop_proto::spec_hop_server::SpecHop;
use spechop_proto::{
    AskEvent, AskRequest, AskResponse, FinishNowRequest, FinishNowResponse, Tuned,
};
use spechop_types::Owned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_types::FieldViolation;

use crate::accounts::{Accounts, Hold, Overdrawn};
use crate::config::{Config, SpeculatorKind};
use crate::metrics::Metrics;
use crate::reply;
use crate::request::{Asked, QuestionId, Rules, finish_now};
use crate::status::{AskError, chain};
use crate::toolbox::Toolbox;
use crate::tuning::Tunings;

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
        let metrics = Metrics::new(toolbox.backends.clone());
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
            }),
        }
    }

    /// What the admin calls and the metrics look at.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Questions that are being answered.
    pub(crate) fn questions_open(&self) -> usize {
        self.shared.config.server.questions_max - self.shared.places.available_permits()
    }

    fn admit(&self, request: &Request<AskRequest>) -> Result<Work, Status> {
        let work = self.take_up(request);
        let work = work.inspect_err(|error| self.shared.metrics.ended(error.outcome()));
        work.map_err(refuse)
    }

    /// Checks a request and gives it a place.
    fn take_up(&self, request: &Request<AskRequest>) -> Result<Work, AskError> {
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
        let settings = &mut asked.settings;
        let mut hold = None;
        if let Some(accounts) = &shared.accounts {
            let held = accounts.hold(&settings.tenant, settings.budget);
            let (held, budget) = held.map_err(|Overdrawn { what, again_in }| {
                let tenant = settings.tenant.clone();
                AskError::Overdrawn {
                    tenant,
                    what,
                    again_in,
                }
            })?;
            settings.budget = budget;
            hold = Some(held);
        }
        let tunings = &shared.tunings;
        let tuning = Owned::new(&settings.tenant, asked.speculator);
        settings.guess_chance = tunings.guess_chance(&tuning);
        let mut tuned = None;
        if asked.auto {
            let choice = tunings.choose(&tuning);
            let k = choice.k.min(shared.config.questions.k_max);
            settings.width = Width::bounded(k);
            tuned = Some(reply::tuned(k, &choice.reason));
        }
        let named = match asked.id.take() {
            Some(id) => Some(shared.name(id)?),
            None => None,
        };
        asked.settings.finish = named.as_ref().map(|named| named.finish.clone());
        let bill = Bill::default();
        asked.settings.bill = Some(bill.clone());
        let ports = shared.toolbox.ports(asked.speculator);
        Ok(Work {
            _named: named,
            tally: Tally {
                shared: Some(Arc::clone(&shared)),
                bill,
            },
            shared,
            asked,
            tuned,
            ports,
            hold,
            _place: place,
        })
    }
}

/// A question that has a place. Dropping it gives the place back.
struct Work {
    shared: Arc<Shared>,
    asked: Asked,
    /// The k that the server chose for it; `None` if the question or the configuration named one.
    tuned: Option<Tuned>,
    ports: Ports,
    hold: Option<Hold>,
    tally: Tally,
    _named: Option<Named>,
    _place: OwnedSemaphorePermit,
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

    fn lock_named(&self) -> MutexGuard<'_, HashMap<QuestionId, Finish>> {
        // Nothing panics while it is held.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a question that came to no answer, and what it has cost. One that came to no end at all is
/// one that went away.
struct Tally {
    shared: Option<Arc<Shared>>,
    bill: Bill,
}

impl Tally {
    /// The question has ended with an answer, or with an error of this outcome.
    fn over(&mut self, failed: Option<&'static str>) {
        if let (Some(shared), Some(outcome)) = (self.shared.take(), failed) {
            self.count(&shared, outcome);
        }
    }

    fn count(&self, shared: &Shared, outcome: &'static str) {
        shared.metrics.ended(outcome);
        if let Some(usage) = self.bill.take() {
            shared.metrics.used(&usage);
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            self.count(&shared, "cancelled");
        }
    }
}

impl Work {
    /// Answers the question. The end of the server has priority over news of the question.
    async fn answer(
        mut self,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
    ) -> Result<AskResponse, AskError> {
        let Asked {
            question,
            settings,
            speculator,
            ..
        } = &self.asked;
        let agent = Agent::new(self.ports);
        let report = tokio::select! {
            biased;
            () = self.shared.phases.closed.cancelled() => Err(AskError::ShuttingDown),
            report = agent.answer(question, settings, trace) => report.map_err(AskError::from),
        };
        self.tally
            .over(report.as_ref().err().map(AskError::outcome));
        let (shared, report) = (&self.shared, report?);
        if let Some(hold) = &mut self.hold {
            hold.spent(report.elapsed, &report.usage);
        }
        shared.metrics.answered(*speculator, &report);
        let tuning = Owned::new(&settings.tenant, *speculator);
        shared.tunings.record(tuning, settings.width, &report);
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

/// For `map_err`: errors are logged where they leave.
fn refuse(error: AskError) -> Status {
    match &error {
        AskError::Invalid(_) | AskError::NotOpen(_) => {
            tracing::debug!(reason = chain(&error), "request refused");
        }
        AskError::Busy { .. }
        | AskError::Overdrawn { .. }
        | AskError::ShuttingDown
        | AskError::Lost
        | AskError::Agent(_) => {
            tracing::warn!(reason = chain(&error), "no answer");
        }
    }
    error.into()
}

#[tonic::async_trait]
impl SpecHop for Service {
    /// The work is part of this future, which tonic drops when the client goes away.
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let work = self.admit(&request)?;
        let answer = Box::pin(work.answer(&mut |_| {})).await;
        answer.map(Response::new).map_err(refuse)
    }

    async fn finish_now(
        &self,
        request: Request<FinishNowRequest>,
    ) -> Result<Response<FinishNowResponse>, Status> {
        let id = finish_now(request.get_ref(), request.metadata()).map_err(refuse)?;
        let finish = self.shared.lock_named().get(&id).cloned();
        let finish = finish.ok_or_else(|| refuse(AskError::NotOpen(id.item)))?;
        finish.now();
        Ok(Response::new(FinishNowResponse {}))
    }

    type AskStreamStream = Events;

    async fn ask_stream(&self, request: Request<AskRequest>) -> Result<Response<Events>, Status> {
        let work = self.admit(&request)?;
        Ok(Response::new(Events::of(work)))
    }
}

/// The events of one question. Dropping it ends the question.
pub(crate) struct Events {
    queue: mpsc::UnboundedReceiver<Result<AskEvent, Status>>,
    /// Holds the one task that answers, and aborts it when dropped. A task of its own, since a
    /// stream is not polled while its reader is slow, and a slow reader must not slow the question.
    _work: JoinSet<()>,
    over: bool,
}

impl Events {
    fn of(work: Work) -> Self {
        // Unbounded, so that the agent never waits for a reader; a question has an end, and no more
        // events than a few for each hop and branch.
        let (sender, queue) = mpsc::unbounded_channel();
        let mut owner = JoinSet::new();
        owner.spawn(async move {
            let mut sequence = 0;
            if let Some(tuned) = work.tuned.clone() {
                sequence += 1;
                let _ = sender.send(Ok(reply::tuned_event(sequence, tuned)));
            }
            let answer = Box::pin(work.answer(&mut |event| {
                sequence += 1;
                // Whoever dropped the receiver has aborted this task, too.
                let _ = sender.send(Ok(reply::event(sequence, &event)));
            }))
            .await;
            let last = answer.map(|answer| reply::answer_event(sequence + 1, answer));
            let _ = sender.send(last.map_err(refuse));
        });
        Self {
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
        let next = next.unwrap_or_else(|| Err(refuse(AskError::Lost)));
        self.over = next.as_ref().map_or(true, |event| {
            matches!(
                event.event,
                Some(spechop_proto::ask_event::Event::Answer(_))
            )
        });
        Poll::Ready(Some(next))
    }
}
