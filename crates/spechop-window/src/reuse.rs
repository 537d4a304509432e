//! Look-ups: launched once, shared by siblings, kept as orphans, taken over.

use std::sync::Arc;

use smallvec::SmallVec;
use spechop_types::{BranchId, Chance, LookupId, Observation, Stage, SubQuestion};

use crate::branch::{Branch, Granted, Launched};
use crate::extend::Offer;
use crate::lookup::{Guessing, Lookup, Target};
use crate::window::{Window, launched, place};
use crate::{Effect, Effects};

impl Window {
    pub(crate) fn find(&self, id: LookupId) -> Option<&Lookup> {
        self.lookups.get(self.place_of(id)?)
    }

    fn place_of(&self, id: LookupId) -> Option<usize> {
        place(&self.lookups, id.0, |lookup| lookup.id.0)
    }

    pub(crate) fn find_mut(&mut self, id: LookupId) -> Option<&mut Lookup> {
        let at = self.place_of(id)?;
        self.lookups.get_mut(at)
    }

    /// The look-up of a sub-question: an orphan's, a draft's or a sibling's that asks the same, or a new one.
    pub(crate) fn look_up(
        &mut self,
        at: usize,
        asked: &SubQuestion,
        effects: &mut Effects,
    ) -> LookupId {
        let branch = self.branches[at].id;
        let guesses = self.guesses_at_once();
        let on_observation = self.limits().policy.build_on_observations || at == 0;
        if let Some(same) = self
            .lookups
            .iter_mut()
            .find(|l| l.asked.has_words_of(asked))
        {
            let lookup = same.id;
            if same.draft.take().is_some() {
                effects.push(Effect::Confirm { branch, lookup });
            } else if same.users.is_empty() {
                effects.push(Effect::Salvage { branch, lookup });
            }
            same.users.push(branch);
            let is_of_use = same.observation().is_none() || !on_observation;
            if guesses && same.guessing == Guessing::Idle && is_of_use {
                same.guessing = Guessing::Running(SmallVec::new());
                effects.push(Effect::Guess { lookup });
            }
            return lookup;
        }
        self.launch(asked.clone(), Some(at), None, effects)
    }

    /// A new look-up: of the branch that stands at this place, or drafted for one.
    pub(crate) fn launch(
        &mut self,
        asked: SubQuestion,
        user: Option<usize>,
        draft: Option<(BranchId, Chance)>,
        effects: &mut Effects,
    ) -> LookupId {
        let lookup = LookupId(self.next_lookup);
        self.next_lookup += 1;
        effects.push(Effect::Call { lookup });
        let guesses = match user {
            Some(_) => self.guesses_at_once(),
            None => self.limits().policy.draft_guesses && !self.is_standard(),
        };
        if guesses {
            effects.push(Effect::Guess { lookup });
        }
        self.lookups.push_back(Lookup {
            id: lookup,
            asked,
            target: Target::Running(user.map_or(Launched::Speculative, launched)),
            guessing: if guesses {
                Guessing::Running(SmallVec::new())
            } else {
                Guessing::Idle
            },
            users: user.map(|at| self.branches[at].id).into_iter().collect(),
            draft,
            orphaned: 0,
        });
        lookup
    }

    pub(crate) fn observed(
        &mut self,
        id: LookupId,
        observation: Arc<Observation>,
        effects: &mut Effects,
    ) {
        let Some(lookup) = self.find_mut(id) else {
            return;
        };
        if !matches!(lookup.target, Target::Running(_)) {
            return;
        }
        lookup.target = Target::Observed(observation);
        let users = lookup.users.clone();
        self.drop_needless_guess(id, effects);
        for user in users {
            self.offer_observation(user, effects);
        }
        self.settle(effects);
    }

    /// A guess, running or waiting for room, is not needed any more if its look-up is beyond guesses (law 5).
    pub(crate) fn drop_needless_guess(&mut self, id: LookupId, effects: &mut Effects) {
        let is_needless = self.find(id).is_some_and(|l| self.is_beyond_guesses(l));
        if is_needless
            && let Some(lookup) = self.find_mut(id)
            && std::mem::replace(&mut lookup.guessing, Guessing::Idle).is_running()
        {
            effects.push(Effect::DropGuess { lookup: id });
        }
    }

    /// The branch's answer is observed: it is left open no more. Where branches are built on observations,
    /// no more is built on guesses of it, and if nothing has been, the next branch can be built on the
    /// observation.
    pub(crate) fn offer_observation(&mut self, user: BranchId, effects: &mut Effects) {
        let goes_on_guessing = !self.limits().policy.build_on_observations;
        self.offers.retain(|Offer { base, .. }| {
            base.parent != user || (goes_on_guessing && !base.granted.is_open())
        });
        self.abort_where(|b| b.is_child_of(user) && b.stands_open(), effects);
        let Some(at) = self.position(user).filter(|at| *at > 0) else {
            // The head's hop is committed instead.
            return;
        };
        if goes_on_guessing {
            return;
        }
        let observation = self.lookup(user).and_then(|id| self.observation(id));
        if let Some(observation) = observation.cloned()
            && self.children(user).next().is_none()
        {
            self.offer(at, Granted::Observation(observation), 0);
        }
    }

