//! Look-ups that were begun for somebody else, or before anybody asked: drafted, confirmed, salvaged.

use std::sync::Arc;
use std::time::Duration;

use spechop_ports::{DraftRequest, Guess, KnownHop, PlanRequest};
use spechop_types::{BranchId, Chance, Draft, LookupId, Observation, Refusal, Stage, SubQuestion};
use spechop_window::{Effects, Event};

use super::Run;
use crate::notes::BranchNotes;
use crate::stages::{self, Work};
use crate::{Cost, Origin, TakenOver, TraceKind};

/// So far out is a look-up that no branch has asked yet: no branch is.
pub(super) const AHEAD: usize = usize::MAX - 1;

/// What a look-up that was begun before has brought.
struct Begun {
    /// How long it had already run, or how long it took.
    saved: Duration,
    /// What was guessed while nobody asked, and how long that took.
    guessed: Option<(Vec<Guess>, Duration)>,
    /// What it found while nobody asked, and how long that took.
    seen: Option<(Arc<Observation>, Duration)>,
}

impl Run<'_> {
    /// What a planner may be about to write behind these hops, the likeliest first. One at least is asked
    /// for: a planner itself may be quicker for it, which the standard agent's may be, too.
    pub(super) fn drafts_of(&self, hops: &[KnownHop]) -> Vec<Draft> {
        let Some(drafter) = &self.ports.drafter else {
            return Vec::new();
        };
        drafter.draft(&DraftRequest {
            tenant: &self.settings.tenant,
            question: self.question,
            hops,
            limit: self.settings.policy.drafts_max.max(1),
        })
    }

    /// The window hears what the branch may be about to write. For the look-ups that are then still allowed,
    /// somebody writes drafts, if there is somebody who does.
    pub(super) fn draft(&mut self, branch: BranchId) -> Effects {
        let Some(notes) = self.branches.get_mut(branch) else {
            return Effects::new();
        };
        let drafts = std::mem::take(&mut notes.drafts);
        if drafts.len() < self.settings.policy.drafts_max {
            self.write_drafts(branch);
        }
        if drafts.is_empty() {
            return Effects::new();
        }
        self.apply(Event::Drafted { branch, drafts })
    }

    /// Has drafts written while the branch writes: all samples side by side, none of them needed.
    fn write_drafts(&mut self, branch: BranchId) {
        let (ports, samples) = (self.ports, self.settings.draft_samples);
        let writer = ports.draft_writer.as_deref().filter(|_| samples > 0);
        let (Some(writer), Some(depth)) = (writer, self.window.depth(branch)) else {
            return;
        };
        // Without a look-up ahead of need a draft is of no use.
        if let Some(why) = self.may_not_look_ahead() {
            return self.refuse(branch, Stage::Draft, why);
        }
        let request = PlanRequest {
            question: self.question.clone(),
            hops: self.known(branch),
            must_answer: false,
            drafts: Vec::new(),
        };
        for sample in 0..samples {
            if sample > 0 && !self.ledger.can_price(Stage::Draft) {
                return;
            }
            // Each sample that is under way has something set aside.
            if !self.may_speculate() {
                return self.refuse(branch, Stage::Draft, Refusal::Budget);
            }
            let request = request.clone();
            self.launch(branch, depth + 1, Work::Draft(branch, sample), |call| {
                stages::draft(writer, call, request, sample)
            });
        }
    }

    /// Somebody has written a draft.
    pub(super) fn take_draft(
        &mut self,
        branch: BranchId,
        draft: Draft,
        cost: Cost,
    ) -> Option<Event> {
        let notes = self.branches.get_mut(branch)?;
        notes.model_drafts.push((draft.sub_question.clone(), cost));
        let drafts = vec![draft];
        Some(Event::Drafted { branch, drafts })
    }

    /// A look-up begins of a draft: if somebody has written that, it is noted what it has cost.
    pub(super) fn note_written(&mut self, branch: BranchId, lookup: LookupId, asked: &SubQuestion) {
        let drafts = self.branches.get(branch).map(|notes| &notes.model_drafts);
        let cost = drafts
            .into_iter()
            .flatten()
            .find(|(draft, _)| draft.has_words_of(asked))
            .map(|(_, cost)| *cost);
        if let Some(notes) = self.lookups.get_mut(lookup) {
            notes.draft_cost = cost.map(Box::new);
        }
    }

    /// Nobody needs further drafts for the branch.
    pub(super) fn stop_drafts(&mut self, branch: BranchId) {
        if self.ports.draft_writer.is_some() {
            for sample in 0..self.settings.draft_samples {
                self.stop(Work::Draft(branch, sample));
            }
        }
    }

    pub(super) fn tell_ahead(&mut self, branch: BranchId, asked: SubQuestion, chance: Chance) {
        self.ledger.draft();
        let notes = self.branches.entry(branch, BranchNotes::default);
        notes.drafted += 1;
        if notes.drafted >= self.settings.policy.drafts_max {
            self.stop_drafts(branch);
        }
        let sub_question = asked;
        self.tell(
            branch,
            TraceKind::AskedAhead {
                sub_question,
                chance,
            },
        );
    }

    /// The branch that a look-up is for, or that it was drafted for, and how many unverified branches lie
    /// before it.
    pub(super) fn asker_or_writer(&self, lookup: LookupId) -> Option<(BranchId, usize)> {
        match self.window.asker(lookup) {
            Some(branch) => Some((branch, self.window.depth(branch)?)),
            None => Some((self.window.drafted_for(lookup)?.0, AHEAD)),
        }
    }

    /// The branch asks what was drafted for it.
    pub(super) fn confirm(&mut self, branch: BranchId, lookup: LookupId) {
        let Some(begun) = self.take_over(branch, lookup, Origin::Drafted) else {
            return;
        };
        let saved = begun.saved;
        let mut cost = None;
        if let Some(notes) = self.lookups.get_mut(lookup) {
            notes.foreseen = Some(saved);
            cost = notes.draft_cost.take();
        }
        if let (Some(cost), Some(notes)) = (cost, self.branches.get_mut(branch)) {
            notes.paid.add(Stage::Draft, *cost);
        }
        self.ledger.foresee(saved);
        self.tell(branch, TraceKind::Foreseen { saved });
        self.tell_seen(branch, begun);
    }

    /// An aborted branch's look-up is what this branch asks.
    pub(super) fn salvage(&mut self, branch: BranchId, lookup: LookupId) {
        let Some(begun) = self.take_over(branch, lookup, Origin::RolledBack) else {
            return;
        };
        if let Some(notes) = self.lookups.get_mut(lookup) {
            notes.salvaged = true;
        }
        self.ledger.salvage();
        let saved = begun.saved;
        self.tell(branch, TraceKind::Salvaged { saved });
        self.tell_seen(branch, begun);
    }

    /// The look-up is to be called, for the first time or again. If again, what its first call had done by the
    /// time it was taken over was in vain. That a draft was right stays true.
    pub(super) fn forget_saved(&mut self, lookup: LookupId) {
        let Some(notes) = self.lookups.get_mut(lookup) else {
            return;
        };
        if std::mem::take(&mut notes.salvaged) {
            self.ledger.unsalvage();
        }
        // If not drafted any more, it has been taken back already.
        if std::mem::take(&mut notes.drafted)
            && let Some(saved) = notes.foreseen.as_mut().map(std::mem::take)
        {
            self.ledger.unforesee(saved);
        }
    }

    fn take_over(&mut self, branch: BranchId, lookup: LookupId, origin: Origin) -> Option<Begun> {
        if let Some(journal) = &self.settings.journal {
            journal.taken_over(TakenOver {
                lookup,
                branch,
                origin,
            });
        }
        self.running.release(lookup);
        // Asked before the promotion, which may be what gives it its turn.
        let is_queued = self.running.is_queued(Work::Target(lookup));
        if self.window.depth(branch) == Some(0) {
            self.promote_work(Work::Target(lookup));
        }
        let (now, hop) = (self.running.now(), self.hop(branch));
        let notes = self.lookups.get_mut(lookup)?;
        notes.asker = (branch, hop);
        let (seen, took) = (notes.unseen.take(), notes.target);
        let saved = if seen.is_some() || !took.is_zero() {
            took
        } else if is_queued {
            // It only stood in line, and none of it has run.
            Duration::ZERO
        } else {
            now - notes.launched
        };
        let seen = seen.map(|observation| (observation, took));
        let is_unheard = std::mem::take(&mut notes.is_unheard);
        let guess_took = notes.speculation.unwrap_or_default();
        let guessed = is_unheard.then(|| (notes.guesses.clone(), guess_took));
        Some(Begun {
            saved,
            guessed,
            seen,
        })
    }

    fn tell_seen(&mut self, branch: BranchId, begun: Begun) {
        if let Some((guesses, took)) = begun.guessed {
            self.tell(branch, TraceKind::Guessed { guesses, took });
        }
        if let Some((observation, took)) = begun.seen {
            self.tell(branch, TraceKind::Observed { observation, took });
        }
    }
}
