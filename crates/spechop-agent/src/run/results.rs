//! Results of stages: noted, paid for and told, and turned into events.

use std::sync::Arc;
use std::time::Duration;

use spechop_ports::PortError;
use spechop_types::{BranchId, Chance, LookupId, Observation, Stage, Step, one_line, with_causes};
use spechop_window::Event;

use super::Run;
use crate::ledger::Taken;
use crate::notes::BranchNotes;
use crate::stages::{Outcome, Output, Work};
use crate::{Cost, TraceKind};

impl Run<'_> {
    /// Records the result of a stage in trace and ledger, and returns the event for the window.
    pub(crate) fn take(
        &mut self,
        work: Work,
        taken: Taken,
        outcome: Result<Outcome, PortError>,
    ) -> Option<Event> {
        // Of another call that failed, which the question has survived.
        self.failure = None;
        if let Work::Segment(branch) = work {
            // It writes no more: nobody needs to know what it may be about to write.
            self.stop_drafts(branch);
        }
        match outcome {
            Ok(outcome) => self.take_output(work, taken, outcome),
            Err(error) => {
                self.settle_failure(work, taken, &error);
                self.failed(work, error)
            }
        }
    }

    fn take_output(&mut self, work: Work, taken: Taken, outcome: Outcome) -> Option<Event> {
        let Outcome { output, tokens } = outcome;
        // A result does not tell of attempts that failed, nor every engine of what it does meanwhile.
        let tokens = tokens.max(taken.tokens);
        let cost = self.ledger.settle(work.stage(), Taken { tokens, ..taken });
        let took = taken.time;
        match (work, output) {
            (Work::Segment(branch), Output::Step { step, certainty }) => {
                Some(self.take_step(branch, step, certainty, took, cost))
            }
            (Work::Target(lookup), Output::Observation { observation, read }) => {
                self.take_observation(lookup, observation, read, took, cost)
            }
            (Work::Speculation(lookup), Output::Guesses(guesses)) => {
                let notes = self.lookups.get_mut(lookup)?;
                notes.paid.add(Stage::Speculation, cost);
                self.take_guesses(lookup, took, guesses, false)
            }
            (Work::Draft(branch, _), Output::Draft(draft)) => self.take_draft(branch, draft?, cost),
            // A stage brings what its kind of work brings.
            (_, _) => None,
        }
    }

    fn take_step(
        &mut self,
        branch: BranchId,
        step: Step,
        certainty: Option<Chance>,
        took: Duration,
        cost: Cost,
    ) -> Event {
        let now = self.running.now();
        let chance = self.window.answer_chance(branch);
        let notes = self.branches.entry(branch, BranchNotes::default);
        notes.paid.add(Stage::Segment, cost);
        (notes.segment, notes.certainty) = (took, certainty);
        notes.written_at = Some(now);
        notes.answered = matches!(step, Step::Answer(_)).then_some((now, chance));
        let kind = match &step {
            Step::Ask(sub_question) => TraceKind::Planned {
                sub_question: sub_question.clone(),
                took,
            },
            Step::Answer(answer) => TraceKind::Drafted {
                answer: answer.clone(),
                chance,
                took,
            },
        };
        self.tell(branch, kind);
        Event::Wrote { branch, step }
    }

    /// Told at once if a branch asks, else when one does.
    fn take_observation(
        &mut self,
        lookup: LookupId,
        observation: Arc<Observation>,
        read: Duration,
        took: Duration,
        cost: Cost,
    ) -> Option<Event> {
        let asker = self.asker(lookup);
        let notes = self.lookups.get_mut(lookup)?;
        notes.paid.add(Stage::Target, cost);
        (notes.target, notes.read) = (took, read);
        match asker {
            Some((branch, hop)) => {
                // The window may forget the look-up before its guess is dropped.
                notes.asker = (branch, hop);
                self.tell(
                    branch,
                    TraceKind::Observed {
                        observation: observation.clone(),
                        took,
                    },
                );
            }
            None => notes.unseen = Some(observation.clone()),
        }
        Some(Event::Observed {
            lookup,
            observation,
        })
    }

    /// A call has brought nothing: what it took is paid for, if anything of it ran, and why it failed is told.
    fn settle_failure(&mut self, work: Work, taken: Taken, error: &PortError) {
        match error {
            PortError::NotSpeculated { why, .. } => return self.take_refusal(work, taken, *why),
            // Nobody has said what it had taken when it was given up, if it was ever begun.
            PortError::Timeout { .. } => self.pay_dropped(work, taken),
            _ => {
                let cost = self.ledger.settle(work.stage(), taken);
                self.pay_for_early(work, cost);
            }
        }
        if let Some(branch) = self.branch_of(work) {
            let (stage, reason) = (work.stage(), one_line(&with_causes(error)));
            self.tell(branch, TraceKind::Failed { stage, reason });
        }
    }

    fn failed(&mut self, work: Work, error: PortError) -> Option<Event> {
        Some(match work {
            Work::Segment(branch) => {
                self.failure = Some(error);
                Event::WriteFailed { branch }
            }
            Work::Target(lookup) => {
                self.failure = Some(error);
                Event::CallFailed { lookup }
            }
            Work::Speculation(lookup) => Event::Guessed {
                lookup,
                guesses: Vec::new(),
                more: false,
            },
            // The window has never heard of it.
            Work::Draft(..) => return None,
        })
    }
}
