//! A search provider, with every search's turn in front.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;

use async_trait::async_trait;
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult};

use crate::scheduled::Scheduled;

/// Searches take their turns at the pace that the backend keeps for all questions together.
///
/// Nobody waits for a turn at a provider that would refuse: whoever waits leaves the moment that it
/// would, and takes no part of the pace along.
#[async_trait]
impl SearchProvider for Scheduled<dyn SearchProvider> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn search_streaming(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
        on_result: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let inner = &self.inner;
        let has_begun = AtomicBool::new(false);
        let work = async {
            has_begun.store(true, Relaxed);
            inner.search_streaming(call, query, limit, on_result).await
        };
        let mut turn = pin!(self.run(call, work));
        let mut refusal = pin!(inner.refusal(call));
        poll_fn(|cx| {
            // What has begun is decided by its own outcome.
            if !has_begun.load(Relaxed)
                && let Poll::Ready(failure) = refusal.as_mut().poll(cx)
            {
                return Poll::Ready(Err(failure));
            }
            turn.as_mut().poll(cx)
        })
        .await
    }

    async fn refusal(&self, call: &Call) -> SearchFailure {
        self.inner.refusal(call).await
    }

    /// Not a search, so it waits for no turn.
    async fn warm(&self, call: &Call) {
        self.inner.warm(call).await;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    use std::time::Duration;

    use futures::future::join_all;
    use parking_lot::Mutex;
    use spechop_ports::{Lane, SearchTrouble};
    use spechop_types::{Chance, Refusal};
    use tokio::sync::Notify;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::backend::Backend;
    use crate::bucket::Rate;
    use crate::eligibility::{Grade, Idempotence, Rule};
    use crate::ticket::Limits;

    const SAFE: Rule = Rule {
        grade: Grade::Full,
        idempotence: Idempotence::Safe,
        cost: 1.0,
    };

    /// Writes down who asked when; refuses from the time on that it is told to.
    #[derive(Default)]
    struct Engine {
        log: Mutex<Vec<(u64, String)>>,
        started: Mutex<Option<Instant>>,
        is_shut: AtomicBool,
        shut: Notify,
    }

    impl Engine {
        fn shut(&self) {
            self.is_shut.store(true, Relaxed);
            self.shut.notify_waiters();
        }

        fn log(&self) -> Vec<(u64, String)> {
            self.log.lock().clone()
        }
    }

    fn blocked() -> SearchFailure {
        let how = "shut".to_owned();
        SearchTrouble::Blocked { how }.of(&Arc::from("engine"))
    }

    #[async_trait]
    impl SearchProvider for Engine {
        fn name(&self) -> &'static str {
            "engine"
        }

        async fn search_streaming(
            &self,
            call: &Call,
            query: &str,
            _: usize,
            _: &mut (dyn FnMut(SearchResult) + Send),
        ) -> Result<Vec<SearchResult>, SearchFailure> {
            let started = *self.started.lock().get_or_insert(Instant::now());
            let entry = (started.elapsed().as_secs(), query.to_owned());
            self.log.lock().push(entry);
            sleep(Duration::from_millis(10)).await;
            if query == "too much" {
                call.push_back();
                return Err(blocked());
            }
            Ok(Vec::new())
        }

        async fn refusal(&self, _: &Call) -> SearchFailure {
            loop {
                let mut shut = pin!(self.shut.notified());
                shut.as_mut().enable();
                if self.is_shut.load(Relaxed) {
                    return blocked();
                }
                shut.await;
            }
        }
    }

    fn behind(
        engine: &Arc<Engine>,
        gap: Option<Duration>,
    ) -> (Scheduled<dyn SearchProvider>, Backend) {
        let two = NonZeroUsize::MIN.saturating_add(1);
        let limits = Limits {
            capacity: two,
            rate: gap.map(|gap| Rate::every(gap).unwrap()),
            speculative_max: 2,
        };
        let backend = Backend::new("engine", limits);
        let inner = Arc::clone(engine) as Arc<dyn SearchProvider>;
        (Scheduled::new(inner, &backend, SAFE), backend)
    }

    fn guess() -> Call {
        Call::new(Lane::Speculative, Chance::EVEN)
    }

    #[tokio::test(start_paused = true)]
    async fn a_pace_is_kept_for_all_and_what_is_needed_goes_first() {
        let engine = Arc::new(Engine::default());
        let (search, _) = behind(&engine, Some(Duration::from_secs(3)));
        let queries = [
            ("guess 1", guess()),
            ("guess 2", guess()),
            ("needed 1", Call::authoritative()),
            ("needed 2", Call::authoritative()),
        ];
        let asked = queries
            .iter()
            .map(|(query, call)| search.search(call, query, 5));
        assert!(join_all(asked).await.iter().all(Result::is_ok));
        let expected = [
            (0, "guess 1"),
            (3, "needed 1"),
            (6, "needed 2"),
            (9, "guess 2"),
        ];
        assert_eq!(
            engine.log(),
            expected.map(|(at, query)| (at, query.to_owned()))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_leaves_when_the_provider_would_refuse_and_costs_no_pace() {
        let engine = Arc::new(Engine::default());
        let (search, backend) = behind(&engine, Some(Duration::from_secs(10)));
        let call = Call::authoritative();
        search.search(&call, "first", 5).await.unwrap();
        let waiting = join_all((0..20).map(|_| search.search(&call, "waits", 5)));
        let shut = async {
            sleep(Duration::from_secs(1)).await;
            engine.shut();
        };
        let started = Instant::now();
        let (outcomes, ()) = tokio::join!(waiting, shut);
        assert!(outcomes.iter().all(|outcome| *outcome == Err(blocked())));
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        // Nor does anybody begin to wait.
        assert_eq!(search.search(&call, "late", 5).await, Err(blocked()));
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        assert_eq!(engine.log().len(), 1);
        let gauges = backend.gauges();
        assert_eq!((gauges.started, gauges.waiting_authoritative), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_asks_for_less_loses_its_speculative_lane_alone() {
        let engine = Arc::new(Engine::default());
        let (search, backend) = behind(&engine, None);
        let call = Call::authoritative();
        assert_eq!(search.search(&call, "too much", 5).await, Err(blocked()));
        assert_eq!(backend.gauges().speculative_places, 0);
        assert_eq!(search.search(&call, "needed", 5).await, Ok(Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_guess_may_be_forbidden() {
        let engine = Arc::new(Engine::default());
        let (_, backend) = behind(&engine, None);
        let inner = Arc::clone(&engine) as Arc<dyn SearchProvider>;
        let search = Scheduled::new(inner, &backend, Rule::DENY);
        let refused = search.search(&guess(), "guess", 5).await.unwrap_err();
        let why = Refusal::Denied;
        assert_eq!(refused.trouble, SearchTrouble::NotSpeculated { why });
        assert!(search.search(&Call::authoritative(), "q", 5).await.is_ok());
        assert_eq!(engine.log().len(), 1);
        assert_eq!(backend.gauges().refused[Refusal::Denied], 1);
    }
}
