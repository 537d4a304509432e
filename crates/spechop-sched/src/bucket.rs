//! A token bucket in whole nanoseconds: exact, so that a timer set for a token finds it there.

use std::num::NonZeroU32;
use std::time::Duration;

/// How many calls a backend may get in the long run, and how many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds from token to token; never zero.
    interval: u64,
    burst: NonZeroU32,
}

/// A rate that is no positive number of calls per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rate is a positive number of calls per second")]
pub struct InvalidRate;

impl Rate {
    /// `calls` per second in the long run, and `burst` at once after a pause.
    ///
    /// # Errors
    ///
    /// Where `calls` is no positive number, or less than one call in a year.
    pub fn per_second(calls: f64, burst: NonZeroU32) -> Result<Self, InvalidRate> {
        const YEAR: f64 = 365.0 * 86_400.0 * 1e9;
        let interval = 1e9 / calls;
        if !(calls > 0.0 && interval <= YEAR) {
            return Err(InvalidRate);
        }
        Ok(Self {
            interval: (interval.round() as u64).max(1),
            burst,
        })
    }

    /// One call at a time, and at least `gap` from one to the next.
    ///
    /// # Errors
    ///
    /// If `gap` is zero, or longer than a year.
    pub fn every(gap: Duration) -> Result<Self, InvalidRate> {
        if gap.is_zero() {
            return Err(InvalidRate);
        }
        Self::per_second(1.0 / gap.as_secs_f64(), NonZeroU32::MIN)
    }

    fn credit_max(self) -> u64 {
        self.interval.saturating_mul(u64::from(self.burst.get()))
    }
}

/// What is left of a [`Rate`].
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: Rate,
    /// A token costs an interval.
    credit: u64,
    as_of: Duration,
}

impl TokenBucket {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            credit: rate.credit_max(),
            as_of: Duration::ZERO,
        }
    }

    pub(crate) fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.as_of).as_nanos();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.credit = self
            .credit
            .saturating_add(passed)
            .min(self.rate.credit_max());
        self.as_of = self.as_of.max(now);
    }

    pub(crate) fn tokens(&self) -> usize {
        usize::try_from(self.credit / self.rate.interval).unwrap_or(usize::MAX)
    }

    /// Whether speculation may take one: a burst of authoritative calls finds half of it left.
    pub(crate) fn has_spare(&self) -> bool {
        self.credit >= self.spare_from()
    }

    pub(crate) fn take(&mut self) {
        self.credit = self.credit.saturating_sub(self.rate.interval);
    }

    /// When the next token is there; `None` where one is there already.
    pub(crate) fn next_token(&self) -> Option<Duration> {
        self.when(self.rate.interval)
    }

    /// When speculation may take the next one; `None` where it may already.
    pub(crate) fn next_spare(&self) -> Option<Duration> {
        self.when(self.spare_from())
    }

    fn spare_from(&self) -> u64 {
        let more_than_half = (self.rate.credit_max() / 2).saturating_add(1);
        more_than_half.max(self.rate.interval)
    }

    fn when(&self, credit: u64) -> Option<Duration> {
        let missing = credit.checked_sub(self.credit).filter(|n| *n > 0)?;
        Some(self.as_of + Duration::from_nanos(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(calls: f64, burst: u32) -> Rate {
        Rate::per_second(calls, NonZeroU32::new(burst).expect("a burst")).expect("a rate")
    }

    #[test]
    fn a_token_is_there_when_it_was_foretold() {
        let mut bucket = TokenBucket::new(rate(3.0, 2));
        for _ in 0..2 {
            assert_eq!(bucket.next_token(), None);
            bucket.take();
        }
        for _ in 0..1000 {
            let at = bucket.next_token().expect("the bucket is empty");
            bucket.refill(at - Duration::from_nanos(1));
            assert_eq!(bucket.tokens(), 0);
            bucket.refill(at);
            assert_eq!(bucket.tokens(), 1);
            bucket.take();
        }
        assert_eq!(bucket.as_of.as_secs(), 333);
    }

    #[test]
    fn half_of_a_burst_is_not_for_speculation() {
        let mut bucket = TokenBucket::new(rate(1.0, 4));
        bucket.take();
        assert!(bucket.has_spare());
        bucket.take();
        assert!(!bucket.has_spare());
        assert_eq!(bucket.next_spare(), Some(Duration::from_nanos(1)));
        let mut single = TokenBucket::new(rate(1.0, 1));
        assert!(single.has_spare());
        single.take();
        assert_eq!(single.next_spare(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for calls in [0.0, -1.0, f64::NAN, 1e-12] {
            assert_eq!(Rate::per_second(calls, NonZeroU32::MIN), Err(InvalidRate));
        }
        assert!(Rate::per_second(f64::INFINITY, NonZeroU32::MIN).is_ok());
        for gap in [Duration::ZERO, Duration::MAX] {
            assert_eq!(Rate::every(gap), Err(InvalidRate));
        }
        assert_eq!(
            Rate::every(Duration::from_millis(250)),
            Rate::per_second(4.0, NonZeroU32::MIN)
        );
    }
}
