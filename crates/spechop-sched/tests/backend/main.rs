//! Backends, flights and decorators in paused time.

#![expect(clippy::expect_used, reason = "a test's own helpers")]

mod activities;
mod cores;
mod flights;
mod ports;
mod pressure;
mod refusals;
mod turns;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use spechop_ports::{Call, Lane, PortError};
use spechop_sched::{Backend, Gauges, Limits, Rate};
use spechop_types::Chance;
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);

fn backend(capacity: usize, speculative_max: usize) -> Backend {
    limited(capacity, speculative_max, None)
}

fn limited(capacity: usize, speculative_max: usize, rate: Option<(f64, u32)>) -> Backend {
    let rate = rate.map(|(calls, burst)| {
        let burst = NonZeroU32::new(burst).expect("a burst");
        Rate::per_second(calls, burst).expect("a rate")
    });
    let limits = Limits {
        capacity: NonZeroUsize::new(capacity).expect("a capacity"),
        rate,
        speculative_max,
    };
    Backend::new("the thing", limits)
}

/// A speculative call of this chance.
fn guess(chance: f64) -> Call {
    Call::new(Lane::Speculative, Chance::of(chance))
}

/// Work that takes time, and is counted when it begins and while it lives.
#[derive(Clone, Default)]
struct Work {
    begun: Arc<AtomicUsize>,
    live: Arc<AtomicUsize>,
}

struct Live(Arc<AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Work {
    async fn lasting(&self, time: Duration) -> Result<Instant, PortError> {
        self.begun.fetch_add(1, SeqCst);
        self.live.fetch_add(1, SeqCst);
        let _live = Live(self.live.clone());
        sleep(time).await;
        Ok(Instant::now())
    }

    fn begun(&self) -> usize {
        self.begun.load(SeqCst)
    }

    fn live(&self) -> usize {
        self.live.load(SeqCst)
    }
}

fn is_idle(gauges: Gauges) -> bool {
    [
        gauges.running_authoritative,
        gauges.running_speculative,
        gauges.waiting_authoritative,
        gauges.waiting_speculative,
    ] == [0; 4]
}

fn was_preempted<T>(outcome: &Result<T, PortError>) -> bool {
    matches!(outcome, Err(PortError::NotSpeculated { .. }))
}
