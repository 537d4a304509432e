//! Rewrites ONNX files: the large weights of a transformer in eight bits, so that it computes with
//! integers.
//!
//! ```text
//! x ── MatMul(w) ── y        becomes
//!
//! x ── DynamicQuantizeLinear ── MatMulInteger(w in int8) ── Cast ── Mul(scales) ── y
//! ```
//!
//! Weights are quantised once, each output channel with a scale of its own. Activations are quantised
//! while the model runs, with one scale for a whole tensor. So the texts of one run share a scale, and
//! a text in company gives another vector than the same text alone: run each text alone.
//! All operators are of the ONNX standard, and ONNX Runtime joins the five into one or two of its own.
//!
//! This crate reads and writes bytes. It runs no model, and knows nothing of encoders: whoever calls
//! it compares the new model with the old one. It stands apart because it is the only one beside the
//! wire that needs protobuf, and the crate that runs the models must not.

mod error;
mod proto;
mod rewrite;
mod weights;

pub use error::QuantiseError;

use prost::Message;

/// A rewritten model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantised {
    /// The new ONNX file.
    pub file: Vec<u8>,
    /// Weight matrices that are in eight bits now.
    pub matrices: usize,
    /// Numbers in them.
    pub parameters: usize,
}

/// Rewrites an ONNX file so that its large matrix products compute with integers: `MatMul`, and `Gemm`
/// in its plain form, by a constant matrix of 16,384 numbers or more. Everything else stays as it is.
///
/// The file must hold its weights itself. Memory: three times the file.
///
/// # Errors
///
/// If the bytes are not such a file, or hold nothing that could be rewritten: see [`QuantiseError`].
pub fn quantise(file: &[u8]) -> Result<Quantised, QuantiseError> {
    let mut model = proto::Model::decode(file)?;
    let (matrices, parameters) = rewrite::model(&mut model)?;
    Ok(Quantised {
        file: model.encode_to_vec(),
        matrices,
        parameters,
    })
}

#[cfg(test)]
mod tests;
