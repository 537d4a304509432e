//! The stages as futures over the ports.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spechop_ports::{
    Call, DraftWriter, Guess, GuessRequest, PlanRequest, PortError, ReadRequest, Speculator,
};
use spechop_types::{
    BranchId, Chance, Draft, LookupId, Observation, Passage, Stage, Step, SubQuestion, Tokens,
};
use tokio::time::Instant;

use crate::Ports;

/// A stage under way.
pub(crate) type StageFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Outcome, PortError>> + Send + 'a>>;

/// The branch or look-up that a stage works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Segment(BranchId),
    Target(LookupId),
    Speculation(LookupId),
    /// One of the samples of a branch's draft.
    Draft(BranchId, u32),
}

impl Work {
    pub(crate) fn stage(self) -> Stage {
        match self {
            Self::Segment(_) => Stage::Segment,
            Self::Target(_) => Stage::Target,
            Self::Speculation(_) => Stage::Speculation,
            Self::Draft(..) => Stage::Draft,
        }
    }
}

/// What a stage produced, and what it cost.
pub(crate) struct Outcome {
    pub(crate) output: Output,
    pub(crate) tokens: Tokens,
}

pub(crate) enum Output {
    Step {
        step: Step,
        /// [`Planned::certainty`](spechop_ports::Planned::certainty).
        certainty: Option<Chance>,
    },
    Observation {
        observation: Arc<Observation>,
        /// The reader's share of the time.
        read: Duration,
    },
    /// Best first.
    Guesses(Vec<Guess>),
    Draft(Option<Draft>),
}

/// M writes the next step.
pub(crate) async fn segment(
    ports: &Ports,
    call: Call,
    request: PlanRequest,
) -> Result<Outcome, PortError> {
    let planned = ports.planner.plan(&call, request).await?;
    Ok(Outcome {
        output: Output::Step {
            step: planned.step,
            certainty: planned.certainty,
        },
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
    let retrieved = ports
        .retriever
        .retrieve(&call, sub_question.as_str(), limit)
        .await?;
    let passages: Arc<[Passage]> = retrieved.into();
    let started = Instant::now();
    let request = ReadRequest {
        sub_question,
        passages: passages.clone(),
    };
    let reading = ports.reader.read(&call, request).await?;
    let observation = Observation::read(reading.answer, passages).read_with(reading.confidence);
    Ok(Outcome {
        output: Output::Observation {
            observation: Arc::new(observation),
            read: started.elapsed(),
        },
        tokens: reading.tokens,
    })
}

/// Guesses that a stage has told before its end, and that nobody has taken yet.
#[derive(Clone, Default)]
pub(crate) struct Early(Arc<Mutex<Vec<Guess>>>);

impl Early {
    pub(crate) fn take(&self) -> Vec<Guess> {
        std::mem::take(&mut self.0.lock())
    }

    fn tell(&self, guess: Guess) {
        self.0.lock().push(guess);
    }
}

/// S guesses. What it has before its end goes into `early`.
pub(crate) async fn speculation(
    speculator: &dyn Speculator,
    call: Call,
    request: GuessRequest,
    early: Early,
) -> Result<Outcome, PortError> {
    let mut tell = |guess| early.tell(guess);
    let guessed = speculator
        .guess_streaming(&call, request, &mut tell)
        .await?;
    Ok(Outcome {
        output: Output::Guesses(guessed.guesses),
        tokens: guessed.tokens,
    })
}

/// Somebody drafts what M is about to write.
pub(crate) async fn draft(
    writer: &dyn DraftWriter,
    call: Call,
    request: PlanRequest,
    sample: u32,
) -> Result<Outcome, PortError> {
    let written = writer.write_draft(&call, request, sample).await?;
    Ok(Outcome {
        output: Output::Draft(written.draft),
        tokens: written.tokens,
    })
}
