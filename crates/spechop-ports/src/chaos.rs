//! Faults on purpose: a port that is late, fails, hangs or talks nonsense as often as it is told to.
//!
//! ```text
//! call ─▶ an episode? ─ no ─────────────────────────────────▶ the port
//!              └ yes ─▶ draw ─┬ late ─▶ wait ───────────────▶ the port
//!                             ├ error ─▶ unavailable, at once
//!                             ├ hang ─▶ never answers
//!                             ├ garbage ─▶ a wrong guess, or an answer that cannot be used
//!                             └ disconnect ─▶ the port ─▶ its answer is lost on the way
//! ```
//!
//! For tests and drills: what must hold although a port behaves like this is that no answer is wrong and
//! no question outlives its deadline. So garbage is told as garbage by a port that is trusted, as a parser
//! tells it ([`PortError::Malformed`]), and is given as a guess by one that is not.

mod ports;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::PortError;

/// Which faults there are, and how often. The chances are those of one call within an episode, from 0 to
/// 1, and together at most 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Of the draws: the same calls in the same order meet the same faults.
    pub seed: u64,
    /// The chance that a call is late.
    pub late: f64,
    /// The most time by which it is late. Every time up to it is as likely.
    pub late_max: Duration,
    /// The chance that it fails at once.
    pub error: f64,
    /// The chance that it never answers.
    pub hang: f64,
    /// The chance that it says something that is wrong, or that cannot be used.
    pub garbage: f64,
    /// The chance that the answer is lost after the port has worked for it.
    pub disconnect: f64,
    /// How long an episode lasts …
    pub on: Duration,
    /// … and the time between two of them. Zero: it never ends.
    pub off: Duration,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Late(Duration),
    Error,
    Hang,
    Garbage,
    /// So long after the call began, or at its end.
    Disconnect(Duration),
}

impl Faults {
    /// The sum of all chances.
    pub fn chance(&self) -> f64 {
        self.late + self.error + self.hang + self.garbage + self.disconnect
    }

    /// Whether faults occur so long after the beginning. A cycle begins with an episode.
    fn is_on(&self, elapsed: Duration) -> bool {
        let cycle = self.on.as_micros() + self.off.as_micros();
        self.off.is_zero() || elapsed.as_micros() % cycle.max(1) < self.on.as_micros()
    }

    /// The fault of a call of this port, its `number`-th.
    fn of(&self, port: &str, number: u64, elapsed: Duration) -> Option<Fault> {
        if !self.is_on(elapsed) {
            return None;
        }
        let share = |what: &str| {
            let mut hash = DefaultHasher::new();
            (self.seed, port, number, what).hash(&mut hash);
            // 53 bits are what a number of this type holds.
            (hash.finish() >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut drawn = share("fault");
        let time = || self.late_max.mul_f64(share("time"));
        for (chance, fault) in [
            (self.late, Fault::Late(time())),
            (self.error, Fault::Error),
            (self.hang, Fault::Hang),
            (self.garbage, Fault::Garbage),
            (self.disconnect, Fault::Disconnect(time())),
        ] {
            if drawn < chance {
                return Some(fault);
            }
            drawn -= chance;
        }
        None
    }
}

/// A port with faults; it is the port of the same kind.
pub struct Chaotic<P: ?Sized> {
    inner: Arc<P>,
    name: &'static str,
    faults: Faults,
    begun: Instant,
    calls: AtomicU64,
}

impl<P: ?Sized> Chaotic<P> {
    /// `inner`, with these faults. The name is that of the port in errors and in the draws.
    pub fn new(inner: Arc<P>, name: &'static str, faults: Faults) -> Self {
        Self {
            inner,
            name,
            faults,
            begun: Instant::now(),
            calls: AtomicU64::new(0),
        }
    }

    /// Calls the port, with the fault that is drawn. `garbage` is what the port then says; `None`: that its
    /// answer cannot be used.
    async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, PortError>> + Send,
        garbage: impl FnOnce() -> Option<T> + Send,
    ) -> Result<T, PortError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let Some(fault) = self.faults.of(self.name, number, self.begun.elapsed()) else {
            return call.await;
        };
        tracing::debug!(port = self.name, number, ?fault, "a fault on purpose");
        match fault {
            Fault::Late(by) => {
                sleep(by).await;
                call.await
            }
            Fault::Error => Err(self.unavailable("it fails on purpose")),
            Fault::Hang => std::future::pending().await,
            Fault::Garbage => {
                let detail = "it is garbage on purpose";
                garbage().ok_or_else(|| PortError::malformed(self.what(), detail))
            }
            Fault::Disconnect(after) => {
                // Whatever it came to, nobody hears of it.
                drop(timeout(after, call).await);
                Err(self.unavailable("the connection was cut on purpose"))
            }
        }
    }

    fn what(&self) -> String {
        format!("the {} under chaos", self.name)
    }

    fn unavailable(&self, why: &'static str) -> PortError {
        PortError::unavailable(self.what(), why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults() -> Faults {
        Faults {
            seed: 7,
            late: 0.1,
            late_max: Duration::from_secs(1),
            error: 0.2,
            hang: 0.05,
            garbage: 0.3,
            disconnect: 0.15,
            on: Duration::from_secs(2),
            off: Duration::from_secs(3),
        }
    }

    #[test]
    fn faults_are_as_frequent_as_they_are_to_be() {
        let faults = faults();
        let mut counts = [0_u32; 6];
        for number in 0..10_000 {
            let place = match faults.of("planner", number, Duration::ZERO) {
                Some(Fault::Late(by)) => {
                    assert!(by <= faults.late_max);
                    0
                }
                Some(Fault::Error) => 1,
                Some(Fault::Hang) => 2,
                Some(Fault::Garbage) => 3,
                Some(Fault::Disconnect(_)) => 4,
                None => 5,
            };
            counts[place] += 1;
        }
        for (count, expected) in counts.into_iter().zip([1000, 2000, 500, 3000, 1500, 2000]) {
            assert!(count.abs_diff(expected) < 200, "{counts:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_ports_differ() {
        let drawn = |faults: Faults, port: &str| -> Vec<_> {
            (0..100)
                .map(|number| faults.of(port, number, Duration::ZERO))
                .collect()
        };
        assert_eq!(drawn(faults(), "reader"), drawn(faults(), "reader"));
        assert_ne!(drawn(faults(), "reader"), drawn(faults(), "planner"));
        let other = Faults {
            seed: 8,
            ..faults()
        };
        assert_ne!(drawn(other, "reader"), drawn(faults(), "reader"));
    }

    #[test]
    fn episodes_begin_and_end() {
        let certain = Faults {
            error: 1.0,
            late: 0.0,
            ..faults()
        };
        let seconds = |s: f64| certain.of("reader", 0, Duration::from_secs_f64(s));
        for (s, expected) in [
            (0.0, true),
            (1.9, true),
            (2.1, false),
            (4.9, false),
            (5.1, true),
        ] {
            assert_eq!(seconds(s).is_some(), expected, "{s}");
        }
        let endless = Faults {
            off: Duration::ZERO,
            ..certain
        };
        assert!(endless.of("reader", 0, Duration::from_secs(99)).is_some());
    }
}
