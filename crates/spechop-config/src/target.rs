//! Where look-ups go: the index, the web, somebody else's retriever, a tool of an MCP server, or a
//! collection of Qdrant.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use spechop_mcp::McpOptions;
use spechop_sched::{Limits, Rate};
use spechop_web::page::PageOptions;
use spechop_web::search::{BreakerOptions, EngineKind, SearchEngine};
use spechop_web::{CacheOptions, HttpEndpoint, HttpRetrieverOptions, Proxy, WebRetrieverOptions};

use super::Scheduler;
use super::keys::Keys;
use super::mcp::mcp;
use super::models::api_key;
use super::qdrant::{Qdrant, qdrant};
use super::schedule::lanes_at;
use crate::Env;

/// The target tool.
#[derive(Clone, Debug)]
pub enum Target {
    /// The passage index.
    Index,
    /// Web search, and the pages it finds.
    Web(Box<Web>),
    /// A retriever behind HTTP, in Search-R1's form.
    Http(Box<HttpRetrieverOptions>),
    /// A collection of Qdrant.
    Qdrant(Box<Qdrant>),
    /// A tool of an MCP server.
    Mcp(Box<McpOptions>),
}

impl Target {
    /// Whether look-ups leave this machine's index alone.
    pub(super) fn is_elsewhere(&self) -> bool {
        !matches!(self, Self::Index)
    }

    /// The name and the limits of the backend of its look-ups.
    pub fn lanes(&self, scheduler: &Scheduler) -> (&'static str, Limits) {
        match self {
            Self::Index => ("retriever", scheduler.retriever),
            Self::Web(_) => ("web", scheduler.web),
            Self::Http(_) => ("http", scheduler.http),
            Self::Qdrant(_) => ("qdrant", scheduler.qdrant),
            Self::Mcp(_) => ("mcp", scheduler.mcp),
        }
    }

    /// Who answers, in words that differ if another does. No secrets.
    pub fn who(&self) -> String {
        match self {
            Self::Index => "index".to_owned(),
            Self::Web(web) => {
                let engines = web.providers.iter().map(|provider| {
                    let SearchEngine { endpoint, kind } = &provider.engine;
                    format!("{} {}{}", endpoint.name, endpoint.base_url, behind(kind))
                });
                format!("web {}", engines.collect::<Vec<_>>().join(", "))
            }
            Self::Http(options) => format!("http {}", options.service.endpoint.base_url),
            Self::Qdrant(qdrant) => qdrant.who(),
            Self::Mcp(options) => format!("mcp {} of {}", options.tool, options.server),
        }
    }
}

/// Who answers behind an engine, as far as its own options say.
fn behind(kind: &EngineKind) -> String {
    let options = match kind {
        EngineKind::Searxng { engines, language } => vec![
            ("engines", engines.as_deref()),
            ("language", language.as_deref()),
        ],
        EngineKind::DuckDuckGo { region } => vec![("region", Some(region.as_str()))],
        EngineKind::Brave
        | EngineKind::Tavily { .. }
        | EngineKind::Serper
        | EngineKind::MediaWiki { .. } => Vec::new(),
    };
    let said = |(name, value): (&str, Option<&str>)| Some(format!(" {name}={}", value?));
    options.into_iter().filter_map(said).collect()
}

/// How the web is searched and read.
#[derive(Clone, Debug)]
pub struct Web {
    /// The first that answers is used. Never empty.
    pub providers: Vec<Provider>,
    /// When a provider is left alone.
    pub breaker: BreakerOptions,
    /// How results become passages.
    pub options: WebRetrieverOptions,
    /// How pages are fetched.
    pub pages: PageOptions,
    /// How long results and pages are kept.
    pub kept: CacheOptions,
}

/// A search provider, and how it may be asked.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Which one, and where.
    pub engine: SearchEngine,
    /// The limits of its searches.
    pub lanes: Limits,
}

/// Searches at once; what a provider allows is its own business.
const SEARCHES: usize = 16;
/// DuckDuckGo blocks an address after five or six quick requests.
const DUCKDUCKGO_PER_SECOND: f64 = 0.5;

pub(super) fn target(keys: &mut Keys<'_>, env: &Env) -> Target {
    #[derive(Clone, Copy)]
    enum Kind {
        Index,
        Web,
        Http,
        Qdrant,
        Mcp,
    }
    let kinds = [
        ("index", Kind::Index),
        ("web", Kind::Web),
        ("http", Kind::Http),
        ("qdrant", Kind::Qdrant),
        ("mcp", Kind::Mcp),
    ];
    let kind = keys.one_of("target.kind", &kinds).unwrap_or(Kind::Index);
    // Every key is read whatever the kind, so that a variable can switch between them.
    let web = web(keys, env, matches!(kind, Kind::Web));
    let http = http(keys, env, matches!(kind, Kind::Http));
    let qdrant = qdrant(keys, env, matches!(kind, Kind::Qdrant));
    let mcp = mcp(keys, env, matches!(kind, Kind::Mcp));
    match kind {
        Kind::Index => Target::Index,
        Kind::Web => Target::Web(Box::new(web)),
        Kind::Http => Target::Http(Box::new(http)),
        Kind::Qdrant => Target::Qdrant(Box::new(qdrant)),
        Kind::Mcp => Target::Mcp(Box::new(mcp)),
    }
}

