//! The table of keys: what may stand in the configuration, which values a key takes, what it is if nobody
//! says it, what it does, and whether a change counts without a restart.
//!
//! Everything else about a key comes from its row. The reader ([`super::keys`]) takes ranges and defaults
//! from it, the example file and the reference are printed from it (`print.rs`), and a reload asks it which
//! keys may change ([`super::reload`]).

mod models;
mod question;
mod server;
mod target;

use std::fmt;

use toml::Value;

use super::{DRAFTS_MAX, GUESSES_MAX, PASSAGES_MAX};
use models::{
    CHAT, DRAFTER, DRAFTER_MODEL, ENCODER, FALLBACK, GENERATOR, INDEX, MODEL, PLANNER, READER,
    RUNTIME, SPANS, SPECULATOR, SPECULATOR_MODEL,
};
use question::{PRICES, QUESTION, TENANT, TENANT_REDIS, TUNING};
use server::{AUDIT, CHAOS, JWT, KEYS, OTLP, PAGE, SERVER};
use target::{
    BACKEND, DUCKDUCKGO, INJECTED_LATENCY, MCP, PROVIDER, QDRANT, SCHEDULER, SEARXNG, TARGET, WEB,
};

/// A day: longer than any time limit that makes sense.
pub(super) const MS_MAX: u64 = 86_400_000;

/// The section whose keys stand in a list of tables.
pub(super) const LIST: &str = "keys";

/// A key of the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// Its name within its section.
    pub(super) name: &'static str,
    /// What its values are.
    pub(super) kind: Kind,
    /// What it is if nobody says it.
    pub(super) default: DefaultValue,
    /// What it does, in lines.
    pub(super) doc: &'static [&'static str],
    /// Whether a change counts without a restart.
    pub(super) live: bool,
    /// Whether its value is not shown.
    pub(super) secret: bool,
}

/// What the values of a key are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A whole number, from the first to the second.
    Whole(u64, u64),
    /// A number, from the first to the second.
    Number(f64, f64),
    /// `true` or `false`.
    Flag,
    /// A text that is not blank.
    Text,
    /// A text with all its spaces, which may be empty.
    Verbatim,
    /// The path of a file or folder.
    File,
    /// The name of an environment variable.
    Variable,
    /// Texts: a list, or one text with commas between them.
    List,
    /// A program and its arguments.
    Words,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A text of this form.
    Parsed(&'static str),
    /// This word, or another kind of value.
    Or(&'static str, &'static Kind),
}

/// What a key is if nobody says it, as TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefaultValue {
    /// This.
    Is(&'static str),
    /// What depends on other keys, or on what is on the disk; this is the usual case.
    Usually(&'static str),
    /// Nothing, or what the documentation says. This is an example of a value.
    Example(&'static str),
}

/// A section of the configuration, or several with the same keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    /// Their names.
    pub(super) names: &'static [&'static str],
    /// What they are about, in lines.
    pub(super) doc: &'static [&'static str],
    /// Their keys; other sections may have some of these groups, too.
    pub(super) groups: &'static [&'static [Key]],
}

/// Rows of the table: documentation, name, kind, default, and `live` or `secret` if they are.
macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:expr, $default:expr $(, $mark:ident)*;)+) => {
        &[$(
            Key {
                name: stringify!($name),
                kind: $kind,
                default: $default,
                doc: &[$($doc),+],
                live: false,
                secret: false,
            }
            $(.$mark())*
        ),+]
    };
}
use keys;

