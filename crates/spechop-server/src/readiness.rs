//! Whether the server can answer questions now, and which part is missing if it cannot.
//!
//! Parts in this process were opened at the start, and say themselves if they are broken
//! ([`Vitals`]). For a part elsewhere a connection is opened, and closed again: nothing is asked, so that
//! nobody is billed. What was found out is kept for some seconds, and nobody finds it out twice at the
//! same time: however often it is asked for, it costs a connection now and then.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select_ok};
use serde::Serialize;
use spechop_config::{Config, DraftedBy, EncoderKind, Engine, Model, Reader, Target};
use spechop_ports::{Vitals, is_loopback};
use spechop_web::HttpEndpoint;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::accounts::Shared;
use crate::transport::Follower;

/// How long a part elsewhere may take to accept a connection: less than the second that probes of
/// Kubernetes wait by default.
const PATIENCE: Duration = Duration::from_millis(700);
/// How long what was found out is believed.
const KEPT: Duration = Duration::from_secs(5);

/// What parts in this process are used for. Their own names are for the log: that of an index is a path.
pub(crate) mod role {
    pub(crate) const GENERATOR: &str = "generator";
    pub(crate) const FALLBACK: &str = "fallback";
    pub(crate) const READER: &str = "reader";
    pub(crate) const SPECULATOR: &str = "speculator";
    pub(crate) const DRAFTS: &str = "drafts";
    pub(crate) const ENCODER: &str = "encoder";
    pub(crate) const INDEX: &str = "index";
    pub(crate) const HOT: &str = "hot";
}

/// The Redis of shared budgets.
const ACCOUNTS: &str = "accounts";

/// Who signs the tokens that callers show.
const ISSUER: &str = "issuer";

const BROKEN: &str = "it is broken for good; the log says why";

/// When the parts were asked, and what is wrong with each.
type Heard = (Instant, Vec<Option<&'static str>>);

/// Knows which parts there are, and asks them.
pub(crate) struct Readiness {
    parts: Vec<Part>,
    vitals: Vitals,
    /// Knows whether the token issuer's keys were read.
    follower: Follower,
    /// Who keeps the same accounts; `None` if nobody does.
    shared: Option<Arc<Shared>>,
    /// What parts elsewhere said last, and when: `Some(why)` if one is missing.
    heard: Mutex<Option<Heard>>,
}

/// A part that questions need, or go faster with.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    name: &'static str,
    is_needed: bool,
    /// Whether the fallback does its work, for as long as that is there.
    is_replaceable: bool,
    /// Where it is, if it is elsewhere. One that answers is enough.
    places: Vec<(String, u16)>,
}

/// What a part is like now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct State {
    name: &'static str,
    ready: bool,
    /// Whether questions cannot be answered without it.
    needed: bool,
    #[serde(skip)]
    replaceable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

/// What the whole server is like now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Ready {
    /// Whether questions can be answered.
    pub(crate) ready: bool,
    parts: Vec<State>,
}

impl Readiness {
    pub(crate) fn new(
        config: &Config,
        vitals: Vitals,
        follower: Follower,
        shared: Option<Arc<Shared>>,
    ) -> Self {
        Self {
            parts: parts(config),
            vitals,
            follower,
            shared,
            heard: Mutex::default(),
        }
    }

    /// What the parts are like, as of a few seconds ago at most. `is_closing` if new questions are refused
    /// anyway.
    pub(crate) async fn look(&self, is_closing: bool) -> Ready {
        let mut heard = self.heard.lock().await;
        let missing = match &*heard {
            Some((at, missing)) if at.elapsed() < KEPT => missing.clone(),
            _ => {
                let missing = join_all(self.parts.iter().map(missing)).await;
                *heard = Some((Instant::now(), missing.clone()));
                missing
            }
        };
        drop(heard);
        let mut states = self.states(missing);
        states.extend(self.issuer());
        Ready::of(states, is_closing)
    }

    /// Whether no part in this process that questions need is broken. Others count as there.
    pub(crate) fn is_whole(&self) -> bool {
        let missing = vec![None; self.parts.len()];
        Ready::of(self.states(missing), false).ready
    }

    /// Whether somebody can be let in: without the keys of the token issuer that may be nobody.
    pub(crate) fn lets_in(&self) -> bool {
        self.issuer()
            .is_none_or(|issuer| issuer.ready || !issuer.needed)
    }

    /// The token issuer, if there is one. Keys that were read once stay.
    fn issuer(&self) -> Option<State> {
        let issuer = self.follower.issuer()?;
        Some(State {
            name: ISSUER,
            ready: issuer.is_known,
            needed: issuer.is_needed,
            replaceable: false,
            why: (!issuer.is_known).then_some("its keys could not be read yet"),
        })
    }

    /// The parts, with what is missing elsewhere and what is broken here.
    fn states(&self, missing: Vec<Option<&'static str>>) -> Vec<State> {
        let states = self.parts.iter().zip(missing).map(|(part, why)| State {
            name: part.name,
            ready: why.is_none(),
            needed: part.is_needed,
            replaceable: part.is_replaceable,
            why,
        });
        let mut states: Vec<_> = states.collect();
        // It may take a connection, and refuse the password or be a copy that nobody may write to.
        if self.shared.as_ref().is_some_and(|shared| shared.is_apart()) {
            let accounts = states.iter_mut().filter(|state| state.name == ACCOUNTS);
            for state in accounts {
                state.ready = false;
                state.why.get_or_insert("the last exchange has failed");
            }
        }
        for failure in self.vitals.failures() {
            let is_it = |state: &&mut State| failure.role == Some(state.name);
            match states.iter_mut().find(is_it) {
                Some(state) => {
                    state.ready = false;
                    state.why = Some(BROKEN);
                }
                // Nobody has said what it is used for, so questions may need it.
                None => states.push(State {
                    name: "other",
                    ready: false,
                    needed: true,
                    replaceable: false,
                    why: Some(BROKEN),
                }),
            }
        }
        states
    }
}

