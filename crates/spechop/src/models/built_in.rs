//! Our own models, which are part of the program: a release binary alone can serve.
//!
//! They make up 45 MB of it. No registry carries them, and a download of our own would be one more
//! address that has to be there.

/// A file of one of our own models. `None` if the program holds no such file.
pub(crate) fn bytes(model: &str, file: &str) -> Option<&'static [u8]> {
    Some(match (model, file) {
        ("spechop-planner", "adapter.gguf") => {
            include_bytes!("../../../../deploy/models/spechop-planner/adapter.gguf")
        }
        ("spechop-reader", "model.onnx") => {
            include_bytes!("../../../../deploy/models/spechop-reader/model.onnx")
        }
        ("spechop-reader", "reader.toml") => {
            include_bytes!("../../../../deploy/models/spechop-reader/reader.toml")
        }
        ("spechop-reader", "tokenizer.json") => {
            include_bytes!("../../../../deploy/models/spechop-reader/tokenizer.json")
        }
        _ => return None,
    })
}