fn http(keys: &mut Keys<'_>, env: &Env, is_used: bool) -> HttpRetrieverOptions {
    let url = keys.text("target.url");
    if is_used && url.is_none() {
        keys.mistake("target.url", "kind = \"http\" needs it");
    }
    let is_there = url.is_some();
    let mut options = HttpRetrieverOptions::new(url.unwrap_or_default());
    let variable = keys.text("target.api_key_env");
    options
        .service
        .set_time_limit(keys.millis("target.http_ms_max"));
    options.with_tenant = keys.switch("target.with_tenant");
    if is_used {
        let endpoint = &mut options.service.endpoint;
        endpoint.key = variable.and_then(|name| api_key(keys, "target.api_key_env", &name, env));
        if is_there {
            must_be_usable(keys, "target", endpoint);
        }
    }
    options
}

/// What no request can be sent to, or with, is told when the configuration is read, and not when the server opens.
pub(super) fn must_be_usable(keys: &mut Keys<'_>, section: &str, endpoint: &HttpEndpoint) {
    for (key, checked) in [
        ("url", endpoint.check_url()),
        ("api_key_env", endpoint.check_key()),
    ] {
        if let Err(error) = checked {
            keys.mistake(&format!("{section}.{key}"), error.to_string());
        }
    }
}

/// Settings with which no page can be fetched are told then, too.
fn must_be_fetchable(keys: &mut Keys<'_>, pages: &PageOptions) {
    for (key, checked) in [
        ("user_agent", pages.check_user_agent()),
        ("contact", pages.check_contact()),
        ("ports", pages.check_ports()),
    ] {
        if let Err(error) = checked {
            keys.mistake(&format!("web.{key}"), error.to_string());
        }
    }
}

fn web(keys: &mut Keys<'_>, env: &Env, is_used: bool) -> Web {
    let names = keys.list("web.providers").unwrap_or_default();
    let pages = PageOptions {
        proxy: proxy(keys, env, is_used),
        ..pages(keys)
    };
    let mut known = providers(keys, env, &pages, is_used.then_some(&names[..]));
    let mut providers = Vec::new();
    for name in &names {
        let is_it = |provider: &Provider| *provider.engine.endpoint.name == **name;
        match known.iter().position(is_it) {
            Some(at) => providers.push(known.swap_remove(at)),
            None => {
                let problem = format!("{name:?} is no search provider, or is there twice");
                keys.mistake("web.providers", problem);
            }
        }
    }
    if names.is_empty() {
        keys.mistake("web.providers", "somebody has to search");
    }
    if is_used {
        must_be_fetchable(keys, &pages);
    }
    Web {
        breaker: BreakerOptions {
            is_only: providers.len() == 1,
            ..breaker(keys)
        },
        providers,
        options: WebRetrieverOptions {
            results: keys.count("web.results"),
            ranked: keys.count("web.ranked"),
            rank_time: keys.millis("web.rank_ms_max"),
            lexical_weight: keys.number("web.lexical_weight").unwrap_or_default() as f32,
            // Reading the last page takes a moment.
            pages_time: pages.limit + Duration::from_millis(100),
        },
        pages,
        kept: CacheOptions {
            time: Duration::from_secs(keys.integer("web.keep_s").unwrap_or_default()),
            most: keys.count("web.keep_max"),
        },
    }
}

/// The way to the web, if the operator names one.
fn proxy(keys: &mut Keys<'_>, env: &Env, is_used: bool) -> Option<Proxy> {
    let (url, variable) = (keys.text("web.proxy"), keys.text("web.proxy_login_env"));
    if url.is_none() && variable.is_some() {
        keys.mistake(
            "web.proxy_login_env",
            "a login needs a proxy: see web.proxy",
        );
    }
    let url = url.filter(|_| is_used)?;
    let proxy = Proxy::new(&url);
    let proxy = proxy.map_err(|error| keys.mistake("web.proxy", error.to_string()));
    let Some(variable) = variable else {
        return proxy.ok();
    };
    let login = api_key(keys, "web.proxy_login_env", &variable, env)?;
    let proxy = proxy.ok()?.with_login(login);
    let proxy = proxy.map_err(|error| keys.mistake("web.proxy_login_env", error.to_string()));
    proxy.ok()
}

