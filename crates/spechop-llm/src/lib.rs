//! Language models as planner, reader and speculator.
//!
//! Two engines serve the same small trait, [`TextModel`]: an OpenAI-compatible endpoint, and a GGUF
//! model in this process. What is asked of a model, and how its answer is read, stands in one
//! place, `prompt`, whichever engine answers.

mod model;

pub use model::{End, Generated, Generation, Message, Role, TextModel};
