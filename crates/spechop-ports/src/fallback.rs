//! A second choice behind a first one.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use spechop_types::Passage;

use crate::{
    Call, Lane, PlanRequest, Planned, Planner, PortError, Ranked, ReadRequest, Reader, Reading,
    Retriever,
};

/// Asks the second port where the first one fails, on the same call.
///
/// Only for calls that the answer needs: a speculative call that fails is no error (law 6), and
/// the second choice is dearer or worse, or it would be the first.
pub struct Fallback<P: ?Sized> {
    first: Arc<P>,
    second: Arc<P>,
}

impl<P: ?Sized> Fallback<P> {
    /// `first`, and `second` where it fails.
    pub fn new(first: Arc<P>, second: Arc<P>) -> Self {
        Self { first, second }
    }
}

/// Whether a failed call is worth the second choice.
fn is_needed<T>(call: &Call, outcome: &Result<T, PortError>) -> bool {
    match outcome {
        Ok(_) => false,
        Err(error) if call.lane() == Lane::Authoritative => {
            tracing::warn!(%error, "the first choice failed; asking the second");
            true
        }
        Err(_) => false,
    }
}

#[async_trait]
impl Planner for Fallback<dyn Planner> {
    /// The second one is hardly ever asked.
    async fn warm(&self, call: &Call, request: PlanRequest) -> Result<(), PortError> {
        self.first.warm(call, request).await
    }

    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let outcome = self.first.plan(call, request.clone()).await;
        if is_needed(call, &outcome) {
            return self.second.plan(call, request).await;
        }
        outcome
    }
}

#[async_trait]
impl Reader for Fallback<dyn Reader> {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let outcome = self.first.read(call, request.clone()).await;
        if is_needed(call, &outcome) {
            return self.second.read(call, request).await;
        }
        outcome
    }

    async fn read_ranked(
        &self,
        call: &Call,
        request: ReadRequest,
        limit: NonZeroUsize,
    ) -> Result<Ranked, PortError> {
        let outcome = self.first.read_ranked(call, request.clone(), limit).await;
        if is_needed(call, &outcome) {
            return self.second.read_ranked(call, request, limit).await;
        }
        outcome
    }
}

#[async_trait]
impl Retriever for Fallback<dyn Retriever> {
    /// The second one is hardly ever asked.
    async fn warm(&self, call: &Call, query: &str) -> Result<(), PortError> {
        self.first.warm(call, query).await
    }

    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let outcome = self.first.retrieve(call, query, limit).await;
        if is_needed(call, &outcome) {
            return self.second.retrieve(call, query, limit).await;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use spechop_types::Chance;

    struct Shelf(Option<&'static str>);

    #[async_trait]
    impl Retriever for Shelf {
        async fn retrieve(&self, _: &Call, _: &str, _: usize) -> Result<Vec<Passage>, PortError> {
            let id = self
                .0
                .ok_or_else(|| PortError::unavailable("the shelf", "it fell"))?;
            let text = Arc::from(id);
            Ok(vec![Passage {
                id: Arc::clone(&text),
                title: Arc::clone(&text),
                text,
                url: None,
                score: 1.0,
            }])
        }
    }

    async fn ask(call: &Call, first: Option<&'static str>) -> Option<String> {
        let (first, second): (Arc<dyn Retriever>, Arc<dyn Retriever>) =
            (Arc::new(Shelf(first)), Arc::new(Shelf(Some("second"))));
        let hits = Fallback::new(first, second).retrieve(call, "q", 1).await;
        hits.ok().map(|hits| hits[0].id.to_string())
    }

    #[tokio::test]
    async fn second_is_asked_where_the_first_fails_and_the_answer_needs_it() {
        let needed = Call::authoritative();
        let might_be = Call::new(Lane::Speculative, Chance::EVEN);
        assert_eq!(ask(&needed, Some("first")).await.as_deref(), Some("first"));
        assert_eq!(ask(&needed, None).await.as_deref(), Some("second"));
        assert_eq!(ask(&might_be, None).await, None);
        might_be.promote();
        assert_eq!(ask(&might_be, None).await.as_deref(), Some("second"));
    }
}
