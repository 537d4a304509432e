//! From what was written to what it means.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spechop_agent::{Settings, StageLimits, Width};
use spechop_llm::{Endpoint, LocalModelOptions, PromptStyle};
use spechop_types::Budget;
use spechop_verifier::Mode;
use toml::Table;

use super::keys::{Keys, Mistake, Source};
use super::{
    Config, Encoder, Engine, InjectedLatency, InvalidConfig, Model, Questions, Reader, Server,
    Speculator, SpeculatorKind, Style,
};
use crate::Env;

/// The encoder of a data folder in which none was chosen.
const ENCODER: &str = "e5-small-v2";
/// The model that plans in the default configuration, and what it was taught.
const PLANNER: &str = "smollm2-135m-instruct";
const PLANNER_ADAPTER: &str = "spechop-planner";
/// The model that reads in the default configuration.
const READER: &str = "spechop-reader";
/// The model of a section that names no other and speaks in conversations.
const GENERATOR: &str = "qwen2.5-coder-1.5b-instruct";
/// The command that puts our own models into the data folder.
const INSTALL_OURS: &str = "make models";
/// A day: longer than any time limit that makes sense.
const MS_MAX: u64 = 86_400_000;

/// What the operator wrote. Nothing is checked yet.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The configuration file, where there is one: its path and its text.
    pub file: Option<(PathBuf, String)>,
    /// Command-line flags: key, flag as written, value.
    pub flags: Vec<(String, String, String)>,
}

impl Config {
    /// Makes sense of what was written: flags go before variables, variables before the file, the
    /// file before the defaults. The files and folders that it names must be there.
    ///
    /// # Errors
    ///
    /// Every mistake at once.
    pub fn read(written: Written, env: &Env) -> Result<Self, InvalidConfig> {
        let (path, text) = written.file.unwrap_or_default();
        let table: Table = toml::from_str(&text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start].lines().count().max(1));
            InvalidConfig(vec![Mistake {
                key: format!("line {line}"),
                source: Source::File(path.clone()),
                problem: format!("not TOML: {}", error.message().trim()),
            }])
        })?;
        let mut keys = Keys::new(written.flags, env, path, table);
        let config = config(&mut keys, env);
        match keys.finish() {
            mistakes if mistakes.is_empty() => Ok(config),
            mistakes => Err(InvalidConfig(mistakes)),
        }
    }
}

/// Every key that a configuration can hold.
#[cfg(test)]
pub(super) fn known_keys() -> std::collections::BTreeSet<String> {
    let env = Env::default();
    let mut keys = Keys::new([], &env, PathBuf::new(), Table::new());
    config(&mut keys, &env);
    keys.known().clone()
}

/// Reads everything. Where a value is wrong the default stands in, so that the rest can be read.
fn config(keys: &mut Keys<'_>, env: &Env) -> Config {
    let data = env.data_dir();
    let index_dir = keys
        .path("index.dir")
        .unwrap_or_else(|| data.join("indexes/2wiki"));
    let generator = match model(keys, "generator", &data, env) {
        Some(model) => model,
        None => {
            keys.mistake(
                "generator.kind",
                "there is nothing else that it could be the same as",
            );
            Model {
                engine: Engine::Local(local(keys, "generator", &data, Style::Steps)),
                style: Style::Steps,
            }
        }
    };
    let config = Config {
        server: server(keys),
        questions: questions(keys),
        encoder: encoder(keys, &data),
        fallback: model(keys, "fallback", &data, env),
        reader: reader(keys, &generator, &data, env),
        speculator: speculator(keys, &generator, &index_dir, &data, env),
        generator,
        injected_latency: injected_latency(keys),
        index_dir,
    };
    must_exist(
        keys,
        "index.dir",
        &config.index_dir,
        &format!(
            "spechop index build --corpus FILE.jsonl --out {}",
            config.index_dir.display()
        ),
    );
    config
}

fn server(keys: &mut Keys<'_>) -> Server {
    let listen = keys
        .parsed("server.listen", "an address such as 127.0.0.1:50051")
        .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 50051)));
    let allow_remote = keys.flag("server.allow_remote").unwrap_or(false);
    if !allow_remote && !listen.ip().is_loopback() {
        keys.mistake(
            "server.listen",
            format!(
                "{listen} can be reached from other machines, and there is neither TLS nor \
                 authentication yet; set server.allow_remote = true where the network protects it"
            ),
        );
    }
    Server {
        listen,
        questions_max: size(keys, "server.questions_max", 1..=65_536, 32),
        message_bytes_max: size(keys, "server.message_bytes_max", 8192..=16 << 20, 256 << 10),
        shutdown_grace: millis(keys, "server.shutdown_grace_ms", 0, 10_000),
    }
}

