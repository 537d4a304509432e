//! A provider that is left alone while it would only fail.
//!
//! *closed* → (failures in a row, or one that lasts) → *open*, until a time → *on trial*, by one call
//! that an answer needs → *closed*, or *open* again for twice as long.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
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
    /// The longest that a provider's own word ("try again after …") is followed without a trial.
    pub told_max: Duration,
    /// Whether nobody else is asked meanwhile. Then one that is out of reach is tried again after
    /// a second, and every four seconds at least: nothing is won by leaving it alone for longer.
    pub is_only: bool,
}

/// The pauses of an only provider that is out of reach.
const ONLY: Duration = Duration::from_secs(1);
const ONLY_MAX: Duration = Duration::from_secs(4);

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failures_max: NonZeroU32::MIN.saturating_add(2),
            cool_down: Duration::from_secs(30),
            cool_down_max: Duration::from_secs(600),
            told_max: Duration::from_secs(3600),
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
        let trouble = self.lock().refusal(lane, Instant::now())?;
        Some(trouble.of(&self.name))
    }

    /// The right to ask, or why not.
    fn enter(&self, lane: Lane) -> Result<Entry<'_>, SearchFailure> {
        let mut circuit = self.lock();
        match circuit.refusal(lane, Instant::now()) {
            Some(trouble) => Err(trouble.of(&self.name)),
            None => Ok(Entry {
                breaker: self,
                is_trial: circuit.begin(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Circuit> {
        // Nothing panics while it is held.
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SearchProvider for Breaker {
    fn name(&self) -> &str {
        &self.name
    }

    async fn search(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let entry = self.enter(call.lane())?;
        let outcome = self.inner.search(call, query, limit).await;
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
        let mut circuit = self.breaker.lock();
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
            self.breaker.lock().give_up();
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
            SearchTrouble::NotSpeculated { .. } | SearchTrouble::All(_) => return,
            SearchTrouble::Blocked { .. }
            | SearchTrouble::BadKey { .. }
            | SearchTrouble::Misconfigured { .. } => options.cool_down_max,
            SearchTrouble::RateLimited {
                retry_after: Some(told),
            } => (*told).min(options.told_max),
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use futures::FutureExt;
    use spechop_types::Chance;
    use tokio::time::{advance, timeout};

    use super::*;

    /// Says what it is told to, and counts how often it is asked.
    #[derive(Default)]
    struct Script {
        says: Mutex<Option<SearchTrouble>>,
        takes: Mutex<Duration>,
        asked: AtomicUsize,
    }

    #[async_trait]
    impl SearchProvider for Script {
        fn name(&self) -> &'static str {
            "script"
        }

        async fn search(
            &self,
            _: &Call,
            _: &str,
            _: usize,
        ) -> Result<Vec<SearchResult>, SearchFailure> {
            self.asked.fetch_add(1, SeqCst);
            let takes = *self.takes.lock().unwrap();
            tokio::time::sleep(takes).await;
            match self.says.lock().unwrap().clone() {
                None => Ok(Vec::new()),
                Some(trouble) => Err(trouble.of(&Arc::from("script"))),
            }
        }
    }

    struct Bench {
        script: Arc<Script>,
        breaker: Breaker,
    }

    impl Bench {
        fn new() -> Self {
            Self::with(BreakerOptions::default())
        }

        fn with(options: BreakerOptions) -> Self {
            let script = Arc::new(Script::default());
            let inner = Arc::clone(&script) as Arc<dyn SearchProvider>;
            Self {
                script,
                breaker: Breaker::new(inner, options),
            }
        }

        fn says(&self, trouble: Option<SearchTrouble>) {
            *self.script.says.lock().unwrap() = trouble;
        }

        /// Whether the provider was asked.
        async fn ask(&self, lane: Lane) -> bool {
            let before = self.script.asked.load(SeqCst);
            let call = Call::new(lane, Chance::EVEN);
            let _ = self.breaker.search(&call, "q", 5).await;
            self.script.asked.load(SeqCst) > before
        }

        /// Seconds until an authoritative call asks again.
        async fn alone_for(&self) -> u64 {
            for seconds in 0..10_000 {
                if self.breaker.peek(Lane::Authoritative).is_none() {
                    return seconds;
                }
                advance(Duration::from_secs(1)).await;
            }
            u64::MAX
        }
    }

    fn down() -> Option<SearchTrouble> {
        let detail = "down".to_owned();
        Some(SearchTrouble::Unreachable { detail })
    }

    const NEEDED: Lane = Lane::Authoritative;

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_it_and_a_trial_closes_it() {
        let bench = Bench::new();
        bench.says(down());
        assert!(bench.ask(NEEDED).await && bench.ask(NEEDED).await);
        bench.says(None);
        // Not in a row.
        assert!(bench.ask(NEEDED).await);
        bench.says(down());
        for _ in 0..3 {
            assert!(bench.ask(NEEDED).await);
        }
        assert!(!bench.ask(NEEDED).await, "it is open");
        assert_eq!(bench.alone_for().await, 30);
        assert!(
            !bench.ask(Lane::Speculative).await,
            "no trial ahead of need"
        );
        assert!(bench.ask(NEEDED).await);
        assert_eq!(bench.alone_for().await, 60);
        assert!(bench.ask(NEEDED).await);
        assert_eq!(bench.alone_for().await, 120);
        bench.says(None);
        assert!(bench.ask(NEEDED).await);
        assert!(bench.ask(Lane::Speculative).await && bench.ask(NEEDED).await);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_nobody_stands_in_for_is_tried_again_soon() {
        let bench = Bench::with(BreakerOptions {
            is_only: true,
            ..BreakerOptions::default()
        });
        bench.says(down());
        for _ in 0..3 {
            assert!(bench.ask(NEEDED).await);
        }
        for alone in [1, 2, 4, 4] {
            assert!(!bench.ask(NEEDED).await);
            assert_eq!(bench.alone_for().await, alone);
            assert!(bench.ask(NEEDED).await);
        }
        // One that does not want to be asked is not asked.
        bench.alone_for().await;
        bench.says(Some(SearchTrouble::Blocked { how: String::new() }));
        assert!(bench.ask(NEEDED).await);
        assert_eq!(bench.alone_for().await, 600);
    }

    #[tokio::test(start_paused = true)]
    async fn what_lasts_opens_it_at_once_and_a_told_time_is_kept() {
        let text = String::new;
        let told = |seconds| SearchTrouble::RateLimited {
            retry_after: Some(Duration::from_secs(seconds)),
        };
        for (trouble, alone) in [
            (SearchTrouble::Blocked { how: text() }, 600),
            (SearchTrouble::BadKey { detail: text() }, 600),
            (SearchTrouble::Misconfigured { remedy: text() }, 600),
            (SearchTrouble::RateLimited { retry_after: None }, 30),
            (told(7), 7),
            (told(u64::MAX), 3600),
            (SearchTrouble::Malformed { detail: text() }, 0),
        ] {
            let bench = Bench::new();
            bench.says(Some(trouble.clone()));
            assert!(bench.ask(NEEDED).await);
            assert_eq!(bench.alone_for().await, alone, "{trouble}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_told_time_runs_down_in_what_is_said_meanwhile() {
        let bench = Bench::new();
        bench.says(Some(SearchTrouble::RateLimited {
            retry_after: Some(Duration::from_secs(60)),
        }));
        bench.ask(NEEDED).await;
        advance(Duration::from_secs(20)).await;
        let failure = bench.breaker.search(&Call::authoritative(), "q", 5).await;
        let retry_after = Some(Duration::from_secs(40));
        assert_eq!(
            failure.unwrap_err().trouble,
            SearchTrouble::RateLimited { retry_after }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_makes_the_trial_and_one_that_is_dropped_leaves_it_to_the_next() {
        let bench = Bench::new();
        bench.says(Some(SearchTrouble::Blocked { how: "x".into() }));
        bench.ask(NEEDED).await;
        bench.alone_for().await;
        bench.says(None);
        *bench.script.takes.lock().unwrap() = Duration::from_secs(5);
        let second = Duration::from_secs(1);
        {
            let call = Call::authoritative();
            let mut trial = std::pin::pin!(bench.breaker.search(&call, "q", 5));
            assert!(timeout(second, &mut trial).await.is_err());
            assert!(!bench.ask(NEEDED).await, "another one is at it");
        }
        assert!(bench.ask(NEEDED).await, "nobody is at it any more");
        assert!(bench.ask(Lane::Speculative).await, "it is closed");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_turn_hears_that_it_opened() {
        let bench = Bench::new();
        let call = Call::authoritative();
        let mut refusal = bench.breaker.refusal(&call);
        assert!((&mut refusal).now_or_never().is_none());
        bench.says(Some(SearchTrouble::Blocked { how: "x".into() }));
        bench.ask(NEEDED).await;
        let failure = refusal.now_or_never().expect("it is open");
        assert_eq!(failure.to_string(), "script blocks this server: x");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_from_before_says_nothing_of_what_came_after() {
        let bench = Bench::new();
        *bench.script.takes.lock().unwrap() = Duration::from_secs(5);
        let call = Call::authoritative();
        let slow = bench.breaker.search(&call, "q", 5);
        let quick = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let blocked = SearchTrouble::Blocked { how: "x".into() };
            bench.breaker.lock().failed(false, &blocked, Instant::now());
        };
        let (answered, ()) = tokio::join!(slow, quick);
        assert!(answered.is_ok());
        assert!(bench.breaker.peek(NEEDED).is_some(), "it stays open");
    }
}