fn breaker(keys: &mut Keys<'_>) -> BreakerOptions {
    let usual = BreakerOptions::default();
    let mut pause = |key: &str, usual: Duration| {
        let s = keys.integer(key);
        s.map_or(usual, Duration::from_secs)
    };
    let cool_down = pause("web.pause_s", usual.cool_down);
    let cool_down_max = pause("web.pause_s_max", usual.cool_down_max.max(cool_down));
    if cool_down_max < cool_down {
        keys.mistake("web.pause_s_max", "must be at least web.pause_s");
    }
    let failures = keys.small("web.failures_max");
    BreakerOptions {
        failures_max: NonZeroU32::new(failures).unwrap_or(usual.failures_max),
        cool_down,
        cool_down_max,
        ..usual
    }
}

/// Every provider. What one lacks is a mistake only if it is `used`.
fn providers(
    keys: &mut Keys<'_>,
    env: &Env,
    pages: &PageOptions,
    used: Option<&[String]>,
) -> Vec<Provider> {
    let slow = Rate::per_second(DUCKDUCKGO_PER_SECOND, NonZeroU32::MIN).ok();
    let text_chars_max = pages.text_chars_max;
    [
        EngineKind::Searxng {
            engines: keys.text("web.searxng.engines"),
            language: keys.text("web.searxng.language"),
        },
        EngineKind::DuckDuckGo {
            region: keys.text("web.duckduckgo.region").unwrap_or_default(),
        },
        EngineKind::Brave,
        EngineKind::Tavily { text_chars_max },
        EngineKind::Serper,
        EngineKind::MediaWiki { text_chars_max },
    ]
    .into_iter()
    .map(|kind| {
        let (at_once, rate) = match kind {
            EngineKind::DuckDuckGo { .. } => (1, slow),
            // It asks for one request after the other.
            EngineKind::MediaWiki { .. } => (1, None),
            _ => (SEARCHES, None),
        };
        let mut engine = SearchEngine::new(kind);
        ask_at(keys, env, pages, used, &mut engine);
        let lanes = lanes_at(keys, &engine.endpoint.name, at_once, rate);
        Provider { engine, lanes }
    })
    .collect()
}

/// Where and how an engine is asked: it is told who asks as the sites of `pages` are, on the same way.
fn ask_at(
    keys: &mut Keys<'_>,
    env: &Env,
    pages: &PageOptions,
    used: Option<&[String]>,
    engine: &mut SearchEngine,
) {
    let wants_key = engine.kind.wants_key();
    let endpoint = &mut engine.endpoint;
    let name = Arc::clone(&endpoint.name);
    let key = |what: &str| format!("web.{name}.{what}");
    let is_used = used.is_some_and(|used| used.iter().any(|other| **other == *name));
    if let Some(url) = keys.text(&key("url")) {
        endpoint.base_url = url;
    }
    let variable = keys.text(&key("api_key_env"));
    if is_used {
        if wants_key && variable.is_none() {
            keys.mistake(&key("api_key_env"), format!("{name} wants a key"));
        }
        endpoint.key =
            variable.and_then(|variable| api_key(keys, &key("api_key_env"), &variable, env));
    }
    endpoint.time_limit = keys.millis(&key("ms_max"));
    endpoint.user_agent = Some(pages.user_agent.clone());
    endpoint.contact.clone_from(&pages.contact);
    let is_direct = keys.switch(&key("direct"));
    endpoint.proxy = pages.proxy.clone().filter(|_| !is_direct);
    if is_used {
        must_be_usable(keys, &format!("web.{name}"), endpoint);
    }
}

fn pages(keys: &mut Keys<'_>) -> PageOptions {
    let ports = keys.list("web.ports").map(|ports| {
        let port = |text: &String| {
            text.parse::<u16>().unwrap_or_else(|_| {
                keys.mistake("web.ports", format!("{text:?} is no port"));
                // In its place, so that nobody hears of a list without ports as well.
                0
            })
        };
        ports.iter().map(port).collect()
    });
    PageOptions {
        limit: keys.millis("web.page_ms_max"),
        body_bytes_max: keys.size("web.page_bytes_max"),
        text_chars_max: keys.size("web.page_chars_max"),
        robots: keys.switch("web.robots"),
        user_agent: keys.text("web.user_agent").unwrap_or_default(),
        ports: ports.unwrap_or_default(),
        allow: parsed(keys, "web.allow"),
        deny: parsed(keys, "web.deny"),
        contact: keys.text("web.contact"),
        ..PageOptions::default()
    }
}

/// A list of things that their type parses.
fn parsed<T: FromStr<Err: Display>>(keys: &mut Keys<'_>, key: &str) -> Vec<T> {
    let mut parsed = Vec::new();
    for text in keys.list(key).unwrap_or_default() {
        match text.parse::<T>() {
            Ok(value) => parsed.push(value),
            Err(error) => keys.mistake(key, format!("{error}")),
        }
    }
    parsed
}

#[cfg(test)]
mod tests;
