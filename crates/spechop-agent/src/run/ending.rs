//! The end of a question: its report, or why it failed.

use std::sync::Arc;

use spechop_ports::PortError;
use spechop_types::{BranchId, Chance, Stage};

use super::Run;
use crate::ledger::Open;
use crate::{AgentError, Due, FirstAnswer, Report, Stopped};

impl Run<'_> {
    /// The report of an answered question.
    pub(crate) fn report(&mut self, branch: BranchId, answer: Arc<str>) -> Report {
        let notes = self.branches.remove(branch).unwrap_or_default();
        self.ledger.use_up(Stage::Segment, &notes.paid);
        self.stop_all();
        self.is_answered = true;
        let elapsed = self.started.elapsed();
        if let Some(drafter) = &self.ports.drafter {
            let (hops, ended) = (self.window.committed(), self.window.stopped().is_none());
            drafter.learn(&self.settings.tenant, self.question, hops, ended);
        }
        let (tokens_lost, money_lost) = self.ledger.lost();
        let (answered, chance) = notes
            .answered
            .unwrap_or((self.running.now(), Chance::CERTAIN));
        Report {
            answer,
            hops: std::mem::take(&mut self.hops),
            stopped: self
                .window
                .stopped()
                .map_or(Stopped::Answered, Stopped::from),
            final_segment: notes.segment,
            final_certainty: notes.certainty,
            first_answer: FirstAnswer {
                at: answered.duration_since(self.started).min(elapsed),
                chance,
            },
            elapsed,
            followed: elapsed,
            usage: *self.ledger.usage(Open::default()),
            tokens_lost,
            money_lost,
            plans: 1,
            branches: self.window.branches_opened(),
            handed_over: None,
            provider_changes: std::mem::take(&mut self.provider_changes),
        }
    }

    fn stop_all(&mut self) {
        for dropped in self.running.stop_all() {
            self.note_dropped(dropped);
        }
    }

    /// Why the question failed.
    pub(crate) fn failure(&mut self, stage: Stage) -> AgentError {
        let source = self.failure.take().unwrap_or_else(|| {
            PortError::malformed("the planner", "it asked on although it had to answer")
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
}

/// A question without an answer is paid for all the same.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        for notes in self.branches.values().filter(|notes| !notes.is_head) {
            notes.fate.roll_back();
        }
        if self.is_answered {
            return;
        }
        if self.settings.bill.is_some() || self.settings.journal.is_some() {
            self.stop_all();
        }
        if let Some(bill) = self.settings.bill.as_ref() {
            let (tokens_lost, money_lost) = self.ledger.lost();
            bill.set(Due {
                elapsed: self.started.elapsed(),
                usage: self.ledger.usage(Open::default()).all_wasted(),
                tokens_lost,
                money_lost,
            });
        }
    }
}
