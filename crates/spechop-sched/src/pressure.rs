//! What a backend bears: how many places are open to speculation now. Pure.
//!
//! States: *open* → (asked for less, or two authoritative calls in a row slower than the backend's
//! own p99, one after the other) → *closed* for a cool-down → *opening* by 1, 2, 4, … places per quiet
//! interval → *open*.

use std::time::Duration;

/// How long the lane stays closed the first time.
const COOL_DOWN_MIN: Duration = Duration::from_secs(1);

/// The longest that it stays closed, however often the backend asks for less.
const COOL_DOWN_MAX: Duration = Duration::from_secs(60);

/// How long the places that are open must go well before as many more open.
const QUIET: Duration = Duration::from_secs(1);

/// One slow call in a hundred is what a p99 is; two in a row are one pair in ten thousand.
const SLOW_CALLS: u32 = 2;

/// What lies within it is the noise of this machine, not the backend's.
const NOISE: Duration = Duration::from_millis(1);

/// Decides how many places are open to speculation.
#[derive(Clone, Debug)]
pub struct Pressure {
    places_max: usize,
    open: usize,
    cool_down: Duration,
    /// When more opens; of no meaning while all is open.
    opens_at: Duration,
    /// From then on the next push-back counts as the first.
    forgiven_at: Duration,
    slow_in_a_row: u32,
    /// When the last of them ended.
    slow_at: Duration,
    p99: Quantile,
}

impl Pressure {
    /// All of `places_max` are open.
    pub fn new(places_max: usize) -> Self {
        Self {
            places_max,
            open: places_max,
            cool_down: COOL_DOWN_MIN,
            opens_at: Duration::ZERO,
            forgiven_at: Duration::ZERO,
            slow_in_a_row: 0,
            slow_at: Duration::ZERO,
            p99: Quantile::default(),
        }
    }

    /// Places that are open to speculation.
    pub fn places(&self) -> usize {
        self.open
    }

    /// The backend asked for less: the lane closes. Calls that were under way and hear the same
    /// keep it closed, but only a push-back after it opened again doubles the cool-down.
    pub fn push_back(&mut self, now: Duration) {
        self.wake(now);
        if self.open > 0 {
            self.cool_down = if now < self.forgiven_at {
                (self.cool_down * 2).min(COOL_DOWN_MAX)
            } else {
                COOL_DOWN_MIN
            };
        }
        self.open = 0;
        self.opens_at = now + self.cool_down;
        self.forgiven_at = Duration::MAX;
    }

    /// An authoritative call was answered. Says whether it closed the lane.
    pub fn answered(&mut self, now: Duration, took: Duration) -> bool {
        if !self.p99.is_passed(took) {
            self.slow_in_a_row = 0;
        } else if self.slow_in_a_row == 0 || now.saturating_sub(took) >= self.slow_at {
            // One hiccup makes all calls slow that are under way: together they count once.
            self.slow_in_a_row += 1;
            self.slow_at = now;
        }
        self.p99.add(took);
        let closes = self.slow_in_a_row >= SLOW_CALLS;
        if closes {
            self.slow_in_a_row = 0;
            self.push_back(now);
        }
        closes
    }

    /// Opens what is due.
    pub fn wake(&mut self, now: Duration) {
        while self.open < self.places_max && self.opens_at <= now {
            self.open = (self.open * 2).clamp(1, self.places_max);
            if self.open == self.places_max {
                self.forgiven_at = self.opens_at + self.cool_down;
            }
            self.opens_at += QUIET;
        }
    }

    /// When more opens; `None` where all is open.
    pub fn next_wake(&self) -> Option<Duration> {
        (self.open < self.places_max).then_some(self.opens_at)
    }
}

/// The 0.99 quantile of a stream, tracked by steps: a value above raises the estimate by a tenth, one
/// below lowers it by a thousandth, so it rests where one in a hundred is above. How far above does
/// not matter: one call that hangs for a minute moves it no more than any other.
#[derive(Clone, Debug, Default)]
struct Quantile {
    seconds: f64,
    seen: u32,
}

impl Quantile {
    const WARM_UP: u32 = 50;
    const STEP: f64 = 0.1;
    const RANK: f64 = 0.99;

    fn add(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        if self.seen < Self::WARM_UP {
            self.seen += 1;
            self.seconds = self.seconds.max(took);
        } else if took > self.seconds {
            // An estimate of nothing at all would stay there.
            self.seconds = (self.seconds * (1.0 + Self::STEP * Self::RANK)).max(1e-9);
        } else {
            self.seconds *= 1.0 - Self::STEP * (1.0 - Self::RANK);
        }
    }

    fn is_passed(&self, took: Duration) -> bool {
        self.seen >= Self::WARM_UP && took.as_secs_f64() > self.seconds + NOISE.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn places_at(pressure: &mut Pressure, millis: u64) -> usize {
        pressure.wake(Duration::from_millis(millis));
        pressure.places()
    }

    #[test]
    fn closes_at_once_and_opens_by_doubling() {
        let mut pressure = Pressure::new(6);
        assert_eq!(pressure.places(), 6);
        pressure.push_back(Duration::ZERO);
        let seen: Vec<_> = [0, 999, 1000, 1999, 2000, 3000, 4000, 9000]
            .map(|at| places_at(&mut pressure, at))
            .into();
        assert_eq!(seen, [0, 0, 1, 1, 2, 4, 6, 6]);
        assert_eq!(pressure.next_wake(), None);
    }

    #[test]
    fn repeated_push_backs_double_the_cool_down_and_time_forgives() {
        let mut pressure = Pressure::new(1);
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..8 {
            pressure.push_back(now);
            // The rest of the burst hears the same.
            pressure.push_back(now);
            let opens = pressure.next_wake().expect("it is closed");
            waits.push((opens - now).as_secs());
            now = opens;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        now += Duration::from_secs(60);
        pressure.push_back(now);
        assert_eq!(pressure.next_wake(), Some(now + COOL_DOWN_MIN));
    }

    #[test]
    fn two_slow_calls_in_a_row_close_the_lane_and_one_does_not() {
        let mut pressure = Pressure::new(4);
        let (usual, slow) = (Duration::from_millis(100), Duration::from_secs(2));
        // Before the warm-up nothing is slow.
        assert!(!pressure.answered(Duration::ZERO, slow));
        assert!(!pressure.answered(Duration::ZERO, slow));
        let mut pressure = Pressure::new(4);
        for _ in 0..50 {
            assert!(!pressure.answered(Duration::ZERO, usual));
        }
        assert!(!pressure.answered(Duration::ZERO, slow));
        assert!(!pressure.answered(Duration::ZERO, usual));
        let now = Duration::from_secs(60);
        assert!(!pressure.answered(now, slow));
        // Both were under way in the same hiccup.
        assert!(!pressure.answered(now + usual, slow));
        assert!(pressure.answered(now + slow, slow));
        assert_eq!(pressure.places(), 0);
    }

    #[test]
    fn what_varies_as_ever_is_not_slow() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut pressure = Pressure::new(4);
        let (mut closed, mut now) = (0, Duration::ZERO);
        let (mut above, calls) = (0, 100_000);
        for _ in 0..calls {
            // Uniform: the tail is as thick as it gets at its end.
            let took = Duration::from_micros(rng.random_range(50_000..150_000));
            above += u32::from(took.as_secs_f64() > pressure.p99.seconds);
            now += took;
            closed += u32::from(pressure.answered(now, took));
        }
        assert!((700..1300).contains(&above), "{above} of {calls}");
        assert!(closed <= 12, "{closed} of {calls}");
    }
}
