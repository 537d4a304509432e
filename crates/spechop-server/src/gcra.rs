//! A token bucket in one number: the time at which the next token would have been due.
//!
//! Tokens come at an interval, and as many as the burst are kept. The bucket either lends (the caller
//! waits for its turn) or refuses (the caller hears when to come again).

use std::time::Duration;

use tokio::time::Instant;

/// A bucket by the generic cell rate algorithm; a new one is full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gcra {
    /// When the token behind the last one that was taken comes; `None` if none was taken yet.
    next: Option<Instant>,
}

impl Gcra {
    /// Takes a token in any case, and says when it is there: now, or later.
    pub(crate) fn lend(&mut self, now: Instant, interval: Duration, burst: u32) -> Instant {
        let next = self.from(now, interval, burst) + interval;
        self.next = Some(next);
        next.max(now)
    }

    /// Takes a token if one is there. Else says how long that will take.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        interval: Duration,
        burst: u32,
    ) -> Result<(), Duration> {
        let next = self.from(now, interval, burst) + interval;
        if next > now {
            return Err(next - now);
        }
        self.next = Some(next);
        Ok(())
    }

    /// Whether it is as good as new.
    pub(crate) fn is_full(&self, now: Instant, interval: Duration, burst: u32) -> bool {
        self.next.is_none_or(|next| next + interval * burst <= now)
    }

    /// From when on tokens count: what is older than the burst is forgotten.
    fn from(&self, now: Instant, interval: Duration, burst: u32) -> Instant {
        let full = now.checked_sub(interval * burst).unwrap_or(now);
        self.next.map_or(full, |next| next.max(full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn requests_may_come_in_bursts_and_then_at_their_rate() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut bucket = Gcra::default();
        let mut waits = |now: Instant| bucket.lend(now, INTERVAL, 3) - now;
        assert_eq!([0; 3].map(|_| waits(start)), [Duration::ZERO; 3]);
        assert_eq!(waits(start), INTERVAL);
        assert_eq!(waits(start), 2 * INTERVAL);
        let later = start + 2 * INTERVAL;
        assert_eq!(waits(later), INTERVAL);
        // After a pause the burst is back, and no more than that.
        let later = start + Duration::from_secs(5);
        assert_eq!(
            [0; 4].map(|_| waits(later)),
            [Duration::ZERO, Duration::ZERO, Duration::ZERO, INTERVAL]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_takes_nothing_and_hears_when_to_come_again() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut bucket = Gcra::default();
        for _ in 0..2 {
            bucket.take(start, INTERVAL, 2).unwrap();
        }
        for _ in 0..5 {
            assert_eq!(bucket.take(start, INTERVAL, 2), Err(INTERVAL));
        }
        assert!(!bucket.is_full(start, INTERVAL, 2));
        bucket.take(start + INTERVAL, INTERVAL, 2).unwrap();
        assert!(!bucket.is_full(start + INTERVAL, INTERVAL, 2));
        assert!(bucket.is_full(start + 3 * INTERVAL, INTERVAL, 2));
    }
}
