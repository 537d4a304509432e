//! Drafted look-ups: launched while the planner is still writing what may be just their words.

use spechop_types::{BranchId, Chance, Draft, LookupId, SubQuestion};

use crate::branch::Segment;
use crate::lookup::Lookup;
use crate::window::Window;
use crate::{Effect, Effects};

impl Window {
    /// The branch that a look-up was drafted for, and the chance that it will be needed: the branch becomes
    /// head, and asks it. `None` once a branch has asked it, and for every other look-up.
    pub fn drafted_for(&self, lookup: LookupId) -> Option<(BranchId, Chance)> {
        let (branch, chance) = self.find(lookup)?.draft?;
        Some((branch, self.chance(branch).and(chance)))
    }

    /// Whether drafts are of use to a branch that begins to write. What stands on an answer that is left
    /// open is ahead of its time already.
    pub(crate) fn asks_for_drafts(&self, at: usize) -> bool {
        self.limits().policy.drafts_max > 0
            && !self.is_standard()
            && self.branches[at].stop.is_none()
            && !self.is_open(at)
    }

    pub(crate) fn drafted(&mut self, id: BranchId, drafts: Vec<Draft>, effects: &mut Effects) {
        let Some(at) = self.position(id) else { return };
        let writes = matches!(self.branches[at].segment, Segment::Writing(_));
        if !writes || !self.asks_for_drafts(at) {
            return;
        }
        let policy = self.limits().policy;
        for Draft {
            sub_question,
            chance,
        } in drafts
        {
            let drafted = self.lookups.iter().filter(|l| l.is_drafted_for(id));
            if drafted.count() >= policy.drafts_max {
                return;
            }
            if self.is_worth_drafting(id, &sub_question, chance) {
                self.launch(sub_question, None, Some((id, chance)), effects);
            }
        }
    }

    /// A planner that asks what it has asked must answer, so nobody would take that over. What is looked up
    /// already needs no draft.
    fn is_worth_drafting(&self, id: BranchId, asked: &SubQuestion, chance: Chance) -> bool {
        let least = self.limits().policy.chance_min;
        !asked.key().is_empty()
            && (least == Chance::NONE || self.chance(id).and(chance) >= least)
            && !self.trajectory(id).any(|(before, _)| before == asked)
            && !self.lookups.iter().any(|l| l.asked.has_words_of(asked))
    }

    /// The branch has written, or is gone: what was drafted for it, and what nobody asks, goes.
    pub(crate) fn drop_drafts(&mut self, of: BranchId, effects: &mut Effects) {
        if self.limits().policy.drafts_max == 0 {
            return;
        }
        self.lookups.retain(|lookup: &Lookup| {
            let goes = lookup.is_drafted_for(of);
            if goes {
                effects.push(Effect::Drop { lookup: lookup.id });
            }
            !goes
        });
    }
}
