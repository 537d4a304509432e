//! What each slot of the KV cache holds, and what a new prompt can reuse of it. Bookkeeping only.
//!
//! A slot is one sequence of the context. Outputs must not depend on what happens to be cached. If
//! the model computes the same bits however a prompt is cut into calls ([`Cuts::Anywhere`]), all that is
//! the same is reused.
//!
//! Else the last bits of a prompt's KV depend on the chunks it was processed in. Then the cut into
//! chunks is a function of the prompt alone ([`PromptTokens::chunk_end`]), and only whole chunks are
//! reused: whatever is found here is bit for bit what would be computed again. That holds for what
//! the model itself has written, too: a prompt says which of its tokens those are, and there each is a
//! chunk.
//!
//! A slot remembers whose prompt it holds. Other tenants can reuse its fixed part, the server's own
//! instructions, and nothing behind it. Of a bare text nothing is fixed.
//!
//! If it is known that a question goes on at once, what it has left is **reserved** for it: it leaves after all
//! else. Nobody waits for that, since a reserved slot is taken if there is no other. The next prompt that goes
//! on in the slot ends it, and so does the end of the question.
//!
//! What only a branch has read is dropped when that branch is rolled back: its sibling goes on in the same slot,
//! and needs no other.

use llama_cpp_2::token::LlamaToken;
use spechop_ports::{BranchFate, WeakLife};
use spechop_types::Owned;

use super::stakes::Stakes;

/// Tokens processed at once. Smaller reacts faster to cancels and promotions and reuses more of
/// a prefix; larger is faster on the whole, by little (`benches/local.rs`).
pub(super) const CHUNK_TOKENS: usize = 32;

/// A prompt as tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptTokens {
    pub(super) tokens: Vec<LlamaToken>,
    /// How many of them come from the fixed messages.
    pub(super) fixed: usize,
    pub(super) cuts: Cuts,
}

/// Where a prompt may be cut into calls of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cuts {
    /// It does not matter: the model is batch-invariant
    /// ([`Compute::is_batch_invariant`](super::compute::Compute::is_batch_invariant)).
    Anywhere,
    /// A chunk ends here at the latest, ascending: places up to which other prompts are likely to be the
    /// same. They depend on nothing that stands behind them.
    At(Vec<usize>),
}

impl Default for Cuts {
    fn default() -> Self {
        Self::At(Vec::new())
    }
}

impl Cuts {
    /// How many of them are not behind a place, and the last of those.
    fn until(cuts: &[usize], at: usize) -> (usize, usize) {
        let count = cuts.partition_point(|cut| *cut <= at);
        let last = count.checked_sub(1).map_or(0, |last| cuts[last]);
        (count, last)
    }
}

impl PromptTokens {
    /// Where the chunk that starts at `at` ends. Chunks are counted anew from every cut.
    pub(super) fn chunk_end(&self, at: usize) -> usize {
        let end = match &self.cuts {
            Cuts::Anywhere => at + CHUNK_TOKENS,
            Cuts::At(cuts) => {
                let (count, base) = Cuts::until(cuts, at);
                let next = base + ((at - base) / CHUNK_TOKENS + 1) * CHUNK_TOKENS;
                cuts.get(count).map_or(next, |cut| next.min(*cut))
            }
        };
        end.min(self.tokens.len())
    }

    /// Whether the chunks before `at` would be the same if other tokens followed.
    fn is_whole_at(&self, at: usize) -> bool {
        match &self.cuts {
            Cuts::Anywhere => true,
            Cuts::At(cuts) => (at - Cuts::until(cuts, at).1).is_multiple_of(CHUNK_TOKENS),
        }
    }

    /// The longest part in whole chunks of the first `at` tokens.
    pub(super) fn whole_until(&self, at: usize) -> usize {
        let at = at.min(self.tokens.len());
        if self.cuts == Cuts::Anywhere {
            return at;
        }
        let (mut whole, mut done) = (0, 0);
        while done < at {
            done = self.chunk_end(done);
            if done <= at && self.is_whole_at(done) {
                whole = done;
            }
        }
        whole
    }

    /// Of its first `count` tokens, which another prompt begins with, too: how many are whole chunks of both.
    pub(super) fn alike_until(&self, other: &Self, count: usize) -> usize {
        if self.cuts == Cuts::Anywhere && other.cuts == Cuts::Anywhere {
            return count;
        }
        let mut at = 0;
        while at < count {
            let end = self.chunk_end(at);
            if end > count || other.chunk_end(at) != end {
                break;
            }
            at = end;
        }
        at
    }

