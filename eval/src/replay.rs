//! Recorded stages as ports: each waits for as long as it took, and gives what it gave. A server over
//! them is the real one in everything but its tools, which wait and do not compute.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::{
    Call, Guess, GuessRequest, Guessed, KnownHop, PlanRequest, Planned, Planner, PortError, Ranked,
    ReadRequest, Reader, Reading, Retriever, Speculator,
};
use spechop_types::{Chance, Passage, Step, SubQuestion, Tokens};

use crate::Parts;
use crate::bundle::Bundle;
use crate::stage::{HopTexts, Input, Output, RecordedGuess, Stage};

/// The ports of a bundle.
pub struct Replayed {
    /// The ports.
    pub parts: Parts,
    /// Stages that were asked for and not recorded. A speculative one is no error to whoever asked: only
    /// this tells.
    pub missing: Arc<AtomicU64>,
}

/// A stage that was not recorded fails, with an error that says so.
struct Replay {
    bundle: Arc<Bundle>,
    /// How many times faster than recorded.
    speed: f64,
    /// The speculator that it is.
    speculator: Arc<str>,
    missing: Arc<AtomicU64>,
}

/// The ports of a bundle, `speed` times faster than recorded. Its speculators have the names given.
pub fn replay(bundle: &Arc<Bundle>, speed: f64, speculators: &[&str]) -> Replayed {
    let missing = Arc::new(AtomicU64::new(0));
    let port = |name: &str| {
        Arc::new(Replay {
            bundle: Arc::clone(bundle),
            speed,
            speculator: name.into(),
            missing: Arc::clone(&missing),
        })
    };
    let parts = Parts {
        planner: port(""),
        retriever: port(""),
        reader: port(""),
        speculators: speculators
            .iter()
            .map(|name| ((*name).to_owned(), port(name) as Arc<dyn Speculator>))
            .collect(),
    };
    Replayed { parts, missing }
}

impl Replay {
    async fn stage(&self, input: Input) -> Result<&Stage, PortError> {
        let Some(stage) = self.bundle.get(&input) else {
            self.missing.fetch_add(1, Ordering::Relaxed);
            let detail = format!("{} was not recorded", input.describe());
            return Err(PortError::refused("the bundle", detail));
        };
        let wait = Duration::try_from_secs_f64(stage.ms / 1000.0 / self.speed);
        tokio::time::sleep(wait.unwrap_or_default()).await;
        Ok(stage)
    }
}

fn prefix(hops: Vec<KnownHop>) -> Vec<HopTexts> {
    let known = |hop: KnownHop| (Arc::clone(hop.sub_question.text()), hop.answer);
    hops.into_iter().map(known).collect()
}

/// How many of them were read and how many written was not recorded.
fn tokens(stage: &Stage) -> Tokens {
    Tokens {
        prompt: stage.tokens,
        completion: 0,
    }
}

fn sure(stage: &Stage) -> Option<Chance> {
    stage.sure.map(|share| Chance::of(f64::from(share)))
}

fn unsound(stage: &Stage) -> PortError {
    let detail = format!("{} has the output of another stage", stage.input.describe());
    PortError::malformed("the bundle", detail)
}

#[async_trait]
impl Planner for Replay {
    async fn plan(&self, _: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let stage = self.stage(Input::Segment {
            question: request.question.as_str().into(),
            hops: prefix(request.hops),
            must_answer: request.must_answer,
        });
        let stage = stage.await?;
        let step = match &stage.output {
            Output::Ask(text) => Step::Ask(SubQuestion::new(text)),
            Output::Answer(text) => Step::Answer(Arc::clone(text)),
            _ => return Err(unsound(stage)),
        };
        Ok(Planned {
            step,
            certainty: sure(stage),
            tokens: tokens(stage),
        })
    }
}

#[async_trait]
impl Retriever for Replay {
    async fn retrieve(
        &self,
        _: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let query = query.into();
        let stage = self.stage(Input::Retrieval { query, limit }).await?;
        let Output::Passages(names) = &stage.output else {
            return Err(unsound(stage));
        };
        let named = names.iter().zip(1_u16..).map(|(name, rank)| Passage {
            id: Arc::clone(&name.id),
            title: Arc::clone(&name.title),
            // Neither text nor score is recorded; the order is.
            text: "".into(),
            url: None,
            score: 1.0 / f32::from(rank),
        });
        Ok(named.collect())
    }
}

#[async_trait]
impl Reader for Replay {
    async fn read(&self, _: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let stage = self.stage(Input::Reading {
            sub_question: Arc::clone(request.sub_question.text()),
            passages: request.passages.iter().map(|p| p.id.clone()).collect(),
        });
        let stage = stage.await?;
        let Output::Read(answer) = &stage.output else {
            return Err(unsound(stage));
        };
        Ok(Reading {
            answer: answer.clone(),
            confidence: sure(stage),
            tokens: tokens(stage),
        })
    }

    async fn read_ranked(
        &self,
        call: &Call,
        request: ReadRequest,
        _: NonZeroUsize,
    ) -> Result<Ranked, PortError> {
        let reading = self.read(call, request).await?;
        Ok(Ranked {
            answers: reading.answer.into_iter().map(Guess::from).collect(),
            tokens: reading.tokens,
        })
    }
}

#[async_trait]
impl Speculator for Replay {
    async fn guess(&self, _: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let stage = self.stage(Input::Speculation {
            speculator: Arc::clone(&self.speculator),
            question: request.question.as_str().into(),
            hops: prefix(request.hops),
            sub_question: Arc::clone(request.sub_question.text()),
            limit: request.limit.get(),
        });
        let stage = stage.await?;
        let Output::Guesses(guesses) = &stage.output else {
            return Err(unsound(stage));
        };
        let guess = |guess: &RecordedGuess| Guess {
            text: Arc::clone(&guess.text),
            confidence: guess.confidence.map(|share| Chance::of(f64::from(share))),
            by: None,
        };
        Ok(Guessed {
            guesses: guesses.iter().map(guess).collect(),
            tokens: tokens(stage),
        })
    }
}
