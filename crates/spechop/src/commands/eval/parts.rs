//! What a configuration uses, by name and hash: two bundles with the same parts are comparable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use spechop_config::{Config, EncoderKind, Engine, LexicalWeight, Model, Reader};
use spechop_embed::weights_beside;

use crate::models::of_file;

/// The parts that plan, look up and read.
pub(crate) fn of(config: &Config) -> anyhow::Result<BTreeMap<String, String>> {
    let mut parts = BTreeMap::new();
    let mut add = |name: &str, what: String| parts.insert(name.to_owned(), what);
    add("planner", model(&config.generator)?);
    if let Some(reader) = reader(&config.reader)? {
        add("reader", reader);
    }
    let encoder = match &config.encoder.kind {
        EncoderKind::Onnx { dir, .. } => hashed(&paths(&onnx(dir)?))?,
        EncoderKind::Http(options) => format!("{} over HTTP", options.model),
    };
    add("encoder", encoder);
    add("index", passages(&config.index_dir, config)?);
    Ok(parts)
}

fn passages(dir: &Path, config: &Config) -> anyhow::Result<String> {
    let manifest = hashed(&[&dir.join("manifest.json")])?;
    Ok(match config.lexical_weight {
        LexicalWeight::Fixed(0.0) => manifest,
        weight => format!("{manifest}, words count {weight}"),
    })
}

/// What the hot subset's guesses are made of, beside the encoder and the reader.
pub(crate) fn hot(config: &Config) -> anyhow::Result<Option<String>> {
    let dir = config.speculator.hot_dir.as_ref();
    // One that follows the traffic may not be there yet.
    let Some(dir) = dir.filter(|dir| dir.exists()) else {
        return Ok(None);
    };
    let subset = passages(dir, config)?;
    Ok(Some(match reader(&config.speculator.model)? {
        Some(reader) => format!("{subset}, read by {reader}"),
        None => subset,
    }))
}

/// What guesses over the whole index are made of, beside the encoder and the index.
pub(crate) fn index(config: &Config) -> anyhow::Result<String> {
    let own = reader(&config.speculator.model)?;
    Ok(own.map_or_else(
        || "read as the target".to_owned(),
        |own| format!("read by {own}"),
    ))
}

/// Who guesses from memory.
pub(crate) fn from_memory(config: &Config) -> anyhow::Result<String> {
    match &config.speculator.model {
        Reader::Model(own) => model(own),
        Reader::Generator | Reader::Spans { .. } => model(&config.generator),
    }
}

/// A section's own reader.
fn reader(reader: &Reader) -> anyhow::Result<Option<String>> {
    Ok(match reader {
        Reader::Generator => None,
        Reader::Model(own) => Some(model(own)?),
        Reader::Spans { dir, .. } => {
            let mut files = onnx(dir)?;
            files.push(dir.join("reader.toml"));
            Some(hashed(&paths(&files))?)
        }
    })
}

fn model(model: &Model) -> anyhow::Result<String> {
    match &model.engine {
        Engine::Local(options) => {
            let adapter = options.adapter.as_deref();
            let files: Vec<&Path> = std::iter::once(&*options.model_path)
                .chain(adapter)
                .collect();
            hashed(&files)
        }
        // Where it is reached, and by which key, is nobody's business.
        Engine::OpenAi(endpoint) => Ok(format!("{} behind an endpoint", endpoint.model)),
    }
}

/// The model of a folder, then the files in which it keeps weights beside itself.
fn onnx(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    const MODEL: &str = "model.onnx";
    let beside = weights_beside(dir, MODEL);
    let beside = beside.with_context(|| format!("cannot read {}", dir.display()))?;
    let names = std::iter::once(MODEL.to_owned()).chain(beside);
    Ok(names.map(|name| dir.join(name)).collect())
}

fn paths(files: &[PathBuf]) -> Vec<&Path> {
    files.iter().map(PathBuf::as_path).collect()
}

/// `folder/file sha256`, one after the other. Of the folder the last name alone: where it lies on this
/// machine makes no difference.
pub(super) fn hashed(files: &[&Path]) -> anyhow::Result<String> {
    let named = files.iter().map(|file| {
        let print = of_file(file).with_context(|| format!("cannot read {}", file.display()))?;
        let names: Vec<_> = file.iter().rev().take(2).collect();
        let name: Vec<_> = names.iter().rev().map(|n| n.to_string_lossy()).collect();
        Ok(format!("{} {}", name.join("/"), &print.sha256[..16]))
    });
    Ok(named.collect::<anyhow::Result<Vec<_>>>()?.join(" + "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn weights_beside_a_model_are_part_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let of = |file: &str, text: &str| {
            fs::write(dir.path().join(file), text).unwrap();
            hashed(&paths(&onnx(dir.path()).unwrap())).unwrap()
        };
        let alone = of("model.onnx", "graph");
        assert_eq!(of("tokenizer.json", "words"), alone);
        let with_weights = of("model.onnx.data", "weights");
        assert!(with_weights.starts_with(&alone) && with_weights != alone);
        assert_ne!(of("model.onnx.data", "others"), with_weights);
    }
}
