//! Whether the server can answer questions now, and which part is missing if it cannot.
//!
//! Parts in this process were opened at the start, and say themselves if they are broken
//! ([`Vitals`]). For a part elsewhere a connection is opened, and closed again: nothing is asked, so that
//! nobody is billed. What was found out is kept for some seconds, and nobody finds it out twice at the
//! same time: however often it is asked for, it costs a connection now and then.

use std::time::Duration;

use futures::future::{join_all, select_ok};
use serde::Serialize;
use spechop_config::{Config, DraftedBy, EncoderKind, Engine, Model, Reader, Target};
use spechop_ports::{Vitals, is_loopback};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

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

const BROKEN: &str = "it is broken until the server is started again; the log says why";

/// When the parts were asked, and what is wrong with each.
type Heard = (Instant, Vec<Option<&'static str>>);

/// Knows which parts there are, and asks them.
pub(crate) struct Readiness {
    parts: Vec<Part>,
    vitals: Vitals,
    /// What parts elsewhere said last, and when: `Some(why)` if one is missing.
    heard: Mutex<Option<Heard>>,
}

/// A part that questions need, or go faster with.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    name: &'static str,
    is_needed: bool,
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
    pub(crate) fn new(config: &Config, vitals: Vitals) -> Self {
        Self {
            parts: parts(config),
            vitals,
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
        Ready::of(self.states(missing), is_closing)
    }

    /// Whether no part in this process that questions need is broken. Others count as there.
    pub(crate) fn is_whole(&self) -> bool {
        let missing = vec![None; self.parts.len()];
        Ready::of(self.states(missing), false).ready
    }

    /// The parts, with what is missing elsewhere and what is broken here.
    fn states(&self, missing: Vec<Option<&'static str>>) -> Vec<State> {
        let states = self.parts.iter().zip(missing).map(|(part, why)| State {
            name: part.name,
            ready: why.is_none(),
            needed: part.is_needed,
            why,
        });
        let mut states: Vec<_> = states.collect();
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
                    why: Some(BROKEN),
                }),
            }
        }
        states
    }
}

