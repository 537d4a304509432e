//! Why a model could not be quantised.

/// Why a model could not be quantised. Each message is one line and says what to do, if that is known.
#[derive(Debug, thiserror::Error)]
pub enum QuantiseError {
    /// The bytes are not a protobuf message of this kind.
    #[error("it is not an ONNX model")]
    NotOnnx(#[from] prost::DecodeError),
    /// The message is whole, but holds no graph.
    #[error("it is not an ONNX model: it holds no graph")]
    NoGraph,
    /// Its operators are older than those that are put in.
    #[error(
        "its operators are of ONNX opset {found}, and at least {needed} is needed: export the model anew"
    )]
    OldOpset {
        /// What the model says; 0 if it says nothing.
        found: i64,
        /// The first that has all operators.
        needed: i64,
    },
    /// The weights lie elsewhere.
    #[error("the weights of {tensor} lie in another file: export the model as one file")]
    External {
        /// The tensor's name.
        tensor: String,
    },
    /// A branch or a loop, which may use any weight.
    #[error("its operator {node} holds a graph of its own: only plain graphs can be quantised")]
    Subgraph {
        /// The node's name.
        node: String,
    },
    /// A weight that is not what its own description says.
    #[error("the tensor {tensor} is damaged: {detail}")]
    Tensor {
        /// The tensor's name.
        tensor: String,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// Nothing to do.
    #[error(
        "it holds no large f32 weight of a matrix product: perhaps it is quantised already, or in half precision"
    )]
    NothingToDo,
}
