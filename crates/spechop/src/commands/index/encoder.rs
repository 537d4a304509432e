//! The encoder of an index: which one, and where it lies.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_server::model_note::{compare_at, sha256s};

use crate::models::DEFAULT_ENCODER;

/// The arguments that say which encoder is used, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Model {
    /// The encoder's folder [default: the one that `spechop models pull encoder` chose].
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The ONNX Runtime library [default: the one that `spechop models pull onnxruntime` fetched].
    #[arg(long, value_name = "FILE")]
    runtime: Option<PathBuf>,
    /// Threads of the encoder [default: one for each core].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

impl Model {
    /// The encoder's model file, which says by its hash which encoder it is.
    pub(crate) fn file(&self, data_dir: &Path) -> PathBuf {
        let models = data_dir.join("models");
        let dir = self.model.clone();
        dir.unwrap_or_else(|| models.join(chosen_encoder(&models)))
            .join("model.onnx")
    }

    /// Opens the encoder; what no argument says is looked for under `data_dir`.
    pub(crate) fn open(&self, data_dir: &Path) -> anyhow::Result<OnnxEncoder> {
        let models = data_dir.join("models");
        let library = self.runtime.clone();
        let library = library.unwrap_or_else(|| models.join("onnxruntime/libonnxruntime.so"));
        let library = existing(library, "onnxruntime")?;
        let dir = self.model.clone();
        let dir = existing(
            dir.unwrap_or_else(|| models.join(chosen_encoder(&models))),
            "encoder",
        )?;
        // A damaged encoder builds an index that only the damaged encoder can search.
        for path in [&library, &dir] {
            compare_at(path)?;
        }
        let mut options = EncoderOptions::new(library);
        options.threads = self.threads.unwrap_or(options.threads);
        options.proven_sha256 = sha256s(&dir);
        Ok(OnnxEncoder::open(&dir, &options.side_by_side())?)
    }
}

/// `spechop models pull encoder` notes which encoder it came to; the server goes by the same note.
fn chosen_encoder(models: &Path) -> String {
    match fs::read_to_string(models.join("default-encoder")) {
        Ok(note) if !note.trim().is_empty() => note.trim().to_owned(),
        Ok(_) | Err(_) => DEFAULT_ENCODER.to_owned(),
    }
}

fn existing(path: PathBuf, model: &str) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    anyhow::ensure!(
        path.exists(),
        "{shown} is missing: run `spechop models pull {model}`"
    );
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoder_is_the_one_that_was_chosen() {
        let models = tempfile::tempdir().unwrap();
        assert_eq!(chosen_encoder(models.path()), DEFAULT_ENCODER);
        fs::write(models.path().join("default-encoder"), "gte-small\n").unwrap();
        assert_eq!(chosen_encoder(models.path()), "gte-small");
    }
}
