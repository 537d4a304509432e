//! What a configuration uses, by name and hash: two bundles with the same parts are comparable.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use spechop_config::{Config, EncoderKind, Engine, LexicalWeight, Model, Reader};

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
        EncoderKind::Onnx { dir, .. } => hashed(&[&dir.join("model.onnx")])?,
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
            let files = [dir.join("model.onnx"), dir.join("reader.toml")];
            Some(hashed(&files.each_ref().map(|file| file.as_path()))?)
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