impl Ready {
    /// A generator can be replaced by its fallback, for as long as that is there.
    fn of(parts: Vec<State>, is_closing: bool) -> Self {
        let is_there = |name: &str| parts.iter().any(|part| part.name == name && part.ready);
        let is_replaced = |part: &State| part.name == role::GENERATOR && is_there(role::FALLBACK);
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
    let mut parts = vec![part(role::GENERATOR, true, of(&config.generator))];
    if let Some(fallback) = &config.fallback {
        parts.push(part(role::FALLBACK, false, of(fallback)));
    }
    let reader = |reader: &Reader| match reader {
        Reader::Generator => None,
        Reader::Model(model) => Some(of(model)),
        Reader::Spans { .. } => Some(Vec::new()),
    };
    if let Some(places) = reader(&config.reader) {
        parts.push(part(role::READER, true, places));
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
    parts.push(part(role::ENCODER, true, encoder));
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
            let places = match endpoints.clone().any(|endpoint| endpoint.proxy.is_some()) {
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
        parts.push(part("accounts", false, places([shared.url.as_str()])));
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
mod tests {
    use spechop_testkit::{OwnPort, Script};
    use tokio::net::TcpListener;

    use super::*;
    use crate::server_state::scripted::state;

    #[test]
    fn an_address_names_a_host_and_a_port() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", Some(("127.0.0.1", 8080))),
            ("https://api.example.org/v1", Some(("api.example.org", 443))),
            ("http://searx", Some(("searx", 80))),
            ("rediss://team@10.0.0.7/2", Some(("10.0.0.7", 6379))),
            ("http://[::1]:6334", Some(("::1", 6334))),
            ("what?", None),
        ] {
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(places([url]).pop(), expected, "{url}");
        }
    }

    fn part(name: &'static str, is_needed: bool, places: &[u16]) -> Part {
        let place = |port: &u16| ("127.0.0.1".to_owned(), *port);
        Part {
            name,
            is_needed,
            places: places.iter().map(place).collect(),
        }
    }

    /// The names of the parts that are not there, and whether questions can be answered.
    async fn look(parts: Vec<Part>, vitals: &Vitals) -> (Vec<&'static str>, bool) {
        let readiness = Readiness {
            parts,
            vitals: vitals.clone(),
            heard: Mutex::default(),
        };
        let ready = readiness.look(false).await;
        assert!(!readiness.look(true).await.ready, "it is closing");
        let told = serde_json::to_string(&ready).unwrap();
        assert!(!told.contains('/'), "no path: {told}");
        let parts = ready.parts.into_iter().filter(|part| !part.ready);
        (parts.map(|part| part.name).collect(), ready.ready)
    }

    const WEB: &str = "[target]\nkind = \"web\"\n[web.searxng]\nurl = \"https://search.example.org\"\n[web]\nproviders = [\"searxng\"]\n";

    #[tokio::test]
    async fn beside_another_target_an_index_is_not_needed() {
        let (state, _) = state(Script::instant(1), WEB);
        let dir = tempfile::tempdir().unwrap();
        let config = Config {
            index_dir: dir.path().to_owned(),
            ..Config::clone(&state.config())
        };
        let index = parts(&config);
        let index = index.iter().find(|part| part.name == role::INDEX);
        assert!(!index.unwrap().is_needed);
    }

    #[tokio::test]
    async fn a_proxy_of_the_environment_hides_models_elsewhere() {
        for (host, is_hidden) in [("models.example.org", true), ("127.0.0.1", false)] {
            let toml = format!(
                "[generator]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://{host}:8080/v1\""
            );
            let (state, _) = state(Script::instant(1), &toml);
            let config = Config {
                is_proxied: true,
                ..Config::clone(&state.config())
            };
            let generator = parts(&config).into_iter().next().unwrap();
            assert_eq!(generator.places.is_empty(), is_hidden, "{host}");
        }
    }

    #[tokio::test]
    async fn what_only_a_proxy_reaches_is_not_asked() {
        let search = ("search.example.org".to_owned(), 443);
        for (proxy, expected) in [
            ("", vec![search]),
            ("proxy = \"http://proxy.example.org:3128\"\n", Vec::new()),
        ] {
            let (state, _) = state(Script::instant(1), &format!("{WEB}{proxy}"));
            let parts = parts(&state.config());
            let web = parts.into_iter().find(|part| part.name == "web").unwrap();
            assert_eq!(web.places, expected, "{proxy}");
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_told_by_name() {
        let there = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let up = there.local_addr().unwrap().port();
        let nobody = OwnPort::reserve();
        let down = nobody.number();
        let vitals = Vitals::default();
        for (parts, missing, is_ready) in [
            (vec![part("index", true, &[])], vec![], true),
            (vec![part("qdrant", true, &[down, up])], vec![], true),
            (vec![part("qdrant", true, &[down])], vec!["qdrant"], false),
            (vec![part("memory", false, &[down])], vec!["memory"], true),
            (
                vec![
                    part(role::GENERATOR, true, &[down]),
                    part(role::FALLBACK, false, &[]),
                ],
                vec![role::GENERATOR],
                true,
            ),
            (
                vec![
                    part(role::GENERATOR, true, &[down]),
                    part(role::FALLBACK, false, &[down]),
                ],
                vec![role::GENERATOR, role::FALLBACK],
                false,
            ),
        ] {
            let seen = look(parts, &vitals).await;
            assert_eq!(seen, (missing, is_ready));
        }
    }

    #[tokio::test]
    async fn what_is_broken_is_told_by_what_it_is_used_for() {
        for (broken, parts, is_ready) in [
            (
                role::INDEX,
                [(role::INDEX, true), (role::ENCODER, true)],
                false,
            ),
            (
                role::INDEX,
                [(role::INDEX, false), (role::ENCODER, true)],
                true,
            ),
            (
                role::GENERATOR,
                [(role::GENERATOR, true), (role::FALLBACK, false)],
                true,
            ),
        ] {
            let vitals = Vitals::default();
            let path = "passage index /home/ann/indexes/w";
            vitals.of(broken).fail(path, "its files were cut");
            let parts = parts.map(|(name, is_needed)| part(name, is_needed, &[]));
            let seen = look(parts.into(), &vitals).await;
            assert_eq!(seen, (vec![broken], is_ready));
        }
        let vitals = Vitals::default();
        vitals.fail("reader r", "its threads have stopped");
        let parts = vec![part(role::READER, true, &[])];
        assert_eq!(look(parts, &vitals).await, (vec!["other"], false));
    }
}