    /// Adds what was written behind it, if it is whole by then: each token is a chunk.
    pub(super) fn wrote(&mut self, written: &[LlamaToken]) {
        let from = self.tokens.len();
        if written.is_empty() || !self.is_whole_at(from) {
            return;
        }
        self.tokens.extend_from_slice(written);
        if let Cuts::At(cuts) = &mut self.cuts {
            let is_cut = Cuts::until(cuts, from).1 == from;
            cuts.extend((from..=self.tokens.len()).skip(usize::from(is_cut)));
        }
    }
}

/// What a slot's KV holds, apart from what the sequence running in it has beyond.
#[derive(Debug, Default)]
struct Slot {
    /// The leading tokens of a prompt, in whole chunks.
    held: Owned<PromptTokens>,
    /// Who needs them.
    stakes: Stakes,
    /// When it was last used, counted in uses.
    used: u64,
    running: bool,
    /// The question that it is reserved for.
    reserved_for: Option<WeakLife>,
}

/// How to prepare a slot for a prompt: copy all of `from` into `slot` unless they are the same,
/// then cut it to `keep` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) slot: usize,
    pub(super) from: usize,
    pub(super) keep: usize,
}

/// All slots.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    uses: u64,
}

impl Slots {
    /// `count` empty slots.
    pub(super) fn new(count: usize) -> Self {
        Self {
            slots: (0..count).map(|_| Slot::default()).collect(),
            uses: 0,
        }
    }

    /// Takes an idle slot for a prompt, the one whose loss costs least, and says what to put into
    /// it. `None` where all are running. The prompt is read for a call of that fate.
    pub(super) fn take(
        &mut self,
        prompt: &Owned<PromptTokens>,
        fate: Option<&BranchFate>,
    ) -> Option<Placement> {
        let (from, keep) = (0..self.slots.len())
            .map(|at| (at, self.reusable(at, prompt)))
            .max_by_key(|(at, keep)| (*keep, std::cmp::Reverse(*at)))?;
        // Of nothing, no slot is the source.
        let source = (keep > 0).then_some(from);
        let beginning = &self.slots[from];
        let stakes = beginning.stakes.grown(keep, fate);
        // Nothing is lost where the prompt only extends what an idle slot holds for somebody.
        let extends = keep > 0
            && !beginning.running
            && keep >= needed(&beginning.held.item, &beginning.stakes);
        let slot = if extends {
            from
        } else {
            self.drop_rolled_back();
            (0..self.slots.len())
                .filter(|at| !self.slots[*at].running)
                .min_by_key(|at| self.loss(*at, source))?
        };
        let from = source.unwrap_or(slot);
        self.uses += 1;
        self.slots[from].used = self.uses;
        let mut held = std::mem::take(&mut self.slots[slot].held.item);
        let wanted = &prompt.item;
        held.tokens.clear();
        held.tokens.extend_from_slice(&wanted.tokens[..keep]);
        held.cuts.clone_from(&wanted.cuts);
        held.fixed = wanted.fixed;
        self.slots[slot] = Slot {
            held: Owned::new(&prompt.tenant, held),
            stakes,
            used: self.uses,
            running: true,
            reserved_for: None,
        };
        Some(Placement { slot, from, keep })
    }

    /// Notes that the prompt's tokens up to `at` are now in the slot's KV.
    pub(super) fn processed(&mut self, slot: usize, prompt: &PromptTokens, at: usize) {
        let held = &mut self.slots[slot].held.item.tokens;
        if prompt.is_whole_at(at) {
            held.extend_from_slice(&prompt.tokens[held.len()..at]);
        }
    }

    /// Notes what was written behind the prompt, token by token.
    pub(super) fn wrote(&mut self, slot: usize, prompt: &PromptTokens, written: &[LlamaToken]) {
        let held = &mut self.slots[slot].held.item;
        if held.tokens.len() == prompt.tokens.len() {
            held.wrote(written);
        }
    }

    /// Notes that the first `at` tokens of the prompt came into the slot's KV from elsewhere, where these have
    /// a stake in them.
    pub(super) fn filled(&mut self, slot: usize, prompt: &PromptTokens, at: usize, stakes: Stakes) {
        let slot = &mut self.slots[slot];
        slot.stakes = stakes;
        let held = &mut slot.held.item.tokens;
        held.clear();
        held.extend_from_slice(&prompt.tokens[..prompt.whole_until(at)]);
    }

