//! From what was written to what it means.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(test)]
use toml::Table;

use super::callers::{Callers, callers, tls};
use super::chaos::chaos;
use super::drafting::drafter;
use super::encoder::encoder;
use super::hosts::hosts;
use super::keys::{Keys, values_of};
use super::lexical::{LEXICAL_WEIGHT, lexical_weight};
use super::mistake::{Mistake, Source};
use super::models::{local, model, reader, speculator};
use super::questions::questions;
use super::target::target;
use super::{
    Config, Encoder, Engine, InjectedLatency, InvalidConfig, LexicalWeight, Model, Server,
    SpeculatorKind, Style, Transport, observing, schedule, sharing,
};
use crate::Env;

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
        let flags = written.flags.clone();
        let mut keys = written.keys(env)?;
        let read = encoder(&mut keys, &env.data_dir(), env);
        if read.dir().is_some() {
            let library = &read.runtime_library;
            must_be_pulled(&mut keys, "runtime.onnxruntime", library, "onnxruntime");
        }
        const OURS: [&str; 4] = [
            "encoder.",
            "runtime.",
            "SPECHOP_ENCODER_",
            "SPECHOP_RUNTIME_",
        ];
        let is_ours = |key: &str| OURS.iter().any(|ours| key.starts_with(ours));
        let mut mistakes = keys.finish();
        mistakes.retain(|mistake| is_ours(&mistake.key));
        for (key, flag, _) in flags.into_iter().filter(|(key, _, _)| !is_ours(key)) {
            mistakes.push(Mistake {
                key,
                source: Source::Flag(flag),
                problem: "this command reads encoder.* and runtime.* only".to_owned(),
                remedy: None,
            });
        }
        valid(read, mistakes)
    }
}

impl Written {
    pub(super) fn keys(self, env: &Env) -> Result<Keys<'_>, InvalidConfig> {
        let (path, text) = self.file.unwrap_or_default();
        let values = values_of(&path, &text)?;
        Ok(Keys::of(self.flags, env, path, values))
    }
}

pub(super) fn valid<T>(read: T, mistakes: Vec<Mistake>) -> Result<T, InvalidConfig> {
    match mistakes.is_empty() {
        true => Ok(read),
        false => Err(InvalidConfig(mistakes)),
    }
}

/// Every key that is asked for.
#[cfg(test)]
pub(super) fn asked_keys() -> std::collections::BTreeSet<String> {
    let env = Env::default();
    let mut keys = Keys::new([], &env, PathBuf::new(), Table::new());
    config(&mut keys, &env);
    keys.asked().clone()
}

/// Reads everything. Where a value is wrong the default stands in, so that the rest can be read.
pub(super) fn config(keys: &mut Keys<'_>, env: &Env) -> Config {
    let data = env.data_dir();
    let index_dir = keys
        .path("index.dir")
        .unwrap_or_else(|| served_index_dir(&data));
    let generator = match model(keys, "generator", &data, env) {
        Some(model) => model,
        // It has no kind that is nobody.
        None => Model {
            engine: Engine::Local(local(keys, "generator", &data, Style::Steps)),
            style: Style::Steps,
        },
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
        &env.state_dir(),
    );
    let drafter = drafter(keys, &generator, &data, env);
    let (server, callers) = server(keys);
    let config = Config {
        chaos: chaos(keys, server.listen),
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
        shared: sharing::shared(keys, env),
        allowance: schedule::allowance(keys),
        otlp: observing::otlp(keys),
        is_proxied: observing::is_proxied(env),
        audit: observing::audit(keys),
        injected_latency,
        lexical_weight: lexical_weight(keys, &target),
        target,
        index_dir,
    };
    check_index(keys, &config);
    config
}

