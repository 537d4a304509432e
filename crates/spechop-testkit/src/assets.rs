//! Where the real models lie that tests run on: those that `spechop models pull` has fetched, and
//! those that the repository ships.

use std::path::{Path, PathBuf};

/// The data folder: `SPECHOP_DATA_DIR`, else `$XDG_DATA_HOME/spechop`, else
/// `~/.local/share/spechop`. The same rule as the program's (`spechop-config`, `env`).
#[expect(
    clippy::disallowed_methods,
    reason = "a test has no configuration to be told by"
)]
pub fn data_dir() -> PathBuf {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = var("SPECHOP_DATA_DIR") {
        return dir.into();
    }
    if let Some(dir) = var("XDG_DATA_HOME") {
        return PathBuf::from(dir).join("spechop");
    }
    PathBuf::from(var("HOME").unwrap_or_default()).join(".local/share/spechop")
}

/// The folder of a pulled model, e.g. `e5-small-v2` or `smollm2-135m-instruct`.
///
/// # Panics
///
/// Where it has not been pulled.
pub fn model_dir(name: &str) -> PathBuf {
    existing(data_dir().join("models").join(name), name)
}

/// The folder of the encoder that `spechop models pull encoder` has chosen.
///
/// # Panics
///
/// Where it has not been pulled.
pub fn default_encoder() -> PathBuf {
    let chosen = std::fs::read_to_string(data_dir().join("models/default-encoder"));
    model_dir(chosen.as_deref().unwrap_or("e5-small-v2-int8").trim())
}

/// The folder of a model that comes with the repository, e.g. `spechop-reader`.
///
/// # Panics
///
/// Where there is none of that name.
pub fn shipped_model(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/models")
        .join(name);
    assert!(dir.exists(), "the repository has no {}", dir.display());
    dir
}

/// The ONNX Runtime library.
///
/// # Panics
///
/// Where it has not been pulled.
pub fn onnxruntime() -> PathBuf {
    let name = "onnxruntime";
    existing(
        data_dir()
            .join("models")
            .join(name)
            .join("libonnxruntime.so"),
        name,
    )
}

fn existing(path: PathBuf, name: &str) -> PathBuf {
    assert!(
        path.exists(),
        "{} is missing: run `spechop models pull {name}` (`make test` does)",
        path.display()
    );
    path
}
