//! Admission: a question is checked, gets a place, a name and a part of its tenant's budget, and is then
//! answered. Every door lets questions in through [`Admission::admit`], and no door does more.

mod resolve;
mod tally;
mod waiting;

use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{
    Agent, AgentError, Bill, Policy, Ports, Report, Settings, Stopped, TraceEvent, TraceKind,
};
use spechop_ports::Life;
use spechop_proto::{AskRequest, AskResponse, Tuned};
use spechop_types::{Effort, Owned, TraceId, ms, with_causes};
use tracing::Instrument;

pub(crate) use self::resolve::Resolved;
use self::resolve::{Conversation, Rewriting};
use self::tally::Tally;
use crate::caller::Caller;
use crate::metrics::Occupancy;
use crate::outcome::Awaited;
use crate::places::Place;
use crate::questions::{Opened, Question, QuestionId, Replay};
use crate::reply;
use crate::request::{self, Asked, Rules};
use crate::server_state::ServerState;
use crate::status::AskError;
use crate::tuning;

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
    /// The fallback has begun an answer of its own, whatever comes of it.
    is_handed_over: bool,
    /// What was said before the question, until it is put into it.
    conversation: Option<Conversation>,
    /// The question under its name; it may be the client's.
    pub(crate) opened: Opened,
    /// Whether the client can come back to it: it has given it a name, or lets it go on alone.
    pub(crate) may_be_followed: bool,
    /// How long it continues if nobody follows it.
    pub(crate) linger: Duration,
    place: Place,
    /// What it is called in the log: the name of its trace.
    trace_id: TraceId,
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

    /// Checks a question that arrived just now and gives it a place, for which it may wait. `patience` is how
    /// long its client waits, if its protocol says so.
    ///
    /// A question that waits has nothing but its position in line, and dropping the future gives that up. A
    /// refusal is counted and written to the log here.
    pub(crate) async fn admit(
        &self,
        request: &AskRequest,
        caller: &Caller,
        patience: Option<Duration>,
    ) -> Result<Admitted, AskError> {
        let questions = &self.state.metrics.questions;
        let awaited = Awaited::counted_by(|outcome| questions.ended(outcome));
        let admitted = self.take_up(request, caller, patience).await;
        awaited.arrives();
        admitted.inspect_err(|error| self.refused(error))
    }

    /// Counts a question that a door refuses, and writes it to the log.
    pub(crate) fn refused(&self, error: &AskError) {
        self.state.metrics.questions.ended(error.outcome());
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

    /// The name of a question of this caller, whether or not there is one.
    pub(crate) fn name_of(&self, id: &str, caller: &Caller) -> Result<QuestionId, AskError> {
        request::question_of(id, &caller.tenant)
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

    async fn take_up(
        &self,
        request: &AskRequest,
        caller: &Caller,
        patience: Option<Duration>,
    ) -> Result<Admitted, AskError> {
        let state = Arc::clone(&self.state);
        if state.phases.closing.is_cancelled() {
            return Err(AskError::ShuttingDown);
        }
        let config = state.config();
        let rules = Rules {
            questions: &config.questions,
            speculators: &state.speculators,
            linger_max: config.server.linger_max,
        };
        let mut asked = Asked::read(request, &caller.tenant, patience, &rules)?;
        // Whoever has taken the name neither stands in line nor pays for being told so.
        if let Some(id) = &asked.id {
            state.questions.is_free(id)?;
        }
        // Before anything is set aside.
        let place = self.place(&mut asked.settings).await?;
        let is_named = asked.id.is_some();
        let id = match asked.id.take() {
            Some(id) => id,
            None => state.questions.make_name(&caller.tenant)?,
        };
        // Somebody may have taken it while this one stood in line.
        state.questions.is_free(&id)?;
        let settings = &mut asked.settings;
        let hold = state.hold(settings).await?;
        // Last of all: it takes the place of a question of this name that is over, and whoever is refused
        // may still want that one's answer. If somebody has taken the name meanwhile, the hold has cost
        // nothing.
        let opened = state.questions.open(id)?;
        let tunings = &state.tunings;
        let tuning = Owned::new(&settings.tenant, asked.speculator);
        let load = state.toolbox.load();
        let k_max = config.questions.k_max;
        let choice = tunings.settle(&tuning, asked.free, load, k_max, settings);
        let tuned = choice.as_ref().map(reply::tuned);
        asked.settings.finish = Some(opened.question.finish.clone());
        let still = Arc::new(state.metrics.questions.stillness());
        asked.settings.life = Some(Life::of(still.clone()));
        let bill = Bill::default();
        asked.settings.bill = Some(bill.clone());
        let trace = caller.trace.clone();
        let traced = state
            .spans
            .trace(trace, &mut asked.settings, asked.speculator);
        Ok(Admitted {
            opened,
            may_be_followed: is_named || !asked.linger.is_zero(),
            linger: asked.linger,
            tally: Tally {
                state: Some(Arc::clone(&state)),
                bill,
                hold,
                rewriting: None,
                record: traced.record,
                occupancy: Occupancy::default(),
                still,
            },
            is_handed_over: false,
            conversation: None,
            ports: state.toolbox.ports(asked.speculator),
            state,
            asked,
            tuned,
            place,
            trace_id: traced.id,
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
        let (state, span) = (Arc::clone(&self.state), self.span());
        let mut ignores = |_: TraceEvent| {};
        // On the heap: this future is a part of its door's.
        let followed = Box::pin(self.followed(&mut ignores, pending()));
        let answered = followed.instrument(span.clone()).await;
        let refuse = |error: &AskError| span.in_scope(|| state.refuse(error));
        answered.answer.inspect_err(refuse)
    }

    /// What the log says of each line that is written while the question is being answered.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::info_span!("question", trace_id = %self.trace_id)
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
        let (state, question) = (Arc::clone(&self.state), Arc::clone(&self.opened.question));
        let report = tokio::select! {
            biased;
            () = state.phases.closed.cancelled() => Err(AskError::ShuttingDown),
            () = question.cancel.cancelled() => Err(AskError::Cancelled),
            error = stop => Err(error),
            report = self.pursue(trace) => report.map_err(AskError::from),
        };
        let answer = match report {
            Ok(report) => Ok(self.answered(report)),
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

    /// Puts into the question what was said before it, if anything was, and has it answered.
    async fn pursue(
        &mut self,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
    ) -> Result<Report, AgentError> {
        if let Some(conversation) = self.conversation.take() {
            self.resolve(conversation).await;
        }
        let (settings, state) = (&self.asked.settings, &self.state);
        let is_handed_over = &mut self.is_handed_over;
        let Tally {
            record,
            occupancy,
            rewriting,
            ..
        } = &mut self.tally;
        // The agent counts from its own beginning, and the question from its place.
        let before = rewriting.as_ref().map_or(Duration::ZERO, Rewriting::took);
        if let Some(record) = record.as_mut() {
            record.agent_begins(before);
        }
        let trace = &mut |mut event: TraceEvent| {
            event.at = event.at.saturating_add(before);
            if let Some(record) = record.as_mut() {
                record.hear(&event);
            }
            occupancy.hear(&event);
            *is_handed_over |= matches!(event.kind, TraceKind::HandedOver { .. });
            if let TraceKind::Committed { hop, usage, .. } = &mut event.kind {
                state.toolbox.committed(settings, hop);
                if let Some(rewriting) = rewriting {
                    rewriting.charge(usage);
                }
            }
            trace(event);
        };
        report(state, &self.ports, &self.asked, trace).await
    }

    /// Charges for an answer, learns from it, and puts it into words of the wire.
    fn answered(&mut self, mut report: Report) -> AskResponse {
        let (settings, speculator) = (&self.asked.settings, self.asked.speculator);
        let state = &self.state;
        let tuning = Owned::new(&settings.tenant, speculator);
        // The standard agent would have followed the first plan alone: neither is a searched answer to be held
        // against its, nor are the calls of other plans speculation's. What was handed over had two.
        if report.plans == 1 && report.handed_over.is_none() {
            state.audits.offer(&self.asked.question, settings, &report);
            // What was done before the question began says nothing about how to answer it. A second answer
            // that was given up has made calls for none of these hops, nor has a look-up that was cut short.
            let is_whole = !self.is_handed_over && report.stopped != Stopped::Budget;
            let counts = self.asked.free.k && is_whole;
            let (tunings, of) = (&state.tunings, tuning.clone());
            tunings.record(of, settings.width, counts, &report);
        }
        // It is answered once.
        let _ = self.opened.question.replay.set(Replay {
            past: tuning::past(&report, settings.width, speculator),
            rules: simulation(settings),
            speculator,
        });
        state.weigh(tuning);
        let width = settings.width;
        self.tally.answered(speculator, width, &mut report);
        let injected = state.config().injected_latency;
        tracing::info!(
            k = %settings.width,
            speculator = speculator.as_str(),
            hops = report.hops.len(),
            elapsed_ms = report.elapsed.as_millis(),
            injected_latency = injected.is_some(),
            "answered"
        );
        let confidence = report.confidence(&self.asked.question);
        reply::answer(
            &report,
            confidence,
            least(state),
            settings,
            speculator,
            injected,
            self.tuned.take(),
        )
    }
}

/// What becomes of a question. Who draws no plans tells what happens as it happens.
async fn report(
    state: &ServerState,
    ports: &Ports,
    asked: &Asked,
    trace: &mut (dyn FnMut(TraceEvent) + Send),
) -> Result<Report, AgentError> {
    let (question, settings) = (&asked.question, &asked.settings);
    let agent = Agent::new(ports.clone());
    let drawing = match settings.effort {
        Effort::Low | Effort::Normal => &[],
        Effort::High => &*state.toolbox.drawing,
    };
    let report = match drawing {
        [] => agent.answer(question, settings, trace).await?,
        drawing => agent.search(drawing, question, settings, trace).await?,
    };
    let confidence = report.confidence(question);
    // Whoever wants it now waits for no second answer.
    let may_take = !settings.is_finish_asked();
    let of_form = (confidence.of_form).filter(|_| may_take && least(state).is_off_form(confidence));
    let Some(of_form) = of_form else {
        return Ok(report);
    };
    let Some(second) = state.toolbox.any_form(asked.speculator) else {
        return Ok(report);
    };
    let second = Agent::new(second);
    // On the heap: hardly any question has a second answer.
    let over = Box::pin(second.take_over(report, of_form, question, settings, trace));
    let (report, failed) = over.await;
    if let Some(error) = failed {
        let error = with_causes(&error);
        tracing::warn!(error, "the fallback has no answer; the first one stays");
    }
    Ok(report)
}

/// What an answer must be worth by now.
fn least(state: &ServerState) -> reply::Least {
    let config = state.config();
    reply::Least {
        chance: config.questions.confidence_min,
        of_form: config.questions.form_min,
    }
}

/// The rules by which a question was answered, as far as the simulator can play by them.
fn simulation(settings: &Settings) -> spechop_sim::Rules {
    let policy = Policy {
        // What else was guessed is not recorded.
        guesses_max: NonZeroUsize::MIN,
        ..settings.policy
    };
    spechop_sim::Rules {
        orphan_ms: ms(settings.orphan_time),
        guess_chance: settings.guess_chance,
        // Whoever plays it says what its drafts are worth: one question does not tell.
        ..spechop_sim::Rules::new(settings.width, policy)
    }
}
