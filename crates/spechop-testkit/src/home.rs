//! A data folder in which everything lies that a configuration by default names, and nothing real.

use std::path::Path;

/// Puts what a server looks for before it starts into this folder, empty. Gives the variable of the environment that
/// names the folder.
#[expect(clippy::expect_used, reason = "for tests, which have no better answer")]
pub fn fill_home(home: &Path) -> (&'static str, String) {
    for part in [
        "models/e5-small-v2-int8",
        "models/onnxruntime/libonnxruntime.so",
        "indexes/default",
        "models/qwen2.5-coder-1.5b-instruct/model.gguf",
    ] {
        std::fs::create_dir_all(home.join(part)).expect("a folder that can be written");
    }
    ("SPECHOP_DATA_DIR", home.display().to_string())
}
