//! Small transformers on ONNX Runtime, from folders that describe themselves: encoders, which turn
//! texts into vectors (E5, GTE, BGE and their like), and extractive readers, which point at the
//! words of a passage that answer a sub-question.
//!
//! [`OnnxEncoder`] implements [`Encoder`](spechop_ports::Encoder), [`SpanReader`] implements
//! [`Reader`](spechop_ports::Reader). Both tokenise on the runtime's blocking threads and compute on
//! threads of their own, which take their work from a queue: needed calls before guessed ones. An
//! encoder takes queries before passages, and several in one run where that is cheaper; a reader
//! reads one passage in one run. Nothing here touches the network.

mod describe;
mod encoder;
mod encoding;
mod error;
mod model;
mod queue;
mod reader;
mod recipe;
mod runtime;
mod session;
mod text;
mod waiting;
mod worker;

pub use encoder::{EncoderOptions, OnnxEncoder, weights_beside};
pub use encoding::Counts;
pub use error::OpenError;
pub use reader::{
    PlattScaling, READER_RECIPE_FILE, ReaderCounts, ReaderOptions, ReaderRecipe, Room, Scored,
    ScoredAnswer, Space, SpanReader, reader_threads,
};
pub use recipe::{Pooling, RECIPE_FILE, Recipe};
