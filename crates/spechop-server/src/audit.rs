//! The audit: a share of the answered questions is answered again without speculation, and compared.
//!
//! ```text
//! answered ─ offer ─▶ queue ─▶ wait for slack ─▶ again at k = 1, as work that nobody needs ─▶ compare
//!             └ not drawn, or not comparable       └ somebody needs the place: given up
//! ```
//!
//! An audit guesses nothing, remembers nothing, teaches nothing, and takes no kept result; what it finds in the
//! web is kept like what a fresh question finds. Nobody waits for it, and no tenant pays for it: what it costs is
//! counted apart.

mod compare;
mod counts;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{Agent, AgentError, Bill, Ports, Report, Settings, Stopped, Width};
use spechop_config::{Audit, SpeculatorKind};
use spechop_ports::{PortError, Wishes};
use spechop_types::{Budget, Question, Refusal, with_causes};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep, timeout};

use crate::server_state::ServerState;
use crate::tool_cache::ToolCache;
use compare::Told;
use counts::NotDone;
pub(crate) use counts::{AuditCounts, Findings, Meters};

/// Questions that wait for their audit.
const WAITING_MAX: usize = 16;
/// How long an audit waits for slack before it is given up.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked whether there is slack.
const LOOK: Duration = Duration::from_millis(50);
/// With more load than this there is none.
const LOAD_MAX: f64 = 0.05;
const HOUR: Duration = Duration::from_secs(3600);

/// The audits of a server.
pub(crate) struct Audits {
    rules: Audit,
    /// What clients leave in place of look-ups.
    tool_cache: Option<Arc<ToolCache>>,
    pub(crate) counts: AuditCounts,
    queue: Sender<Candidate>,
    /// Audited one after the other.
    waiting: Mutex<Receiver<Candidate>>,
    /// How many may begin in an hour.
    hour: parking_lot::Mutex<VecDeque<Instant>>,
}

/// A question that was answered.
struct Candidate {
    question: Question,
    settings: Settings,
    told: Told,
}

impl Audits {
    pub(crate) fn new(rules: Audit, tool_cache: Option<Arc<ToolCache>>, meters: Meters) -> Self {
        let (queue, waiting) = channel(WAITING_MAX);
        Self {
            rules,
            tool_cache,
            counts: AuditCounts::new(meters),
            queue,
            waiting: Mutex::new(waiting),
            hour: parking_lot::Mutex::default(),
        }
    }

    /// A question was answered so: perhaps it is audited. Never waits.
    pub(crate) fn offer(&self, question: &Question, settings: &Settings, report: &Report) {
        if rand::random::<f64>() >= self.rules.share {
            return;
        }
        let queued = self.queue(question, settings, report);
        if let Err(why) = queued {
            self.counts.not_done(why);
        }
    }

    fn queue(
        &self,
        question: &Question,
        settings: &Settings,
        report: &Report,
    ) -> Result<(), NotDone> {
        if settings.wishes.quiet {
            return Err(NotDone::Quiet);
        }
        if report.stopped == Stopped::Budget {
            return Err(NotDone::CutShort);
        }
        if self.rests_on_left(settings, report) {
            return Err(NotDone::LeftByClient);
        }
        let room = self.queue.try_reserve().map_err(|_| NotDone::TooMany)?;
        let mut hour = self.hour.lock();
        let now = Instant::now();
        while hour.front().is_some_and(|begun| *begun + HOUR <= now) {
            hour.pop_front();
        }
        if hour.len() >= self.rules.per_hour as usize {
            return Err(NotDone::TooMany);
        }
        hour.push_back(now);
        room.send(Candidate {
            question: question.clone(),
            settings: unneeded(settings),
            told: Told::of(report),
        });
        Ok(())
    }

    /// Whether a client has left what one of the look-ups brought. The audit would look it up, and differ for
    /// that reason.
    fn rests_on_left(&self, settings: &Settings, report: &Report) -> bool {
        let (Some(cache), Some(life)) = (&self.tool_cache, &settings.life) else {
            return false;
        };
        let mut asked = report.hops.iter().map(|hop| &hop.hop.sub_question);
        asked.any(|asked| cache.has_served(life, asked.as_str()))
    }

