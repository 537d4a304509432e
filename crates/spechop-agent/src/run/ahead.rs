//! Look-ups that were begun for somebody else, or before anybody asked: drafted, confirmed, salvaged.

use std::sync::Arc;
use std::time::Duration;

use spechop_ports::{DraftRequest, KnownHop};
use spechop_types::{BranchId, Chance, LookupId, Observation, SubQuestion};
use spechop_window::{Draft, Effect, Event};

use super::Run;
use crate::TraceKind;
use crate::notes::BranchNotes;
use crate::stages::Work;

/// So far out is a look-up that no branch has asked yet: no branch is.
pub(super) const AHEAD: usize = usize::MAX - 1;

/// What a look-up that was begun before has brought.
struct Begun {
    /// How long it had already run, or how long it took.
    saved: Duration,
    /// What it found while nobody asked, and how long that took.
    seen: Option<(Arc<Observation>, Duration)>,
}

impl Run<'_> {
    /// What a planner may be about to write behind these hops, the likeliest first. One at least is asked
    /// for: a planner itself may be quicker for it, which the standard agent's may be, too.
    pub(super) fn drafts_of(&self, hops: &[KnownHop]) -> Vec<spechop_ports::Draft> {
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

    /// The window hears what the branch may be about to write.
    pub(super) fn draft(&mut self, branch: BranchId) -> Vec<Effect> {
        let Some(notes) = self.branches.get_mut(branch) else {
            return Vec::new();
        };
        let drafts = std::mem::take(&mut notes.drafts);
        if drafts.is_empty() {
            return Vec::new();
        }
        let draft = |draft: spechop_ports::Draft| Draft {
            sub_question: draft.sub_question,
            chance: draft.chance,
        };
        let drafts = drafts.into_iter().map(draft).collect();
        self.apply(Event::Drafted { branch, drafts })
    }

    pub(super) fn tell_ahead(&mut self, branch: BranchId, asked: SubQuestion, chance: Chance) {
        self.ledger.draft();
        self.branches.entry(branch, BranchNotes::default).drafted = true;
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
        let Some(begun) = self.take_over(branch, lookup) else {
            return;
        };
        let saved = begun.saved;
        if let Some(notes) = self.lookups.get_mut(lookup) {
            notes.foreseen = Some(saved);
        }
        self.ledger.foresee(saved);
        self.tell(branch, TraceKind::Foreseen { saved });
        self.tell_seen(branch, begun);
    }

    /// An aborted branch's look-up is what this branch asks.
    pub(super) fn salvage(&mut self, branch: BranchId, lookup: LookupId) {
        let Some(begun) = self.take_over(branch, lookup) else {
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

    fn take_over(&mut self, branch: BranchId, lookup: LookupId) -> Option<Begun> {
        self.running.release(lookup);
        if self.window.depth(branch) == Some(0) {
            self.running.promote(Work::Target(lookup));
        }
        let now = self.running.now();
        let notes = self.lookups.get_mut(lookup)?;
        let (seen, took) = (notes.unseen.take(), notes.target);
        let saved = if seen.is_some() || !took.is_zero() {
            took
        } else {
            now - notes.launched
        };
        let seen = seen.map(|observation| (observation, took));
        Some(Begun { saved, seen })
    }

    fn tell_seen(&mut self, branch: BranchId, begun: Begun) {
        if let Some((observation, took)) = begun.seen {
            self.tell(branch, TraceKind::Observed { observation, took });
        }
    }
}
