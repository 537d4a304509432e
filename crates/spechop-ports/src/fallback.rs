//! A second choice behind a first one.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use spechop_types::with_causes;

use crate::{
    Call, Lane, PlanRequest, Planned, Planner, PortError, Ranked, ReadRequest, Reader, Reading,
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
            tracing::warn!(
                reason = with_causes(error),
                "the first choice failed; asking the second"
            );
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

#[cfg(test)]
mod tests {
    use spechop_types::{Chance, SubQuestion, Tokens};

    use super::*;

    struct Says(Option<&'static str>);

    #[async_trait]
    impl Reader for Says {
        async fn read(&self, _: &Call, _: ReadRequest) -> Result<Reading, PortError> {
            let answer = self
                .0
                .ok_or_else(|| PortError::unavailable("the reader", "it is asleep"))?;
            Ok(Reading {
                answer: Some(answer.into()),
                confidence: None,
                tokens: Tokens::default(),
            })
        }
    }

    async fn ask(call: &Call, first: Option<&'static str>) -> Option<String> {
        let (first, second): (Arc<dyn Reader>, Arc<dyn Reader>) =
            (Arc::new(Says(first)), Arc::new(Says(Some("second"))));
        let request = ReadRequest {
            sub_question: SubQuestion::new("q"),
            passages: Vec::new(),
        };
        let reading = Fallback::new(first, second).read(call, request).await;
        Some(reading.ok()?.answer?.to_string())
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
