//! The three stages as futures over the ports.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::Abortable;
use spechop_ports::{
    Call, GuessRequest, KnownHop, PlanRequest, PortError, ReadRequest, Speculator,
};
use spechop_types::{BranchId, Observation, Question, Stage, Step, SubQuestion, Tokens};
use tokio::time::Instant;

use crate::Ports;

/// What the target tool's observation says where its reader found nothing.
const NOTHING_FOUND: &str = "No relevant information found";

/// A stage under way. It ends early, with no outcome, when its abort handle is pulled.
pub(crate) type StageFuture<'a> = Pin<Box<dyn Future<Output = Finished> + Send + 'a>>;

/// A stage that has ended.
pub(crate) struct Finished {
    pub(crate) branch: BranchId,
    pub(crate) stage: Stage,
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
    Guess(Option<Arc<str>>),
}

/// Which stage of which branch, and under which limits.
pub(crate) struct Launch {
    pub(crate) branch: BranchId,
    pub(crate) stage: Stage,
    pub(crate) limit: Duration,
    pub(crate) abort: futures::future::AbortRegistration,
}

impl Launch {
    /// Puts a time limit and the abort handle around a stage.
    pub(crate) fn wrap<'a>(
        self,
        stage: impl Future<Output = Result<Outcome, PortError>> + Send + 'a,
    ) -> StageFuture<'a> {
        let limit = self.limit;
        let name = self.stage;
        let limited = async move {
            tokio::time::timeout(limit, stage)
                .await
                .unwrap_or_else(|_| {
                    Err(PortError::Timeout {
                        what: format!("the {name} stage"),
                        limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
                    })
                })
        };
        let abortable = Abortable::new(limited, self.abort);
        Box::pin(async move {
            let started = Instant::now();
            let outcome = abortable.await.ok();
            Finished {
                branch: self.branch,
                stage: name,
                took: started.elapsed(),
                outcome,
            }
        })
    }
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

/// S guesses.
pub(crate) async fn speculation(
    speculator: &dyn Speculator,
    call: Call,
    question: Question,
    hops: Vec<KnownHop>,
    sub_question: SubQuestion,
) -> Result<Outcome, PortError> {
    let request = GuessRequest {
        question,
        hops,
        sub_question,
    };
    let guessed = speculator.guess(&call, request).await?;
    Ok(Outcome {
        output: Output::Guess(guessed.guess),
        tokens: guessed.tokens,
    })
}
