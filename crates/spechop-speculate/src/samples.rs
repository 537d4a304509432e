//! Several samples of what one speculator would guess, drawn at the same time.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use spechop_ports::{Call, Guess, GuessRequest, Guessed, PortError, Speculator};
use spechop_types::Chance;

use crate::cascade::is_same;
use crate::outcomes::Outcomes;

/// Draws as many samples as guesses are of use (the λ samples of speculative tool calls, arXiv
/// 2512.15834, algorithm 2). If only one guess is of use, one sample is drawn and paid for.
///
/// The first sample holds the likeliest words, so its guess goes ahead of all others, which are held back
/// until it has come or failed. They follow in the order in which they come. Samples that say the same are
/// one guess.
///
/// A sample that fails is one without a guess, unless all fail. Whoever drops the future drops all.
#[derive(Clone)]
pub struct Samples {
    samples: Vec<Arc<dyn Speculator>>,
}

impl Samples {
    /// Takes one guess of each; the first is the likeliest.
    pub fn new(samples: Vec<Arc<dyn Speculator>>) -> Self {
        Self { samples }
    }
}

#[async_trait]
impl Speculator for Samples {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        self.guess_streaming(call, request, &mut |_| {}).await
    }

    async fn guess_streaming(
        &self,
        call: &Call,
        request: GuessRequest,
        early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        let wanted = self.samples.iter().take(request.limit.get());
        let wanted: Vec<_> = wanted.collect();
        if let [only] = wanted[..] {
            return only.guess(call, request).await;
        }
        // Each takes a turn for itself. If it loses that, the others are there, and must not wait for it.
        let own = || call.sub_call().with_one_turn();
        let part = |(at, _)| match at {
            0 => own(),
            // The likeliest guess of another branch is more likely to be used than this.
            _ => own().of_chance(call.chance().and(Chance::EVEN)),
        };
        let parts: Vec<Call> = wanted.iter().enumerate().map(part).collect();
        let mut drawn: FuturesUnordered<_> = wanted
            .iter()
            .zip(&parts)
            .enumerate()
            .map(|(at, (sample, part))| {
                let request = request.clone();
                async move { (at, sample.guess(part, request).await) }
            })
            .collect();
        let (mut guesses, mut held): (Vec<Guess>, Vec<Guess>) = (Vec::new(), Vec::new());
        let (mut outcomes, mut is_led) = (Outcomes::default(), false);
        while let Some((at, outcome)) = drawn.next().await {
            let came = outcomes.take(outcome).into_iter().next();
            match at {
                0 => {
                    held.splice(0..0, came);
                    is_led = true;
                }
                _ => held.extend(came),
            }
            if !is_led {
                continue;
            }
            for guess in held.drain(..) {
                if !guesses.iter().any(|other| is_same(other, &guess)) {
                    early(guess.clone());
                    guesses.push(guess);
                }
            }
        }
        outcomes.into_guessed(guesses)
    }
}

/// The likeliest guess of a speculator that may have several: for where others have guesses, too.
#[derive(Clone)]
pub struct Likeliest {
    of: Arc<dyn Speculator>,
}

impl Likeliest {
    /// Asks this one for a single guess.
    pub fn of(speculator: Arc<dyn Speculator>) -> Self {
        Self { of: speculator }
    }
}

