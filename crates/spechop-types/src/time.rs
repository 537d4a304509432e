//! Times as numbers.

use std::time::Duration;

/// The time in whole milliseconds. One too long for them is the longest.
pub fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The time in milliseconds.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_milliseconds_are_cut_and_bounded() {
        for (time, whole) in [
            (Duration::ZERO, 0),
            (Duration::from_micros(1_999), 1),
            (Duration::from_secs(2), 2_000),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(whole_ms(time), whole);
        }
        assert!((ms(Duration::from_micros(1_500)) - 1.5).abs() < f64::EPSILON);
    }
}
