//! Admission: a question is checked, gets a place, a name and a part of its tenant's budget, and is then
//! answered. Every door lets questions in through [`Admission::admit`], and no door does more.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{Agent, Bill, Ports, Report, TraceEvent, TraceKind};
use spechop_proto::{AskRequest, AskResponse, Tuned};
use spechop_types::Owned;

use crate::accounts::Hold;
use crate::caller::Caller;
use crate::config::SpeculatorKind;
use crate::outcome::Outcome;
use crate::places::Place;
use crate::questions::{Opened, Question};
use crate::reply;
use crate::request::{self, Asked, Rules};
use crate::server_state::ServerState;
use crate::status::AskError;

/// Lets questions in. Clones share everything.
#[derive(Clone)]
pub(crate) struct Admission {
    state: Arc<ServerState>,
}

/// A question that is to be answered: by [`Admitted::answer`], or as a stream
/// ([`crate::events::Events`]). It holds its place; if it is dropped, all work on it ends.
pub(crate) struct Admitted {
    pub(crate) state: Arc<ServerState>,
    asked: Asked,
    /// The k that the server chose for it; `None` if the question or the configuration named one.
    pub(crate) tuned: Option<Tuned>,
    ports: Ports,
    tally: Tally,
    /// The question under its name; it may be the client's.
    pub(crate) opened: Opened,
    /// Whether the client can come back to it: it has given it a name, or lets it go on alone.
    pub(crate) may_be_followed: bool,
    /// How long it continues if nobody follows it.
    pub(crate) linger: Duration,
    place: Place,
}

/// What is left of a question that has been answered or has failed.
pub(crate) struct Answered {
    pub(crate) answer: Result<AskResponse, AskError>,
    pub(crate) opened: Opened,
    pub(crate) place: Place,
}

impl Admission {
    pub(crate) fn new(state: Arc<ServerState>) -> Self {
        Self { state }
    }

    /// What the questions share.
    pub(crate) fn state(&self) -> &Arc<ServerState> {
        &self.state
    }

    /// Checks a question that arrived just now and gives it a place. `patience` is how long its client
    /// waits, if its protocol says so.
    ///
    /// A refusal is counted and written to the log here.
    pub(crate) fn admit(
        &self,
        request: &AskRequest,
        caller: &Caller,
        patience: Option<Duration>,
    ) -> Result<Admitted, AskError> {
        let admitted = self.take_up(request, caller, patience);
        admitted.inspect_err(|error| self.refused(error))
    }

    /// Counts a question that a door refuses, and writes it to the log.
    pub(crate) fn refused(&self, error: &AskError) {
        self.state.metrics.ended(error.outcome());
        self.state.refuse(error);
    }

    /// Ends an open question of this caller early: its answer is written from the committed hops.
    pub(crate) fn finish_now(&self, question_id: &str, caller: &Caller) -> Result<(), AskError> {
        let question = self.known(question_id, caller)?;
        if question.log.is_over() {
            let error = AskError::NotOpen(question.id.item.clone());
            self.state.refuse(&error);
            return Err(error);
        }
        question.finish.now();
        Ok(())
    }

    /// Ends a question of this caller without an answer. If it has ended already, nothing happens.
    pub(crate) fn cancel(&self, question_id: &str, caller: &Caller) -> Result<(), AskError> {
        self.known(question_id, caller)?.cancel.cancel();
        Ok(())
    }

    /// A question of this caller that is open, or has ended a short while ago.
    pub(crate) fn known(
        &self,
        question_id: &str,
        caller: &Caller,
    ) -> Result<Arc<Question>, AskError> {
        let id = request::question_of(question_id, &caller.tenant);
        let found = id.and_then(|id| self.state.questions.find(&id));
        found.inspect_err(|error| self.state.refuse(error))
    }

