//! A data folder in which everything lies that a configuration by default names, and nothing real.

use std::path::Path;

/// Puts what a server looks for before it starts into this folder, empty.
#[expect(clippy::expect_used, reason = "for tests, which have no better answer")]
pub fn fill_home(home: &Path) {
    for part in [
        "models/e5-small-v2-int8",
        "models/onnxruntime/libonnxruntime.so",
        "indexes/default",
        "models/qwen2.5-coder-1.5b-instruct/model.gguf",
    ] {
        std::fs::create_dir_all(home.join(part)).expect("a folder that can be written");
    }
}