/// The index must be there if anything looks into it.
fn check_index(keys: &mut Keys<'_>, config: &Config) {
    let build = match keys.source("index.dir") {
        Source::Default => "spechop index build --corpus FOLDER".to_owned(),
        _ => format!(
            "spechop index build --corpus FOLDER --out {}",
            config.index_dir.display()
        ),
    };
    let guesses = match config.speculator.default {
        SpeculatorKind::Index => true,
        SpeculatorKind::Cascade => {
            let members = &config.speculator.cascade.members;
            members.contains(&SpeculatorKind::Index)
        }
        SpeculatorKind::None
        | SpeculatorKind::Llm
        | SpeculatorKind::Hot
        | SpeculatorKind::Memory => false,
    };
    let named = keys.source("index.dir") != Source::Default;
    // A hot subset is chosen from it.
    let is_source = config.speculator.hot.every.is_some();
    if !config.target.is_elsewhere() || guesses || named || is_source {
        must_exist(keys, "index.dir", &config.index_dir, build);
    } else if matches!(config.lexical_weight, LexicalWeight::Fixed(weight) if weight > 0.0)
        && !config.index_dir.exists()
    {
        let problem = format!(
            "look-ups go elsewhere, and there is no index in {} whose words could count; leave it out",
            config.index_dir.display()
        );
        keys.mistake(LEXICAL_WEIGHT, problem);
    }
}

/// Where `spechop index build` puts an index if nobody says where.
pub fn default_index_dir(data: &Path) -> PathBuf {
    data.join("indexes/default")
}

/// Where an index is looked for if nobody says where: the default one; if there is none, that of the demo, if it
/// is there.
pub fn served_index_dir(data: &Path) -> PathBuf {
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
        .parsed("server.listen")
        .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 50051)));
    let allow_remote = keys.switch("server.allow_remote");
    let questions_max = keys.size("server.questions_max");
    let (tls, callers) = (tls(keys), callers(keys));
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
    let unread = keys.millis("server.unread_ms");
    let server = Server {
        listen,
        tls,
        reload: keys.millis("server.reload_ms"),
        questions_max,
        queue: keys.millis("server.queue_ms"),
        queue_max: keys.size("server.queue_max"),
        transport: transport(keys, unread),
        unread,
        linger_max: keys.millis("server.linger_ms_max"),
        kept: keys.millis("server.kept_ms"),
        kept_bytes_max: keys.size("server.kept_bytes_max"),
        retrieve: keys.switch("server.retrieve"),
        tool_outputs: keys.size("server.tool_outputs"),
        mcp: keys.switch("server.mcp"),
        share: share(keys),
        mcp_time: keys.millis("server.mcp_budget_ms"),
        public_url: keys.parsed("server.public_url"),
        shutdown_grace: keys.millis("server.shutdown_grace_ms"),
    };
    (server, callers)
}

/// Off unless somebody says otherwise: whoever has a link needs no key.
fn share(keys: &mut Keys<'_>) -> Option<Duration> {
    let share_s = keys.integer("page.share_s");
    share_s.filter(|s| *s > 0).map(Duration::from_secs)
}

/// A stream that nobody reads ends after `unread`. If that does not help, the connection does.
fn transport(keys: &mut Keys<'_>, unread: Duration) -> Transport {
    // As many come at once after a pause as otherwise in a second.
    let rate = keys.small("server.requests_per_second");
    let (usual, message_bytes_max) = (Transport::default(), keys.size("server.message_bytes_max"));
    Transport {
        connections_max: keys.size("server.connections_max"),
        hosts: hosts(keys),
        message_bytes_max,
        // At least one of that size, and some small ones beside it.
        unfinished_bytes_max: usual
            .unfinished_bytes_max
            .max(message_bytes_max + (256 << 10)),
        message_time: keys.millis("server.message_ms_max"),
        stall_max: 2 * unread,
        request_interval: Duration::from_secs(1) / rate,
        request_burst: rate,
        ..usual
    }
}

fn injected_latency(keys: &mut Keys<'_>) -> Option<InjectedLatency> {
    let key = |name: &str| format!("target.injected_latency.{name}");
    let mean_ms = keys.number(&key("mean_ms"));
    let sigma_ms = keys.number(&key("sigma_ms"));
    let seed = keys.integer(&key("seed"));
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
