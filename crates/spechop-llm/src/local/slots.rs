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

use llama_cpp_2::token::LlamaToken;
use spechop_types::Owned;

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
    /// When it was last used, counted in uses.
    used: u64,
    running: bool,
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
    /// it. `None` where all are running.
    pub(super) fn take(&mut self, prompt: &Owned<PromptTokens>) -> Option<Placement> {
        let (from, keep) = (0..self.slots.len())
            .map(|at| (at, self.reusable(at, prompt)))
            .max_by_key(|(at, keep)| (*keep, std::cmp::Reverse(*at)))?;
        let source = &self.slots[from];
        // Nothing is lost where the prompt only extends what an idle slot holds.
        let extends = keep > 0 && !source.running && keep == source.held.item.tokens.len();
        let slot = if extends {
            from
        } else {
            (0..self.slots.len())
                .filter(|at| !self.slots[*at].running)
                .min_by_key(|at| self.loss(*at, from))?
        };
        let from = if keep == 0 { slot } else { from };
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
            used: self.uses,
            running: true,
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

    /// Notes that the first `at` tokens of the prompt came into the slot's KV from elsewhere.
    pub(super) fn filled(&mut self, slot: usize, prompt: &PromptTokens, at: usize) {
        let held = &mut self.slots[slot].held.item.tokens;
        held.clear();
        held.extend_from_slice(&prompt.tokens[..prompt.whole_until(at)]);
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
    fn loss(&self, at: usize, source: usize) -> (u8, bool, u64) {
        let slot = &self.slots[at];
        let others = (0..self.slots.len()).filter(|other| *other != at);
        let others = others.map(|other| &self.slots[other].held.item);
        (loss_of(&slot.held.item, others), at == source, slot.used)
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spechop_types::Tenant;

    /// A prompt of the default tenant.
    fn own(item: &PromptTokens) -> Owned<PromptTokens> {
        Owned::new(&Tenant::default(), item.clone())
    }

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    fn prompt(ids: impl IntoIterator<Item = i32>, fixed: usize) -> PromptTokens {
        PromptTokens {
            tokens: ids.into_iter().map(LlamaToken::new).collect(),
            fixed,
            cuts: Cuts::At(vec![fixed]),
        }
    }

    fn run(slots: &mut Slots, prompt: &PromptTokens) -> Placement {
        run_of(&Tenant::default(), slots, prompt)
    }

    fn run_of(tenant: &Tenant, slots: &mut Slots, prompt: &PromptTokens) -> Placement {
        let owned = Owned::new(tenant, prompt.clone());
        let placement = slots.take(&owned).expect("an idle slot");
        let mut at = placement.keep;
        while at < prompt.tokens.len() {
            at = prompt.chunk_end(at);
            slots.processed(placement.slot, prompt, at);
        }
        placement
    }

    #[test]
    fn a_fixed_part_outlives_a_flood_of_others() {
        let mut slots = Slots::new(3);
        let planner = prompt((0..50).chain([900]), 50);
        let placed = run(&mut slots, &planner);
        slots.release(placed.slot);
        for n in 0..9 {
            let reader = prompt((100..140).chain([1000 + n]), 40);
            let placed = run(&mut slots, &reader);
            assert_eq!(placed.keep, if n == 0 { 0 } else { 40 });
            slots.release(placed.slot);
        }
        assert_eq!(run(&mut slots, &prompt((0..50).chain([901]), 50)).keep, 50);
    }

    #[test]
    fn an_extension_continues_in_place_and_a_fork_copies() {
        let mut slots = Slots::new(2);
        let first = run(&mut slots, &prompt(0..100, 10));
        slots.release(first.slot);
        // Whole chunks end at 10, 42, 74.
        let longer = run(&mut slots, &prompt(0..130, 10));
        assert_eq!(
            longer,
            Placement {
                slot: first.slot,
                from: first.slot,
                keep: 74
            }
        );
        let beside = run(&mut slots, &prompt(0..130, 10));
        assert_eq!((beside.from, beside.keep), (longer.slot, 106));
        assert_ne!(beside.slot, longer.slot);
        assert_eq!(
            slots.take(&own(&prompt(0..130, 10))),
            None,
            "all are running"
        );
    }

    #[test]
    fn a_text_that_grows_by_lines_is_reused_to_its_last_line() {
        let lines = |count: usize| PromptTokens {
            cuts: Cuts::At((1..=count).map(|line| 20 * line).collect()),
            ..prompt(0..20 * count as i32, 0)
        };
        let mut slots = Slots::new(2);
        for count in 1..6 {
            let placed = run(&mut slots, &lines(count));
            assert_eq!(placed.keep, 20 * (count - 1));
            assert_eq!(placed.from, placed.slot, "in place");
            slots.release(placed.slot);
        }
        // Of itself, all but the last chunk: the next token is predicted from that.
        assert_eq!(run(&mut slots, &lines(5)).keep, 80);
    }

    /// A text of ten tokens, and then lines: six tokens that the model has written, and five of what was found.
    fn asked(lines: i32) -> PromptTokens {
        let mut cuts = vec![10];
        for line in 0..lines as usize {
            let from = 10 + 11 * line;
            cuts.extend(from + 1..=from + 6);
            cuts.push(from + 11);
        }
        PromptTokens {
            cuts: Cuts::At(cuts),
            ..prompt(0..10 + 11 * lines, 0)
        }
    }

    #[test]
    fn what_was_written_is_not_read_again() {
        let mut slots = Slots::new(2);
        let first = run(&mut slots, &asked(0));
        // It writes a seventh token, which ends its line and has not been read.
        let written: Vec<_> = (10..16).map(LlamaToken::new).collect();
        slots.wrote(first.slot, &asked(0), &written);
        assert_eq!(slots.release(first.slot), 16);
        let second = run(&mut slots, &asked(1));
        assert_eq!((second.from, second.keep), (first.slot, 16));
        // As it would be read by whoever has not written it.
        let mut fresh = Slots::new(1);
        let placed = run(&mut fresh, &asked(1));
        let held = |slots: &Slots, slot: usize| {
            let held = &slots.slots[slot].held.item;
            let end = held.tokens.len();
            (held.tokens.clone(), held.cuts.clone(), end)
        };
        assert_eq!(held(&slots, second.slot), held(&fresh, placed.slot));
        // Behind half of a chunk nothing can be kept.
        let ragged = PromptTokens {
            cuts: Cuts::default(),
            ..prompt(0..10, 0)
        };
        let mut slots = Slots::new(1);
        let placed = run(&mut slots, &ragged);
        slots.wrote(placed.slot, &ragged, &written);
        assert_eq!(slots.release(placed.slot), 0);
    }

    /// Of a model for which it does not matter where a prompt is cut, everything that is the same is reused.
    #[test]
    fn what_may_be_cut_anywhere_is_reused_to_the_last_token() {
        let anywhere = |ids: std::ops::Range<i32>| PromptTokens {
            cuts: Cuts::Anywhere,
            ..prompt(ids, 10)
        };
        let mut slots = Slots::new(2);
        let first = run(&mut slots, &anywhere(0..77));
        let written: Vec<_> = (77..90).map(LlamaToken::new).collect();
        slots.wrote(first.slot, &anywhere(0..77), &written);
        assert_eq!(slots.release(first.slot), 90);
        let longer = run(&mut slots, &anywhere(0..103));
        assert_eq!((longer.from, longer.keep), (first.slot, 90));
        assert_eq!(slots.release(longer.slot), 103);
        // The next token is predicted from the last one.
        assert_eq!(run(&mut slots, &anywhere(0..50)).keep, 49);
        let stranger = tenant("b");
        assert_eq!(run_of(&stranger, &mut slots, &anywhere(0..50)).keep, 10);
    }

    #[test]
    fn of_another_tenant_the_fixed_part_is_reused_and_no_more() {
        let [a, b] = ["a", "b"].map(tenant);
        let mut slots = Slots::new(3);
        let asked = prompt(0..130, 64);
        // What some have asked is fixed for others: that makes it no more known.
        let longer = prompt(0..130, 96);
        for (tenant, prompt, keep) in [
            (&a, &asked, 0),
            (&b, &asked, 64),
            (&tenant("c"), &longer, 64),
            (&a, &asked, 128),
            (&tenant("d"), &longer, 96),
            (&tenant("e"), &prompt(0..130, 0), 0),
        ] {
            let placed = run_of(tenant, &mut slots, prompt);
            assert_eq!(placed.keep, keep, "{tenant}");
            slots.release(placed.slot);
        }
    }

    proptest! {
        /// What is reused was processed in the very chunks that a fresh run would cut. And it is the
        /// tenant's own, or was fixed for whoever left it.
        #[test]
        fn reuse_never_moves_a_chunk_nor_tells_of_another_tenant(
            runs in prop::collection::vec(
                (
                    prop::collection::vec(0..2i32, 1..4),
                    prop::collection::btree_set(0..140usize, 0..4),
                    1..140usize,
                    prop::sample::select(vec!["a", "b"]),
                ),
                1..24,
            )
        ) {
            let mut slots = Slots::new(3);
            let mut chunks: Vec<Vec<(usize, usize)>> = vec![Vec::new(); 3];
            // Whose each token of a slot is; nobody's if it is fixed.
            let mut owners: Vec<Vec<Option<Tenant>>> = vec![Vec::new(); 3];
            for (seed, cuts, len, name) in runs {
                let tenant = tenant(name);
                // Long equal stretches, so that prefixes are shared often.
                let ids = (0..len).map(|at| seed[(at / 64).min(seed.len() - 1)]);
                let fixed = cuts.first().map_or(0, |cut| *cut.min(&len));
                let cuts = cuts.into_iter().filter(|cut| *cut <= len).collect();
                let prompt = PromptTokens { cuts: Cuts::At(cuts), ..prompt(ids, fixed) };
                let owned = Owned::new(&tenant, prompt.clone());
                let Placement { slot, from, keep } = slots.take(&owned).unwrap();
                prop_assert!(keep < prompt.tokens.len());
                let mut by = owners[from].clone();
                by.truncate(keep);
                prop_assert_eq!(by.len(), keep);
                prop_assert!(by.iter().flatten().all(|owner| *owner == tenant));
                by.resize(len, Some(tenant));
                by[..fixed].fill(None);
                let mut cut: Vec<_> = chunks[from].clone();
                cut.retain(|(_, end)| *end <= keep);
                let mut fresh = Vec::new();
                let mut at = 0;
                while at < prompt.tokens.len() {
                    let end = prompt.chunk_end(at);
                    prop_assert!(end > at && end - at <= CHUNK_TOKENS);
                    fresh.push((at, end));
                    if at >= keep {
                        cut.push((at, end));
                        slots.processed(slot, &prompt, end);
                    }
                    at = end;
                }
                prop_assert_eq!(&cut, &fresh);
                let kept = slots.release(slot);
                cut.retain(|(_, end)| *end <= kept);
                chunks[slot] = cut;
                by.truncate(kept);
                owners[slot] = by;
            }
        }
    }
}
