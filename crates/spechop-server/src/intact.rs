//! Before any model is opened: are its files what was pulled?

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;

use spechop_config::{Config, Engine, Model, Reader};
use spechop_embed::{ReaderRecipe, Recipe};

use crate::model_note::compare_at;
use crate::toolbox::OpenError;

/// What a configuration opens as a model: the part, and its folder or its file.
type Part = (&'static str, PathBuf);

/// Compares the files of every model of the configuration with what `spechop models pull` noted
/// beside them. A model without a note is the operator's own: it is named in the log and taken as it
/// is. **Blocks**: it reads them all, each model on a thread of its own.
///
/// # Errors
///
/// The first part whose files are not what was pulled.
pub(crate) fn compare(config: &Config) -> Result<(), OpenError> {
    let parts = parts(config);
    let compared: Vec<Result<bool, OpenError>> = thread::scope(|scope| {
        // All of them begin before the first is waited for.
        let threads: Vec<_> = parts
            .iter()
            .map(|(part, path)| scope.spawn(|| compare_at(path).map_err(OpenError::of(part))))
            .collect();
        let threads = threads.into_iter().zip(&parts);
        threads
            .map(|(thread, (part, _))| {
                let lost = |_| OpenError::of(part)("the thread that compares its files panicked");
                thread.join().map_err(lost)?
            })
            .collect()
    });
    let mut own = BTreeSet::new();
    for (compared, (_, path)) in compared.into_iter().zip(&parts) {
        if !compared? {
            own.insert(path.display().to_string());
        }
    }
    if !own.is_empty() {
        let models = own.into_iter().collect::<Vec<_>>().join(", ");
        tracing::warn!(
            models,
            "not compared with anything: `spechop models pull` has noted nothing beside them"
        );
    }
    Ok(())
}

fn parts(config: &Config) -> Vec<Part> {
    let encoder = &config.encoder;
    let mut parts = Vec::new();
    if config.needs_runtime() {
        parts.push(("ONNX Runtime library", encoder.runtime_library.clone()));
    }
    if let Some(dir) = encoder.dir() {
        let tokenizer = Recipe::read(dir).map(|recipe| recipe.tokenizer);
        add_folder(&mut parts, "encoder", dir, tokenizer.ok());
    }
    add(&mut parts, "generator", &config.generator);
    for (part, reader) in [
        ("reader", &config.reader),
        ("speculator's model", &config.speculator.model),
    ] {
        match reader {
            Reader::Generator => {}
            Reader::Model(model) => add(&mut parts, part, model),
            Reader::Spans { dir, .. } => {
                let tokenizer = ReaderRecipe::read(dir).map(|recipe| recipe.tokenizer);
                add_folder(&mut parts, part, dir, tokenizer.ok());
            }
        }
    }
    if let Some(fallback) = &config.fallback {
        add(&mut parts, "fallback", fallback);
    }
    if let Some(model) = config.drafter.model() {
        add(&mut parts, "drafter's model", model);
    }
    parts
}

/// A model's folder, and its tokenizer if that lies in a folder beside.
fn add_folder(parts: &mut Vec<Part>, part: &'static str, dir: &Path, tokenizer: Option<String>) {
    parts.push((part, dir.to_owned()));
    let beside = tokenizer.filter(|file| Path::new(file).components().count() > 1);
    parts.extend(beside.map(|file| (part, dir.join(file))));
}

fn add(parts: &mut Vec<Part>, part: &'static str, model: &Model) {
    match &model.engine {
        Engine::Local(options) => {
            parts.push((part, options.model_path.clone()));
            parts.extend(options.adapter.iter().map(|path| (part, path.clone())));
        }
        Engine::OpenAi(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;

    use spechop_config::{Env, Written};

    use super::*;
    use crate::model_note::{FileNote, ModelNote, NOTE};
    use crate::toolbox::Toolbox;

    /// The models of a default server, each a few bytes and a note. No parser would take them.
    struct Home(tempfile::TempDir);

    const FILES: [(&str, &str); 6] = [
        ("e5-small-v2-int8", "model.onnx"),
        ("e5-small-v2-int8", "tokenizer.json"),
        ("onnxruntime", "libonnxruntime.so"),
        ("spechop-planner-merged", "model.gguf"),
        ("spechop-reader", "model.onnx"),
        ("spechop-reader", "reader.toml"),
    ];

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(home.0.path().join("indexes/default")).unwrap();
            for (model, file) in FILES {
                fs::create_dir_all(home.model(model)).unwrap();
                fs::write(home.model(model).join(file), format!("{model} {file}")).unwrap();
            }
            for (model, _) in FILES {
                let of_it = FILES.iter().filter(|(other, _)| *other == model);
                let dir = home.model(model);
                let notes = of_it.map(|(_, file)| FileNote::of(&dir, file, "00").unwrap());
                ModelNote::new(model, notes.collect()).write(&dir).unwrap();
            }
            home
        }

        fn model(&self, model: &str) -> PathBuf {
            self.0.path().join("models").join(model)
        }

        fn config(&self) -> Config {
            let data_dir = self.0.path().to_str().unwrap();
            let env: Env = [("SPECHOP_DATA_DIR", data_dir)].into_iter().collect();
            Config::read(Written::default(), &env).unwrap()
        }
    }

    #[test]
    fn every_model_of_the_default_server_is_compared_before_it_is_opened() {
        for (model, file) in FILES {
            let home = Home::new();
            compare(&home.config()).unwrap();
            let path = home.model(model).join(file);
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            let mut bytes = fs::read(&path).unwrap();
            bytes[3] ^= 1;
            fs::write(&path, bytes).unwrap();
            let written = fs::File::options().write(true).open(&path).unwrap();
            written.set_modified(modified).unwrap();
            // Nothing else has looked at it: no parser would say this.
            let error = Toolbox::open(&home.config()).err().unwrap();
            let error = error.source().unwrap().to_string();
            let words = format!("{file} is damaged: it is not what was noted");
            assert!(error.contains(&words), "{error}");
            assert!(error.contains(&format!("--check {model}`")), "{error}");
        }
    }

    #[test]
    fn a_model_of_the_operator_is_taken_as_it_is() {
        let home = Home::new();
        let reader = home.model("spechop-reader");
        fs::remove_file(reader.join(NOTE)).unwrap();
        fs::write(reader.join("model.onnx"), "trained anew").unwrap();
        compare(&home.config()).unwrap();
        assert!(!compare_at(&reader).unwrap());
        // Beside a pulled one.
        let own = home.model("spechop-planner-merged").join("mine.gguf");
        fs::write(&own, "trained anew").unwrap();
        assert!(!compare_at(&own).unwrap());
        assert!(compare_at(&home.model("spechop-planner-merged/model.gguf")).unwrap());
    }

    /// Models may share a tokenizer.
    #[test]
    fn a_tokenizer_in_the_folder_beside_is_compared() {
        let home = Home::new();
        let (reader, beside) = (home.model("spechop-reader"), home.model("gte-small"));
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("tokenizer.json"), "a tokenizer").unwrap();
        let note = FileNote::of(&beside, "tokenizer.json", "00").unwrap();
        ModelNote::new("gte-small", vec![note])
            .write(&beside)
            .unwrap();
        let recipe = include_str!("../../../deploy/models/spechop-reader/reader.toml");
        let shared = recipe.replace("\"tokenizer.json\"", "\"../gte-small/tokenizer.json\"");
        assert_ne!(shared, recipe);
        fs::remove_file(reader.join(NOTE)).unwrap();
        fs::write(reader.join("reader.toml"), shared).unwrap();
        compare(&home.config()).unwrap();
        fs::write(beside.join("tokenizer.json"), "b tokenizer").unwrap();
        let error = compare(&home.config()).unwrap_err();
        let error = error.source().unwrap().to_string();
        assert!(error.contains("tokenizer.json is damaged"), "{error}");
    }
}
