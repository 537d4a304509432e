//! What an operator may set: read, checked and printed.
//!
//! It is read twice: `keys` collects what the operator wrote, then `read` says what it means. Whoever holds
//! a [`Config`] holds a valid one. `table` says which keys there are.
//!
//! The environment is read in `env` and nowhere else.
//!
//! The files that a configuration names are looked at before a server starts: those of TLS ([`TlsFiles`]),
//! of API keys ([`Callers::read`]) and of the public keys of an identity provider ([`KeySet`]). The server acts
//! on them.

pub mod api_keys;
mod callers;
mod chaos;
mod drafting;
mod encoder;
mod env;
mod hosts;
mod hot;
mod issuer;
mod key_set;
mod keys;
mod lexical;
mod mcp;
mod mistake;
mod models;
mod nearest;
mod observing;
mod print;
mod public_url;
mod qdrant;
mod questions;
mod read;
mod reload;
mod remembering;
mod schedule;
mod sharing;
mod show;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
mod variable;

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spechop_llm::{ChatEndpoint, LocalModelOptions, PromptStyle};
use spechop_sched::{Eligibility, Limits as Lanes, Millicores};
use spechop_theory::TunerOptions;
use spechop_types::Chance;
use spechop_web::HttpEncoderOptions;

pub use callers::Callers;
pub use chaos::Chaos;
pub use env::{Env, EnvError};
pub use hot::HotTraffic;
pub use issuer::{Issuer, KeySource};
pub use key_set::KeySet;
pub use lexical::LEXICAL_WEIGHT;
pub use mistake::{Mistake, Source};
pub use observing::{Audit, Otlp};
pub use print::{example, reference};
pub use public_url::PublicUrl;
pub use qdrant::{MemoryCollection, Qdrant};
pub use questions::{Free, Questions};
pub use read::{Written, default_index_dir, served_index_dir};
pub use reload::{Effective, Reread};
pub use schedule::{Allowance, lanes_of};
pub use show::{Setting, as_toml};
pub use spechop_redis::RedisOptions;
pub use spechop_sim::InjectedLatency;
pub use spechop_store::LexicalWeight;
pub use target::{Provider, Target, Web};
pub use tls::{TlsContents, TlsError, TlsFiles, TlsPart};
pub use transport::Transport;

/// What the program runs on. Its `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct Config {
    /// The gRPC server.
    pub server: Server,
    /// How questions are answered that do not say otherwise, and what they may ask for.
    pub questions: Questions,
    /// The text encoder of the index.
    pub encoder: Encoder,
    /// The passage index.
    pub index_dir: PathBuf,
    /// How much the words of a query count beside its vector when the index is searched.
    pub lexical_weight: LexicalWeight,
    /// The model that writes sub-questions. It also reads and guesses, if no other model is named.
    pub generator: Model,
    /// The model that plans and reads if the first one fails.
    pub fallback: Option<Model>,
    /// Who guesses sub-questions.
    pub drafter: Drafting,
    /// Who reads.
    pub reader: Reader,
    /// Who guesses.
    pub speculator: Speculator,
    /// Where look-ups go.
    pub target: Target,
    /// Latency added to every look-up on purpose.
    pub injected_latency: Option<InjectedLatency>,
    /// Ports that have faults on purpose; `None` if none has.
    pub chaos: Option<Chaos>,
    /// How calls get their turns.
    pub scheduler: Scheduler,
    /// Who may ask, and how much at once.
    pub callers: Callers,
    /// The budget of each tenant; `None` if there is no limit.
    pub allowance: Option<Allowance>,
    /// Where several servers keep together what belongs to their tenants; `None` for nowhere.
    pub shared: Option<RedisOptions>,
    /// Where the spans of questions go; `None` for nowhere.
    pub otlp: Option<Otlp>,
    /// Whether the environment names a proxy, behind which endpoints of models may be.
    pub is_proxied: bool,
    /// How answers are checked against those that need no speculation.
    pub audit: Audit,
}

/// The scheduler: the limits of every backend, eligibility, and the choice of k.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// The limits of the generator.
    pub generator: Lanes,
    /// The limits of a separate reader.
    pub reader: Lanes,
    /// The limits of the index, its encoder included.
    pub retriever: Lanes,
    /// The limits of look-ups on the web, from the search to the last page.
    pub web: Lanes,
    /// The limits of somebody else's retriever.
    pub http: Lanes,
    /// The limits of a collection of Qdrant.
    pub qdrant: Lanes,
    /// The limits of a tool of an MCP server.
    pub mcp: Lanes,
    /// The limits of a separate model for guessing.
    pub speculator: Lanes,
    /// The cores that everything in this process shares; `None` for those that it may use.
    pub cores: Option<Millicores>,
    /// Which tools may be called ahead of need, and how far.
    pub eligibility: Eligibility,
    /// How "auto" chooses k.
    pub tuner: TunerOptions,
    /// How many past questions of each speculator `WhatIf` simulates.
    pub history: NonZeroUsize,
    /// The file in which what was learnt survives a restart; `None` for nowhere.
    pub state: Option<PathBuf>,
}

