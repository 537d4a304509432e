//! How much of the last seconds left no room for speculation. Pure.

use std::time::Duration;

/// What was seen this long ago counts e times less than what is seen now: three times as long, and a
/// full machine counts as full, or an empty one as empty.
const MEMORY: Duration = Duration::from_secs(1);

/// A share of time, in which later time counts more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    share: f64,
    as_of: Duration,
}

impl Load {
    /// Until `now` there was no room, or there was.
    pub(crate) fn pass(&mut self, now: Duration, is_full: bool) {
        self.share = self.at(now, is_full);
        self.as_of = self.as_of.max(now);
    }

    /// The share at that time, if nothing has changed since the last [`Load::pass`].
    pub(crate) fn at(&self, now: Duration, is_full: bool) -> f64 {
        let target = if is_full { 1.0 } else { 0.0 };
        // The usual case: nobody has waited for a long time.
        if self.share < 1e-9 && !is_full {
            return 0.0;
        }
        let passed = now.saturating_sub(self.as_of).as_secs_f64();
        let kept = (-passed / MEMORY.as_secs_f64()).exp();
        target + (self.share - target) * kept
    }

    /// The share at the last [`Load::pass`].
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// When the share falls to `below`, if there is room from the last [`Load::pass`] on.
    pub(crate) fn falls_to(&self, below: f64) -> Duration {
        let memories = (self.share / below).ln().max(0.0);
        self.as_of + MEMORY.mul_f64(memories)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(load: &Load, millis: u64, is_full: bool) -> f64 {
        load.at(Duration::from_millis(millis), is_full)
    }

    #[test]
    fn it_rises_and_falls_within_seconds() {
        let mut load = Load::default();
        assert_eq!(at(&load, 60_000, false), 0.0);
        load.pass(Duration::from_secs(60), false);
        assert!(at(&load, 60_100, true) < 0.1);
        assert!(at(&load, 63_000, true) > 0.95);
        load.pass(Duration::from_secs(65), true);
        assert!(at(&load, 65_100, false) > 0.85);
        assert!(at(&load, 66_000, false) < 0.4);
        assert!(at(&load, 70_000, false) < 0.01);
    }

    #[test]
    fn it_is_the_share_of_time_if_that_is_steady() {
        for (full_ms, free_ms, expected) in [(10, 30, 0.25), (30, 10, 0.75), (1, 99, 0.01)] {
            let (mut load, mut now) = (Load::default(), 0);
            for _ in 0..5_000 {
                for (millis, is_full) in [(full_ms, true), (free_ms, false)] {
                    now += millis;
                    load.pass(Duration::from_millis(now), is_full);
                }
            }
            assert!(
                (load.share - expected).abs() < 0.03,
                "{} {expected}",
                load.share
            );
        }
    }

    #[test]
    fn it_says_when_it_will_have_fallen() {
        let mut load = Load::default();
        load.pass(Duration::from_secs(60), false);
        load.pass(Duration::from_secs(62), true);
        let at = load.falls_to(0.5);
        assert!(load.share() > 0.8 && at > Duration::from_secs(62));
        assert!((load.at(at, false) - 0.5).abs() < 1e-6);
        assert_eq!(load.falls_to(0.99), Duration::from_secs(62));
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_changes_nothing() {
        let mut load = Load::default();
        load.pass(Duration::from_secs(1), true);
        let before = load.share;
        load.pass(Duration::from_secs(1), false);
        load.pass(Duration::ZERO, false);
        assert_eq!(load.share, before);
    }
}
