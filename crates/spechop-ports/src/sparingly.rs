//! Warnings that a client can cause at will, written sparingly: one line of each kind in a while, with the
//! number of those that were left out. Metrics count them all.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The least time between two lines of a kind.
const PAUSE: Duration = Duration::from_secs(1);

/// When each kind of line was written last. The kinds are names in the program, so that there are few.
///
/// ```text
/// if let Some(left_out) = sparingly.turn("busy") {
///     tracing::warn!(left_out, "no answer");
/// }
/// ```
#[derive(Debug, Default)]
pub struct Sparingly(Mutex<HashMap<&'static str, Kind>>);

/// One kind of line.
#[derive(Debug, Default)]
struct Kind {
    written: Option<Instant>,
    /// Since then.
    left_out: u64,
}

impl Sparingly {
    /// Whether a line of that kind may be written now: `Some` with the number of those that were left
    /// out since the last one. Otherwise it counts as left out.
    pub fn turn(&self, kind: &'static str) -> Option<u64> {
        let now = Instant::now();
        self.0.lock().entry(kind).or_default().turn(now)
    }
}

impl Kind {
    fn turn(&mut self, now: Instant) -> Option<u64> {
        if self.written.is_some_and(|written| now - written < PAUSE) {
            self.left_out += 1;
            return None;
        }
        self.written = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_a_line_a_second_and_none_is_uncounted() {
        let sparingly = Sparingly::default();
        let (mut lines, mut told, mut waits) = (0, 0, 0);
        // 5,000 in 8 s.
        for _ in 0..5000 {
            match sparingly.turn("busy") {
                Some(left_out) => (lines, told, waits) = (lines + 1, told + left_out + 1, 0),
                None => waits += 1,
            }
            tokio::time::advance(Duration::from_micros(1600)).await;
        }
        assert_eq!(lines, 8);
        assert_eq!(told + waits, 5000);
        // Another kind has its own turn.
        assert_eq!(sparingly.turn("overdrawn"), Some(0));
        assert_eq!(sparingly.turn("overdrawn"), None);
    }
}
