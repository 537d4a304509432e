//! Language models as planner, reader and speculator.
//!
//! Two engines serve the same small trait, [`TextModel`]: an OpenAI-compatible endpoint, and a GGUF
//! model in this process. What is asked of a model, and how its answer is read, stands in one
//! place, `prompt`, whichever engine answers.

mod generator;
mod local;
mod model;
mod openai;
mod prompt;
mod stop;

pub use generator::{LlmPlanner, LlmReader, LlmSpeculator};
pub use local::{LocalModel, LocalModelOptions, LocalStats, OpenError};
pub use model::{End, Generated, Generation, Message, Role, TextModel};
pub use openai::{Endpoint, InvalidEndpoint, OpenAiModel, Retries, TimeLimits};
pub use prompt::{PromptStyle, ReadLimits};
