//! Why an adapter could not be merged into a model.

/// Why an adapter could not be merged into a model. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A file that cannot be read.
    #[error("{which} cannot be read: {why}")]
    File {
        /// "the model" or "the adapter".
        which: &'static str,
        /// What is wrong with it.
        #[source]
        why: ReadError,
    },
    /// The second file is something else.
    #[error("the adapter is none: it says neither that it is a LoRA nor its alpha")]
    NoAdapter,
    /// The adapter is of another model, or damaged.
    #[error("the adapter does not fit the model: {detail}")]
    Unfit {
        /// Which tensor, and why not.
        detail: String,
    },
    /// It changes nothing.
    #[error("the adapter changes no matrix of the model")]
    NothingToDo,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It does not begin with `GGUF`.
    #[error("it is no GGUF file")]
    NotGguf,
    /// Of a time before or after this program.
    #[error("it is GGUF of version {found}, and 2 and 3 are understood")]
    Version {
        /// What it says.
        found: u32,
    },
    /// It ends too early, or says that something is longer than the file.
    #[error("it is cut off or damaged at byte {at} of its header")]
    Header {
        /// From the start of the file.
        at: usize,
    },
    /// Its numbers would begin nowhere, or with much room between them.
    #[error(
        "its `general.alignment` is {found}, and only powers of two up to 65536 are understood here"
    )]
    Alignment {
        /// What it says, in bytes.
        found: u32,
    },
    /// A damaged tensor.
    #[error("the tensor {name} is damaged: {detail}")]
    Tensor {
        /// The tensor's name.
        name: String,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// Numbers in another form.
    #[error(
        "the tensor {name} is of type {kind}, and only F32 (0), F16 (1), Q4_1 (3), Q8_0 (8) and IQ4_NL (20) are understood here"
    )]
    Kind {
        /// The tensor's name.
        name: String,
        /// `GGML_TYPE_…`.
        kind: u32,
    },
}