    pub(crate) fn call_failed(&mut self, id: LookupId, effects: &mut Effects) {
        let head = self.branches.front().map(|head| head.id);
        let Some(lookup) = self.find_mut(id) else {
            return;
        };
        let Target::Running(launched) = lookup.target else {
            return;
        };
        match head.filter(|head| lookup.users.contains(head)) {
            Some(head) if launched == Launched::Authoritative => {
                return self.fail(head, Stage::Target, effects);
            }
            _ if lookup.users.is_empty() => self.drop_lookup(id, effects),
            _ => lookup.target = Target::Failed,
        }
        self.settle(effects);
    }

    pub(crate) fn expired(&mut self, id: LookupId, effects: &mut Effects) {
        let runs = |l: &Lookup| l.is_orphan() && matches!(l.target, Target::Running(_));
        if self.find(id).is_some_and(runs) {
            self.drop_lookup(id, effects);
        }
    }

    /// The living branches that stand directly on this one, best guess first.
    pub(crate) fn children(&self, parent: BranchId) -> impl Iterator<Item = &Branch> {
        let from = self
            .position(parent)
            .map_or(self.branches.len(), |at| at + 1);
        self.branches
            .range(from..)
            .filter(move |b| b.is_child_of(parent))
    }

    /// Aborts the branches for which `is_root` holds and all that stand on them. A look-up that no
    /// living branch needs becomes an orphan.
    pub(crate) fn abort_where(&mut self, is_root: impl Fn(&Branch) -> bool, effects: &mut Effects) {
        let mut gone: SmallVec<[(BranchId, Option<LookupId>); 8]> = SmallVec::new();
        let is_gone = |gone: &[(BranchId, _)], id: BranchId| {
            gone.binary_search_by_key(&id, |(gone, _)| *gone).is_ok()
        };
        self.branches.retain(|b| {
            let falls = b
                .base
                .as_ref()
                .is_some_and(|base| is_gone(&gone, base.parent));
            if falls || is_root(b) {
                gone.push((b.id, b.lookup()));
                effects.push(Effect::Abort { branch: b.id });
                return false;
            }
            true
        });
        if gone.is_empty() {
            return;
        }
        self.offers
            .retain(|offer| !is_gone(&gone, offer.base.parent));
        for (branch, lookup) in gone {
            match lookup {
                Some(lookup) => self.release(branch, lookup, effects),
                None => self.drop_drafts(branch, effects),
            }
        }
    }

    fn release(&mut self, branch: BranchId, id: LookupId, effects: &mut Effects) {
        let most = self.limits().policy.orphans_max;
        let orphaned = self.orphaned;
        let Some(lookup) = self.find_mut(id) else {
            return;
        };
        lookup.users.retain(|user| *user != branch);
        if !lookup.is_orphan() {
            return;
        }
        if most == 0 || matches!(lookup.target, Target::Failed) {
            return self.drop_lookup(id, effects);
        }
        if let Guessing::Running(told) = &mut lookup.guessing {
            // What was told already is there for whoever takes the look-up over.
            lookup.guessing = match std::mem::take(told) {
                told if told.is_empty() => Guessing::Idle,
                told => Guessing::Over(told),
            };
            effects.push(Effect::DropGuess { lookup: id });
        }
        lookup.orphaned = orphaned;
        if matches!(lookup.target, Target::Running(_)) {
            effects.push(Effect::Orphan { lookup: id });
        }
        self.orphaned += 1;
        let orphans = || self.lookups.iter().filter(|l| l.is_orphan());
        if orphans().count() > most
            && let Some(oldest) = orphans().min_by_key(|l| l.orphaned).map(|l| l.id)
        {
            self.drop_lookup(oldest, effects);
        }
    }

    fn drop_lookup(&mut self, id: LookupId, effects: &mut Effects) {
        self.forget(id);
        effects.push(Effect::Drop { lookup: id });
    }

    pub(crate) fn forget(&mut self, id: LookupId) {
        if let Some(at) = self.place_of(id) {
            self.lookups.remove(at);
        }
    }

    /// Ends everything: no branch and no look-up is left.
    pub(crate) fn abort_all(&mut self, effects: &mut Effects) {
        effects.extend(
            self.branches
                .drain(..)
                .map(|b| Effect::Abort { branch: b.id }),
        );
        self.drop_all(effects);
        self.offers.clear();
        self.verifying = None;
        self.refuted = None;
    }

    /// Drops every look-up: the answer needs none of them any more.
    pub(crate) fn drop_all(&mut self, effects: &mut Effects) {
        effects.extend(
            self.lookups
                .drain(..)
                .map(|l| Effect::Drop { lookup: l.id }),
        );
    }
}
