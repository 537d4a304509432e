//! Guessing from an index that is near.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::{
    Call, Guess, GuessRequest, Guessed, PortError, ReadRequest, Reader, Retriever, Speculator,
};
use spechop_types::{Observation, Tokens};

/// Looks a sub-question up in an index, and reads what it finds.
///
/// Over a small index of the passages with the highest in-degree, it is the hot subset speculator of
/// SpecHop (section 3): fast because the index is small, unreliable because the passage that holds the
/// answer is often not in it. Over the whole index it has a guess for every hop; that pays if the
/// target is slower than this, because it looks up elsewhere or because a larger model reads for it.
///
/// Give it a reader with tight limits: a guess must be there long before the observation. It reads once,
/// so it has as many guesses as the reader sees alternatives.
#[derive(Clone)]
pub struct IndexGuesser {
    retriever: Arc<dyn Retriever>,
    reader: Arc<dyn Reader>,
    /// Passages of a subset that are read; `None` if the index holds all that the target looks through.
    of_subset: Option<NonZeroUsize>,
}

impl IndexGuesser {
    /// Guesses from the `passages` nearest ones of the index that `retriever` searches.
    pub fn new(
        retriever: Arc<dyn Retriever>,
        reader: Arc<dyn Reader>,
        passages: NonZeroUsize,
    ) -> Self {
        Self {
            retriever,
            reader,
            of_subset: Some(passages),
        }
    }

    /// The index holds what the target looks through, or nearly so. What is not in it will not be
    /// found there, either, so it is guessed that nothing is. As many passages are read as the target
    /// reads: if both ask the same index, they are retrieved once.
    pub fn of_all(retriever: Arc<dyn Retriever>, reader: Arc<dyn Reader>) -> Self {
        Self {
            retriever,
            reader,
            of_subset: None,
        }
    }

    /// A guess for what was read nowhere.
    fn nothing(&self) -> Vec<Guess> {
        match self.of_subset {
            Some(_) => Vec::new(),
            None => vec![Guess::from(Observation::NOTHING)],
        }
    }
}

