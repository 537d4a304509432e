//! How the memory for KV and the cores are divided among the workers of a model.

use super::LocalModelOptions;

/// What each worker gets, and what they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Generations that may have begun at each worker.
    pub(super) sequences: u32,
    /// Slots of each worker's context: those beyond the sequences keep prompts.
    pub(super) slots: u32,
    /// Prompts of full length whose KV is kept outside of the contexts, for all workers.
    pub(super) kept_prompts: u32,
    /// Threads of each worker.
    pub(super) threads: u32,
    /// Threads for a text that is needed and alone: at least as many.
    pub(super) threads_alone: u32,
}

impl Shares {
    /// Of a model whose KV is of no use elsewhere, nothing is kept outside of the contexts, and a text stays on its
    /// worker's threads. What would have been kept there is kept by each worker, as its share.
    pub(super) fn without_moves(self, workers: u32) -> Self {
        let own = self.kept_prompts.div_ceil(workers);
        Self {
            slots: self.slots.saturating_add(own).min(SLOTS_MAX),
            kept_prompts: 0,
            threads_alone: self.threads,
            ..self
        }
    }

    /// One worker keeps prompts in its own context, where nothing must be copied. Several keep most of
    /// them where all find them.
    pub(super) fn of(options: &LocalModelOptions, cores: u32) -> Self {
        let workers = options.workers.get();
        let kept = options.kept_prompts;
        let own = match workers {
            1 => kept,
            _ => kept / (2 * workers),
        };
        let sequences = options.sequences.div_ceil(workers).max(1);
        let slots = sequences.saturating_add(own).min(SLOTS_MAX);
        let named = options.threads.map(std::num::NonZeroU32::get);
        let threads = named.unwrap_or((cores / workers).max(1));
        let alone = match named {
            Some(_) => threads,
            None => threads.max(cores.min(ALONE_MAX)),
        };
        Self {
            sequences: sequences.min(slots),
            slots,
            kept_prompts: kept - own * workers,
            threads,
            threads_alone: alone,
        }
    }
}

/// Most threads that a text is given for being alone: a further one gains next to nothing.
const ALONE_MAX: u32 = 4;

/// llama.cpp's own limit.
const SLOTS_MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    /// Workers, sequences, kept prompts, threads named, cores.
    type Given = (u32, u32, u32, u32, u32);
    /// Sequences, slots, kept prompts, threads, and threads of a text that is alone.
    type Found = (u32, u32, u32, u32, u32);

    fn shares((workers, sequences, kept, threads, cores): Given) -> Shares {
        let options = LocalModelOptions {
            workers: NonZeroU32::new(workers).unwrap(),
            sequences,
            kept_prompts: kept,
            threads: NonZeroU32::new(threads),
            ..LocalModelOptions::new("")
        };
        Shares::of(&options, cores)
    }

    fn check(given: Given, shares: Shares, expected: Found) {
        let found = (
            shares.sequences,
            shares.slots,
            shares.kept_prompts,
            shares.threads,
            shares.threads_alone,
        );
        assert_eq!(found, expected, "{given:?}");
    }

    #[test]
    fn memory_and_cores_are_divided() {
        for (given, expected) in [
            ((1, 4, 8, 0, 1), (4, 12, 0, 1, 1)),
            ((1, 4, 8, 0, 8), (4, 12, 0, 8, 8)),
            ((1, 0, 0, 0, 2), (1, 1, 0, 2, 2)),
            ((2, 4, 8, 1, 2), (2, 4, 4, 1, 1)),
            ((2, 4, 3, 0, 2), (2, 2, 3, 1, 2)),
            ((2, 4, 3, 0, 9), (2, 2, 3, 4, 4)),
            ((8, 8, 0, 0, 8), (1, 1, 0, 1, 4)),
            ((4, 4, 8, 0, 2), (1, 2, 4, 1, 2)),
            ((16, 4, 8, 1, 16), (1, 1, 8, 1, 1)),
            ((1, 4000, 8, 1, 1), (256, 256, 0, 1, 1)),
        ] {
            check(given, shares(given), expected);
        }
    }

    #[test]
    fn each_worker_keeps_prompts_of_its_own_if_their_kv_cannot_be_moved() {
        for (given, expected) in [
            ((1, 4, 8, 0, 8), (4, 12, 0, 8, 8)),
            ((2, 4, 3, 0, 2), (2, 4, 0, 1, 1)),
            ((2, 4, 8, 1, 2), (2, 6, 0, 1, 1)),
            // A call would overwrite the only slot.
            ((4, 4, 3, 0, 8), (1, 2, 0, 2, 2)),
            ((16, 4, 8, 1, 16), (1, 2, 0, 1, 1)),
            // Nothing is to be kept.
            ((8, 8, 0, 0, 8), (1, 1, 0, 1, 1)),
            ((2, 600, 3, 1, 1), (256, 256, 0, 1, 1)),
        ] {
            check(given, shares(given).without_moves(given.0), expected);
        }
    }
}