    /// Audits for as long as it is polled.
    pub(crate) async fn keep(&self, state: &ServerState) -> Infallible {
        let mut waiting = self.waiting.lock().await;
        while let Some(candidate) = waiting.recv().await {
            let tenant = candidate.settings.tenant.clone();
            match self.audit(candidate, state).await {
                Ok(found) => {
                    if found.differs || found.false_accepts > 0 {
                        tracing::warn!(
                            %tenant,
                            differs = found.differs,
                            false_accepts = found.false_accepts,
                            "an audit found another answer, or a guess that was accepted wrongly"
                        );
                    }
                    self.counts.found(&tenant, found);
                }
                Err(why) => self.counts.not_done(why),
            }
        }
        pending().await
    }

    async fn audit(
        &self,
        candidate: Candidate,
        state: &ServerState,
    ) -> Result<compare::Found, NotDone> {
        let Candidate {
            question,
            mut settings,
            told,
        } = candidate;
        timeout(PATIENCE, slack(state))
            .await
            .map_err(|_| NotDone::Load)?;
        let bill = Bill::default();
        settings.bill = Some(bill.clone());
        settings.deadline = Some(Instant::now() + state.config().questions.deadline_max);
        let agent = Agent::new(Ports {
            drafter: None,
            draft_writer: None,
            ..state.toolbox.ports(SpeculatorKind::None)
        });
        let mut unheard = |_| {};
        let answered = tokio::select! {
            biased;
            () = pressure(state) => None,
            answered = Box::pin(agent.answer(&question, &settings, &mut unheard)) => Some(answered),
        };
        if let Some(due) = bill.take() {
            self.counts.cost(due.usage);
        }
        match answered {
            None => Err(NotDone::Load),
            Some(Ok(report)) => {
                self.counts.cost(report.usage);
                Ok(told.compare(&Told::of(&report)))
            }
            Some(Err(AgentError::Stage {
                source: PortError::NotSpeculated { why, .. },
                ..
            })) => Err(match why {
                Refusal::Denied => NotDone::Denied,
                _ => NotDone::Load,
            }),
            // Few begin in an hour, and nobody else hears of it.
            Some(Err(error)) => {
                tracing::warn!(reason = with_causes(&error), "an audit failed");
                Err(NotDone::Failed)
            }
        }
    }
}

/// The same question without speculation: as work that nobody needs, and without what would hide a
/// difference or teach anybody.
fn unneeded(settings: &Settings) -> Settings {
    Settings {
        width: Width::bounded(NonZeroUsize::MIN),
        is_unneeded: true,
        wishes: Wishes {
            fresh: true,
            quiet: false,
        },
        // Its hops bound it. A budget of time or tokens could cut it short where the question was not.
        budget: Budget::default(),
        finish: None,
        bill: None,
        trace: None,
        life: None,
        journal: None,
        ..settings.clone()
    }
}

/// Until nobody needs anything, and nobody guesses.
async fn slack(state: &ServerState) {
    while is_busy(state, 0) {
        sleep(LOOK).await;
    }
}

/// Until somebody wants a place. The audit itself has one call at a time, which may wait.
async fn pressure(state: &ServerState) {
    while !is_busy(state, 1) {
        sleep(LOOK).await;
    }
}

/// Whether calls wait, more than so many speculative ones.
fn is_busy(state: &ServerState, own: usize) -> bool {
    let gauges = state
        .toolbox
        .backends
        .iter()
        .map(|backend| backend.gauges());
    let (needed, guessed) = gauges.fold((0, 0), |(needed, guessed), gauges| {
        (
            needed + gauges.waiting_authoritative,
            guessed + gauges.waiting_speculative,
        )
    });
    needed > 0 || guessed > own || state.toolbox.load() > LOAD_MAX
}
