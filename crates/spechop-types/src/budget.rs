//! What a question may cost, and what it has cost.

use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Soft limits of one question: once one is used up, the answer is written from the committed hops.
/// Wasted work counts. `None` means no limit of that kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Wall-clock time for the whole question.
    pub time: Option<Duration>,
    /// Target calls started, aborted ones included.
    pub target_calls: Option<u32>,
    /// Tokens read and written by language models, aborted calls included.
    pub tokens: Option<u64>,
    /// The sum of what its calls cost, by the operator's prices.
    pub money: Option<Money>,
}

impl Budget {
    /// Its part for each of so many plans of a question that are followed side by side; `None` if there is
    /// nothing for one. All of them have the same time.
    #[must_use]
    pub fn shared_by(self, plans: u32) -> Option<Self> {
        let plans = plans.max(1);
        let part = |of: u64| of / u64::from(plans);
        let shared = Self {
            time: self.time,
            target_calls: self.target_calls.map(|calls| calls / plans),
            tokens: self.tokens.map(part),
            money: self.money.map(|money| Money(part(money.0))),
        };
        (!shared.is_used_up()).then_some(shared)
    }

    /// Whether nothing is left of something that it limits.
    pub fn is_used_up(&self) -> bool {
        self.time == Some(Duration::ZERO)
            || self.target_calls == Some(0)
            || self.tokens == Some(0)
            || self.money == Some(Money(0))
    }
}

/// An amount in millionths of the operator's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub u64);

/// What a call costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// The call itself, whether or not it ends.
    pub call: Money,
    /// A million tokens read.
    pub prompt_million: Money,
    /// A million tokens written.
    pub completion_million: Money,
}

impl Price {
    /// What tokens cost, rounded up to a millionth.
    pub fn of(self, tokens: Tokens) -> Money {
        let part = |tokens: u64, million: Money| u128::from(tokens) * u128::from(million.0);
        let sum = part(tokens.prompt, self.prompt_million)
            .saturating_add(part(tokens.completion, self.completion_million));
        Money(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl Money {
    /// Saturating sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Saturating difference: never below zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Tokens that a language model read and wrote. Sums stop at the largest number: a server names the
/// counts, and no count may make a sum small.
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
        self.prompt.saturating_add(self.completion)
    }

    /// What is left without the other one's, of each kind.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_sub(other.prompt),
            completion: self.completion.saturating_sub(other.completion),
        }
    }

    /// The larger number of each kind.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.max(other.prompt),
            completion: self.completion.max(other.completion),
        }
    }
}

impl Add for Tokens {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_add(other.prompt),
            completion: self.completion.saturating_add(other.completion),
        }
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_side_by_side_share_what_is_left_and_have_the_same_time() {
        let budget = Budget {
            time: Some(Duration::from_secs(9)),
            target_calls: Some(9),
            tokens: None,
            money: Some(Money(4)),
        };
        let shared = Budget {
            target_calls: Some(2),
            money: Some(Money(1)),
            ..budget
        };
        assert_eq!(budget.shared_by(4), Some(shared));
        // Money for four of five.
        assert_eq!(budget.shared_by(5), None);
        assert_eq!(Budget::default().shared_by(5), Some(Budget::default()));
    }

    #[test]
    fn tokens_are_priced_and_rounded_up() {
        let price = Price {
            call: Money(5),
            prompt_million: Money(150_000),
            completion_million: Money(600_000),
        };
        let tokens = |prompt, completion| Tokens { prompt, completion };
        assert_eq!(price.of(tokens(1_000, 100)), Money(210));
        assert_eq!(price.of(tokens(1, 0)), Money(1));
        assert_eq!(price.of(tokens(0, 0)), Money(0));
        let dear = Price {
            completion_million: Money(u64::MAX),
            ..price
        };
        assert_eq!(dear.of(tokens(0, u64::MAX)).0, u64::MAX);
        // Both kinds at their dearest: too much even for the wider number that is reckoned with.
        let dearest = Price {
            prompt_million: Money(u64::MAX),
            ..dear
        };
        assert_eq!(dearest.of(tokens(u64::MAX, u64::MAX)).0, u64::MAX);
    }

    #[test]
    fn no_count_makes_a_sum_small() {
        let most = Tokens {
            prompt: u64::MAX,
            completion: u64::MAX,
        };
        let mut sum = most + most;
        sum += most;
        assert_eq!(sum, most);
        assert_eq!(sum.total(), u64::MAX);
    }
}