fn questions(keys: &mut Keys<'_>) -> Questions {
    let paper = Settings::default();
    let questions = Questions {
        width: Width::bounded(count(keys, "question.k", 1024, 3)),
        k_max: count(keys, "question.k_max", 1024, 64),
        hops: small(keys, "question.hop_budget", 1..=1024, paper.hops_max),
        hops_max: small(keys, "question.hop_budget_max", 1..=1024, 32),
        passages: count(keys, "question.passages", 1000, paper.passages.get()),
        passages_max: count(keys, "question.passages_max", 1000, 20),
        verifier: keys
            .one_of(
                "question.verifier",
                &[("rule", Mode::Rule), ("exact", Mode::Exact)],
            )
            .unwrap_or(paper.verifier),
        not_found_max: small(
            keys,
            "question.not_found_max",
            0..=1024,
            paper.not_found_max,
        ),
        salvage: keys.flag("question.salvage").unwrap_or(true),
        salvage_max: count(keys, "question.salvage_max", 1024, paper.policy.orphans_max),
        salvage_time: millis(keys, "question.salvage_ms", 1, 10_000),
        plan_ahead: keys.flag("question.plan_ahead").unwrap_or(false),
        guesses: count(keys, "question.guesses", 16, 1),
        guesses_max: count(keys, "question.guesses_max", 16, 4),
        deadline_max: millis(keys, "question.deadline_ms", 1, 300_000),
        budget: Budget {
            time: keys
                .integer("question.budget_time_ms", 1..=MS_MAX)
                .map(Duration::from_millis),
            target_calls: keys
                .integer("question.budget_target_calls", 1..=1_000_000)
                .and_then(|calls| u32::try_from(calls).ok()),
            tokens: keys.integer("question.budget_tokens", 1..=u64::MAX),
        },
        limits: StageLimits {
            segment: millis(keys, "question.segment_ms_max", 1, 120_000),
            target: millis(keys, "question.target_ms_max", 1, 120_000),
            speculation: millis(keys, "question.speculation_ms_max", 1, 20_000),
        },
    };
    for (key, value, key_max, max) in [
        (
            "question.k",
            questions.width.get().map_or(0, NonZeroUsize::get),
            "question.k_max",
            questions.k_max.get(),
        ),
        (
            "question.hop_budget",
            questions.hops as usize,
            "question.hop_budget_max",
            questions.hops_max as usize,
        ),
        (
            "question.guesses",
            questions.guesses.get(),
            "question.guesses_max",
            questions.guesses_max.get(),
        ),
        (
            "question.passages",
            questions.passages.get(),
            "question.passages_max",
            questions.passages_max.get(),
        ),
    ] {
        if value > max {
            keys.mistake(key, format!("{value} is more than {key_max} = {max}"));
        }
    }
    questions
}

fn encoder(keys: &mut Keys<'_>, data: &Path) -> Encoder {
    let models = data.join("models");
    let encoder = Encoder {
        dir: keys
            .path("encoder.dir")
            .unwrap_or_else(|| models.join(chosen_encoder(&models))),
        threads: keys
            .integer("encoder.threads", 1..=1024)
            .and_then(|threads| NonZeroUsize::new(usize::try_from(threads).ok()?)),
        runtime_library: keys
            .path("runtime.onnxruntime")
            .unwrap_or_else(|| models.join("onnxruntime/libonnxruntime.so")),
    };
    must_exist(
        keys,
        "encoder.dir",
        &encoder.dir,
        "spechop models pull encoder",
    );
    must_exist(
        keys,
        "runtime.onnxruntime",
        &encoder.runtime_library,
        "spechop models pull onnxruntime",
    );
    encoder
}

/// `spechop models pull encoder` notes in a small file which encoder it came to.
fn chosen_encoder(models: &Path) -> String {
    std::fs::read_to_string(models.join("default-encoder"))
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| ENCODER.to_owned())
}

/// Who reads. What cannot read must name somebody else.
fn reader(keys: &mut Keys<'_>, generator: &Model, data: &Path, env: &Env) -> Reader {
    let dir = keys
        .path("reader.dir")
        .unwrap_or_else(|| data.join("models").join(READER));
    let can_read = generator.style != Style::Steps;
    let kind = keys.text("reader.kind");
    match kind.as_deref() {
        Some("generator") if !can_read => keys.mistake(
            "reader.kind",
            "a generator of style \"steps\" cannot read: say \"spans\", \"local\" or \"openai\"",
        ),
        Some("spans") => {}
        None if !can_read => {}
        _ => {
            return match model(keys, "reader", data, env) {
                Some(model) => Reader::Model(model),
                None => Reader::Generator,
            };
        }
    }
    // The other keys of the section are known, and of no use.
    local(keys, "reader", data, Style::Chat(PromptStyle::default()));
    for name in ["style", "base_url", "model", "api_key_env", "requests_max"] {
        keys.text(&format!("reader.{name}"));
    }
    must_exist(keys, "reader.dir", &dir, INSTALL_OURS);
    let threads = keys.integer("reader.threads", 1..=1024);
    Reader::Spans {
        dir,
        threads: threads.and_then(|threads| NonZeroUsize::new(usize::try_from(threads).ok()?)),
    }
}

