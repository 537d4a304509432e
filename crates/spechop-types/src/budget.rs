//! What a question may cost, and what it has cost.

use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Hard limits for one question. Wasted work counts. `None` means no limit of that kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Wall-clock time for the whole question.
    pub time: Option<Duration>,
    /// Target calls started, aborted ones included.
    pub target_calls: Option<u32>,
    /// Tokens read and written by language models, aborted calls included.
    pub tokens: Option<u64>,
}

/// Tokens that a language model read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens of the prompt, cached ones included.
    pub prompt: u64,
    /// Tokens generated.
    pub completion: u64,
}

impl Tokens {
    /// Prompt and completion together.
    pub fn total(self) -> u64 {
        self.prompt + self.completion
    }
}

impl Add for Tokens {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            prompt: self.prompt + other.prompt,
            completion: self.completion + other.completion,
        }
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
