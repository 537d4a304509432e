//! Why a model could not be opened.

use std::path::PathBuf;

/// Why a model could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, the model's or the adapter's, cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is something else.
    #[error("{path} is no GGUF model")]
    NotGguf {
        /// The file.
        path: PathBuf,
    },
    /// llama.cpp does not take the file; what it said is in the log.
    #[error("{path} is damaged, cut short, or of a kind that is not supported")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The model works in a way that this engine does not know.
    #[error("{path} cannot be used: {reason}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is missing, in a few words.
        reason: &'static str,
    },
    /// A GGUF file, but what it holds is no LoRA adapter.
    #[error("{path} is no LoRA adapter: {reason}")]
    NotAdapter {
        /// The file.
        path: PathBuf,
        /// What tells, in a few words.
        reason: &'static str,
    },
    /// llama.cpp does not put the adapter on this model; what it said is in the log.
    #[error(
        "the adapter {adapter} does not fit {model}: it was made for another model, or is damaged"
    )]
    Misfit {
        /// The adapter's file.
        adapter: PathBuf,
        /// The model's file.
        model: PathBuf,
    },
    /// There is not enough of something.
    #[error(
        "no context of {slots} × {tokens} tokens could be made for {path} and each of {workers} workers: \
         too little memory?"
    )]
    Context {
        /// The file.
        path: PathBuf,
        /// Workers wanted.
        workers: u32,
        /// Slots wanted.
        slots: u32,
        /// Tokens wanted in each.
        tokens: u32,
    },
    /// No thread could be started.
    #[error("no thread could be started for the model")]
    Thread(#[source] std::io::Error),
    /// llama.cpp failed in a way that has nothing to do with the file.
    #[error("llama.cpp could not be started")]
    Backend,
}
