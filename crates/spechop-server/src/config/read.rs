//! From what was written to what it means.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spechop_agent::{Settings, StageLimits, Width};
use spechop_types::{Budget, Chance, Money};
use spechop_verifier::Mode;
use toml::Table;

use super::callers::{Callers, callers, tls};
use super::drafting::drafter;
use super::encoder::encoder;
use super::keys::{Keys, Mistake, Source};
use super::models::{local, model, reader, speculator};
use super::target::target;
use super::{
    Config, DRAFTS_MAX, Drafting, Encoder, Engine, InjectedLatency, InvalidConfig, Model,
    PlanAhead, Questions, Server, SpeculatorKind, Style, Transport, schedule,
};
use crate::Env;
use crate::reply::EVIDENCE_MAX;

/// The encoder of a data folder in which none was chosen.
const ENCODER: &str = "e5-small-v2";
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
        let mut keys = written.keys(env)?;
        let config = config(&mut keys, env);
        valid(config, keys.finish())
    }
}

impl Encoder {
    /// As [`Config::read`], for programs that need the encoder alone: only the sections `encoder` and
    /// `runtime` are read. The rest of a file may be wrong. A flag of another section is a mistake.
    ///
    /// # Errors
    ///
    /// Every mistake at once.
    pub fn read(written: Written, env: &Env) -> Result<Self, InvalidConfig> {
        let mut keys = written.keys(env)?;
        let read = encoder(&mut keys, &env.data_dir(), env);
        if read.dir().is_some() {
            let library = &read.runtime_library;
            must_be_pulled(&mut keys, "runtime.onnxruntime", library, "onnxruntime");
        }
        let mut mistakes = keys.finish();
        let is_ours = |key: &str| key.starts_with("encoder.") || key.starts_with("runtime.");
        mistakes.retain_mut(|mistake| match &mistake.source {
            Source::File(_) => is_ours(&mistake.key),
            Source::Flag(_) if !is_ours(&mistake.key) => {
                mistake.problem = "this command reads encoder.* and runtime.* only".to_owned();
                true
            }
            Source::Flag(_) | Source::Variable(_) | Source::Default => true,
        });
        valid(read, mistakes)
    }
}

impl Written {
    fn keys(self, env: &Env) -> Result<Keys<'_>, InvalidConfig> {
        let (path, text) = self.file.unwrap_or_default();
        let table: Table = toml::from_str(&text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start].lines().count().max(1));
            InvalidConfig(vec![Mistake {
                key: format!("line {line}"),
                source: Source::File(path.clone()),
                problem: format!("not TOML: {}", error.message().trim()),
                remedy: None,
            }])
        })?;
        Ok(Keys::new(self.flags, env, path, table))
    }
}