    fn take_up(
        &self,
        request: &AskRequest,
        caller: &Caller,
        patience: Option<Duration>,
    ) -> Result<Admitted, AskError> {
        let state = Arc::clone(&self.state);
        if state.phases.closing.is_cancelled() {
            return Err(AskError::ShuttingDown);
        }
        let rules = Rules {
            questions: &state.config.questions,
            speculators: &state.speculators,
            linger_max: state.config.server.linger_max,
        };
        let mut asked = Asked::read(request, &caller.tenant, patience, &rules)?;
        let place = state.place(&caller.tenant)?;
        let is_named = asked.id.is_some();
        let id = match asked.id.take() {
            Some(id) => id,
            None => state.questions.make_name(&caller.tenant)?,
        };
        let opened = state.questions.open(id)?;
        let settings = &mut asked.settings;
        // The last thing that can be refused: whoever is refused has nothing set aside.
        let hold = state.hold(settings)?;
        let tunings = &state.tunings;
        let tuning = Owned::new(&settings.tenant, asked.speculator);
        let load = state.toolbox.load();
        let k_max = state.config.questions.k_max;
        let choice = tunings.settle(&tuning, asked.free, load, k_max, settings);
        let tuned = choice.map(|choice| reply::tuned(choice.k, &choice.reason));
        asked.settings.finish = Some(opened.question.finish.clone());
        let bill = Bill::default();
        asked.settings.bill = Some(bill.clone());
        Ok(Admitted {
            opened,
            may_be_followed: is_named || !asked.linger.is_zero(),
            linger: asked.linger,
            tally: Tally {
                state: Some(Arc::clone(&state)),
                bill,
                hold,
            },
            ports: state.toolbox.ports(asked.speculator),
            state,
            asked,
            tuned,
            place,
        })
    }
}

impl Admitted {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.opened.question.id.item.as_str()
    }

    /// Answers the question within this future. An error is counted and written to the log here.
    pub(crate) async fn answer(self) -> Result<AskResponse, AskError> {
        let state = Arc::clone(&self.state);
        let answered = self.followed(&mut |_| {}, pending()).await;
        answered.answer.inspect_err(|error| state.refuse(error))
    }

    /// Answers the question, and tells what happens meanwhile. Leaves errors to the caller to write to
    /// the log.
    ///
    /// The end of the server has priority over news of the question, and so has `stop`.
    pub(crate) async fn followed(
        mut self,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
        stop: impl Future<Output = AskError> + Send,
    ) -> Answered {
        let Asked {
            question, settings, ..
        } = &self.asked;
        let agent = Agent::new(self.ports.clone());
        let state = Arc::clone(&self.state);
        let trace = &mut |event: TraceEvent| {
            if let TraceKind::Committed { hop, .. } = &event.kind {
                state.toolbox.committed(settings, hop);
            }
            trace(event);
        };
        let report = tokio::select! {
            biased;
            () = self.state.phases.closed.cancelled() => Err(AskError::ShuttingDown),
            () = self.opened.question.cancel.cancelled() => Err(AskError::Cancelled),
            error = stop => Err(error),
            report = agent.answer(question, settings, trace) => report.map_err(AskError::from),
        };
        let answer = match report {
            Ok(report) => Ok(self.answered(&report)),
            Err(error) => {
                self.tally.ended(error.outcome());
                Err(error)
            }
        };
        Answered {
            answer,
            opened: self.opened,
            place: self.place,
        }
    }

    /// Charges for an answer, learns from it, and puts it into words of the wire.
    fn answered(&mut self, report: &Report) -> AskResponse {
        let (settings, speculator) = (&self.asked.settings, self.asked.speculator);
        self.tally.answered(speculator, report);
        let state = &self.state;
        let tuning = Owned::new(&settings.tenant, speculator);
        state.tunings.record(tuning.clone(), settings.width, report);
        state.weigh(tuning);
        let injected = state.config.injected_latency;
        tracing::info!(
            k = %settings.width,
            speculator = speculator.as_str(),
            hops = report.hops.len(),
            elapsed_ms = report.elapsed.as_millis(),
            injected_latency = injected.is_some(),
            "answered"
        );
        let confidence = report.confidence(&self.asked.question);
        let confidence_min = state.config.questions.confidence_min;
        reply::answer(
            report,
            confidence,
            confidence_min,
            settings,
            speculator,
            injected,
            self.tuned.take(),
        )
    }
}

/// Charges a question for what it has cost, and counts how it ended. A question that came to no end at
/// all is one that went away.
struct Tally {
    /// `None` once the question is over.
    state: Option<Arc<ServerState>>,
    bill: Bill,
    hold: Option<Hold>,
}

impl Tally {
    fn answered(&mut self, speculator: SpeculatorKind, report: &Report) {
        if let Some(state) = self.state.take() {
            state.metrics.answered(speculator, report);
        }
        if let Some(mut hold) = self.hold.take() {
            hold.answered(report);
        }
    }

    /// The question came to no answer. If it had not begun, there is no bill.
    fn ended(&mut self, outcome: Outcome) {
        let Some(state) = self.state.take() else {
            return;
        };
        state.metrics.ended(outcome);
        let (due, hold) = (self.bill.take(), self.hold.take());
        if let Some(due) = due {
            state.metrics.used(&due.usage);
            if let Some(mut hold) = hold {
                hold.unanswered(&due);
            }
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.ended(Outcome::Cancelled);
    }
}
