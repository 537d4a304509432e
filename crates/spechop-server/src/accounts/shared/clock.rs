//! The wall clock beside this process's own one. Accounts count their periods by the own clock, and what
//! servers tell each other has the time of the wall.
//!
//! The own clock stands still while a virtual machine sleeps, and knows of no correction of the wall clock.
//! So a moment at which both were read is good only for as long as the wall clock is where it should be by
//! then. Both are not read at every use: then each look at the same period would find that it began a little
//! earlier or later.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use spechop_types::whole_ms;
use tokio::time::Instant;

/// As many milliseconds the two clocks may drift apart.
const DRIFT_MAX_MS: u64 = 1000;

/// Says what one clock shows when the other shows something.
pub(super) struct Clock {
    wall: Box<dyn Fn() -> SystemTime + Send + Sync>,
    both: Mutex<Both>,
}

/// The same moment by both clocks: the wall's is in milliseconds since 1970.
#[derive(Clone, Copy)]
struct Both {
    own: Instant,
    wall: u64,
}

impl Clock {
    /// Reads this wall clock.
    pub(super) fn new(wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        let both = Both::now(&wall);
        Self {
            wall: Box::new(wall),
            both: Mutex::new(both),
        }
    }

    /// Looks whether the wall clock is where it should be, and goes by it from now on if it is not.
    pub(super) fn check(&self) {
        let now = Both::now(&self.wall);
        let expected = self.wall(now.own);
        if now.wall.abs_diff(expected) > DRIFT_MAX_MS {
            *self.both.lock() = now;
            tracing::info!(
                now_ms = now.wall,
                expected_ms = expected,
                "the clock was set, or this machine has slept: shared accounts go by the clock"
            );
        }
    }

    /// What the wall clock shows at this moment.
    pub(super) fn wall(&self, at: Instant) -> u64 {
        let Both { own, wall } = self.both();
        match at.checked_duration_since(own) {
            Some(since) => wall.saturating_add(whole_ms(since)),
            None => wall.saturating_sub(whole_ms(own - at)),
        }
    }

    /// When the wall clock shows so much.
    pub(super) fn instant(&self, at: u64) -> Instant {
        let Both { own, wall } = self.both();
        match at.checked_sub(wall) {
            Some(since) => own + Duration::from_millis(since),
            // The machine may be younger than the period.
            None => own
                .checked_sub(Duration::from_millis(wall - at))
                .unwrap_or(own),
        }
    }

    fn both(&self) -> Both {
        *self.both.lock()
    }
}

impl Both {
    fn now(wall: impl Fn() -> SystemTime) -> Self {
        let since_epoch = wall().duration_since(UNIX_EPOCH);
        Self {
            own: Instant::now(),
            wall: whole_ms(since_epoch.unwrap_or_default()),
        }
    }
}
