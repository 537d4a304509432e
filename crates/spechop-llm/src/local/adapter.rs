//! A LoRA adapter: what a training run changed about a model, as a small file beside it.
//!
//! llama.cpp checks that the adapter's matrices fit the model's. Its header is read here first:
//! llama.cpp says no more than that it refused, and **aborts** the process where a key of the
//! header has another type than it expects.

use std::path::Path;

use llama_cpp_2::gguf::GgufContext;
use llama_cpp_2::model::{LlamaLoraAdapter, LlamaModel};

use super::OpenError;

/// `GGUF_TYPE_STRING` and `GGUF_TYPE_FLOAT32`.
const STRING: u32 = 8;
const FLOAT: u32 = 6;

/// Whether the file's header is that of a LoRA adapter.
pub(super) fn check(path: &Path) -> Result<(), OpenError> {
    let header = GgufContext::from_file(path).ok_or_else(|| OpenError::Damaged {
        path: path.to_path_buf(),
    })?;
    let reason = if text(&header, "general.type") != Some("adapter") {
        "its general.type is not \"adapter\""
    } else if text(&header, "adapter.type") != Some("lora") {
        "its adapter.type is not \"lora\""
    } else if text(&header, "general.architecture").is_none() {
        "it does not name its general.architecture"
    } else if of_type(&header, "adapter.lora.alpha", FLOAT).is_none() {
        "it has no adapter.lora.alpha, a 32-bit float"
    } else if header.n_tensors() == 0 {
        // llama.cpp would take it, and the model would stay as it is.
        "there is nothing in it"
    } else {
        return Ok(());
    };
    Err(OpenError::NotAdapter {
        path: path.to_path_buf(),
        reason,
    })
}

/// Reads an adapter for a model, which from then on owns it. Must come before the model's context
/// is made: that has room for as many operations as were known then.
pub(super) fn load(
    model: &mut LlamaModel,
    model_path: &Path,
    path: &Path,
) -> Result<LlamaLoraAdapter, OpenError> {
    model
        .lora_adapter_init(path)
        .map_err(|_| misfit(model_path, path))
}

pub(super) fn misfit(model: &Path, adapter: &Path) -> OpenError {
    OpenError::Misfit {
        adapter: adapter.to_path_buf(),
        model: model.to_path_buf(),
    }
}

fn text<'a>(header: &'a GgufContext, key: &str) -> Option<&'a str> {
    of_type(header, key, STRING).and_then(|at| header.val_str(at))
}

fn of_type(header: &GgufContext, key: &str, kind: u32) -> Option<i64> {
    let at = header.find_key(key);
    // The binding's type is signed on some systems.
    (at >= 0 && i64::from(header.kv_type(at)) == i64::from(kind)).then_some(at)
}
