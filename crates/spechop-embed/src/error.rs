//! Why a model folder could not be opened.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// Why an encoder or a reader could not be opened. Each message is one line; where it has a source, that says
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
    /// The folder's description describes nothing usable.
    #[error("{} does not describe {what}: {detail}", path.display())]
    Recipe {
        /// Which file.
        path: PathBuf,
        /// What it should describe: an encoder or a reader.
        what: &'static str,
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
    /// An ONNX model, but not one that does what is wanted of it.
    #[error("the model {} is no {wanted}: {detail}", path.display())]
    Unfit {
        /// Which file.
        path: PathBuf,
        /// What it should be: a text encoder or an extractive reader.
        wanted: &'static str,
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
    /// The model cannot take texts as long as its folder promises.
    #[error("the model {} fails on a text of {tokens} tokens, which {recipe} allows", path.display())]
    Length {
        /// Which file.
        path: PathBuf,
        /// The description that promises it.
        recipe: &'static str,
        /// The length tried, in tokens.
        tokens: usize,
        /// What ONNX Runtime said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The operating system gave no thread.
    #[error("cannot start the {kind}'s thread")]
    Thread {
        /// Whose thread.
        kind: &'static str,
        /// What it said.
        #[source]
        source: io::Error,
    },
}
