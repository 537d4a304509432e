//! The generator and the closed-book speculator: a model, spoken to in a style.

use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::{
    Call, GuessRequest, Guessed, PlanRequest, Planned, Planner, PortError, ReadRequest, Reader,
    Reading, Speculator,
};
use spechop_types::Tokens;

use crate::prompt::{self, Flaw, PromptStyle, ReadLimits};
use crate::{Generated, Generation, TextModel};

/// Writes sub-questions and the final answer.
#[derive(Clone)]
pub struct LlmPlanner {
    model: Arc<dyn TextModel>,
    style: PromptStyle,
}

/// Reads passages into a sub-answer.
#[derive(Clone)]
pub struct LlmReader {
    model: Arc<dyn TextModel>,
    style: PromptStyle,
    limits: ReadLimits,
}

/// Guesses a sub-answer from the model's memory.
#[derive(Clone)]
pub struct LlmSpeculator {
    model: Arc<dyn TextModel>,
}

impl LlmPlanner {
    /// Plans with `model`, spoken to in `style`.
    pub fn new(model: Arc<dyn TextModel>, style: PromptStyle) -> Self {
        Self { model, style }
    }
}

impl LlmReader {
    /// Reads with `model`, spoken to in `style`, as much of the passages as `limits` allow.
    pub fn new(model: Arc<dyn TextModel>, style: PromptStyle, limits: ReadLimits) -> Self {
        Self {
            model,
            style,
            limits,
        }
    }
}

impl LlmSpeculator {
    /// Guesses with `model`.
    pub fn new(model: Arc<dyn TextModel>) -> Self {
        Self { model }
    }
}

#[async_trait]
impl Planner for LlmPlanner {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let generation = prompt::plan(self.style, &request);
        let (step, tokens) = ask(&*self.model, call, generation, |generated| {
            prompt::step(self.style, &request, generated)
        })
        .await?;
        Ok(Planned { step, tokens })
    }
}

#[async_trait]
impl Reader for LlmReader {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        if self.limits.passages == 0 || request.passages.is_empty() {
            return Ok(Reading {
                answer: None,
                tokens: Tokens::default(),
            });
        }
        let generation = prompt::read(self.style, &request, self.limits);
        let (answer, tokens) = ask(&*self.model, call, generation, |generated| {
            prompt::reading(self.style, generated)
        })
        .await?;
        Ok(Reading { answer, tokens })
    }
}

#[async_trait]
impl Speculator for LlmSpeculator {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let generated = self.model.generate(call, prompt::guess(&request)).await?;
        Ok(Guessed {
            guess: prompt::guessed(&generated),
            tokens: generated.tokens,
        })
    }
}

/// Generates, and once more with a complaint where the first output is flawed.
async fn ask<T>(
    model: &dyn TextModel,
    call: &Call,
    generation: Generation,
    parse: impl Fn(&Generated) -> Result<T, Flaw<T>> + Send,
) -> Result<(T, Tokens), PortError>
where
    T: Send,
{
    let first = model.generate(call, generation.clone()).await?;
    let flaw = match parse(&first) {
        Ok(value) => return Ok((value, first.tokens)),
        Err(flaw) => flaw,
    };
    tracing::debug!(
        model = model.name(),
        detail = flaw.detail,
        "repairing an output"
    );
    let repair = prompt::repair(generation, &first.text, flaw.complaint);
    let second = match model.generate(call, repair).await {
        Ok(second) => second,
        // What there is will do.
        Err(error) => {
            return flaw
                .fallback
                .map(|value| (value, first.tokens))
                .ok_or(error);
        }
    };
    let tokens = first.tokens + second.tokens;
    match parse(&second) {
        Ok(value) => Ok((value, tokens)),
        Err(second) => match flaw.fallback.or(second.fallback) {
            Some(value) => Ok((value, tokens)),
            None => Err(PortError::Malformed {
                what: model.name().to_owned(),
                detail: second.detail.to_owned(),
            }),
        },
    }
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
