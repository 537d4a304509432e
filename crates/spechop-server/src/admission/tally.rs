//! What a question has cost is charged, and how it ended is counted: once, whatever becomes of it.

use std::sync::Arc;

use spechop_agent::{Bill, Report, Width};
use spechop_config::SpeculatorKind;

use super::resolve::Rewriting;
use crate::accounts::Hold;
use crate::metrics::{Occupancy, Stillness};
use crate::outcome::Outcome;
use crate::server_state::ServerState;
use crate::spans::Record;

/// Charges a question for what it has cost, and counts how it ended. A question that came to no end at
/// all is one that went away.
pub(super) struct Tally {
    /// `None` once the question is over.
    pub(super) state: Option<Arc<ServerState>>,
    pub(super) bill: Bill,
    pub(super) hold: Option<Hold>,
    /// What was done before the question began.
    pub(super) rewriting: Option<Rewriting>,
    /// What is noted for its spans, if they are kept.
    pub(super) record: Option<Record>,
    pub(super) occupancy: Occupancy,
    pub(super) still: Arc<Stillness>,
}

impl Tally {
    /// The report comes to hold what was done before.
    pub(super) fn answered(
        &mut self,
        speculator: SpeculatorKind,
        width: Width,
        report: &mut Report,
    ) {
        if let Some(rewriting) = &self.rewriting {
            let before = rewriting.took();
            report.elapsed = report.elapsed.saturating_add(before);
            report.first_answer.at = report.first_answer.at.saturating_add(before);
            // If it was of use, it is among the used calls, with whose time this one is compared.
            if rewriting.is_used() {
                report.followed = report.followed.saturating_add(before);
            }
            rewriting.charge(&mut report.usage);
        }
        if let Some(state) = self.state.take() {
            let occupancy = std::mem::take(&mut self.occupancy);
            let questions = &state.metrics.questions;
            questions.answered(speculator, width, report, occupancy);
        }
        if let Some(mut record) = self.take_record() {
            if report.handed_over.is_some() {
                record.answered_by_fallback();
            }
            record.ended(Outcome::Answered);
        }
        if let Some(mut hold) = self.hold.take() {
            hold.answered(report);
        }
    }

    /// All that was noted for its spans, if they are kept.
    fn take_record(&mut self) -> Option<Record> {
        let mut record = self.record.take()?;
        if let Some(rewriting) = &self.rewriting {
            record.rewritten(rewriting.note());
        }
        Some(record)
    }

    /// The question came to no answer. If it had not begun, there is no bill.
    pub(super) fn ended(&mut self, outcome: Outcome) {
        let Some(state) = self.state.take() else {
            return;
        };
        state.metrics.questions.ended(outcome);
        self.still.begin();
        if let Some(record) = self.take_record() {
            record.ended(outcome);
        }
        let (mut due, hold) = (self.bill.take(), self.hold.take());
        if let Some(rewriting) = &self.rewriting {
            let due = due.get_or_insert_default();
            due.elapsed = due.elapsed.saturating_add(rewriting.took());
            rewriting.charge_wasted(&mut due.usage);
        }
        if let Some(due) = due {
            state.metrics.questions.used(&due.usage);
            if let Some(mut hold) = hold {
                hold.unanswered(&due);
            }
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.ended(match std::thread::panicking() {
            true => Outcome::Failed,
            false => Outcome::Cancelled,
        });
    }
}