#[async_trait]
impl Speculator for Likeliest {
    async fn guess(&self, call: &Call, mut request: GuessRequest) -> Result<Guessed, PortError> {
        request.limit = NonZeroUsize::MIN;
        self.of.guess(call, request).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spechop_ports::{Lane, contract};
    use spechop_types::{Question, SubQuestion, Tokens};
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    /// Says this after so many milliseconds. `None` fails; an empty text is no guess.
    struct Draws(u64, Option<&'static str>);

    #[async_trait]
    impl Speculator for Draws {
        async fn guess(&self, _: &Call, _: GuessRequest) -> Result<Guessed, PortError> {
            sleep(Duration::from_millis(self.0)).await;
            let Some(says) = self.1 else {
                return Err(PortError::unavailable("a sample", "it is broken"));
            };
            let guess = (!says.is_empty()).then(|| Guess::from(says));
            Ok(Guessed {
                guesses: guess.into_iter().collect(),
                tokens: Tokens {
                    prompt: 0,
                    completion: 1,
                },
            })
        }
    }

    fn samples(drawn: &[(u64, Option<&'static str>)]) -> Samples {
        let sample = |(ms, says): &(u64, Option<&'static str>)| {
            Arc::new(Draws(*ms, *says)) as Arc<dyn Speculator>
        };
        Samples::new(drawn.iter().map(sample).collect())
    }

    /// What was told, each with its time; what came of it, and the tokens.
    async fn ask(drawn: &[(u64, Option<&'static str>)], limit: usize) -> (String, String) {
        ask_of(&samples(drawn), limit).await
    }

    fn request(limit: usize) -> GuessRequest {
        GuessRequest {
            question: Question::new("Whose mother?").unwrap(),
            hops: Vec::new(),
            sub_question: SubQuestion::new("Who directed it?"),
            passages: NonZeroUsize::MIN,
            limit: limit.try_into().unwrap(),
        }
    }

    async fn ask_of(speculator: &dyn Speculator, limit: usize) -> (String, String) {
        let call = Call::new(Lane::Speculative, Chance::EVEN);
        let (start, mut told) = (Instant::now(), Vec::new());
        let mut tell =
            |guess: Guess| told.push(format!("{}@{}", guess.text, start.elapsed().as_millis()));
        let guessed = speculator
            .guess_streaming(&call, request(limit), &mut tell)
            .await;
        let all = match guessed {
            Ok(guessed) => {
                let texts: Vec<_> = guessed.guesses.iter().map(|guess| &*guess.text).collect();
                format!("{} for {}", texts.join(" "), guessed.tokens.total())
            }
            Err(error) => error.to_string(),
        };
        (told.join(" "), all)
    }

    #[tokio::test(start_paused = true)]
    async fn the_likeliest_sample_leads_and_no_guess_comes_twice() {
        let drawn = &[
            (30, Some("Ana")),
            (10, Some("Bea")),
            (40, Some("ana")),
            (50, Some("Cyd")),
        ];
        for (limit, told, all) in [
            // One is drawn, and nobody is told early what comes at once.
            (1, "", "Ana for 1"),
            (2, "Ana@30 Bea@30", "Ana Bea for 2"),
            (3, "Ana@30 Bea@30", "Ana Bea for 3"),
            (4, "Ana@30 Bea@30 Cyd@50", "Ana Bea Cyd for 4"),
            // There are no more.
            (9, "Ana@30 Bea@30 Cyd@50", "Ana Bea Cyd for 4"),
        ] {
            let expected = (told.to_owned(), all.to_owned());
            assert_eq!(ask(drawn, limit).await, expected, "{limit}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sample_that_fails_is_one_without_a_guess() {
        for (drawn, told, all) in [
            ([(30, None), (10, Some("Bea"))], "Bea@30", "Bea for 1"),
            ([(30, Some("")), (10, Some("Bea"))], "Bea@30", "Bea for 2"),
            ([(30, Some("Ana")), (10, None)], "Ana@30", "Ana for 1"),
            ([(30, None), (10, Some(""))], "", " for 1"),
            ([(30, None), (10, None)], "", "a sample is unavailable"),
        ] {
            let expected = (told.to_owned(), all.to_owned());
            assert_eq!(ask(&drawn, 2).await, expected, "{drawn:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn among_others_a_model_has_its_likeliest_guess_alone() {
        let drawn = samples(&[(30, Some("Ana")), (10, Some("Bea")), (20, Some("Cyd"))]);
        let index = samples(&[(50, Some("Dee"))]);
        let members: Vec<(_, Arc<dyn Speculator>)> = vec![
            ("llm", Arc::new(Likeliest::of(Arc::new(drawn)))),
            ("index", Arc::new(index)),
        ];
        let cascade = crate::Cascade::new(members, Chance::EVEN);
        let (told, all) = ask_of(&cascade, 3).await;
        assert_eq!((&*told, &*all), ("Ana@30", "Ana Dee for 2"));
    }

    /// Counts those who wait.
    struct Waits(Arc<()>);

    #[async_trait]
    impl Speculator for Waits {
        async fn guess(&self, call: &Call, _: GuessRequest) -> Result<Guessed, PortError> {
            let _waits = Arc::clone(&self.0);
            while call.lane() == Lane::Speculative {
                sleep(Duration::from_millis(10)).await;
            }
            Ok(Guessed {
                guesses: Vec::new(),
                tokens: Tokens::default(),
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_samples_are_promoted_and_dropped_with_their_call() {
        let waits = Arc::new(());
        let sample = || Arc::new(Waits(Arc::clone(&waits))) as Arc<dyn Speculator>;
        let samples = Samples::new((0..3).map(|_| sample()).collect());
        let call = Call::new(Lane::Speculative, Chance::EVEN);
        let asked = samples.guess(&call, request(3));
        assert!(timeout(Duration::from_secs(1), asked).await.is_err());
        // This one, and one of each sample.
        assert_eq!(Arc::strong_count(&waits), 4);
        let promoted = async {
            sleep(Duration::from_secs(1)).await;
            assert_eq!(Arc::strong_count(&waits), 7);
            call.promote();
        };
        let (guessed, ()) = tokio::join!(samples.guess(&call, request(3)), promoted);
        assert_eq!(guessed.unwrap().guesses, Vec::new());
    }

    #[tokio::test]
    async fn it_keeps_the_contract() {
        let drawn = [(0, Some("Ana")), (0, Some("Bea")), (0, Some("Cyd"))];
        contract::speculator(&samples(&drawn)).await;
    }
}