#[async_trait]
impl Speculator for IndexGuesser {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let sub_question = request.sub_question;
        let limit = self.of_subset.unwrap_or(request.passages).get();
        let passages = self
            .retriever
            .retrieve(call, sub_question.as_str(), limit)
            .await?;
        if passages.is_empty() {
            return Ok(Guessed {
                guesses: self.nothing(),
                tokens: Tokens::default(),
            });
        }
        let read = ReadRequest {
            sub_question,
            passages: passages.into(),
        };
        let ranked = self.reader.read_ranked(call, read, request.limit).await?;
        let mut guesses = ranked.answers;
        if guesses.is_empty() {
            guesses = self.nothing();
        }
        Ok(Guessed {
            guesses,
            tokens: ranked.tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use spechop_ports::{Lane, Ranked, Reading, contract};
    use spechop_testkit::passage;
    use spechop_types::{Chance, Passage, Question, SubQuestion};

    use super::*;

    /// An index that holds so many passages, or fails, and keeps what it was asked.
    struct Index {
        passages: Option<usize>,
        asked: Mutex<Vec<(String, usize, Lane)>>,
    }

    #[async_trait]
    impl Retriever for Index {
        async fn retrieve(
            &self,
            call: &Call,
            query: &str,
            limit: usize,
        ) -> Result<Vec<Passage>, PortError> {
            let asked = (query.to_owned(), limit, call.lane());
            self.asked.lock().push(asked);
            let Some(passages) = self.passages else {
                return Err(PortError::Unavailable {
                    what: "the index".to_owned(),
                    source: None,
                });
            };
            let passage = |n| passage(&format!("p{n}"), "Title", format!("answer {n}"));
            Ok((0..passages.min(limit)).map(passage).collect())
        }
    }

    const PRICE: Tokens = Tokens {
        prompt: 7,
        completion: 1,
    };

    /// Answers with the text of the last passage and sees no alternatives; of none, it answers none.
    struct LastPassage;

    #[async_trait]
    impl Reader for LastPassage {
        async fn read(&self, _: &Call, request: ReadRequest) -> Result<Reading, PortError> {
            Ok(Reading {
                answer: request.passages.last().map(|passage| passage.text.clone()),
                confidence: None,
                tokens: PRICE,
            })
        }
    }

    /// Ranks the texts of the passages in one reading, the last one first.
    struct EveryPassage;

    #[async_trait]
    impl Reader for EveryPassage {
        async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
            LastPassage.read(call, request).await
        }

        async fn read_ranked(
            &self,
            _: &Call,
            request: ReadRequest,
            limit: NonZeroUsize,
        ) -> Result<Ranked, PortError> {
            let texts = request
                .passages
                .iter()
                .rev()
                .map(|passage| Guess::from(passage.text.clone()));
            Ok(Ranked {
                answers: texts.take(limit.get()).collect(),
                tokens: PRICE,
            })
        }
    }

    async fn check(
        reader: impl Reader + 'static,
        passages: Option<usize>,
        limit: usize,
    ) -> (Result<Guessed, PortError>, Arc<Index>) {
        let index = Arc::new(Index {
            passages,
            asked: Mutex::default(),
        });
        let most = NonZeroUsize::new(2).unwrap();
        let speculator = IndexGuesser::new(index.clone(), Arc::new(reader), most);
        let call = Call::new(Lane::Speculative, Chance::EVEN);
        (speculator.guess(&call, request(limit)).await, index)
    }

    fn request(limit: usize) -> GuessRequest {
        GuessRequest {
            question: Question::new("Whose mother?").unwrap(),
            hops: Vec::new(),
            sub_question: SubQuestion::new("Who directed it?"),
            passages: 8.try_into().unwrap(),
            limit: limit.try_into().unwrap(),
        }
    }

    #[tokio::test]
    async fn reads_what_the_subset_holds() {
        for (held, limit, guesses, tokens) in [
            (0, 1, &[][..], 0),
            (1, 1, &["answer 0"], 8),
            (9, 1, &["answer 1"], 8),
            // One reading, whatever the number of guesses.
            (9, 2, &["answer 1", "answer 0"], 8),
            (9, 3, &["answer 1", "answer 0"], 8),
        ] {
            let (guessed, index) = check(EveryPassage, Some(held), limit).await;
            let guessed = guessed.unwrap();
            let texts: Vec<&str> = guessed.guesses.iter().map(|guess| &*guess.text).collect();
            assert_eq!(texts, guesses);
            assert_eq!(guessed.tokens.total(), tokens);
            let asked = ("Who directed it?".to_owned(), 2, Lane::Speculative);
            assert_eq!(*index.asked.lock(), [asked]);
        }
        assert!(check(EveryPassage, None, 1).await.0.is_err());
    }

    #[tokio::test]
    async fn a_reader_that_sees_no_alternatives_makes_one_guess() {
        let (guessed, _) = check(LastPassage, Some(9), 3).await;
        let guessed = guessed.unwrap();
        assert_eq!(guessed.guesses, ["answer 1".into()]);
        assert_eq!(guessed.tokens, PRICE);
    }

    /// Reads this in the passages, or nothing.
    struct Reads(Option<&'static str>);

    #[async_trait]
    impl Reader for Reads {
        async fn read(&self, _: &Call, _: ReadRequest) -> Result<Reading, PortError> {
            panic!("one reading, ranked, is enough");
        }

        async fn read_ranked(
            &self,
            _: &Call,
            _: ReadRequest,
            _: NonZeroUsize,
        ) -> Result<Ranked, PortError> {
            Ok(Ranked {
                answers: self.0.map(Guess::from).into_iter().collect(),
                tokens: PRICE,
            })
        }
    }

    /// A subset cannot tell what the target will find.
    #[tokio::test]
    async fn only_an_index_of_all_guesses_that_nothing_will_be_found() {
        const NOTHING: &str = Observation::NOTHING;
        // Passages held, what is read, guesses wanted: guesses of an index of all, of a subset, tokens.
        for (held, read, limit, whole, subset, tokens) in [
            (0, None, 3, &[NOTHING][..], &[][..], 0),
            (9, None, 3, &[NOTHING], &[], 8),
            (9, Some("Paris"), 1, &["Paris"], &["Paris"], 8),
        ] {
            for (of_all, guesses) in [(false, subset), (true, whole)] {
                let index = Arc::new(Index {
                    passages: Some(held),
                    asked: Mutex::default(),
                });
                let (retriever, reader) = (index.clone(), Arc::new(Reads(read)));
                let speculator = match of_all {
                    true => IndexGuesser::of_all(retriever, reader),
                    false => IndexGuesser::new(retriever, reader, NonZeroUsize::MIN),
                };
                let call = Call::new(Lane::Speculative, Chance::EVEN);
                let guessed = speculator.guess(&call, request(limit)).await.unwrap();
                let texts: Vec<&str> = guessed.guesses.iter().map(|guess| &*guess.text).collect();
                assert_eq!(texts, guesses, "{read:?}");
                assert_eq!(guessed.tokens.total(), tokens);
                // The target reads eight.
                let asked = index.asked.lock()[0].1;
                assert_eq!(asked, if of_all { 8 } else { 1 });
            }
        }
    }

    #[tokio::test]
    async fn keeps_the_contract() {
        for passages in [0, 3] {
            let index = Arc::new(Index {
                passages: Some(passages),
                asked: Mutex::default(),
            });
            let reader = Arc::new(LastPassage);
            let subset = IndexGuesser::new(index.clone(), reader.clone(), NonZeroUsize::MIN);
            contract::speculator(&subset).await;
            contract::speculator(&IndexGuesser::of_all(index, reader)).await;
        }
    }
}
