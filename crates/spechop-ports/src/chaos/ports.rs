//! The ports that can have faults.

use std::num::NonZeroUsize;

use async_trait::async_trait;
use spechop_types::{Draft, Passage, SubQuestion, Tokens};

use super::Chaotic;
use crate::{
    Call, DraftWriter, Guess, GuessRequest, Guessed, PlanRequest, Planned, Planner, PortError,
    Ranked, ReadRequest, Reader, Reading, Retriever, RewriteRequest, Rewriter, Rewritten,
    Speculator, WrittenDraft,
};

/// What nobody would guess.
const GARBAGE: &str = "\u{fffd} garbage on purpose \u{fffd}";

#[async_trait]
impl Planner for Chaotic<dyn Planner> {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        self.call(self.inner.plan(call, request), || None).await
    }

    async fn warm(&self, call: &Call, request: PlanRequest) -> Result<(), PortError> {
        self.inner.warm(call, request).await
    }
}

#[async_trait]
impl Retriever for Chaotic<dyn Retriever> {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let retrieval = self.inner.retrieve(call, query, limit);
        self.call(retrieval, || None).await
    }

    async fn warm(&self, call: &Call, query: &str) -> Result<(), PortError> {
        self.inner.warm(call, query).await
    }
}

#[async_trait]
impl Reader for Chaotic<dyn Reader> {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        self.call(self.inner.read(call, request), || None).await
    }

    async fn read_ranked(
        &self,
        call: &Call,
        request: ReadRequest,
        limit: NonZeroUsize,
    ) -> Result<Ranked, PortError> {
        let reading = self.inner.read_ranked(call, request, limit);
        self.call(reading, || None).await
    }
}

#[async_trait]
impl Rewriter for Chaotic<dyn Rewriter> {
    async fn rewrite(&self, call: &Call, request: RewriteRequest) -> Result<Rewritten, PortError> {
        self.call(self.inner.rewrite(call, request), || None).await
    }
}

/// A guess is not trusted: the verifier must find out.
#[async_trait]
impl Speculator for Chaotic<dyn Speculator> {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        self.call(self.inner.guess(call, request), garbage).await
    }

    async fn guess_streaming(
        &self,
        call: &Call,
        request: GuessRequest,
        early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        // What is returned begins with what was given early. So nothing is given early, or garbage would
        // have to know of it.
        let _ = early;
        self.guess(call, request).await
    }
}

fn garbage() -> Option<Guessed> {
    Some(Guessed {
        guesses: vec![Guess::from(GARBAGE)],
        tokens: Tokens::default(),
    })
}

