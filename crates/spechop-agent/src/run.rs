//! The state of one question under way: its window, its running stages, what it has cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::AbortHandle;
use futures::stream::FuturesUnordered;
use spechop_ports::{Call, KnownHop, Lane, PlanRequest, PortError, Speculator};
use spechop_types::{BranchId, Question, Stage, Step, SubQuestion};
use spechop_verifier::{Verdict, verify};
use spechop_window::{Effect, Event, Window};
use tokio::time::Instant;

use crate::ledger::{Ledger, Paid};
use crate::stages::{self, Finished, Launch, Outcome, Output, StageFuture};
use crate::{
    AgentError, HopReport, Ports, Report, Settings, StageTimes, Stopped, TraceEvent, TraceKind,
};

/// A question under way. Dropping it drops every stage.
pub(crate) struct Run<'a> {
    ports: &'a Ports,
    question: &'a Question,
    settings: &'a Settings,
    window: Window,
    trace: &'a mut (dyn FnMut(TraceEvent) + Send),
    started: Instant,
    /// Every stage under way, of every living branch.
    pub(crate) stages: FuturesUnordered<StageFuture<'a>>,
    running: BTreeMap<(BranchId, Stage), Running>,
    /// What is known of each living branch beside the window's own state.
    notes: BTreeMap<BranchId, Notes>,
    hops: Vec<HopReport>,
    ledger: Ledger,
    /// Why the last failed stage failed.
    failure: Option<PortError>,
}

/// A stage under way, as its branch sees it.
struct Running {
    call: Call,
    abort: AbortHandle,
}

