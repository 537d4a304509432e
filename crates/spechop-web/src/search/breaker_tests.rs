//! What a breaker lets through, and when.

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

    async fn search_streaming(
        &self,
        _: &Call,
        _: &str,
        _: usize,
        _: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        self.asked.fetch_add(1, SeqCst);
        let takes = *self.takes.lock();
        tokio::time::sleep(takes).await;
        match self.says.lock().clone() {
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
        *self.script.says.lock() = trouble;
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
        // Of a clock that is late.
        (told(0), 1),
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
    *bench.script.takes.lock() = Duration::from_secs(5);
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
    *bench.script.takes.lock() = Duration::from_secs(5);
    let call = Call::authoritative();
    let slow = bench.breaker.search(&call, "q", 5);
    let quick = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let blocked = SearchTrouble::Blocked { how: "x".into() };
        bench
            .breaker
            .circuit
            .lock()
            .failed(false, &blocked, Instant::now());
    };
    let (answered, ()) = tokio::join!(slow, quick);
    assert!(answered.is_ok());
    assert!(bench.breaker.peek(NEEDED).is_some(), "it stays open");
}