/// Nor is a draft: a planner that does not write it makes it worthless.
#[async_trait]
impl DraftWriter for Chaotic<dyn DraftWriter> {
    async fn write_draft(
        &self,
        call: &Call,
        request: PlanRequest,
        sample: u32,
    ) -> Result<WrittenDraft, PortError> {
        let garbage = || {
            Some(WrittenDraft {
                draft: Some(Draft {
                    sub_question: SubQuestion::new(GARBAGE),
                    chance: spechop_types::Chance::EVEN,
                }),
                tokens: Tokens::default(),
            })
        };
        let writing = self.inner.write_draft(call, request, sample);
        self.call(writing, garbage).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use spechop_types::Question;
    use tokio::time::{Instant, timeout};

    use super::super::Faults;
    use super::*;

    /// Finds one passage, after a second.
    struct Shelf;

    #[async_trait]
    impl Retriever for Shelf {
        async fn retrieve(
            &self,
            _: &Call,
            query: &str,
            limit: usize,
        ) -> Result<Vec<Passage>, PortError> {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let text: Arc<str> = query.into();
            let found = [Passage {
                id: Arc::clone(&text),
                title: Arc::clone(&text),
                text,
                url: None,
                score: 1.0,
            }];
            Ok(found.into_iter().take(limit).collect())
        }
    }

    struct Oracle;

    #[async_trait]
    impl Speculator for Oracle {
        async fn guess(&self, _: &Call, _: GuessRequest) -> Result<Guessed, PortError> {
            Ok(Guessed {
                guesses: vec![Guess::from("right")],
                tokens: Tokens::default(),
            })
        }
    }

    /// Says the question again.
    struct Echo;

    #[async_trait]
    impl Rewriter for Echo {
        async fn rewrite(&self, _: &Call, request: RewriteRequest) -> Result<Rewritten, PortError> {
            Ok(Rewritten {
                question: request.question,
                tokens: Tokens::default(),
            })
        }
    }

    const CALM: Faults = Faults {
        seed: 1,
        late: 0.0,
        late_max: Duration::from_secs(10),
        error: 0.0,
        hang: 0.0,
        garbage: 0.0,
        disconnect: 0.0,
        on: Duration::from_secs(1),
        off: Duration::ZERO,
    };

    /// What a retrieval comes to, and after how long.
    async fn retrieve(faults: Faults) -> (Result<usize, String>, Duration) {
        let inner: Arc<dyn Retriever> = Arc::new(Shelf);
        let port = Chaotic::new(inner, "retriever", faults);
        let begun = Instant::now();
        let found = port.retrieve(&Call::authoritative(), "q", 1).await;
        let found = found.map(|found| found.len());
        (found.map_err(|error| error.to_string()), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn each_fault_is_what_it_is_called() {
        let second = Duration::from_secs(1);
        assert_eq!(retrieve(CALM).await, (Ok(1), second));
        let (late, took) = retrieve(Faults { late: 1.0, ..CALM }).await;
        assert!(late == Ok(1) && took > second, "{took:?}");
        let (error, took) = retrieve(Faults { error: 1.0, ..CALM }).await;
        assert_eq!(
            error.unwrap_err(),
            "the retriever under chaos is unavailable"
        );
        assert!(took.is_zero());
        let (error, _) = retrieve(Faults {
            garbage: 1.0,
            ..CALM
        })
        .await;
        assert!(error.unwrap_err().contains("unusable answer"));
        let cut = Faults {
            disconnect: 1.0,
            ..CALM
        };
        let (error, took) = retrieve(cut).await;
        assert!(error.unwrap_err().contains("unavailable") && !took.is_zero());
        let hangs = retrieve(Faults { hang: 1.0, ..CALM });
        assert!(timeout(Duration::from_secs(3600), hangs).await.is_err());
    }

    #[tokio::test]
    async fn garbage_of_a_speculator_is_a_guess() {
        let inner: Arc<dyn Speculator> = Arc::new(Oracle);
        let faults = Faults {
            garbage: 1.0,
            ..CALM
        };
        let port = Chaotic::new(inner, "speculator", faults);
        let request = GuessRequest {
            question: Question::new("Who?").unwrap(),
            hops: Vec::new(),
            sub_question: SubQuestion::new("Who?"),
            passages: NonZeroUsize::MIN,
            limit: NonZeroUsize::MIN,
        };
        let guessed = port.guess(&Call::authoritative(), request).await.unwrap();
        assert_eq!(&*guessed.guesses[0].text, GARBAGE);
        crate::contract::speculator(&port).await;
    }

    /// What it writes is looked up as it stands.
    #[tokio::test]
    async fn garbage_of_a_rewriter_is_no_question() {
        let inner: Arc<dyn Rewriter> = Arc::new(Echo);
        let faults = Faults {
            garbage: 1.0,
            ..CALM
        };
        let port = Chaotic::new(inner, "rewriter", faults);
        let request = RewriteRequest {
            turns: Vec::new(),
            question: "And where?".into(),
        };
        let rewritten = port.rewrite(&Call::authoritative(), request).await;
        let error = rewritten.unwrap_err().to_string();
        assert!(error.contains("the rewriter under chaos"), "{error}");
        assert!(error.contains("unusable answer"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_faults_it_keeps_the_contracts() {
        let inner: Arc<dyn Retriever> = Arc::new(Shelf);
        crate::contract::retriever(&Chaotic::new(inner, "retriever", CALM)).await;
        let inner: Arc<dyn Speculator> = Arc::new(Oracle);
        crate::contract::speculator(&Chaotic::new(inner, "speculator", CALM)).await;
        let inner: Arc<dyn Rewriter> = Arc::new(Echo);
        crate::contract::rewriter(&Chaotic::new(inner, "rewriter", CALM)).await;
    }
}