/// What a branch has taken so far.
#[derive(Default)]
struct Notes {
    /// Its hop, counted from 1.
    hop: u32,
    times: StageTimes,
    verdict: Option<Verdict>,
    paid: Paid,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        ports: &'a Ports,
        question: &'a Question,
        settings: &'a Settings,
        window: Window,
        trace: &'a mut (dyn FnMut(TraceEvent) + Send),
    ) -> Self {
        Self {
            ports,
            question,
            settings,
            window,
            trace,
            started: Instant::now(),
            stages: FuturesUnordered::new(),
            running: BTreeMap::new(),
            notes: BTreeMap::new(),
            hops: Vec::new(),
            ledger: Ledger::new(settings.budget),
            failure: None,
        }
    }

    pub(crate) fn apply(&mut self, event: Event) -> Vec<Effect> {
        self.window.apply(event)
    }

    pub(crate) fn committed(&self) -> usize {
        self.window.committed().len()
    }

    /// Carries out one effect; some lead to further effects at once.
    pub(crate) fn carry_out(&mut self, effect: &Effect) -> Vec<Effect> {
        match *effect {
            Effect::Write {
                branch,
                must_answer,
            } => self.write(branch, must_answer),
            Effect::Call { branch } => return self.call(branch),
            Effect::Guess { branch } => return self.guess(branch),
            Effect::DropGuess { branch } => self.stop(branch, Stage::Speculation),
            Effect::Verify { branch } => return self.verify(branch),
            Effect::Commit { branch, at } => self.commit(branch, at),
            Effect::Promote { branch } => self.promote(branch),
            Effect::Abort { branch } => self.abort(branch),
            // The loop in `Agent::answer` ends on these.
            Effect::Answer { .. } | Effect::Fail { .. } => {}
        }
        Vec::new()
    }

    /// Notes what a stage brought, and says what the window must be told.
    pub(crate) fn take(&mut self, finished: Finished) -> Option<Event> {
        let Finished {
            branch,
            stage,
            took,
            outcome,
        } = finished;
        let outcome = outcome?;
        if self.running.remove(&(branch, stage)).is_none() {
            // It ended in the moment in which it was stopped: paid for, but of no use.
            if let Ok(outcome) = outcome {
                self.ledger.settle(stage, outcome.tokens);
            }
            return None;
        }
        let Outcome { output, tokens } = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                let reason = one_line(&error);
                self.tell(branch, TraceKind::Failed { stage, reason });
                self.failure = Some(error);
                return Some(Event::Failed { branch, stage });
            }
        };
        let notes = self.notes.entry(branch).or_default();
        notes.paid.add(stage, tokens);
        self.ledger.settle(stage, tokens);
        Some(match output {
            Output::Step(step) => {
                notes.times.segment = took;
                let kind = match &step {
                    Step::Ask(sub_question) => TraceKind::Planned {
                        sub_question: sub_question.clone(),
                        took,
                    },
                    Step::Answer(answer) => TraceKind::Drafted {
                        answer: answer.clone(),
                        took,
                    },
                };
                self.tell(branch, kind);
                Event::Wrote { branch, step }
            }
            Output::Observation { observation, read } => {
                notes.times.target = took;
                notes.times.read = read;
                let kind = TraceKind::Observed {
                    observation: observation.clone(),
                    took,
                };
                self.tell(branch, kind);
                Event::Observed {
                    branch,
                    observation,
                }
            }
            Output::Guess(guess) => {
                notes.times.speculation = Some(took);
                let kind = TraceKind::Guessed {
                    guess: guess.clone(),
                    took,
                };
                self.tell(branch, kind);
                Event::Guessed { branch, guess }
            }
        })
    }

    /// What the question came to.
    pub(crate) fn report(&mut self, branch: BranchId, answer: Arc<str>) -> Report {
        let notes = self.notes.remove(&branch).unwrap_or_default();
        self.ledger.use_up(Stage::Segment, &notes.paid);
        Report {
            answer,
            hops: std::mem::take(&mut self.hops),
            stopped: self
                .window
                .stopped()
                .map_or(Stopped::Answered, Stopped::from),
            final_segment: notes.times.segment,
            elapsed: self.started.elapsed(),
            usage: self.ledger.usage(),
        }
    }

    /// Why the question failed.
    pub(crate) fn failure(&mut self, stage: Stage) -> AgentError {
        let source = self.failure.take().unwrap_or(PortError::Malformed {
            what: "the planner".into(),
            detail: "it asked on although it had to answer".into(),
        });
        AgentError::Stage {
            // Only the head's failure is the question's.
            hop: u32::try_from(self.committed())
                .unwrap_or(u32::MAX)
                .saturating_add(1),
            stage,
            source,
        }
    }

    fn write(&mut self, branch: BranchId, must_answer: bool) {
        // The end of the budget may have aborted it while this effect waited in line.
        let Some(depth) = self.window.depth(branch) else {
            return;
        };
        let hop = u32::try_from(self.committed() + depth + 1).unwrap_or(u32::MAX);
        self.notes.entry(branch).or_default().hop = hop;
        let request = PlanRequest {
            question: self.question.clone(),
            hops: self.known(branch),
            must_answer,
        };
        let ports = self.ports;
        self.launch(branch, Stage::Segment, |call| {
            stages::segment(ports, call, request)
        });
    }

    fn call(&mut self, branch: BranchId) -> Vec<Effect> {
        let Some(sub_question) = self.window.sub_question(branch).cloned() else {
            return Vec::new();
        };
        if self.window.depth(branch) == Some(0) {
            if self.ledger.is_spent() {
                return self.apply(Event::FinishNow);
            }
        } else if !self.may_speculate() {
            let stage = Stage::Target;
            return self.apply(Event::Failed { branch, stage });
        }
        let (ports, limit) = (self.ports, self.settings.passages.get());
        self.launch(branch, Stage::Target, |call| {
            stages::target(ports, call, sub_question, limit)
        });
        Vec::new()
    }

    fn guess(&mut self, branch: BranchId) -> Vec<Effect> {
        let ports = self.ports;
        let asked = self.window.sub_question(branch).cloned();
        let (Some(speculator), Some(sub_question)) = (&ports.speculator, asked) else {
            return self.apply(Event::Guessed {
                branch,
                guess: None,
            });
        };
        if !self.may_speculate() {
            return self.apply(Event::Guessed {
                branch,
                guess: None,
            });
        }
        let (question, hops) = (self.question.clone(), self.known(branch));
        let speculator: &dyn Speculator = speculator.as_ref();
        self.launch(branch, Stage::Speculation, |call| {
            stages::speculation(speculator, call, question, hops, sub_question)
        });
        Vec::new()
    }

    /// Whether the budget has anything to spare for work that may be wasted.
    fn may_speculate(&self) -> bool {
        let committed = u32::try_from(self.committed()).unwrap_or(u32::MAX);
        self.ledger
            .may_speculate(self.settings.hops_max.saturating_sub(committed))
    }

    fn verify(&mut self, branch: BranchId) -> Vec<Effect> {
        let Some((guess, observation)) = self.window.comparison(branch) else {
            return Vec::new();
        };
        let verdict = verify(self.settings.verifier, &observation.answer, guess);
        let accepted = verdict.accepted;
        self.tell(branch, TraceKind::Verified { verdict });
        self.notes.entry(branch).or_default().verdict = Some(verdict);
        self.apply(Event::Verified { branch, accepted })
    }

    fn commit(&mut self, branch: BranchId, at: usize) {
        let notes = self.notes.remove(&branch).unwrap_or_default();
        let Some(hop) = self.window.committed().get(at).cloned() else {
            return;
        };
        self.ledger.commit(hop.kind, &notes.paid);
        self.hops.push(HopReport {
            hop: hop.clone(),
            verdict: notes.verdict,
            times: notes.times,
        });
        self.tell_as(branch, notes.hop, false, TraceKind::Committed { hop });
    }

    /// The branch's own work is needed now. The guess of its hop is not: it stays speculative.
    fn promote(&mut self, branch: BranchId) {
        for stage in [Stage::Segment, Stage::Target] {
            if let Some(running) = self.running.get(&(branch, stage)) {
                running.call.promote();
            }
        }
        // The window may be further on by now: the branch may even be committed.
        let hop = self.hop(branch);
        self.tell_as(branch, hop, false, TraceKind::Promoted);
    }

    fn abort(&mut self, branch: BranchId) {
        for stage in Stage::ALL {
            self.stop(branch, stage);
        }
        // A head goes only when the question fails; nothing that it stood on was a guess.
        let hop = self.hop(branch);
        let was_head = self.window.is_over() && hop as usize == self.committed() + 1;
        self.tell_as(branch, hop, !was_head, TraceKind::RolledBack);
        self.notes.remove(&branch);
    }

    fn stop(&mut self, branch: BranchId, stage: Stage) {
        if let Some(running) = self.running.remove(&(branch, stage)) {
            running.abort.abort();
        }
    }

    fn launch<F>(&mut self, branch: BranchId, stage: Stage, work: impl FnOnce(Call) -> F)
    where
        F: Future<Output = Result<Outcome, PortError>> + Send + 'a,
    {
        let depth = u32::try_from(self.window.depth(branch).unwrap_or(0)).unwrap_or(u32::MAX);
        let (lane, depth) = match stage {
            // A guess is never needed: it stands one step further out than its branch.
            Stage::Speculation => (Lane::Speculative, depth.saturating_add(1)),
            Stage::Segment | Stage::Target if depth == 0 => (Lane::Authoritative, 0),
            Stage::Segment | Stage::Target => (Lane::Speculative, depth),
        };
        let limit = match stage {
            Stage::Segment => self.settings.limits.segment,
            Stage::Target => self.settings.limits.target,
            Stage::Speculation => self.settings.limits.speculation,
        };
        let call = Call::new(lane, depth);
        let (handle, registration) = AbortHandle::new_pair();
        let launch = Launch {
            branch,
            stage,
            limit,
            abort: registration,
        };
        self.ledger.start(stage);
        self.stages.push(launch.wrap(work(call.clone())));
        self.running.insert(
            (branch, stage),
            Running {
                call,
                abort: handle,
            },
        );
        self.tell(branch, TraceKind::Launched { stage });
    }

    fn known(&self, branch: BranchId) -> Vec<KnownHop> {
        let known = |(sub_question, answer): (&SubQuestion, &Arc<str>)| KnownHop {
            sub_question: sub_question.clone(),
            answer: answer.clone(),
        };
        self.window.trajectory(branch).map(known).collect()
    }

    fn tell(&mut self, branch: BranchId, kind: TraceKind) {
        let provisional = self.window.depth(branch) != Some(0);
        self.tell_as(branch, self.hop(branch), provisional, kind);
    }

    fn tell_as(&mut self, branch: BranchId, hop: u32, provisional: bool, kind: TraceKind) {
        (self.trace)(TraceEvent {
            at: self.started.elapsed(),
            branch,
            hop,
            provisional,
            kind,
        });
    }

    fn hop(&self, branch: BranchId) -> u32 {
        self.notes.get(&branch).map_or(0, |notes| notes.hop)
    }
}

/// An error with its causes, in a line.
fn one_line(error: &PortError) -> String {
    let mut line = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        source = cause.source();
    }
    line
}
