//! Text to vectors on ONNX Runtime: E5, GTE, BGE and their like, from a folder that describes itself.
//!
//! [`OnnxEncoder`] implements [`Encoder`](spechop_ports::Encoder). It tokenises on the runtime's
//! blocking threads and computes on threads of its own, which take their work from a queue:
//! queries before passages, needed ones before guessed ones, several in one run where that is
//! cheaper. Nothing here touches the network.

mod encoder;
mod error;
mod model;
mod queue;
mod recipe;
mod runtime;
mod text;
mod worker;

pub use encoder::{EncoderOptions, OnnxEncoder};
pub use error::OpenError;
pub use recipe::{Pooling, RECIPE_FILE, Recipe};
pub use worker::Counts;