/// Sections: documentation, names, groups of keys.
macro_rules! sections {
    ($($(#[doc = $doc:literal])* $($name:literal),+: $($group:ident),+;)+) => {
        &[$(
            Section {
                names: &[$($name),+],
                doc: &[$($doc),*],
                groups: &[$($group),+],
            }
        ),+]
    };
}

/// All sections, in the order of the example file.
pub(super) static SECTIONS: &[Section] = sections! {
    "server": SERVER;
    /// Who may ask. With at least one key, server.keys_file or jwt.jwks, every request needs a key or a token, but
    /// for health, reflection, the files of the page, /v1/openapi.json and runs that were shared: `authorization:
    /// Bearer KEY`. `spechop keys new --name NAME` makes a key and prints these lines. `hash` is an Argon2id hash
    /// of at most 256 MiB. `tenant` is on whose behalf the key may be used: the tenant without a name by default,
    /// "*" for whomever the caller names (a proxy that knows its clients). `roles` are "ask" and "admin" (the
    /// admin service and /metrics). requests_per_second and requests_burst limit this key, as those of [tenant]
    /// limit a tenant.
    "keys": KEYS;
    /// Whose tokens are taken in place of keys: those of an identity provider that signs JSON web tokens (RS256 to
    /// RS512, PS256 to PS512, ES256, ES384, EdDSA). `authorization: Bearer TOKEN`, as with keys. A token must name
    /// the issuer and the audience and must not be over. It asks on behalf of the tenant that it names.
    "jwt": JWT;
    "page": PAGE;
    "question": QUESTION;
    "encoder": ENCODER;
    "runtime": RUNTIME;
    "index": INDEX;
    /// The model that writes sub-questions and the answer. Unless its style is "steps", it also reads and
    /// guesses, if [reader] and [speculator.model] name no other model.
    "generator": GENERATOR, PLANNER, MODEL;
    /// The model to ask if the generator or the reader fails on a call that the answer needs, or if a question
    /// is hardly of a form that the generator knows (question.form_min). The keys are those of [generator].
    "fallback": FALLBACK, PLANNER, MODEL;
    /// Who reads: "spans" (our own extractive reader, which points at words of a passage), "generator",
    /// or another language model ("local" or "openai", with the keys of [generator]). The default is
    /// "spans" if the generator's style is "steps", else "generator".
    "reader": READER, SPANS, CHAT, MODEL;
    "speculator": SPECULATOR;
    /// Who reads for a guess, or guesses from memory, if it is not the reader or the generator: "spans" (our
    /// small reader, with the keys of [reader]) or another model ("local" or "openai", with the keys of
    /// [generator]). "generator" is nobody else. If a language model reads for the target and our small reader
    /// is pulled, the default is "spans".
    "speculator.model": SPECULATOR_MODEL, SPANS, CHAT, MODEL;
    /// Where look-ups go:
    ///   "index"  the passage index
    ///   "web"    web search, and the pages that it finds ([web])
    ///   "http"   another retriever: POST {"queries":[...],"topk":5,"return_scores":true}, the form of
    ///            Search-R1. Another SpecHop with server.retrieve = true speaks it.
    ///   "mcp"    a tool of an MCP server that searches ([target.mcp])
    ///   "qdrant" a collection of Qdrant, as `spechop index push` fills it ([qdrant])
    /// If look-ups go elsewhere, the index is near: it guesses ([speculator], "index"), if there is one.
    "target": TARGET;
    /// The tool of kind = "mcp". `docs/MCP.md` has examples for servers that people run.
    "target.mcp": MCP;
    /// The collection of kind = "qdrant". The server then needs no index of its own.
    "qdrant": QDRANT;
    /// How the web is searched and read. Search engines and sites hear sub-questions, also such as are only
    /// looked up ahead of need; see tenant.quiet.
    "web": WEB;
    /// The other providers have the same keys, in [web.duckduckgo], [web.brave], [web.tavily], [web.serper] and
    /// [web.mediawiki].
    "web.searxng": PROVIDER, SEARXNG;
    "web.duckduckgo": PROVIDER, DUCKDUCKGO;
    "web.brave", "web.tavily", "web.serper", "web.mediawiki": PROVIDER;
    /// Latency that is added to every look-up on purpose, for demonstrations on a fast index. It is
    /// log-normal, drawn from the seed and the sub-question. Every answer and the log say that it was
    /// injected. None by default.
    "target.injected_latency": INJECTED_LATENCY;
    /// How calls get their turns. Calls that an answer needs go first, in order of arrival. Calls that it
    /// may need take what is left, the most useful for their cost first. They make room if a needed call
    /// has no place.
    "scheduler": SCHEDULER;
    /// The limits of the generator. [scheduler.reader], [scheduler.retriever] and [scheduler.speculator]
    /// (a separate model for guessing), [scheduler.web], [scheduler.http], [scheduler.qdrant] and
    /// [scheduler.mcp] (whole look-ups), and one for each search provider (such as [scheduler.searxng]: its
    /// searches) have the same keys. DuckDuckGo is asked once in two seconds unless per_second says otherwise.
    "scheduler.generator", "scheduler.reader", "scheduler.retriever", "scheduler.speculator",
        "scheduler.web", "scheduler.http", "scheduler.qdrant", "scheduler.mcp", "scheduler.searxng",
        "scheduler.duckduckgo", "scheduler.brave", "scheduler.tavily", "scheduler.serper",
        "scheduler.mediawiki": BACKEND;
    /// Who guesses what the planner is about to ask. A local planner reads a right draft instead of writing it,
    /// and its look-up can begin early (question.drafts).
    ///   "patterns"  patterns of what is asked after what, with the names left out. It is there at once
    ///   "llm"       a language model, which writes a draft while the planner writes. It pays if the model is
    ///               several times faster than the planner and its words are the planner's
    ///   "both"      the model drafts if the patterns leave room (question.drafts)
    ///   "none"      nobody
    "drafter": DRAFTER;
    /// The language model of "llm" and "both". "generator" is the planner itself; a model of its own has the
    /// keys of [generator].
    "drafter.model": DRAFTER_MODEL, CHAT, MODEL;
    /// How "auto" chooses k. Each tenant has its own estimates of each speculator.
    "tuning": TUNING;
    /// The price of a call, of a million tokens read and of a million tokens written, in millionths of
    /// any one currency. [prices.target] (retrieval and reading), [prices.speculation] and [prices.draft] have
    /// the same keys.
    "prices.segment", "prices.target", "prices.speculation", "prices.draft": PRICES;
    /// The tenant of a request is that of its API key. Without keys it is whoever the metadata key
    /// spechop-tenant names, and nobody checks that.
    "tenant": TENANT;
    /// Where several servers keep together what belongs to their tenants: a Redis or Valkey server. They keep to
    /// one allowance of a period between them, and each drafter learns from the questions of all. Each server
    /// counts open questions and requests for itself. If Redis cannot be asked, each server keeps to the
    /// allowance alone, and says so in its log. It then holds names of tenants and forms of their sub-questions.
    "tenant.redis": TENANT_REDIS;
    /// Where the spans of questions go: nowhere by default. They hold numbers, names of rules and of outcomes,
    /// and no word of a question, an answer or a tenant.
    "otlp": OTLP;
    /// Answering a share of the questions again without speculation, when there is nothing else to do, to see
    /// whether the answers differ. No tenant pays for it.
    "audit": AUDIT;
    /// Faults on purpose, for drills on one machine: each call of a port is late, fails, hangs, brings garbage or
    /// loses its answer with these chances. A server with a chance above 0 starts only on a loopback address.
    /// Of a trusted port, garbage is an answer that cannot be used; a speculator says it as a guess.
    "chaos": CHAOS;
};

/// The path of every key that can be written, and its row.
pub(super) fn all() -> impl Iterator<Item = (String, &'static Key)> {
    SECTIONS.iter().flat_map(|section| {
        section.names.iter().flat_map(move |name| {
            let keys = section.keys();
            keys.map(move |key| (format!("{name}.{}", key.name), key))
        })
    })
}

/// The row of a key, e.g. of `question.k`.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    let (section, name) = path.rsplit_once('.')?;
    let mut sections = SECTIONS.iter();
    let section = sections.find(|known| known.names.contains(&section))?;
    section.keys().find(|key| key.name == name)
}

/// Whether a change of this key counts without a restart.
pub(super) fn is_live(path: &str) -> bool {
    // The list of keys is one value.
    path == LIST || find(path).is_some_and(|key| key.live)
}

impl Section {
    /// Its keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.groups.iter().copied().flatten()
    }

    /// Whether it is a list of tables.
    pub(super) fn is_list(&self) -> bool {
        self.names == [LIST]
    }
}