    /// Forgets what only branches have read that are rolled back. What of it is in the KV of an idle slot is cut
    /// off when the slot is taken.
    fn drop_rolled_back(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| !slot.running) {
            drop_unneeded(
                &mut slot.held.item,
                &mut slot.stakes,
                &mut slot.reserved_for,
            );
        }
    }

    /// What a slot holds.
    pub(super) fn held(&self, slot: usize) -> &Owned<PromptTokens> {
        &self.slots[slot].held
    }

    /// Who needs it.
    pub(super) fn stakes(&self, slot: usize) -> &Stakes {
        &self.slots[slot].stakes
    }

    /// What the slot holds leaves after all else, until it is used again or the question is over.
    pub(super) fn reserve(&mut self, slot: usize, life: WeakLife) {
        self.slots[slot].reserved_for = Some(life);
    }

    /// Gives a slot back. Returns how many tokens of its KV stay; the rest must be cut off.
    pub(super) fn release(&mut self, slot: usize) -> usize {
        let slot = &mut self.slots[slot];
        slot.running = false;
        slot.held.item.tokens.len()
    }

    /// Forgets what a slot holds, after a failure.
    pub(super) fn forget(&mut self, slot: usize) {
        self.slots[slot].held.item.tokens.clear();
    }

    fn reusable(&self, slot: usize, prompt: &Owned<PromptTokens>) -> usize {
        reusable(&self.slots[slot].held, prompt)
    }

    /// What overwriting an idle slot would cost, smallest first. Of those that would cost the same, the
    /// longest unused.
    fn loss(&self, at: usize, source: Option<usize>) -> (u8, bool, bool, u64) {
        let slot = &self.slots[at];
        let others = (0..self.slots.len()).filter(|other| *other != at);
        let others = others.map(|other| &self.slots[other].held.item);
        (
            loss_of(&slot.held.item, others),
            is_reserved(slot.reserved_for.as_ref()),
            Some(at) == source,
            slot.used,
        )
    }
}

/// How many leading tokens of the prompt are held, in the same chunks if those matter, as far as they may be
/// known to the prompt's tenant. At least one token of the prompt is left to compute: the next one
/// is predicted from it.
pub(super) fn reusable(held: &Owned<PromptTokens>, prompt: &Owned<PromptTokens>) -> usize {
    let Owned { tenant, item: held } = held;
    let is_own = *tenant == prompt.tenant;
    let prompt = &prompt.item;
    // Fixed in both: what a tenant asks may begin like instructions.
    let known = if is_own {
        prompt.tokens.len()
    } else {
        prompt.fixed.min(held.fixed)
    };
    let common = held
        .tokens
        .iter()
        .zip(&prompt.tokens)
        .take_while(|(a, b)| a == b)
        .count()
        .min(prompt.tokens.len().saturating_sub(1))
        .min(known);
    prompt.alike_until(held, common)
}

/// Forgets what only branches have read that are rolled back. If nothing is left, nothing is reserved.
pub(super) fn drop_unneeded(
    held: &mut PromptTokens,
    stakes: &mut Stakes,
    reserved_for: &mut Option<WeakLife>,
) {
    held.tokens.truncate(needed(held, stakes));
    stakes.cut();
    if held.tokens.is_empty() {
        *reserved_for = None;
    }
}

/// Of a held prompt, how many leading tokens somebody needs. Its fixed part is of use to all.
fn needed(held: &PromptTokens, stakes: &Stakes) -> usize {
    match stakes.needed() {
        Some(needed) => held.whole_until(needed.max(held.fixed)),
        None => held.tokens.len(),
    }
}

/// Whether something is reserved: for a question that is not over.
pub(super) fn is_reserved(reserved_for: Option<&WeakLife>) -> bool {
    reserved_for.is_some_and(|life| !life.is_over())
}

/// What the loss of a held prompt costs, smallest first: nothing held; a fixed part that others hold
/// too; the only copy of a fixed part. Whose it is does not count: a fixed part serves all, and of the
/// rest it is all the same to whom it is lost.
pub(super) fn loss_of<'a>(
    held: &PromptTokens,
    mut others: impl Iterator<Item = &'a PromptTokens>,
) -> u8 {
    let fixed = held.fixed;
    let is_beside = others.any(|beside| {
        beside.fixed == fixed
            && beside.tokens.len() >= fixed
            && held.tokens.len() >= fixed
            && beside.tokens[..fixed] == held.tokens[..fixed]
    });
    match (held.tokens.is_empty(), is_beside) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

#[cfg(test)]
mod tests;
