//! What estimates are about. Times and hit rates of another model or another index say nothing.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, Metadata};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use spechop_config::{Config, EncoderKind, Engine, LexicalWeight, Model, Reader, SpeculatorKind};

/// A checksum for each part that a speculator's estimates depend on.
///
/// Of a file or folder it is path, length and time of last change that count: reading gigabytes would
/// take too long, and to begin anew after a file was copied costs little. Speed of the machine,
/// threads and limits are left out: their change is a change of times, which the estimates follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity(BTreeMap<String, u32>);

impl Identity {
    /// What estimates of this speculator are about. **Blocks**: it looks at files.
    pub(super) fn of(speculator: SpeculatorKind, config: &Config) -> Self {
        let parts = [
            ("generator", model(&config.generator)),
            (
                "fallback",
                config.fallback.as_ref().map_or_else(String::new, model),
            ),
            ("reader", reader(&config.reader)),
            ("retriever", retriever(config)),
            ("speculator", guesser(speculator, config)),
        ];
        let parts = parts.map(|(part, words)| (part.to_owned(), crc32fast::hash(words.as_bytes())));
        Self(parts.into())
    }

    /// The parts that are not the same, by name.
    pub(super) fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let names = self.0.keys().chain(other.0.keys());
        let differs = |name: &&String| self.0.get(*name) != other.0.get(*name);
        let mut names: Vec<&str> = names.filter(differs).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn model(model: &Model) -> String {
    let mut words = format!("{:?} ", model.style);
    match &model.engine {
        Engine::Local(options) => {
            words += &stamp(&options.model_path);
            if let Some(adapter) = &options.adapter {
                words += &stamp(adapter);
            }
        }
        Engine::OpenAi(endpoint) => {
            let _ = write!(words, "{} {}", endpoint.base_url, endpoint.model);
        }
    }
    words
}

fn reader(reader: &Reader) -> String {
    match reader {
        Reader::Generator => String::new(),
        Reader::Model(other) => model(other),
        Reader::Spans { dir, .. } => stamp(dir),
    }
}

fn retriever(config: &Config) -> String {
    let latency = config.injected_latency;
    let target = config.target.who();
    let index = stamp(&config.index_dir);
    let encoder = match &config.encoder.kind {
        EncoderKind::Onnx { dir, .. } => stamp(dir),
        EncoderKind::Http(options) => {
            format!("{} {}", options.model, options.service.endpoint.base_url)
        }
    };
    let mut words = format!("{target} {index} {encoder} {latency:?}");
    if config.lexical_weight != LexicalWeight::Fixed(0.0) {
        let _ = write!(words, " words {}", config.lexical_weight);
    }
    words
}

fn guesser(speculator: SpeculatorKind, config: &Config) -> String {
    let speculators = &config.speculator;
    let own = reader(&speculators.model);
    match speculator {
        SpeculatorKind::None => String::new(),
        SpeculatorKind::Llm => format!("{own:?}"),
        SpeculatorKind::Hot => {
            // One that follows the traffic changes all the time, little by little.
            let index = match speculators.hot.every {
                Some(_) => Some(format!("by traffic {}", speculators.hot.fraction)),
                None => speculators.hot_dir.as_deref().map(stamp),
            };
            format!("{own:?} {index:?} {}", speculators.hot_passages)
        }
        // The index itself is the retriever's.
        SpeculatorKind::Index => format!("{own:?} {}", config.questions.passages()),
        SpeculatorKind::Memory => match &speculators.memory.shared {
            Some(shared) => format!("{} {}", speculators.memory.similarity, shared.collection),
            None => speculators.memory.similarity.to_string(),
        },
        SpeculatorKind::Cascade => {
            let members = speculators.cascade.members.iter();
            let members = members.map(|member| (*member, guesser(*member, config)));
            let members: Vec<_> = members.collect();
            format!("{members:?} {}", speculators.cascade.confident)
        }
    }
}

/// A file, or the files of a folder, as they look from outside. One that cannot be looked at is its
/// path alone.
fn stamp(path: &Path) -> String {
    let mut words = path.display().to_string();
    let Ok(found) = fs::metadata(path) else {
        return words;
    };
    if found.is_file() {
        words += &looks(&found);
    }
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    let mut files: Vec<String> = files
        .filter_map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            // What others note beside the files, such as that they have been checked.
            if name.starts_with('.') {
                return None;
            }
            let found = fs::metadata(file.path()).ok()?;
            found.is_file().then(|| name + &looks(&found))
        })
        .collect();
    files.sort_unstable();
    words + &files.concat()
}

fn looks(found: &Metadata) -> String {
    let modified = found.modified().ok();
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!(
        " {} {}\n",
        found.len(),
        modified.unwrap_or_default().as_nanos()
    )
}
