//! Why a model folder could not be opened.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// Why an encoder could not be opened. Each message is one line; where it has a source, that says
/// why.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder or one of its files is missing or unreadable.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file or folder.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// `encoder.toml` does not describe an encoder.
    #[error("{} does not describe an encoder: {detail}", path.display())]
    Recipe {
        /// Which file.
        path: PathBuf,
        /// Every mistake found.
        detail: String,
    },
    /// The tokenizer file cannot be used.
    #[error("{} is not a usable tokenizer: {detail}", path.display())]
    Tokenizer {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The ONNX Runtime library could not be loaded.
    #[error("cannot load the ONNX Runtime library {}", path.display())]
    Runtime {
        /// Which file.
        path: PathBuf,
        /// What the loader said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A process holds one ONNX Runtime only, and it already holds another.
    #[error("cannot load the ONNX Runtime library {}: this process runs on {}", path.display(), loaded.display())]
    OtherRuntime {
        /// Which file was asked for.
        path: PathBuf,
        /// Which file is loaded.
        loaded: PathBuf,
    },
    /// The model file is damaged, or no ONNX model at all.
    #[error("cannot load the model {}", path.display())]
    Model {
        /// Which file.
        path: PathBuf,
        /// What ONNX Runtime said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// An ONNX model, but not one that turns tokens into vectors.
    #[error("the model {} is no text encoder: {detail}", path.display())]
    NoEncoder {
        /// Which file.
        path: PathBuf,
        /// Which input or output is missing or strange.
        detail: String,
    },
    /// The model's vectors are not as wide as `encoder.toml` says.
    #[error("the model {} gives vectors of width {actual}, but {RECIPE} says {stated}", path.display(), RECIPE = crate::RECIPE_FILE)]
    Width {
        /// Which file.
        path: PathBuf,
        /// What `encoder.toml` says.
        stated: usize,
        /// What the model does.
        actual: usize,
    },
    /// The tokenizer knows tokens that the model does not.
    #[error("the tokenizer {} does not fit the model: it knows token {largest}, the model fails on it", path.display())]
    Vocabulary {
        /// The tokenizer's file.
        path: PathBuf,
        /// The tokenizer's largest token id.
        largest: u32,
        /// What ONNX Runtime said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The model cannot take texts as long as `encoder.toml` promises.
    #[error("the model {} fails on a text of {tokens} tokens, which {RECIPE} allows", path.display(), RECIPE = crate::RECIPE_FILE)]
    Length {
        /// Which file.
        path: PathBuf,
        /// The length tried, in tokens.
        tokens: usize,
        /// What ONNX Runtime said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The operating system gave no thread.
    #[error("cannot start the encoder's thread")]
    Thread(#[source] io::Error),
}
