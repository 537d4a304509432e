//! The generator, the closed-book speculator and the writer of drafts: a model, spoken to in a style.

use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::{
    Call, DraftWriter, Guess, GuessRequest, Guessed, PlanRequest, Planned, Planner, PortError,
    ReadRequest, Reader, Reading, Sparingly, Speculator, WrittenDraft,
};
use spechop_types::{Chance, Draft, Step, Tokens};

use crate::prompt::{self, Flaw, PromptStyle, ReadLimits};
use crate::steps::fallback;
use crate::thoughts::spoken;
use crate::{Generated, Generation, TextModel};

/// Writes sub-questions and the final answer.
#[derive(Clone)]
pub struct LlmPlanner {
    model: Arc<dyn TextModel>,
    style: PromptStyle,
    sample: u32,
    is_last: bool,
}

/// Reads passages into a sub-answer.
#[derive(Clone)]
pub struct LlmReader {
    model: Arc<dyn TextModel>,
    style: PromptStyle,
    limits: ReadLimits,
    warnings: Arc<Sparingly>,
}

/// Guesses a sub-answer from the model's memory.
#[derive(Clone)]
pub struct LlmSpeculator {
    model: Arc<dyn TextModel>,
    sample: u32,
}

/// Writes drafts of the next sub-question as a planner would, while the planner writes.
#[derive(Clone)]
pub struct LlmDraftWriter {
    model: Arc<dyn TextModel>,
    style: PromptStyle,
}

impl LlmPlanner {
    /// Plans with `model`, spoken to in `style`.
    pub fn new(model: Arc<dyn TextModel>, style: PromptStyle) -> Self {
        Self {
            model,
            style,
            sample: 0,
            is_last: true,
        }
    }

    /// Whether it `is_last`, as it is at first: once the hops have outgrown the model's context, it answers with what was
    /// found last. If not, it fails, and another planner can have room for them.
    #[must_use]
    pub fn as_last(self, is_last: bool) -> Self {
        Self { is_last, ..self }
    }

    /// Plans what this sample says, if the model draws samples. The likeliest plan is sample 0.
    #[must_use]
    pub fn of_sample(self, sample: u32) -> Self {
        Self { sample, ..self }
    }
}

impl LlmReader {
    /// Reads with `model`, spoken to in `style`, as much of the passages as `limits` allow and its context
    /// holds.
    pub fn new(model: Arc<dyn TextModel>, style: PromptStyle, limits: ReadLimits) -> Self {
        Self {
            model,
            style,
            limits,
            warnings: Arc::default(),
        }
    }
}

impl LlmSpeculator {
    /// Guesses with `model`, what it finds likeliest.
    pub fn new(model: Arc<dyn TextModel>) -> Self {
        Self { model, sample: 0 }
    }

    /// Guesses what this sample says, if the model draws samples. The likeliest is sample 0.
    #[must_use]
    pub fn of_sample(self, sample: u32) -> Self {
        Self { sample, ..self }
    }
}

impl LlmDraftWriter {
    /// Drafts with `model`, spoken to in the `style` of the planner whose words it is to foresee.
    pub fn new(model: Arc<dyn TextModel>, style: PromptStyle) -> Self {
        Self { model, style }
    }
}

impl LlmPlanner {
    async fn step(&self, call: &Call, request: &PlanRequest) -> (Result<Step, Failed>, Tokens) {
        let mut generation = prompt::plan(self.style, request);
        generation.sample = self.sample;
        if let Some(draft) = request.drafts.first() {
            generation.drafts = vec![prompt::written(self.style, draft)];
        }
        ask(&*self.model, call, generation, |generated| {
            prompt::step(self.style, request, generated)
        })
        .await
    }
}

#[async_trait]
impl Planner for LlmPlanner {
    async fn warm(&self, call: &Call, request: PlanRequest) -> Result<(), PortError> {
        let generation = prompt::plan(self.style, &request);
        self.model.warm(call, generation).await
    }

    /// Where the model finds no step that can be used, not even when it is asked again, it is made
    /// to answer from the hops that are known. If they have outgrown its context, the last thing found is the answer,
    /// if it [is last](LlmPlanner::as_last).
    async fn plan(&self, call: &Call, mut request: PlanRequest) -> Result<Planned, PortError> {
        let (mut step, mut tokens) = self.step(call, &request).await;
        let is_stuck = matches!(step, Err(Failed::Useless(_)));
        if is_stuck && !request.must_answer && !request.hops.is_empty() {
            request.must_answer = true;
            let (answer, more) = self.step(call, &request).await;
            step = answer;
            tokens += more;
        }
        let step = match step {
            Err(Failed::Silent(PortError::TooLong { what, detail }))
                if self.is_last && !request.hops.is_empty() =>
            {
                tracing::debug!(what, detail, "the hops leave no room for another step");
                fallback(&request)
            }
            step => step?,
        };
        Ok(Planned {
            step,
            // Its thoughts stand in the same text, and repairs are texts of their own.
            certainty: None,
            tokens,
        })
    }
}

/// What filters say that refuse a prompt for what it holds: Azure's, DeepSeek's and Alibaba's; and what is said of one
/// that leaves nothing of an answer.
const FILTERED: [&str; 4] = [
    "content management policy",
    "content exists risk",
    "inappropriate content",
    "content filter",
];

/// The warning that one of them has refused a passage.
const FILTERED_WARNING: &str = "leaving a passage out for a filter";

/// Most passages that are left out in turn, one at a time, for a filter's sake.
const LEFT_OUT_MAX: usize = 8;

