//! A provider that is left alone while it would only fail.
//!
//! *closed* → (failures in a row, or one that lasts) → *open*, until a time → *on trial*, by one call
//! that an answer needs → *closed*, or *open* again for twice as long.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_ports::{Call, Lane, SearchFailure, SearchProvider, SearchResult, SearchTrouble};
use tokio::sync::Notify;
use tokio::time::Instant;

/// When a provider is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOptions {
    /// So many failures in a row open the circuit.
    pub failures_max: NonZeroU32,
    /// How long it then stays open: twice as long after each trial that fails.
    pub cool_down: Duration,
    /// The longest that it stays open by its own choice; and after a block, a wrong key or a wrong
    /// setting, at once. DuckDuckGo blocks an address for 10 minutes and more.
    pub cool_down_max: Duration,
    /// Whether nobody else is asked meanwhile. Then one that is out of reach is tried again after
    /// a second, and every four seconds at least: nothing is won by leaving it alone for longer.
    pub is_only: bool,
}

/// The longest that a provider's own word ("try again after …") is followed without a trial.
const TOLD_MAX: Duration = Duration::from_secs(3600);

/// The pauses of an only provider that is out of reach.
const ONLY: Duration = Duration::from_secs(1);
const ONLY_MAX: Duration = Duration::from_secs(4);

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failures_max: NonZeroU32::MIN.saturating_add(2),
            cool_down: Duration::from_secs(30),
            cool_down_max: Duration::from_secs(600),
            is_only: false,
        }
    }
}

/// A provider behind a circuit breaker.
pub struct Breaker {
    inner: Arc<dyn SearchProvider>,
    name: Arc<str>,
    circuit: Mutex<Circuit>,
    /// The circuit is another one than before.
    changed: Notify,
}

impl Breaker {
    /// `inner`, asked until it fails.
    pub fn new(inner: Arc<dyn SearchProvider>, options: BreakerOptions) -> Self {
        Self {
            name: inner.name().into(),
            inner,
            circuit: Mutex::new(Circuit {
                options,
                state: State::Closed { failures: 0 },
            }),
            changed: Notify::new(),
        }
    }

    fn peek(&self, lane: Lane) -> Option<SearchFailure> {
        let trouble = self.circuit.lock().refusal(lane, Instant::now())?;
        Some(trouble.of(&self.name))
    }

    /// The right to ask, or why not.
    fn enter(&self, lane: Lane) -> Result<Entry<'_>, SearchFailure> {
        let mut circuit = self.circuit.lock();
        match circuit.refusal(lane, Instant::now()) {
            Some(trouble) => Err(trouble.of(&self.name)),
            None => Ok(Entry {
                breaker: self,
                is_trial: circuit.begin(),
            }),
        }
    }
}

#[async_trait]
impl SearchProvider for Breaker {
    fn name(&self) -> &str {
        &self.name
    }

    async fn search_streaming(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
        on_result: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let entry = self.enter(call.lane())?;
        let outcome = self
            .inner
            .search_streaming(call, query, limit, on_result)
            .await;
        entry.end(outcome.as_ref().err().map(|failure| &failure.trouble));
        outcome
    }

    async fn refusal(&self, call: &Call) -> SearchFailure {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // What changes from here on is heard of.
            changed.as_mut().enable();
            if let Some(failure) = self.peek(call.lane()) {
                return failure;
            }
            changed.await;
        }
    }

    async fn warm(&self, call: &Call) {
        if self.peek(Lane::Speculative).is_none() {
            self.inner.warm(call).await;
        }
    }
}

/// A search under way. Dropping it without an end says nothing of the provider.
struct Entry<'a> {
    breaker: &'a Breaker,
    is_trial: bool,
}

