//! One question, from its first segment to its answer: the loop that drives the window.
//!
//! Each turn of the loop does two things. First it carries out every effect that the window has
//! asked for. Carrying one out may lead to further effects at once, e.g. a verdict. Then it waits
//! for one piece of news: a stage has ended, a time limit has passed, or somebody wants the answer
//! now. The news becomes an event, and the window answers with the next effects.
//!
//! Effects are carried out in their order, and all of them before the next event. So the window and
//! the stages that run never disagree for longer than one turn.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;

use spechop_ports::{DraftWriter, Drafter, Planner, PortError, Reader, Retriever, Speculator};
use spechop_types::{Question, Stage};
use spechop_window::{Effect, Event, Limits, Window};

use crate::run::Run;
use crate::running::News;
use crate::{AgentError, Report, Settings, TraceEvent};

/// The models and tools of an agent.
#[derive(Clone)]
pub struct Ports {
    /// Writes sub-questions and the final answer.
    pub planner: Arc<dyn Planner>,
    /// Reads passages into sub-answers.
    pub reader: Arc<dyn Reader>,
    /// Finds the passages. With the reader it is the target tool.
    pub retriever: Arc<dyn Retriever>,
    /// Guesses sub-answers. Without a speculator, every question runs like the standard agent.
    pub speculator: Option<Arc<dyn Speculator>>,
    /// Guesses sub-questions while they are being written. Without a drafter none is looked up before
    /// it is written.
    pub drafter: Option<Arc<dyn Drafter>>,
    /// Guesses them, too, and takes its time: what it writes is looked up as it comes.
    pub draft_writer: Option<Arc<dyn DraftWriter>>,
}

/// Answers questions. Cheap to clone; one serves any number of questions at once.
#[derive(Clone)]
pub struct Agent {
    ports: Ports,
}

impl Agent {
    /// An agent over these ports.
    pub fn new(ports: Ports) -> Self {
        Self { ports }
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Answers one question, telling `trace` what happens as it happens.
    ///
    /// If the future is dropped, every call of the question is cancelled.
    ///
    /// # Errors
    ///
    /// [`AgentError::Stage`] if work that the answer needs failed, [`AgentError::Deadline`] if
    /// [`Settings::deadline`] passed.
    pub async fn answer(
        &self,
        question: &Question,
        settings: &Settings,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
    ) -> Result<Report, AgentError> {
        self.drive(question, settings, None, trace).await
    }

    /// The same for somebody who has an answer already: the beginning of another one is of no use then.
    ///
    /// # Errors
    ///
    /// Those of [`Agent::answer`]; `None` if the budget is used up before the answer is whole.
    pub(crate) async fn answer_wholly(
        &self,
        question: &Question,
        settings: &Settings,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
    ) -> Result<Report, Option<AgentError>> {
        self.drive(question, settings, Some(None), trace).await
    }

    /// If the end of the budget cuts the answer short, `cut_short` takes its place, if there is one.
    async fn drive<E: From<AgentError>>(
        &self,
        question: &Question,
        settings: &Settings,
        mut cut_short: Option<E>,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
    ) -> Result<Report, E> {
        let (window, effects) = Window::open(Limits {
            width: settings.width,
            hops_max: settings.hops_max,
            not_found_max: settings.not_found_max,
            policy: settings.policy,
        });
        let mut run = Run::new(&self.ports, question, settings, window, trace);
        let mut pending = VecDeque::from_iter(effects);
        loop {
            while let Some(effect) = pending.pop_front() {
                // Nothing is launched for the beginning of an answer that nobody takes.
                if run.is_cut_short
                    && let Some(instead) = cut_short.take()
                {
                    return Err(instead);
                }
                match effect {
                    Effect::Answer { branch, answer } => return Ok(run.report(branch, answer)),
                    Effect::Fail { stage, .. } => return Err(run.failure(stage).into()),
                    effect => pending.extend(run.carry_out(&effect)),
                }
            }
            let event = match poll_fn(|cx| run.running.poll_news(cx)).await {
                News::Finished {
                    work,
                    outcome,
                    taken,
                    changes,
                } => {
                    run.tell_changes(work, changes);
                    run.take(work, taken, outcome)
                }
                News::Early {
                    work,
                    took,
                    guesses,
                } => run.take_early(work, took, guesses),
                News::Expired(lookup) => Some(Event::Expired { lookup }),
                News::BudgetEnd => Some(Event::FinishNow),
                News::Deadline => {
                    let committed = run.committed();
                    return Err(AgentError::Deadline { committed }.into());
                }
                News::Idle => return Err(idle(run.committed()).into()),
            };
            if let Some(event) = event {
                pending.extend(run.apply(event));
            }
        }
    }
}

/// SPEC-9 says that a question which has not ended has work running; were it ever broken, the
/// question must end all the same.
fn idle(committed: usize) -> AgentError {
    AgentError::Stage {
        hop: u32::try_from(committed)
            .unwrap_or(u32::MAX)
            .saturating_add(1),
        stage: Stage::Segment,
        source: PortError::malformed("the window", "no work is running and no answer was given"),
    }
}
