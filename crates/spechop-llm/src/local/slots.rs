//! What each slot of the KV cache holds, and what a new prompt can reuse of it. Bookkeeping only.
//!
//! A slot is one sequence of the context. Outputs must not depend on what happens to be cached,
//! and the last bits of a prompt's KV depend on the chunks it was processed in. So the cut into
//! chunks is a function of the prompt alone ([`Prompt::chunk_end`]), and only whole chunks are
//! reused: whatever is found here is bit for bit what would be computed again.

use llama_cpp_2::token::LlamaToken;

/// Tokens processed at once. Smaller reacts faster to cancels and promotions and reuses more of
/// a prefix; larger is faster on the whole, by little (`benches/local.rs`).
pub(super) const CHUNK_TOKENS: usize = 32;

/// A conversation as tokens.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub(super) tokens: Vec<LlamaToken>,
    /// How many of them come from the fixed messages.
    pub(super) fixed: usize,
}

impl Prompt {
    /// Where the chunk that starts at `at` ends. Chunks are counted from the start up to the end
    /// of the fixed part, and anew from there.
    pub(super) fn chunk_end(&self, at: usize) -> usize {
        let (base, end) = if at < self.fixed {
            (0, self.fixed)
        } else {
            (self.fixed, self.tokens.len())
        };
        let next = base + ((at - base) / CHUNK_TOKENS + 1) * CHUNK_TOKENS;
        next.min(end)
    }

    /// Whether the chunks before `at` would be the same if other tokens followed.
    fn is_whole_at(&self, at: usize) -> bool {
        let base = if at < self.fixed { 0 } else { self.fixed };
        (at - base).is_multiple_of(CHUNK_TOKENS)
    }
}

/// What a slot's KV holds, apart from what the sequence running in it has beyond.
#[derive(Debug, Default)]
struct Slot {
    /// Tokens in whole chunks.
    tokens: Vec<LlamaToken>,
    /// [`Prompt::fixed`] of the prompt they come from.
    fixed: usize,
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
    pub(super) fn take(&mut self, prompt: &Prompt) -> Option<Placement> {
        let (from, keep) = (0..self.slots.len())
            .map(|at| (at, self.reusable(at, prompt)))
            .max_by_key(|(at, keep)| (*keep, std::cmp::Reverse(*at)))?;
        let source = &self.slots[from];
        // Nothing is lost where the prompt only extends what an idle slot holds.
        let extends = keep > 0 && !source.running && keep == source.tokens.len();
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
        let mut tokens = std::mem::take(&mut self.slots[slot].tokens);
        tokens.clear();
        tokens.extend_from_slice(&prompt.tokens[..keep]);
        self.slots[slot] = Slot {
            tokens,
            fixed: prompt.fixed,
            used: self.uses,
            running: true,
        };
        Some(Placement { slot, from, keep })
    }

    /// Notes that the prompt's tokens up to `at` are now in the slot's KV.
    pub(super) fn processed(&mut self, slot: usize, prompt: &Prompt, at: usize) {
        let slot = &mut self.slots[slot];
        if prompt.is_whole_at(at) {
            slot.tokens
                .extend_from_slice(&prompt.tokens[slot.tokens.len()..at]);
        }
    }

    /// Gives a slot back. Returns how many tokens of its KV stay; the rest must be cut off.
    pub(super) fn release(&mut self, slot: usize) -> usize {
        let slot = &mut self.slots[slot];
        slot.running = false;
        slot.tokens.len()
    }

    /// Forgets what a slot holds, after a failure.
    pub(super) fn forget(&mut self, slot: usize) {
        self.slots[slot].tokens.clear();
    }

    /// How many leading tokens of the prompt a slot holds in the same chunks. At least one token
    /// of the prompt is left to compute: the next one is predicted from it.
    fn reusable(&self, slot: usize, prompt: &Prompt) -> usize {
        let slot = &self.slots[slot];
        let common = slot
            .tokens
            .iter()
            .zip(&prompt.tokens)
            .take_while(|(a, b)| a == b)
            .count()
            .min(prompt.tokens.len().saturating_sub(1));
        // Chunks beyond the shorter fixed part are cut alike only if the fixed parts are equal.
        let common = if slot.fixed == prompt.fixed {
            common
        } else {
            common.min(slot.fixed).min(prompt.fixed) / CHUNK_TOKENS * CHUNK_TOKENS
        };
        (0..=common)
            .rev()
            .find(|at| prompt.is_whole_at(*at))
            .unwrap_or(0)
    }

    /// What overwriting an idle slot would cost, smallest first: nothing held; a fixed part that
    /// other slots hold too; the only copy of a fixed part. Then the longest unused.
    fn loss(&self, at: usize, source: usize) -> (u8, bool, u64) {
        let slot = &self.slots[at];
        let kind = if slot.tokens.is_empty() {
            0
        } else if self.slots.iter().enumerate().any(|(other, held)| {
            other != at
                && held.fixed == slot.fixed
                && held.tokens.len() >= slot.fixed
                && slot.tokens.len() >= slot.fixed
                && held.tokens[..slot.fixed] == slot.tokens[..slot.fixed]
        }) {
            1
        } else {
            2
        };
        (kind, at == source, slot.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prompt(ids: impl IntoIterator<Item = i32>, fixed: usize) -> Prompt {
        Prompt {
            tokens: ids.into_iter().map(LlamaToken::new).collect(),
            fixed,
        }
    }

    fn run(slots: &mut Slots, prompt: &Prompt) -> Placement {
        let placement = slots.take(prompt).expect("an idle slot");
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
        assert_eq!(slots.take(&prompt(0..130, 10)), None, "all are running");
    }

    proptest! {
        /// What is reused was processed in the very chunks that a fresh run would cut.
        #[test]
        fn reuse_never_moves_a_chunk(
            runs in prop::collection::vec((prop::collection::vec(0..2i32, 1..4), 0..120usize, 1..140usize), 1..24)
        ) {
            let mut slots = Slots::new(3);
            let mut chunks: Vec<Vec<(usize, usize)>> = vec![Vec::new(); 3];
            for (seed, fixed, len) in runs {
                // Long equal stretches, so that prefixes are shared often.
                let ids = (0..len).map(|at| seed[(at / 64).min(seed.len() - 1)]);
                let prompt = prompt(ids, fixed.min(len));
                let Placement { slot, from, keep } = slots.take(&prompt).unwrap();
                prop_assert!(keep < prompt.tokens.len());
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
            }
        }
    }
}
