//! Several providers in the order in which they are asked.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult, SearchTrouble};
use spechop_types::ProviderChange;

/// What all of them together are called.
const NAME: &str = "web search";

/// Asks the next provider if one fails, and tells the call of it. "Nothing found" is an answer: no
/// other provider is asked then. So it is if none of them takes the query.
pub struct Chain {
    name: Arc<str>,
    first: Arc<dyn SearchProvider>,
    rest: Vec<Arc<dyn SearchProvider>>,
}

impl Chain {
    /// `first`, and then the rest in order.
    pub fn new(first: Arc<dyn SearchProvider>, rest: Vec<Arc<dyn SearchProvider>>) -> Self {
        Self {
            name: NAME.into(),
            first,
            rest,
        }
    }

    fn providers(&self) -> impl Iterator<Item = &Arc<dyn SearchProvider>> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

#[async_trait]
impl SearchProvider for Chain {
    fn name(&self) -> &str {
        &self.name
    }

    /// A failure holds those of all providers, in order.
    async fn search_streaming(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
        on_result: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let mut failures: Vec<SearchFailure> = Vec::new();
        for provider in self.providers() {
            if let Some(last) = failures.last() {
                call.changed_provider(ProviderChange {
                    from: Arc::clone(&last.provider),
                    to: provider.name().into(),
                    why: last.trouble.to_string().into(),
                });
            }
            match provider
                .search_streaming(call, query, limit, on_result)
                .await
            {
                Ok(results) => return Ok(results),
                // What may not be asked of one ahead of need is not asked of another.
                Err(failure) if matches!(failure.trouble, SearchTrouble::NotSpeculated { .. }) => {
                    return Err(failure);
                }
                Err(failure) => failures.push(failure),
            }
        }
        let is_refused =
            |failure: &SearchFailure| matches!(failure.trouble, SearchTrouble::QueryRefused { .. });
        match failures.iter().all(is_refused) {
            true => Ok(Vec::new()),
            false => Err(SearchTrouble::All(failures).of(&self.name)),
        }
    }

    /// The one that would be asked.
    async fn warm(&self, call: &Call) {
        for provider in self.providers() {
            if provider.refusal(call).now_or_never().is_none() {
                return provider.warm(call).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use spechop_ports::{Lane, PortError};
    use spechop_types::{Chance, Refusal};
    use url::Url;

    use super::*;

    /// Says the same each time, and writes down that it was asked.
    struct Says {
        name: &'static str,
        outcome: Result<&'static str, SearchTrouble>,
        log: Arc<Mutex<Vec<String>>>,
    }

    #[async_trait]
    impl SearchProvider for Says {
        fn name(&self) -> &str {
            self.name
        }

        async fn search_streaming(
            &self,
            _: &Call,
            _: &str,
            _: usize,
            _: &mut (dyn FnMut(SearchResult) + Send),
        ) -> Result<Vec<SearchResult>, SearchFailure> {
            self.log.lock().push(self.name.to_owned());
            let result = |url: &str| SearchResult {
                url: Url::parse(url).unwrap(),
                title: "".into(),
                snippet: "".into(),
                text: None,
            };
            match self.outcome.clone() {
                Ok(urls) => Ok(urls.split_whitespace().map(result).collect()),
                Err(trouble) => Err(trouble.of(&Arc::from(self.name))),
            }
        }

        async fn refusal(&self, _: &Call) -> SearchFailure {
            match self.outcome.clone() {
                Ok(_) => std::future::pending().await,
                Err(trouble) => trouble.of(&Arc::from(self.name)),
            }
        }

        async fn warm(&self, _: &Call) {
            self.log.lock().push(format!("warm {}", self.name));
        }
    }

    type Outcome = Result<&'static str, SearchTrouble>;

    fn chain(outcomes: [Outcome; 3]) -> (Chain, Arc<Mutex<Vec<String>>>) {
        let log = Arc::<Mutex<Vec<String>>>::default();
        let [a, b, c] = ["a", "b", "c"];
        let names = [a, b, c].into_iter().zip(outcomes);
        let mut says = names.map(|(name, outcome)| -> Arc<dyn SearchProvider> {
            let log = Arc::clone(&log);
            Arc::new(Says { name, outcome, log })
        });
        let first = says.next().unwrap();
        (Chain::new(first, says.collect()), log)
    }

    fn key() -> SearchTrouble {
        let detail = "status 401".to_owned();
        SearchTrouble::BadKey { detail }
    }

    fn block() -> SearchTrouble {
        let how = "status 202".to_owned();
        SearchTrouble::Blocked { how }
    }

    #[tokio::test]
    async fn each_change_of_provider_is_told() {
        let call = Call::authoritative();
        let (chain, log) = chain([Err(block()), Err(key()), Ok("http://h/")]);
        let found = chain.search(&call, "q", 5).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(*log.lock(), ["a", "b", "c"]);
        let change = |from: &str, to: &str, why: &str| ProviderChange {
            from: from.into(),
            to: to.into(),
            why: why.into(),
        };
        assert_eq!(
            call.provider_changes(),
            [
                change("a", "b", "blocks this server: status 202"),
                change("b", "c", "does not accept the key: status 401"),
            ]
        );
        log.lock().clear();
        chain.warm(&call).await;
        assert_eq!(*log.lock(), ["warm c"]);
    }

    #[tokio::test]
    async fn nothing_found_is_an_answer() {
        let call = Call::authoritative();
        let (chain, log) = chain([Ok(""), Ok("http://h/"), Ok("")]);
        assert_eq!(chain.search(&call, "q", 5).await, Ok(Vec::new()));
        assert_eq!(*log.lock(), ["a"]);
        assert_eq!(call.provider_changes(), []);
    }

    #[tokio::test]
    async fn if_all_fail_each_is_named() {
        let call = Call::authoritative();
        let (chain_, _) = chain([Err(block()), Err(key()), Err(key())]);
        let error = chain_.search(&call, "q", 5).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "web search got no answer: a blocks this server: status 202; \
             b does not accept the key: status 401; c does not accept the key: status 401"
        );
        assert!(matches!(error.into(), PortError::Unavailable { .. }));
        let (chain, _) = chain([Err(key()), Err(key()), Err(key())]);
        let error = chain.search(&call, "q", 5).await.unwrap_err();
        assert!(matches!(error.into(), PortError::Refused { .. }));
    }

    #[tokio::test]
    async fn what_lost_its_turn_goes_nowhere_else() {
        let why = Refusal::PushedBack;
        let (chain, log) = chain([
            Err(SearchTrouble::NotSpeculated { why }),
            Ok("http://h/"),
            Ok(""),
        ]);
        let call = Call::new(Lane::Speculative, Chance::EVEN);
        let error = chain.search(&call, "q", 5).await.unwrap_err();
        assert!(matches!(error.into(), PortError::NotSpeculated { .. }));
        assert_eq!(*log.lock(), ["a"]);
        assert_eq!(call.provider_changes(), []);
    }
}