impl Key {
    /// Of a key that the table lacks.
    pub(super) const UNKNOWN: Self = Self {
        name: "",
        kind: Kind::Text,
        default: DefaultValue::Example(""),
        doc: &[],
        live: false,
        secret: false,
    };

    const fn live(self) -> Self {
        Self { live: true, ..self }
    }

    const fn secret(self) -> Self {
        Self {
            secret: true,
            ..self
        }
    }
}

impl DefaultValue {
    /// The text of the row.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Is(text) | Self::Usually(text) | Self::Example(text) => text,
        }
    }

    /// The value that stands in if nobody says one.
    pub(super) fn value(self) -> Option<Value> {
        match self {
            // A test parses all of them.
            Self::Is(text) => value(text),
            Self::Usually(_) | Self::Example(_) => None,
        }
    }
}

impl Kind {
    /// Whether this whole number is in the range.
    pub(super) fn holds_whole(&self, number: u64) -> bool {
        match self {
            Self::Whole(low, high) => (*low..=*high).contains(&number),
            Self::Or(_, kind) => kind.holds_whole(number),
            _ => false,
        }
    }

    /// Whether this number is in the range.
    pub(super) fn holds_number(&self, number: f64) -> bool {
        match self {
            Self::Number(low, high) => (*low..=*high).contains(&number),
            Self::Or(_, kind) => kind.holds_number(number),
            _ => false,
        }
    }

    /// Whether this is one of the words.
    pub(super) fn has_word(&self, word: &str) -> bool {
        matches!(self, Self::OneOf(words) if words.contains(&word))
    }
}

/// A value as TOML writes it.
pub(super) fn value(text: &str) -> Option<Value> {
    let table: toml::Table = format!("value = {text}").parse().ok()?;
    table.get("value").cloned()
}

/// What is expected, in words.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(low, u64::MAX) => write!(f, "a whole number, at least {low}"),
            Self::Whole(low, high) => write!(f, "a whole number from {low} to {high}"),
            Self::Number(low, high) => write!(f, "a number from {low} to {high}"),
            Self::Flag => f.write_str("true or false"),
            Self::Text | Self::Verbatim => f.write_str("a text"),
            Self::File => f.write_str("a path"),
            Self::Variable => f.write_str("the name of an environment variable"),
            Self::List => f.write_str("a list of texts"),
            Self::Words => f.write_str("a program and its arguments"),
            Self::OneOf(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                f.write_str(&words.join(" or "))
            }
            Self::Parsed(form) => f.write_str(form),
            Self::Or(word, kind) => write!(f, "\"{word}\" or {kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_default_is_toml_and_every_key_stands_there_once() {
        let mut paths = BTreeSet::new();
        for (path, key) in all() {
            assert!(value(key.default.text()).is_some(), "{path}");
            assert!(
                !key.doc.is_empty() && !key.doc[0].contains("TODO"),
                "{path}"
            );
            assert!(paths.insert(path.clone()), "{path} is there twice");
        }
        assert!(paths.len() > 300, "{}", paths.len());
    }
}