fn valid<T>(read: T, mistakes: Vec<Mistake>) -> Result<T, InvalidConfig> {
    match mistakes.is_empty() {
        true => Ok(read),
        false => Err(InvalidConfig(mistakes)),
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
        .unwrap_or_else(|| served_index_dir(&data));
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
    let target = target(keys, env);
    let injected_latency = injected_latency(keys);
    let reader = reader(keys, &generator, &data, env);
    let speculator = speculator(keys, (&generator, &reader), &target, &index_dir, &data, env);
    let encoder = encoder(keys, &data, env);
    if encoder.dir().is_some() || reader.is_spans() || speculator.model.is_spans() {
        let library = &encoder.runtime_library;
        must_be_pulled(keys, "runtime.onnxruntime", library, "onnxruntime");
    }
    let scheduler = schedule::scheduler(
        keys,
        &generator,
        reader.model(),
        speculator.model.model(),
        injected_latency.is_some(),
        &data,
    );
    let drafter = drafter(keys, &generator, &data, env);
    let (server, callers) = server(keys);
    let config = Config {
        server,
        callers,
        questions: questions(keys, &drafter),
        encoder,
        fallback: model(keys, "fallback", &data, env),
        drafter,
        reader,
        speculator,
        generator,
        scheduler,
        allowance: schedule::allowance(keys),
        injected_latency,
        target,
        lexical_weight: lexical_weight(keys),
        index_dir,
    };
    let build = match keys.source("index.dir") {
        Source::Default => "spechop index build --corpus FOLDER".to_owned(),
        _ => format!(
            "spechop index build --corpus FOLDER --out {}",
            config.index_dir.display()
        ),
    };
    let guesses = matches!(config.speculator.default, SpeculatorKind::Index);
    let named = keys.source("index.dir") != Source::Default;
    // A hot subset is chosen from it.
    let is_source = config.speculator.hot.every.is_some();
    if !config.target.is_elsewhere() || guesses || named || is_source {
        must_exist(keys, "index.dir", &config.index_dir, build);
    } else if config.lexical_weight > 0.0 && !config.index_dir.exists() {
        let problem = format!(
            "look-ups go elsewhere, and there is no index in {} whose words could count; leave it out",
            config.index_dir.display()
        );
        keys.mistake(LEXICAL_WEIGHT, problem);
    }
    config
}

const LEXICAL_WEIGHT: &str = "index.lexical_weight";

fn lexical_weight(keys: &mut Keys<'_>) -> f32 {
    let weight = keys.number(LEXICAL_WEIGHT, 0.0..=10.0);
    weight.map_or(0.0, |weight| weight as f32)
}

/// Where `spechop index build` puts an index, and the server looks for one, if nobody says where.
pub fn default_index_dir(data: &Path) -> PathBuf {
    data.join("indexes/default")
}

/// The default index; if there is none, that of the demo, if it is there.
fn served_index_dir(data: &Path) -> PathBuf {
    let own = default_index_dir(data);
    let demo = data.join("indexes/demo");
    if !own.exists() && demo.exists() {
        demo
    } else {
        own
    }
}

fn server(keys: &mut Keys<'_>) -> (Server, Callers) {
    let listen = keys
        .parsed("server.listen", "an address such as 127.0.0.1:50051")
        .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 50051)));
    let allow_remote = keys.flag("server.allow_remote").unwrap_or(false);
    let questions_max = size(keys, "server.questions_max", 1..=65_536, 32);
    let (tls, callers) = (tls(keys), callers(keys, questions_max));
    let asks_who = callers.wants_keys() || tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    if !allow_remote && !asks_who && !listen.ip().is_loopback() {
        keys.mistake(
            "server.listen",
            format!(
                "{listen} can be reached from other machines, and anybody could ask: make a key with \
                 `spechop keys new` and write it into [[keys]] or server.keys_file, or demand \
                 certificates with server.tls_client_ca; if the network protects the server, set \
                 server.allow_remote = true or start it with --insecure"
            ),
        );
    }
    let unread = millis(keys, "server.unread_ms", 1, 60_000);
    let server = Server {
        listen,
        tls,
        reload: millis(keys, "server.reload_ms", 1, 30_000),
        questions_max,
        transport: transport(keys, unread),
        unread,
        linger_max: millis(keys, "server.linger_ms_max", 0, 60_000),
        kept: millis(keys, "server.kept_ms", 0, 60_000),
        kept_bytes_max: size(keys, "server.kept_bytes_max", 0..=16 << 30, 32 << 20),
        retrieve: keys.flag("server.retrieve").unwrap_or(false),
        tool_outputs: size(keys, "server.tool_outputs", 0..=65_536, 0),
        mcp: keys.flag("server.mcp").unwrap_or(true),
        mcp_time: millis(keys, "server.mcp_budget_ms", 1, 50_000),
        shutdown_grace: millis(keys, "server.shutdown_grace_ms", 0, 10_000),
    };
    (server, callers)
}

/// A stream that nobody reads ends after `unread`. If that does not help, the connection does.
fn transport(keys: &mut Keys<'_>, unread: Duration) -> Transport {
    let usual = Transport::default();
    let names = keys.text("server.hosts").unwrap_or_default();
    let names = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let bytes = 8192..=16 << 20;
    let time = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(MS_MAX);
    // As many come at once after a pause as otherwise in a second.
    let rate = small(
        keys,
        "server.requests_per_second",
        1..=1_000_000,
        usual.request_burst,
    );
    Transport {
        connections_max: size(
            keys,
            "server.connections_max",
            1..=65_536,
            usual.connections_max,
        ),
        hosts: names.map(str::to_owned).collect(),
        message_bytes_max: size(
            keys,
            "server.message_bytes_max",
            bytes,
            usual.message_bytes_max,
        ),
        message_time: millis(keys, "server.message_ms_max", 1, time(usual.message_time)),
        stall_max: 2 * unread,
        request_interval: Duration::from_secs(1) / rate,
        request_burst: rate,
        ..usual
    }
}

