//! Language models as planner, reader and speculator.
//!
//! Two engines serve the same small trait, [`TextModel`]: an OpenAI-compatible endpoint, and a GGUF
//! model in this process. What is asked of a model, and how its answer is read, stands in one
//! place, `prompt`, whichever engine answers; [`StepPlanner`] alone, for a model that was trained to
//! plan, has a form of its own.

mod generator;
mod local;
mod model;
mod openai;
mod prompt;
mod rewriter;
#[cfg(test)]
mod scripted;
mod steps;
mod stop;
mod thoughts;

pub use generator::{LlmDraftWriter, LlmPlanner, LlmReader, LlmSpeculator};
pub use local::{LocalModel, LocalModelOptions, LocalStats, OpenError, Tools};
pub use model::{
    Chat, End, Generated, Generation, Message, Prompt, Role, Text, TextDraft, TextModel,
};
pub use openai::{ChatEndpoint, InvalidChatEndpoint, OpenAiModel, TimeLimits};
pub use prompt::{PromptStyle, ReadLimits};
pub use rewriter::LlmRewriter;
pub use steps::StepPlanner;
