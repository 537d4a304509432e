//! One question under way: carries out single effects, and turns what stages bring into events.

use std::sync::Arc;

use spechop_ports::{KnownHop, Lane, PlanRequest, PortError};
use spechop_types::{BranchId, LookupId, Question, Refusal, Stage, SubQuestion};
use spechop_verifier::verify;
use spechop_window::{Effect, Effects, Event, Window};
use tokio::time::Instant;

use crate::few::Few;
use crate::ledger::Ledger;
use crate::notes::{BranchNotes, LookupNotes};
use crate::running::Running;
use crate::stages::{self, Work};
use crate::{HopReport, Ports, ProviderChanges, Settings, TraceEvent, TraceKind};

mod ahead;
mod chance;
mod commit;
mod ending;
mod guesses;
mod launch;
mod providers;
mod refusal;
mod results;

/// A question under way. Dropping it drops every stage.
pub(crate) struct Run<'a> {
    ports: &'a Ports,
    question: &'a Question,
    settings: &'a Settings,
    window: Window,
    trace: &'a mut (dyn FnMut(TraceEvent) + Send),
    started: Instant,
    pub(crate) running: Running<'a>,
    /// Notes about branches and look-ups that the window does not need.
    branches: Few<BranchId, BranchNotes>,
    lookups: Few<LookupId, LookupNotes>,
    /// The last head that had to go. Its look-up is dropped only after it.
    last_head: Option<BranchId>,
    hops: Vec<HopReport>,
    ledger: Ledger,
    /// When the last hop was committed; before the first one, when the question was taken up.
    committed_at: Instant,
    /// Each with how many calls made it.
    provider_changes: ProviderChanges,
    /// Why the last failed stage failed.
    failure: Option<PortError>,
    /// The report has been made: what it cost stands there.
    is_answered: bool,
    /// The budget is used up, or somebody wants the answer now, and only the beginning of one can come.
    pub(crate) is_cut_short: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        ports: &'a Ports,
        question: &'a Question,
        settings: &'a Settings,
        window: Window,
        trace: &'a mut (dyn FnMut(TraceEvent) + Send),
    ) -> Self {
        let running = Running::new(
            settings.deadline,
            settings.budget.time,
            settings.finish.clone(),
        );
        Self {
            ports,
            question,
            settings,
            window,
            trace,
            started: running.now(),
            committed_at: running.now(),
            running,
            branches: Few::new(),
            lookups: Few::new(),
            last_head: None,
            hops: Vec::new(),
            ledger: Ledger::new(settings.budget, settings.prices),
            provider_changes: ProviderChanges::default(),
            failure: None,
            is_answered: false,
            is_cut_short: false,
        }
    }

    pub(crate) fn apply(&mut self, event: Event) -> Effects {
        let is_end = matches!(event, Event::FinishNow);
        let effects = self.window.apply(event);
        // A head that is writing a last answer anyway may finish it. If not, a new head writes one.
        let is_write = |effect: &Effect| matches!(effect, Effect::Write { .. });
        self.is_cut_short |= is_end && effects.iter().any(is_write);
        effects
    }

    pub(crate) fn committed(&self) -> usize {
        self.window.committed().len()
    }

    /// Carries out one effect; some lead to further effects at once.
    pub(crate) fn carry_out(&mut self, effect: &Effect) -> Effects {
        match *effect {
            Effect::Write {
                branch,
                must_answer,
            } => return self.write(branch, must_answer),
            Effect::Draft { branch } => return self.draft(branch),
            Effect::Call { lookup } => return self.call(lookup),
            Effect::Guess { lookup } => return self.guess(lookup),
            Effect::DropGuess { lookup } => self.stop(Work::Speculation(lookup)),
            Effect::Verify { branch } => return self.verify(branch),
            Effect::Commit { branch, lookup, at } => self.commit(branch, lookup, at),
            Effect::Promote { branch } => self.promote(branch),
            Effect::Abort { branch } => self.abort(branch),
            Effect::Orphan { lookup } => return self.orphan(lookup),
            Effect::Salvage { branch, lookup } => self.salvage(branch, lookup),
            Effect::Confirm { branch, lookup } => self.confirm(branch, lookup),
            Effect::Drop { lookup } => self.drop_lookup(lookup),
            // The loop in `Agent::drive` ends on these.
            Effect::Answer { .. } | Effect::Fail { .. } => {}
        }
        Effects::new()
    }

    /// The branch that a stage works for now; `None` if it is an orphan's.
    fn branch_of(&self, work: Work) -> Option<BranchId> {
        match work {
            Work::Segment(branch) | Work::Draft(branch, _) => Some(branch),
            Work::Target(lookup) | Work::Speculation(lookup) => self.window.asker(lookup),
        }
    }

    fn write(&mut self, branch: BranchId, must_answer: bool) -> Effects {
        // The end of the budget may have aborted it while this effect waited in line.
        let Some(depth) = self.window.depth(branch) else {
            return Effects::new();
        };
        let hop = u32::try_from(self.committed() + depth + 1).unwrap_or(u32::MAX);
        let notes = self.branches.entry(branch, BranchNotes::default);
        (notes.hop, notes.is_head) = (hop, depth == 0);
        if depth > 0 && !self.may_speculate() {
            // As if it had failed: it is written once its branch is head.
            self.refuse(branch, Stage::Segment, Refusal::Budget);
            return self.apply(Event::WriteFailed { branch });
        }
        let hops = self.known(branch);
        let drafts = match must_answer {
            true => Vec::new(),
            false => self.drafts_of(&hops),
        };
        let request = PlanRequest {
            question: self.question.clone(),
            hops,
            must_answer,
            drafts: drafts.clone(),
        };
        let notes = self.branches.entry(branch, BranchNotes::default);
        notes.likeliest = drafts.first().map(|draft| draft.sub_question.clone());
        notes.drafts = drafts;
        let ports = self.ports;
        self.launch(branch, depth, Work::Segment(branch), |call| {
            stages::segment(ports, call, request)
        });
        Effects::new()
    }

    fn call(&mut self, lookup: LookupId) -> Effects {
        let asked = self.window.asked(lookup).cloned();
        let (Some(sub_question), Some((branch, depth))) = (asked, self.asker_or_writer(lookup))
        else {
            return Effects::new();
        };
        let draft = self.window.drafted_for(lookup);
        if depth == 0 {
            if self.ledger.is_spent(self.running.open(Lane::Authoritative)) {
                return self.apply(Event::FinishNow);
            }
        } else if let Some(why) = self.may_not_look_ahead() {
            // As if it had failed: it is made once its branch is head.
            self.refuse(branch, Stage::Target, why);
            return self.apply(Event::CallFailed { lookup });
        }
        let (ports, limit) = (self.ports, self.settings.passages.get());
        let now = self.running.now();
        self.forget_saved(lookup);
        let notes = self.note(lookup, branch);
        (notes.launched, notes.drafted) = (now, draft.is_some());
        if let Some((_, chance)) = draft {
            self.note_written(branch, lookup, &sub_question);
            self.tell_ahead(branch, sub_question.clone(), chance);
        }
        self.launch(branch, depth, Work::Target(lookup), |call| {
            stages::target(ports, call, sub_question, limit)
        });
        Effects::new()
    }

    fn stop(&mut self, work: Work) {
        if let Some(dropped) = self.running.stop(work) {
            self.note_dropped(dropped);
        }
    }

    fn verify(&mut self, branch: BranchId) -> Effects {
        let Some((guess, observation)) = self.window.comparison(branch) else {
            return Effects::new();
        };
        let verdict = verify(self.settings.verifier, &observation.answer, guess);
        let accepted = verdict.accepted;
        // It is the head's hop that the verdict is about.
        let head = self.window.alive().next();
        if let Some(head) = head {
            self.tell(head, TraceKind::Verified { verdict });
            let notes = self.branches.entry(head, BranchNotes::default);
            notes.verdict = Some(verdict);
        }
        self.apply(Event::Verified { branch, accepted })
    }

    /// The branch's own work is needed now, if anybody needs the answer. The guess of its hop is not: it
    /// stays speculative.
    fn promote(&mut self, branch: BranchId) {
        let target = self.window.lookup(branch).map(Work::Target);
        for work in [Some(Work::Segment(branch)), target].into_iter().flatten() {
            self.promote_work(work);
        }
        // The window may be further on by now: the branch may even be committed.
        let hop = self.hop(branch);
        if let Some(notes) = self.branches.get_mut(branch) {
            notes.is_head = true;
        }
        self.tell_as(branch, hop, false, TraceKind::Promoted);
    }

    fn abort(&mut self, branch: BranchId) {
        self.stop(Work::Segment(branch));
        self.stop_drafts(branch);
        // If the end of the budget came first, it never began, and nothing was told of it.
        let Some(notes) = self.branches.remove(branch) else {
            return;
        };
        // A head goes if the question fails or has to end; nothing that it stood on was a guess.
        match notes.is_head {
            true => self.last_head = Some(branch),
            false => notes.fate.roll_back(),
        }
        self.tell_as(branch, notes.hop, !notes.is_head, TraceKind::RolledBack);
    }

    /// Nobody needs the look-up now. It is kept for a while, if the budget can spare it.
    fn orphan(&mut self, lookup: LookupId) -> Effects {
        if !self.may_speculate() {
            return self.apply(Event::Expired { lookup });
        }
        self.running.keep(lookup, self.settings.orphan_time);
        Effects::new()
    }

    fn drop_lookup(&mut self, lookup: LookupId) {
        self.stop(Work::Target(lookup));
        self.stop(Work::Speculation(lookup));
        self.running.release(lookup);
        self.lookups.remove(lookup);
    }

    fn note(&mut self, lookup: LookupId, asker: BranchId) -> &mut LookupNotes {
        let (now, hop) = (self.running.now(), self.hop(asker));
        self.lookups
            .entry(lookup, || LookupNotes::new(now, (asker, hop)))
    }

    fn known(&self, branch: BranchId) -> Vec<KnownHop> {
        let known = |(sub_question, answer): (&SubQuestion, &Arc<str>)| KnownHop {
            sub_question: sub_question.clone(),
            answer: answer.clone(),
        };
        let depth = self.window.depth(branch).unwrap_or(0);
        let mut hops = Vec::with_capacity(self.committed() + depth);
        hops.extend(self.window.trajectory(branch).map(known));
        hops
    }

    fn tell(&mut self, branch: BranchId, kind: TraceKind) {
        let hop = self.hop(branch);
        let provisional = match self.window.depth(branch) {
            Some(depth) => depth > 0,
            // The window is further on than this effect: the hop may be committed already.
            None => hop as usize > self.committed(),
        };
        self.tell_as(branch, hop, provisional, kind);
    }

    fn tell_as(&mut self, branch: BranchId, hop: u32, provisional: bool, kind: TraceKind) {
        (self.trace)(TraceEvent {
            at: self.running.now() - self.started,
            branch,
            hop,
            provisional,
            kind,
        });
    }

    fn hop(&self, branch: BranchId) -> u32 {
        self.branches.get(branch).map_or(0, |notes| notes.hop)
    }

    /// The branch that asks a look-up now, and its hop.
    fn asker(&self, lookup: LookupId) -> Option<(BranchId, u32)> {
        let branch = self.window.asker(lookup)?;
        Some((branch, self.hop(branch)))
    }
}