impl Entry<'_> {
    fn end(self, trouble: Option<&SearchTrouble>) {
        let mut circuit = self.breaker.circuit.lock();
        let now = Instant::now();
        let was_open = circuit.is_open();
        match trouble {
            None => circuit.answered(self.is_trial),
            Some(trouble) => circuit.failed(self.is_trial, trouble, now),
        }
        let is_open = circuit.is_open();
        drop(circuit);
        let provider = &self.breaker.name;
        match trouble {
            Some(trouble) if is_open && !was_open => {
                tracing::warn!(%provider, %trouble, "a search provider is left alone for now");
            }
            None if was_open && !is_open => {
                tracing::info!(%provider, "a search provider answers again");
            }
            _ => {}
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker.circuit.lock().give_up();
        }
        self.breaker.changed.notify_waiters();
    }
}

/// The circuit itself: pure, but for the time that it is told.
#[derive(Debug)]
struct Circuit {
    options: BreakerOptions,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It is asked; the last few failed.
    Closed { failures: u32 },
    /// It is not asked.
    Open(Open),
    /// One call asks it.
    Trial(Open),
}

#[derive(Clone, Debug)]
struct Open {
    until: Instant,
    /// How long it was left alone.
    cool_down: Duration,
    why: SearchTrouble,
}

impl Circuit {
    /// Why a call may not ask now. A call ahead of need makes no trial: it may be the one too many.
    fn refusal(&self, lane: Lane, now: Instant) -> Option<SearchTrouble> {
        let open = match &self.state {
            State::Closed { .. } => return None,
            State::Open(open) if open.until <= now && lane == Lane::Authoritative => return None,
            State::Open(open) | State::Trial(open) => open,
        };
        Some(match &open.why {
            SearchTrouble::RateLimited { .. } => SearchTrouble::RateLimited {
                retry_after: Some(open.until.saturating_duration_since(now)),
            },
            why => why.clone(),
        })
    }

    /// A call asks now. Says whether it is the trial.
    fn begin(&mut self) -> bool {
        let State::Open(open) = &self.state else {
            return false;
        };
        self.state = State::Trial(open.clone());
        true
    }

    fn answered(&mut self, is_trial: bool) {
        // A call from before the circuit opened says nothing of what came after.
        if is_trial || !self.is_open() {
            self.state = State::Closed { failures: 0 };
        }
    }

    fn failed(&mut self, is_trial: bool, trouble: &SearchTrouble, now: Instant) {
        let before = match &self.state {
            State::Trial(open) if is_trial => Some(open.cool_down),
            State::Closed { .. } => None,
            State::Open(_) | State::Trial(_) => return,
        };
        let options = &self.options;
        let cool_down = match trouble {
            // They say nothing of the next query. `All` is also that of a part of one search.
            SearchTrouble::QueryRefused { .. }
            | SearchTrouble::NotSpeculated { .. }
            | SearchTrouble::All(_) => return,
            SearchTrouble::Blocked { .. }
            | SearchTrouble::BadKey { .. }
            | SearchTrouble::Misconfigured { .. } => options.cool_down_max,
            SearchTrouble::RateLimited {
                retry_after: Some(told),
            } => {
                // A provider whose clock is late tells a time that has passed.
                let least = longer(before, ONLY, ONLY_MAX);
                (*told).min(TOLD_MAX).max(least)
            }
            SearchTrouble::RateLimited { retry_after: None } => {
                longer(before, options.cool_down, options.cool_down_max)
            }
            SearchTrouble::Unreachable { .. } | SearchTrouble::Malformed { .. } => {
                if let State::Closed { failures } = &mut self.state {
                    *failures += 1;
                    if *failures < options.failures_max.get() {
                        return;
                    }
                }
                let (first, most) = (options.cool_down, options.cool_down_max);
                match options.is_only {
                    true => longer(before, first.min(ONLY), most.min(ONLY_MAX)),
                    false => longer(before, first, most),
                }
            }
        };
        self.state = State::Open(Open {
            until: now + cool_down,
            cool_down,
            why: trouble.clone(),
        });
    }

    /// The trial was broken off: the next call makes another.
    fn give_up(&mut self) {
        if let State::Trial(open) = &self.state {
            self.state = State::Open(open.clone());
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }
}

/// Twice as long as before, from `first` to `most`.
fn longer(before: Option<Duration>, first: Duration, most: Duration) -> Duration {
    let longer = before.map_or(first, |before| (before * 2).max(first));
    longer.min(most)
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