/// The gRPC server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where to listen: a loopback address, unless the operator allows others.
    pub listen: SocketAddr,
    /// What TLS is spoken with; `None` for none.
    pub tls: Option<TlsFiles>,
    /// How often the files of TLS and of keys are looked at again.
    pub reload: Duration,
    /// Most questions at once; further ones wait in line.
    pub questions_max: usize,
    /// How long a question may wait for a place; 0 if there is no line.
    pub queue: Duration,
    /// Most questions in line.
    pub queue_max: usize,
    /// What strangers may hold on to.
    pub transport: Transport,
    /// How long a client may take nothing of a stream in which something waits.
    pub unread: Duration,
    /// The longest that a question may go on if nobody follows it.
    pub linger_max: Duration,
    /// How long the events of a question are kept after its end.
    pub kept: Duration,
    /// The bytes of all events that are kept.
    pub kept_bytes_max: usize,
    /// Whether `POST /retrieve` answers with the passages that the target tool finds.
    pub retrieve: bool,
    /// How many outputs of tool calls are kept that clients leave; 0 for none.
    pub tool_outputs: usize,
    /// Whether clients of MCP are answered at `POST /mcp`.
    pub mcp: bool,
    /// How long a link to a run works that somebody shares; `None` if no run may be shared.
    pub share: Option<Duration>,
    /// When the answer to a client of MCP is written from what is known, unless it names another time.
    pub mcp_time: Duration,
    /// The address by which clients reach the server, for links; `None` for that of each request.
    pub public_url: Option<PublicUrl>,
    /// How long open questions may continue after a shutdown was requested, and answers be on their way.
    pub shutdown_grace: Duration,
}

/// Who guesses sub-questions, and what becomes of what it learns.
#[derive(Clone, Debug)]
pub struct Drafting {
    /// Which patterns it begins with.
    pub patterns: PatternSource,
    /// Whether it learns from the hops of answered questions, for each tenant apart.
    pub learns: bool,
    /// Where what it has learnt survives a restart.
    pub file: Option<PathBuf>,
    /// Which language model writes drafts, too; `None` if none does.
    pub writer: Option<DraftedBy>,
    /// How many drafts of a sub-question it writes side by side.
    pub samples: u32,
}

/// The language model that writes drafts.
#[derive(Clone, Debug)]
pub enum DraftedBy {
    /// The generator.
    Generator,
    /// Another one.
    Model(Box<Model>),
}

impl Drafting {
    /// The model that drafts and does nothing else, if there is one.
    pub fn model(&self) -> Option<&Model> {
        match self.writer.as_ref()? {
            DraftedBy::Model(model) => Some(model),
            DraftedBy::Generator => None,
        }
    }
}

/// Where a drafter's patterns come from.
#[derive(Clone, Debug)]
pub enum PatternSource {
    /// Those of the program.
    Shipped,
    /// Those that `spechop patterns mine` has written here.
    File(PathBuf),
    /// There is no drafter.
    None,
}

/// Most look-ups that may be drafted for a hop.
pub const DRAFTS_MAX: u32 = 8;

/// Most guesses of a hop.
pub const GUESSES_MAX: u32 = 16;

/// The most that `question.passages_max` may be. It is live, so readers have this as their own limit.
pub const PASSAGES_MAX: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// The most passages of all hops of an answer together.
pub const EVIDENCE_MAX: usize = 10_000;

impl Config {
    /// Whether anything runs on ONNX Runtime.
    pub fn needs_runtime(&self) -> bool {
        let readers = [&self.reader, &self.speculator.model];
        self.encoder.dir().is_some() || readers.iter().any(|reader| reader.is_spans())
    }
}

/// The text encoder.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// Where it runs.
    pub kind: EncoderKind,
    /// Queries whose vectors are remembered.
    pub queries_kept: usize,
    /// The ONNX Runtime library, which our small reader needs, too.
    pub runtime_library: PathBuf,
}

/// Where the text encoder runs.
#[derive(Clone, Debug)]
pub enum EncoderKind {
    /// In this process.
    Onnx {
        /// The model folder.
        dir: PathBuf,
        /// Threads.
        threads: NonZeroUsize,
    },
    /// Behind HTTP.
    Http(Box<HttpEncoderOptions>),
}

impl Encoder {
    /// The model folder, if it runs in this process.
    pub fn dir(&self) -> Option<&Path> {
        match &self.kind {
            EncoderKind::Onnx { dir, .. } => Some(dir),
            EncoderKind::Http(_) => None,
        }
    }
}

