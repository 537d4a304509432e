//! The three stages as futures over the ports.

use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{AbortRegistration, Abortable};
use spechop_ports::{
    Call, GuessRequest, KnownHop, PlanRequest, PortError, ReadRequest, Speculator,
};
use spechop_types::{BranchId, LookupId, Observation, Question, Stage, Step, SubQuestion, Tokens};
use tokio::time::Instant;

use crate::Ports;

/// What the target tool's observation says where its reader found nothing.
const NOTHING_FOUND: &str = "No relevant information found";

/// A stage under way. It ends early, with no outcome, when its abort handle is pulled.
pub(crate) type StageFuture<'a> = Pin<Box<dyn Future<Output = Finished> + Send + 'a>>;

/// What a stage is for. An orphan's clock is no stage, but is waited for like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Segment(BranchId),
    Target(LookupId),
    Speculation(LookupId),
    Expiry(LookupId),
}

impl Work {
    pub(crate) fn stage(self) -> Option<Stage> {
        match self {
            Self::Segment(_) => Some(Stage::Segment),
            Self::Target(_) => Some(Stage::Target),
            Self::Speculation(_) => Some(Stage::Speculation),
            Self::Expiry(_) => None,
        }
    }
}

/// A stage that has ended.
pub(crate) struct Finished {
    pub(crate) work: Work,
    /// From launch to end.
    pub(crate) took: Duration,
    /// `None` where it was aborted.
    pub(crate) outcome: Option<Result<Outcome, PortError>>,
}

/// What a stage produced, and what it cost.
pub(crate) struct Outcome {
    pub(crate) output: Output,
    pub(crate) tokens: Tokens,
}

pub(crate) enum Output {
    Step(Step),
    Observation {
        observation: Arc<Observation>,
        /// The reader's share of the time.
        read: Duration,
    },
    /// Best first.
    Guesses(Vec<Arc<str>>),
    /// An orphan's time is over.
    Expired,
}

/// What to launch, and under which limits.
pub(crate) struct Launch {
    pub(crate) work: Work,
    pub(crate) limit: Duration,
    pub(crate) abort: AbortRegistration,
}

impl Launch {
    /// Puts a time limit and the abort handle around a stage.
    pub(crate) fn wrap<'a>(
        self,
        stage: impl Future<Output = Result<Outcome, PortError>> + Send + 'a,
    ) -> StageFuture<'a> {
        let Self { work, limit, abort } = self;
        let limited = async move {
            tokio::time::timeout(limit, stage)
                .await
                .unwrap_or_else(|_| {
                    let name = work.stage().map_or("", Stage::as_str);
                    Err(PortError::Timeout {
                        what: format!("the {name} stage"),
                        limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
                    })
                })
        };
        finish(work, Abortable::new(limited, abort))
    }
}

/// The clock of an orphan.
pub(crate) fn expiry<'a>(
    lookup: LookupId,
    time: Duration,
    abort: AbortRegistration,
) -> StageFuture<'a> {
    let clock = async move {
        tokio::time::sleep(time).await;
        Ok(Outcome {
            output: Output::Expired,
            tokens: Tokens::default(),
        })
    };
    finish(Work::Expiry(lookup), Abortable::new(clock, abort))
}

fn finish<'a, F>(work: Work, stage: Abortable<F>) -> StageFuture<'a>
where
    F: Future<Output = Result<Outcome, PortError>> + Send + 'a,
{
    Box::pin(async move {
        let started = Instant::now();
        let outcome = stage.await.ok();
        Finished {
            work,
            took: started.elapsed(),
            outcome,
        }
    })
}

/// M writes the next step.
pub(crate) async fn segment(
    ports: &Ports,
    call: Call,
    request: PlanRequest,
) -> Result<Outcome, PortError> {
    let planned = ports.planner.plan(&call, request).await?;
    Ok(Outcome {
        output: Output::Step(planned.step),
        tokens: planned.tokens,
    })
}

/// T looks up, and M reads what it returned.
pub(crate) async fn target(
    ports: &Ports,
    call: Call,
    sub_question: SubQuestion,
    limit: usize,
) -> Result<Outcome, PortError> {
    let passages = ports
        .retriever
        .retrieve(&call, sub_question.as_str(), limit)
        .await?;
    let started = Instant::now();
    let request = ReadRequest {
        sub_question,
        passages: passages.clone(),
    };
    let reading = ports.reader.read(&call, request).await?;
    let observation = Observation {
        found: reading.answer.is_some(),
        answer: reading.answer.unwrap_or_else(|| NOTHING_FOUND.into()),
        evidence: passages,
    };
    Ok(Outcome {
        output: Output::Observation {
            observation: Arc::new(observation),
            read: started.elapsed(),
        },
        tokens: reading.tokens,
    })
}

/// What S is asked.
pub(crate) fn guess_request(
    question: &Question,
    hops: Vec<KnownHop>,
    sub_question: SubQuestion,
    limit: NonZeroUsize,
) -> GuessRequest {
    GuessRequest {
        question: question.clone(),
        hops,
        sub_question,
        limit,
    }
}

/// S guesses.
pub(crate) async fn speculation(
    speculator: &dyn Speculator,
    call: Call,
    request: GuessRequest,
) -> Result<Outcome, PortError> {
    let guessed = speculator.guess(&call, request).await?;
    Ok(Outcome {
        output: Output::Guesses(guessed.guesses),
        tokens: guessed.tokens,
    })
}
