//! The end of a question: its report, or why it failed.

use std::sync::Arc;

use spechop_ports::PortError;
use spechop_types::{BranchId, Stage};

use super::Run;
use crate::{AgentError, Report, Stopped};

impl Run<'_> {
    /// The report of an answered question.
    pub(crate) fn report(&mut self, branch: BranchId, answer: Arc<str>) -> Report {
        let notes = self.branches.remove(branch).unwrap_or_default();
        self.ledger.use_up(Stage::Segment, &notes.paid);
        for (work, time) in self.running.stop_all() {
            self.ledger.abort(work.stage(), time);
        }
        Report {
            answer,
            hops: std::mem::take(&mut self.hops),
            stopped: self
                .window
                .stopped()
                .map_or(Stopped::Answered, Stopped::from),
            final_segment: notes.segment,
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
}