fn is_filtered(error: &PortError) -> bool {
    let PortError::Refused { detail, .. } = error else {
        return false;
    };
    let detail = detail.to_lowercase();
    FILTERED.iter().any(|words| detail.contains(words))
}

impl LlmReader {
    /// If the passages are too long for the model, it is shown less of them. Their limits are in characters,
    /// and of some scripts each takes several tokens.
    async fn read_within(&self, call: &Call, request: &ReadRequest) -> Result<Reading, PortError> {
        let mut tokens = Tokens::default();
        let mut tries = self.limits.ever_less(&request.passages).into_iter();
        while let Some(limits) = tries.next() {
            let generation = prompt::read(self.style, request, limits);
            let (answer, more) = ask(&*self.model, call, generation, |generated| {
                prompt::reading(self.style, generated)
            })
            .await;
            tokens += more;
            match answer.map_err(PortError::from) {
                Err(PortError::TooLong { what, detail }) if tries.len() > 0 => {
                    tracing::debug!(what, detail, "showing less of the passages");
                }
                answer => {
                    return Ok(Reading {
                        answer: answer?,
                        confidence: None,
                        tokens,
                    });
                }
            }
        }
        Ok(Reading {
            answer: None,
            confidence: None,
            tokens,
        })
    }
}

#[async_trait]
impl Reader for LlmReader {
    /// A filter does not say which passage it refuses, and one must not end all questions that find it: each is left
    /// out in turn, the last one first. It is left out of the prompt alone, and if it was the only one, the refusal
    /// stays.
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let shown = self.limits.passages.min(request.passages.len());
        let may_leave_out = self.limits.shortens && shown > 1;
        let left_out = (0..shown).rev().take(LEFT_OUT_MAX);
        let mut left_out = left_out.filter(|_| may_leave_out);
        let mut tried = request.clone();
        loop {
            let error = match self.read_within(call, &tried).await {
                Err(error) if is_filtered(&error) => error,
                read => return read,
            };
            let Some(at) = left_out.next() else {
                return Err(error);
            };
            if let Some(left_out) = self.warnings.turn(FILTERED_WARNING) {
                tracing::warn!(%error, left_out, "{FILTERED_WARNING}");
            }
            let passages = request.passages.iter().enumerate();
            let others = passages.filter(|(place, _)| *place != at);
            tried.passages = others.map(|(_, passage)| passage.clone()).collect();
        }
    }
}

#[async_trait]
impl Speculator for LlmSpeculator {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let mut generation = prompt::guess(&request);
        generation.sample = self.sample;
        let generated = self.model.generate(call, generation).await?;
        Ok(Guessed {
            guesses: prompt::guessed(&generated)
                .map(Guess::from)
                .into_iter()
                .collect(),
            tokens: generated.tokens,
        })
    }
}

/// What is no sub-question, or gets nobody further, is no draft. Nothing is repaired: a draft that takes two
/// calls comes too late.
#[async_trait]
impl DraftWriter for LlmDraftWriter {
    async fn write_draft(
        &self,
        call: &Call,
        request: PlanRequest,
        sample: u32,
    ) -> Result<WrittenDraft, PortError> {
        let mut generation = prompt::plan(self.style, &request);
        generation.tokens_max = generation.tokens_max.min(prompt::SUB_QUESTION_TOKENS_MAX);
        generation.sample = sample;
        let generated = self.model.generate(call, generation).await?;
        let draft = match prompt::step(self.style, &request, &generated) {
            Ok(Step::Ask(sub_question)) => Some(Draft {
                sub_question,
                // It does not say how sure it is, and nobody has counted.
                chance: Chance::EVEN,
            }),
            Ok(Step::Answer(_)) | Err(_) => None,
        };
        Ok(WrittenDraft {
            draft,
            tokens: generated.tokens,
        })
    }
}

/// Why nothing came of a call of a model.
enum Failed {
    /// There is no text.
    Silent(PortError),
    /// There are texts, and nothing in them can be used, not even in the repaired one.
    Useless(PortError),
}

impl From<Failed> for PortError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Silent(error) | Failed::Useless(error) => error,
        }
    }
}

/// Generates, and once more with a complaint where the first output is flawed. The tokens are those
/// of both, whatever came of them.
///
/// If the second call fails, the flawed output serves, unless the failure [forbids it](PortError::allows_substitute).
async fn ask<T>(
    model: &dyn TextModel,
    call: &Call,
    generation: Generation,
    parse: impl Fn(&Generated) -> Result<T, Flaw<T>> + Send,
) -> (Result<T, Failed>, Tokens)
where
    T: Send,
{
    let first = match model.generate(call, generation.clone()).await {
        Ok(first) => first,
        Err(error) => return (Err(Failed::Silent(error)), Tokens::default()),
    };
    let flaw = match parse(&first) {
        Ok(value) => return (Ok(value), first.tokens),
        Err(flaw) => flaw,
    };
    tracing::debug!(
        model = model.name(),
        detail = flaw.detail,
        "repairing an output"
    );
    // The complaint is about what it has said, which stands behind its thoughts.
    let repair = prompt::repair(generation, spoken(&first.text), flaw.complaint);
    let second = match model.generate(call, repair).await {
        Ok(second) => second,
        Err(error) => {
            let may_do = error.allows_substitute(call.lane());
            let usable = flaw.fallback.filter(|_| may_do);
            return (usable.ok_or(Failed::Silent(error)), first.tokens);
        }
    };
    let value = parse(&second).or_else(|again| {
        flaw.fallback
            .or(again.fallback)
            .ok_or_else(|| Failed::Useless(PortError::malformed(model.name(), again.detail)))
    });
    (value, first.tokens + second.tokens)
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
