//! A second choice behind a first one.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_types::with_causes;

use crate::{
    Call, Lane, PlanRequest, Planned, Planner, PortError, Ranked, ReadRequest, Reader, Reading,
    Sparingly,
};

/// Asks the second port where the first one fails, on the same call.
///
/// Only for calls that the answer needs: a speculative call that fails is no error (law 6), and
/// the second choice is dearer or worse, or it would be the first.
pub struct Fallback<P: ?Sized> {
    first: Arc<P>,
    second: Arc<P>,
    /// Why the first one fails, by the last line of the log; `None` if it answers.
    told: Mutex<Option<String>>,
    lines: Sparingly,
}

impl<P: ?Sized> Fallback<P> {
    /// `first`, and `second` where it fails.
    pub fn new(first: Arc<P>, second: Arc<P>) -> Self {
        Self {
            first,
            second,
            told: Mutex::default(),
            lines: Sparingly::default(),
        }
    }

    /// Whether a failed call is worth the second choice.
    fn is_needed<T>(&self, call: &Call, outcome: &Result<T, PortError>) -> bool {
        match outcome {
            Ok(_) => {
                if self.news(None).is_some() {
                    tracing::info!("the first choice answers again");
                }
                false
            }
            Err(error) if call.lane() == Lane::Authoritative => {
                let reason = with_causes(error);
                if let Some(left_out) = self.news(Some(&reason)) {
                    tracing::warn!(
                        reason,
                        left_out,
                        "the first choice failed; asking the second"
                    );
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Whether the log hears why a call has failed, or that it has not: only of what it has not heard last, and for
    /// the sake of what comes and goes once a second. What it did not hear for that, it hears later if it lasts. `Some`
    /// with the number of calls of that kind that were left out.
    fn news(&self, reason: Option<&str>) -> Option<u64> {
        let mut told = self.told.lock();
        if told.as_deref() == reason {
            return None;
        }
        let left_out = self.lines.turn(match reason {
            Some(_) => "fails",
            None => "works",
        })?;
        *told = reason.map(str::to_owned);
        Some(left_out)
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
        if self.is_needed(call, &outcome) {
            return self.second.plan(call, request).await;
        }
        outcome
    }
}

#[async_trait]
impl Reader for Fallback<dyn Reader> {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let outcome = self.first.read(call, request.clone()).await;
        if self.is_needed(call, &outcome) {
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
        if self.is_needed(call, &outcome) {
            return self.second.read_ranked(call, request, limit).await;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            passages: Arc::default(),
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

    /// A first choice that is down would fill the log.
    #[tokio::test(start_paused = true)]
    async fn a_reason_is_told_once_and_what_comes_and_goes_once_a_second() {
        const SECOND: Duration = Duration::from_secs(1);
        let (first, second): (Arc<dyn Reader>, Arc<dyn Reader>) =
            (Arc::new(Says(None)), Arc::new(Says(None)));
        let port = Fallback::new(first, second);
        let fails = |reason| port.news(Some(reason));
        assert_eq!(["down"; 3].map(fails), [Some(0), None, None]);
        tokio::time::advance(3600 * SECOND).await;
        assert_eq!(["down", "slow", "slow"].map(fails), [None, Some(0), None]);
        // It answers every other call.
        let told = [(); 3].map(|()| (port.news(None), fails("slow")));
        assert_eq!(told, [(Some(0), None), (None, None), (None, None)]);
        // Now it stays away. The last word must not be that it answers.
        tokio::time::advance(SECOND).await;
        assert_eq!(["slow"; 2].map(fails), [Some(3), None]);
        // And the other way round: its first answers come too soon after the line before.
        assert_eq!(port.news(None), Some(0));
        tokio::time::advance(SECOND).await;
        assert_eq!(fails("down"), Some(0));
        tokio::time::advance(SECOND / 2).await;
        assert_eq!(port.news(None), Some(0));
        tokio::time::advance(SECOND * 3 / 4).await;
        assert_eq!((fails("down"), port.news(None)), (Some(0), None));
        tokio::time::advance(SECOND).await;
        assert_eq!([(); 2].map(|()| port.news(None)), [Some(1), None]);
    }
}