/// The language model of a section; `None` where it has none of its own.
fn model(keys: &mut Keys<'_>, section: &str, data: &Path, env: &Env) -> Option<Model> {
    #[derive(Clone, Copy)]
    enum Kind {
        NoOther,
        Local,
        OpenAi,
    }
    let no_other = match section {
        "fallback" => "none",
        _ => "generator",
    };
    let key = |name: &str| format!("{section}.{name}");
    let kind = keys
        .one_of(
            &key("kind"),
            &[
                ("local", Kind::Local),
                ("openai", Kind::OpenAi),
                (no_other, Kind::NoOther),
            ],
        )
        .unwrap_or(match section {
            "generator" => Kind::Local,
            _ => Kind::NoOther,
        });
    // Only what plans can speak in lines.
    let plans = matches!(section, "generator" | "fallback");
    let chat = [
        ("tagged", Style::Chat(PromptStyle::Tagged)),
        ("corag", Style::Chat(PromptStyle::Corag)),
    ];
    let styles = [chat[0], chat[1], ("steps", Style::Steps)];
    let style = keys.one_of(&key("style"), if plans { &styles } else { &chat });
    let names_file = keys.path(&key("file")).is_some();
    let style = style.unwrap_or(match (section, kind) {
        ("generator", Kind::Local) if !names_file => Style::Steps,
        _ => Style::Chat(PromptStyle::default()),
    });
    // Every key is read whatever the kind, so that a variable can switch between two that the file
    // describes.
    let local = local(keys, section, data, style);
    let base_url = keys.text(&key("base_url"));
    let name = keys.text(&key("model"));
    let variable = keys.text(&key("api_key_env"));
    let requests_max = count(keys, &key("requests_max"), 1024, 4);
    let engine = match kind {
        Kind::NoOther => return None,
        Kind::Local => {
            must_exist(
                keys,
                &key("file"),
                &local.model_path,
                &pull(&local.model_path, data),
            );
            if let Some(adapter) = &local.adapter {
                must_exist(keys, &key("adapter"), adapter, INSTALL_OURS);
            }
            Engine::Local(local)
        }
        Kind::OpenAi => {
            if style == Style::Steps {
                let problem =
                    "an endpoint is spoken to in conversations: say \"tagged\" or \"corag\"";
                keys.mistake(&key("style"), problem);
            }
            for (name, value) in [("base_url", &base_url), ("model", &name)] {
                if value.is_none() {
                    keys.mistake(&key(name), "kind = \"openai\" needs it");
                }
            }
            let mut endpoint =
                Endpoint::new(base_url.unwrap_or_default(), name.unwrap_or_default());
            endpoint.key = variable.and_then(|name| api_key(keys, &key("api_key_env"), &name, env));
            endpoint.requests_max = requests_max;
            Engine::OpenAi(endpoint)
        }
    };
    Some(Model { engine, style })
}

fn local(keys: &mut Keys<'_>, section: &str, data: &Path, style: Style) -> LocalModelOptions {
    let key = |name: &str| format!("{section}.{name}");
    let models = data.join("models");
    let named = keys.path(&key("file"));
    let (default, threads, context_tokens) = match style {
        Style::Chat(_) => (GENERATOR, None, 4096),
        // A question and a dozen hops: its lines are short. So is each operation of so small a model: two
        // threads spend three times as long, waiting for each other (measured on two cores).
        Style::Steps => (PLANNER, Some(NonZeroU32::MIN), 1024),
    };
    // The adapter fits the default model, and no other.
    let adapter = match style {
        Style::Steps if named.is_none() => Some(models.join(PLANNER_ADAPTER).join("adapter.gguf")),
        Style::Steps | Style::Chat(_) => None,
    };
    LocalModelOptions {
        adapter: keys.path(&key("adapter")).or(adapter),
        threads: keys
            .integer(&key("threads"), 1..=1024)
            .and_then(|threads| NonZeroU32::new(u32::try_from(threads).ok()?))
            .or(threads),
        context_tokens_per_sequence: small(
            keys,
            &key("context_tokens"),
            512..=1 << 20,
            context_tokens,
        ),
        sequences: small(keys, &key("sequences"), 1..=64, 4),
        // Lines share no instructions: every living branch has a prompt of its own to keep.
        kept_prompts: match style {
            Style::Chat(_) => 3,
            Style::Steps => 8,
        },
        ..LocalModelOptions::new(named.unwrap_or_else(|| models.join(default).join("model.gguf")))
    }
}