/// A language model and how to talk to it.
#[derive(Clone, Debug)]
pub struct Model {
    /// Where it runs.
    pub engine: Engine,
    /// How it is spoken to.
    pub style: Style,
}

impl Model {
    /// Whether it can read passages. A planner in steps cannot, and knows no other forms of questions either.
    pub fn can_read(&self) -> bool {
        self.style != Style::Steps
    }
}

/// How a language model is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As a conversation.
    Chat(PromptStyle),
    /// As lines, for a small model that was trained to plan and can do nothing else.
    Steps,
}

/// Who reads passages.
#[derive(Clone, Debug)]
pub enum Reader {
    /// The generator.
    Generator,
    /// Another language model.
    Model(Model),
    /// An extractive reader: words of the passage, never written ones.
    Spans {
        /// The model folder.
        dir: PathBuf,
        /// Threads.
        threads: NonZeroUsize,
    },
}

/// Where a language model runs.
#[derive(Clone, Debug)]
pub enum Engine {
    /// In this process.
    Local(LocalModelOptions),
    /// Behind an OpenAI-compatible endpoint; the key comes from the variable that the operator named.
    OpenAi(ChatEndpoint),
}

impl Reader {
    /// Whether our small reader reads.
    pub(crate) fn is_spans(&self) -> bool {
        matches!(self, Self::Spans { .. })
    }

    /// The language model that reads in this process, its own or the generator.
    pub fn local<'a>(&'a self, generator: &'a Model) -> Option<&'a LocalModelOptions> {
        let model = match self {
            Self::Generator => generator,
            Self::Model(model) => model,
            Self::Spans { .. } => return None,
        };
        match &model.engine {
            Engine::Local(options) => Some(options),
            Engine::OpenAi(_) => None,
        }
    }

    /// The language model that reads, if it is one of its own.
    pub(crate) fn model(&self) -> Option<&Model> {
        match self {
            Self::Model(model) => Some(model),
            Self::Generator | Self::Spans { .. } => None,
        }
    }
}

/// Who guesses.
#[derive(Clone, Debug)]
pub struct Speculator {
    /// The speculator of questions that name none.
    pub default: SpeculatorKind,
    /// The index of the hot subset; `None` if there is none, and none is to come.
    pub hot_dir: Option<PathBuf>,
    /// Passages of the hot subset that are read for a guess.
    pub hot_passages: NonZeroUsize,
    /// How the hot subset follows the traffic.
    pub hot: HotTraffic,
    /// Who reads for a guess; a language model also guesses from memory. [`Reader::Generator`] is nobody
    /// else: then the reader reads, and the generator guesses from memory if it can.
    pub model: Reader,
    /// What is remembered of verified look-ups.
    pub memory: Memory,
    /// Several speculators asked together.
    pub cascade: CascadeOptions,
}

/// The memory of verified look-ups.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Most entries, those of all tenants together.
    pub most: NonZeroUsize,
    /// The least cosine at which another sub-question counts as nearly the same.
    pub similarity: f32,
    /// The file in which it survives a restart; `None` for nowhere.
    pub file: Option<PathBuf>,
    /// The collection of Qdrant in which it lives instead, shared by all servers that name it.
    pub shared: Option<MemoryCollection>,
}

/// Speculators that are asked together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CascadeOptions {
    /// Which ones.
    pub members: Vec<SpeculatorKind>,
    /// A guess of at least this chance goes ahead at once.
    pub confident: Chance,
}

/// The kinds of speculators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpeculatorKind {
    /// Nobody guesses.
    None,
    /// A language model, from memory.
    Llm,
    /// The hot subset of the index, read.
    Hot,
    /// The whole index, read.
    Index,
    /// What was looked up and verified before.
    Memory,
    /// Several of the others, asked together.
    Cascade,
}

impl SpeculatorKind {
    /// Every kind, for tables.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::Llm,
        Self::Hot,
        Self::Index,
        Self::Memory,
        Self::Cascade,
    ];

    /// The name in the configuration and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Llm => "llm",
            Self::Hot => "hot",
            Self::Index => "index",
            Self::Memory => "memory",
            Self::Cascade => "cascade",
        }
    }
}

/// An invalid configuration: every mistake in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig(pub Vec<Mistake>);

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [mistake] => write!(f, "configuration: {mistake}"),
            mistakes => {
                write!(f, "the configuration has {} mistakes:", mistakes.len())?;
                for mistake in mistakes {
                    write!(f, "\n  {mistake}")?;
                }
                let pulls = |remedy: &String| remedy.starts_with("spechop models pull");
                let remedies = mistakes
                    .iter()
                    .filter_map(|mistake| mistake.remedy.as_ref());
                match remedies.filter(|remedy| pulls(remedy)).count() {
                    0 | 1 => Ok(()),
                    _ => f.write_str(
                        "\n`spechop models pull default` brings all default models at once",
                    ),
                }
            }
        }
    }
}

impl std::error::Error for InvalidConfig {}