fn questions(keys: &mut Keys<'_>, drafter: &Drafting) -> Questions {
    let paper = Settings::default();
    let auto = keys.is("question.k", "auto");
    let k = if auto {
        3
    } else {
        count(keys, "question.k", 1024, 3).get()
    };
    let questions = Questions {
        width: Width::bounded(NonZeroUsize::new(k).unwrap_or(NonZeroUsize::MIN)),
        auto,
        k_max: count(keys, "question.k_max", 1024, 64),
        hops: small(keys, "question.hop_budget", 1..=1024, paper.hops_max),
        hops_max: small(keys, "question.hop_budget_max", 1..=1024, 32),
        passages: count(keys, "question.passages", 1000, paper.passages.get()),
        passages_max: count(keys, "question.passages_max", 1000, 20),
        verifier: keys
            .one_of(
                "question.verifier",
                &[
                    ("rule", Mode::Rule),
                    ("exact", Mode::Exact),
                    ("paper", Mode::Paper),
                ],
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
        plan_ahead: match keys.is("question.plan_ahead", "auto") {
            true => PlanAhead::Auto,
            false => match keys.flag("question.plan_ahead") {
                Some(true) => PlanAhead::On,
                Some(false) => PlanAhead::Off,
                None => PlanAhead::Auto,
            },
        },
        quiet: keys.list("tenant.quiet").unwrap_or_default(),
        guesses: count(keys, "question.guesses", 16, 1),
        guesses_max: count(keys, "question.guesses_max", 16, 4),
        chance_min: match keys.is("question.chance_min", "auto") {
            true => None,
            false => keys
                .number("question.chance_min", 0.0..=1.0)
                .map(Chance::of),
        },
        confidence_min: keys
            .number("question.confidence_min", 0.0..=1.0)
            .map_or(Chance::NONE, Chance::of),
        drafts: match keys.is("question.drafts", "auto") {
            true => None,
            false => Some(small(keys, "question.drafts", 0..=u64::from(DRAFTS_MAX), 0) as usize),
        },
        draft_guesses: keys.flag("question.draft_guesses").unwrap_or(false),
        draft_samples: drafter.samples,
        deadline_max: millis(keys, "question.deadline_ms", 1, 300_000),
        budget: Budget {
            time: keys
                .integer("question.budget_time_ms", 1..=MS_MAX)
                .map(Duration::from_millis),
            target_calls: keys
                .integer("question.budget_target_calls", 1..=1_000_000)
                .and_then(|calls| u32::try_from(calls).ok()),
            tokens: keys.integer("question.budget_tokens", 1..=u64::MAX),
            money: keys
                .integer("question.budget_money_micros", 1..=u64::MAX)
                .map(Money),
        },
        prices: schedule::prices(keys),
        limits: StageLimits {
            segment: millis(keys, "question.segment_ms_max", 1, 120_000),
            target: millis(keys, "question.target_ms_max", 1, 120_000),
            speculation: millis(keys, "question.speculation_ms_max", 1, 20_000),
            draft: millis(keys, "question.draft_ms_max", 1, 10_000),
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
    let (passages, hops) = (questions.passages_max.get(), questions.hops_max);
    if passages * hops as usize > EVIDENCE_MAX {
        let problem = format!(
            "{passages} for each of question.hop_budget_max = {hops} hops are more than the \
             {EVIDENCE_MAX} passages that an answer may hold"
        );
        keys.mistake("question.passages_max", problem);
    }
    questions
}

/// `spechop models pull encoder` notes in a small file which encoder it came to.
pub(super) fn chosen_encoder(models: &Path) -> String {
    std::fs::read_to_string(models.join("default-encoder"))
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| ENCODER.to_owned())
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

/// `command` makes what is at `path`.
pub(super) fn must_exist(keys: &mut Keys<'_>, key: &str, path: &Path, command: String) {
    if !path.exists() {
        keys.missing(key, format!("{} is missing", path.display()), command);
    }
}

/// Pulling `model` makes what is at `path`, unless the operator has named another path.
pub(super) fn must_be_pulled(keys: &mut Keys<'_>, key: &str, path: &Path, model: &str) {
    if path.exists() {
        return;
    }
    let mut problem = format!("{} is missing", path.display());
    if keys.source(key) != Source::Default {
        problem += " (correct it, or leave it out for the default)";
    }
    keys.missing(key, problem, format!("spechop models pull {model}"));
}

fn size(keys: &mut Keys<'_>, key: &str, range: RangeInclusive<u64>, default: usize) -> usize {
    keys.integer(key, range)
        .and_then(|value| usize::try_from(value).ok())
        .unwrap_or(default)
}

pub(super) fn small(
    keys: &mut Keys<'_>,
    key: &str,
    range: RangeInclusive<u64>,
    default: u32,
) -> u32 {
    keys.integer(key, range)
        .and_then(|value| u32::try_from(value).ok())
        .unwrap_or(default)
}

pub(super) fn count(keys: &mut Keys<'_>, key: &str, max: u64, default: usize) -> NonZeroUsize {
    NonZeroUsize::new(size(keys, key, 1..=max, default)).unwrap_or(NonZeroUsize::MIN)
}

pub(super) fn millis(keys: &mut Keys<'_>, key: &str, min: u64, default: u64) -> Duration {
    Duration::from_millis(keys.integer(key, min..=MS_MAX).unwrap_or(default))
}