/// The command that fetches a model of the data folder, or the default one.
fn pull(file: &Path, data: &Path) -> String {
    let name = file
        .strip_prefix(data.join("models"))
        .ok()
        .and_then(|inside| inside.iter().next())
        .map_or(GENERATOR.into(), |name| name.to_string_lossy());
    format!("spechop models pull {name}")
}

/// The key itself never stands in the configuration; a key that was pasted there is not repeated.
fn api_key(
    keys: &mut Keys<'_>,
    key: &str,
    variable: &str,
    env: &Env,
) -> Option<secrecy::SecretString> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if !variable.chars().all(is_name) {
        keys.mistake(
            key,
            "expected the name of an environment variable (capital letters, digits, _) that holds \
             the key, not the key itself",
        );
        return None;
    }
    let secret = env.secret(variable);
    if secret.is_none() {
        keys.mistake(
            key,
            format!("the environment variable {variable} is not set"),
        );
    }
    secret
}

fn speculator(
    keys: &mut Keys<'_>,
    generator: &Model,
    index_dir: &Path,
    data: &Path,
    env: &Env,
) -> Speculator {
    let kinds = SpeculatorKind::ALL.map(|kind| (kind.as_str(), kind));
    let kind = keys.one_of("speculator.kind", &kinds);
    let hot_dir = keys
        .path("speculator.hot_dir")
        .unwrap_or_else(|| index_dir.join("hot"));
    let named = keys.source("speculator.hot_dir") != Source::Default;
    if named || kind == Some(SpeculatorKind::Hot) {
        let rebuild = format!(
            "spechop index build --corpus FILE.jsonl --out {} --hot-fraction 0.1 --in-degree FILE",
            index_dir.display()
        );
        must_exist(keys, "speculator.hot_dir", &hot_dir, &rebuild);
    }
    let hot_dir = hot_dir.exists().then_some(hot_dir);
    let model = model(keys, "speculator.model", data, env);
    let knows_things = model.is_some() || generator.style != Style::Steps;
    if kind == Some(SpeculatorKind::Llm) && !knows_things {
        keys.mistake(
            "speculator.kind",
            "a generator of style \"steps\" guesses nothing from memory: describe another model in \
             [speculator.model]",
        );
    }
    let fallback = match hot_dir {
        Some(_) => SpeculatorKind::Hot,
        None if knows_things => SpeculatorKind::Llm,
        None => SpeculatorKind::None,
    };
    Speculator {
        default: kind.unwrap_or(fallback),
        hot_dir,
        hot_passages: count(keys, "speculator.passages", 100, 2),
        model,
    }
}

fn injected_latency(keys: &mut Keys<'_>) -> Option<InjectedLatency> {
    let key = |name: &str| format!("target.injected_latency.{name}");
    let mean_ms = keys.number(&key("mean_ms"), 1.0..=600_000.0);
    let sigma_ms = keys.number(&key("sigma_ms"), 0.0..=600_000.0);
    let seed = keys.integer(&key("seed"), 0..=u64::MAX);
    if mean_ms.is_none() && sigma_ms.is_some() {
        keys.mistake(&key("mean_ms"), "a spread needs a mean");
    }
    Some(InjectedLatency {
        mean_ms: mean_ms?,
        sigma_ms: sigma_ms.unwrap_or(0.0),
        seed: seed.unwrap_or(0),
    })
}

fn must_exist(keys: &mut Keys<'_>, key: &str, path: &Path, command: &str) {
    if !path.exists() {
        keys.mistake(
            key,
            format!("{} is missing: run `{command}`", path.display()),
        );
    }
}

fn size(keys: &mut Keys<'_>, key: &str, range: RangeInclusive<u64>, default: usize) -> usize {
    keys.integer(key, range)
        .and_then(|value| usize::try_from(value).ok())
        .unwrap_or(default)
}

fn small(keys: &mut Keys<'_>, key: &str, range: RangeInclusive<u64>, default: u32) -> u32 {
    keys.integer(key, range)
        .and_then(|value| u32::try_from(value).ok())
        .unwrap_or(default)
}

fn count(keys: &mut Keys<'_>, key: &str, max: u64, default: usize) -> NonZeroUsize {
    NonZeroUsize::new(size(keys, key, 1..=max, default)).unwrap_or(NonZeroUsize::MIN)
}

fn millis(keys: &mut Keys<'_>, key: &str, min: u64, default: u64) -> Duration {
    Duration::from_millis(keys.integer(key, min..=MS_MAX).unwrap_or(default))
}
