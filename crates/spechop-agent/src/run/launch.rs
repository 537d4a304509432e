//! Calls, from their launch.

use spechop_ports::{Call, Lane, PortError};
use spechop_types::{BranchId, Chance, Stage};

use super::Run;
use super::ahead::AHEAD;
use crate::journal::Begun;
use crate::notes::BranchNotes;
use crate::stages::{Outcome, Work};
use crate::{Journal, TraceKind};

impl<'a> Run<'a> {
    pub(super) fn launch<F>(
        &mut self,
        branch: BranchId,
        depth: usize,
        work: Work,
        stage: impl FnOnce(Call) -> F,
    ) where
        F: Future<Output = Result<Outcome, PortError>> + Send + 'a,
    {
        let name = work.stage();
        let is_needed = depth == 0 && !self.settings.is_unneeded;
        let lane = if is_needed {
            Lane::Authoritative
        } else {
            Lane::Speculative
        };
        let limit = match name {
            Stage::Segment => self.settings.limits.segment,
            Stage::Target => self.settings.limits.target,
            Stage::Speculation => self.settings.limits.speculation,
            Stage::Draft => self.settings.limits.draft,
        };
        let call = Call::of(
            self.settings.tenant.clone(),
            lane,
            match (is_needed, self.settings.is_unneeded) {
                (true, _) => Chance::CERTAIN,
                // Whatever anybody else waits for is worth more.
                (false, true) => Chance::NONE,
                (false, false) => self.chance_of(work, branch),
            },
        )
        .with(self.settings.wishes);
        let journal = self.settings.journal.as_ref();
        let number = journal.map(Journal::number);
        let trace = self.settings.trace.as_ref();
        let call = match &self.settings.life {
            Some(life) => call.within(life.clone()),
            None => call,
        };
        let call = match work {
            Work::Segment(branch) | Work::Draft(branch, _) => {
                let notes = self.branches.entry(branch, BranchNotes::default);
                call.for_branch(notes.fate.clone())
            }
            // Another branch may take it over.
            Work::Target(_) | Work::Speculation(_) => call,
        };
        let call = match self.ledger.is_priced() {
            // The budget is asked before a call, and would not be before another turn of it.
            true => call.with_one_turn(),
            false => call,
        };
        let call = call.traced(trace.map(|trace| match number {
            Some(number) => trace.child(number),
            None => trace.clone(),
        }));
        self.ledger.start(name);
        let stage = Box::pin(stage(call.clone()));
        self.running.launch(work, call, limit, stage);
        if let Some((journal, number)) = journal.zip(number) {
            let begun = Begun {
                journal: journal.clone(),
                number,
                branch,
                hop: self.hop(branch),
                started: self.started,
                lane,
            };
            self.running.note(work, begun);
        }
        // What is drafted is told apart: the branch is not there yet.
        if depth < AHEAD {
            self.tell(branch, TraceKind::Launched { stage: name });
        }
    }

    /// Its branch is head now. Of a question that nobody needs, no work ever is.
    pub(super) fn promote_work(&self, work: Work) {
        if !self.settings.is_unneeded {
            self.running.promote(work);
        }
    }
}
