//! What the in-process model has done and is doing.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What a [`LocalModel`](crate::LocalModel) has done since it was opened, and what it is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalStats {
    /// Generations that wait for a worker, as of the last turn of any.
    pub waiting: u64,
    /// Generations that a worker has begun, moving or paused.
    pub running: u64,
    /// Generations answered with a text.
    pub finished: u64,
    /// Generations that ended because nobody waited for them any more.
    pub dropped: u64,
    /// Times a speculative generation lost its slot to a more urgent one, and what it had written.
    pub evicted: u64,
    /// Times a generation went on at another worker, with all that it had.
    pub handed_over: u64,
    /// Times a sequence was reserved for its question, since the output of what it asked for was at hand.
    pub reserved: u64,
    /// Times a generation was taken to more threads, since it was alone.
    pub widened: u64,
    /// Prompt tokens computed.
    pub prefilled_tokens: u64,
    /// Prompt tokens that were found in the KV cache instead.
    pub reused_tokens: u64,
    /// Tokens generated, thrown-away ones included.
    pub generated_tokens: u64,
    /// Tokens that were guessed without the model, and read by it several at once.
    pub guessed_tokens: u64,
    /// Those of them that it would have written itself.
    pub held_tokens: u64,
}

/// The same, as the engine counts.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) waiting: AtomicU64,
    pub(super) running: AtomicU64,
    pub(super) finished: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) handed_over: AtomicU64,
    pub(super) reserved: AtomicU64,
    pub(super) widened: AtomicU64,
    pub(super) prefilled_tokens: AtomicU64,
    pub(super) reused_tokens: AtomicU64,
    pub(super) generated_tokens: AtomicU64,
    pub(super) guessed_tokens: AtomicU64,
    pub(super) held_tokens: AtomicU64,
}

impl Counters {
    pub(super) fn stats(&self) -> LocalStats {
        LocalStats {
            waiting: self.waiting.load(Relaxed),
            running: self.running.load(Relaxed),
            finished: self.finished.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            handed_over: self.handed_over.load(Relaxed),
            reserved: self.reserved.load(Relaxed),
            widened: self.widened.load(Relaxed),
            prefilled_tokens: self.prefilled_tokens.load(Relaxed),
            reused_tokens: self.reused_tokens.load(Relaxed),
            generated_tokens: self.generated_tokens.load(Relaxed),
            guessed_tokens: self.guessed_tokens.load(Relaxed),
            held_tokens: self.held_tokens.load(Relaxed),
        }
    }
}
