//! What a played question has called, and what of it was of use.

use crate::Calls;

/// Calls and tokens of a stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u32,
    pub(super) tokens: u64,
}

impl Tally {
    pub(super) fn add(&mut self, tokens: u64) {
        self.calls += 1;
        self.tokens += tokens;
    }

    /// What is not used is wasted.
    pub(super) fn less(self, used: Self) -> Calls {
        Calls {
            started: self.calls,
            wasted: self.calls.saturating_sub(used.calls),
            tokens: self.tokens,
            wasted_tokens: self.tokens.saturating_sub(used.tokens),
            ..Calls::default()
        }
    }
}

/// Those of every stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tallies {
    pub(super) segments: Tally,
    pub(super) targets: Tally,
    pub(super) speculations: Tally,
}