impl Ready {
    fn of(parts: Vec<State>, is_closing: bool) -> Self {
        let is_there = |name: &str| parts.iter().any(|part| part.name == name && part.ready);
        let is_replaced = |part: &State| part.replaceable && is_there(role::FALLBACK);
        let is_missing = |part: &State| part.needed && !part.ready && !is_replaced(part);
        Self {
            ready: !is_closing && !parts.iter().any(is_missing),
            parts,
        }
    }
}

/// Why a part is missing; `None` if it is not, or is in this process.
async fn missing(part: &Part) -> Option<&'static str> {
    if part.places.is_empty() {
        return None;
    }
    let connect =
        |(host, port): &(String, u16)| Box::pin(TcpStream::connect((host.clone(), *port)));
    let connected = timeout(PATIENCE, select_ok(part.places.iter().map(connect))).await;
    // No address and no error of the system: whoever asks needs no key.
    match connected {
        Ok(Ok(_)) => None,
        Ok(Err(_)) => Some("no connection"),
        Err(_) => Some("no connection in time"),
    }
}

fn parts(config: &Config) -> Vec<Part> {
    let part = |name, is_needed, places| Part {
        name,
        is_needed,
        is_replaceable: false,
        places,
    };
    let of = |model: &Model| match &model.engine {
        Engine::OpenAi(endpoint) => {
            let mut places = places([endpoint.base_url.as_str()]);
            // What is behind a proxy cannot be seen from here, and nothing on this machine is.
            places.retain(|(host, _)| !config.is_proxied || is_loopback(host));
            places
        }
        Engine::Local(_) => Vec::new(),
    };
    let fallback = config.fallback.as_ref();
    let reads_too = fallback.is_some_and(Model::can_read);
    let reads = matches!(config.reader, Reader::Generator);
    let mut parts = vec![Part {
        is_replaceable: fallback.is_some() && (reads_too || !reads),
        ..part(role::GENERATOR, true, of(&config.generator))
    }];
    if let Some(fallback) = &config.fallback {
        parts.push(part(role::FALLBACK, false, of(fallback)));
    }
    let reader = |reader: &Reader| match reader {
        Reader::Generator => None,
        Reader::Model(model) => Some(of(model)),
        Reader::Spans { .. } => Some(Vec::new()),
    };
    if let Some(places) = reader(&config.reader) {
        parts.push(Part {
            is_replaceable: reads_too,
            ..part(role::READER, true, places)
        });
    }
    if let Some(places) = reader(&config.speculator.model) {
        parts.push(part(role::SPECULATOR, false, places));
    }
    if let Some(DraftedBy::Model(model)) = &config.drafter.writer {
        parts.push(part(role::DRAFTS, false, of(model)));
    }
    let encoder = match &config.encoder.kind {
        EncoderKind::Onnx { .. } => Vec::new(),
        EncoderKind::Http(options) => places([&*options.service.endpoint.base_url]),
    };
    // Another target does without: of what a web search finds the best by words are read.
    let is_needed = matches!(config.target, Target::Index | Target::Qdrant(_));
    parts.push(part(role::ENCODER, is_needed, encoder));
    // Beside another target they only guess.
    if !matches!(config.target, Target::Index) && config.index_dir.exists() {
        parts.push(part(role::INDEX, false, Vec::new()));
    }
    if config.speculator.hot_dir.is_some() {
        parts.push(part(role::HOT, false, Vec::new()));
    }
    parts.push(match &config.target {
        Target::Index => part(role::INDEX, true, Vec::new()),
        Target::Web(web) => {
            let providers = web.providers.iter();
            let endpoints = providers.map(|provider| &provider.engine.endpoint);
            let is_away = |url: &str| places([url]).iter().any(|(host, _)| !is_loopback(host));
            let is_behind =
                |endpoint: &HttpEndpoint| endpoint.proxy.is_some() && is_away(&endpoint.base_url);
            let places = match endpoints.clone().any(is_behind) {
                // As above.
                true => Vec::new(),
                false => places(endpoints.map(|endpoint| &*endpoint.base_url)),
            };
            part("web", true, places)
        }
        Target::Http(options) => part(
            "retriever",
            true,
            places([&*options.service.endpoint.base_url]),
        ),
        Target::Qdrant(qdrant) => {
            let urls = qdrant.cluster.urls.iter().map(String::as_str);
            part("qdrant", true, places(urls))
        }
        Target::Mcp(options) => part(
            "mcp",
            true,
            match &options.server {
                spechop_mcp::Server::Http(endpoint) => places([&*endpoint.base_url]),
                spechop_mcp::Server::Program(_) => Vec::new(),
            },
        ),
    });
    if let Some(shared) = &config.speculator.memory.shared {
        let urls = shared.cluster.urls.iter().map(String::as_str);
        parts.push(part("memory", false, places(urls)));
    }
    if let Some(shared) = &config.shared {
        parts.push(part(ACCOUNTS, false, places([shared.url.as_str()])));
    }
    parts
}

/// Host and port of each address. The configuration has checked them; one that is none cannot be asked.
fn places<'a>(urls: impl IntoIterator<Item = &'a str>) -> Vec<(String, u16)> {
    let place = |url: &str| {
        let uri: axum::http::Uri = url.trim().parse().ok()?;
        let usual = match uri.scheme_str() {
            Some("https") => 443,
            Some("redis" | "rediss") => 6379,
            _ => 80,
        };
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        Some((host, uri.port_u16().unwrap_or(usual)))
    };
    urls.into_iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests;
