//! The configuration. It is read twice: `keys` collects what the operator wrote, then `read` says what
//! it means. Whoever holds a [`Config`] holds a valid one.

mod callers;
mod drafting;
mod encoder;
mod hot;
mod keys;
mod mcp;
mod models;
mod qdrant;
mod read;
mod remembering;
mod schedule;
mod target;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spechop_agent::{Policy, Prices, StageLimits, Width};
use spechop_llm::{Endpoint, LocalModelOptions, PromptStyle};
use spechop_sched::{Eligibility, Limits as Lanes, Millicores};
use spechop_theory::TunerOptions;
use spechop_types::{Budget, Chance, Tenant};
use spechop_verifier::Mode;
use spechop_web::HttpEncoderOptions;

use crate::tuning::Free;

pub use crate::accounts::Allowance;
pub use crate::transport::{Limits as Transport, TlsError, TlsFiles, TlsPart};
pub use callers::Callers;
pub use hot::HotTraffic;
pub use keys::{Mistake, Source};
pub use qdrant::{Qdrant, SharedMemory};
pub use read::{Written, default_index_dir};
pub(crate) use schedule::lanes_of;
pub use spechop_sim::InjectedLatency;
pub use target::{Provider, SearchEngine, Target, Web};

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
    /// How much the words of a query count beside its vector when the index is searched; 0 for not at
    /// all. From 0 to 10.
    pub lexical_weight: f32,
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
    /// How calls get their turns.
    pub scheduler: Scheduler,
    /// Who may ask, and how much at once.
    pub callers: Callers,
    /// The budget of each tenant; `None` if there is no limit.
    pub allowance: Option<Allowance>,
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
    /// Most questions at once; further ones are refused.
    pub questions_max: usize,
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
    /// When the answer to a client of MCP is written from what is known, unless it names another time.
    pub mcp_time: Duration,
    /// How long open questions may continue after a shutdown was requested.
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
    pub(crate) fn model(&self) -> Option<&Model> {
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
pub(crate) const DRAFTS_MAX: u32 = 8;

/// How questions are answered.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Default k. With `auto`, the k used until enough has been observed.
    pub width: Width,
    /// Whether the server chooses k for questions that name none.
    pub auto: bool,
    /// Largest k that may be asked for.
    pub k_max: NonZeroUsize,
    /// The most hops of questions that name no hop budget.
    pub hops: u32,
    /// Largest hop budget that may be asked for.
    pub hops_max: u32,
    /// Passages read for each hop, if the question says nothing.
    pub passages: NonZeroUsize,
    /// Most passages that may be asked for.
    pub passages_max: NonZeroUsize,
    /// When a guess counts as right, if the question says nothing.
    pub verifier: Mode,
    /// Look-ups that may find nothing before the answer is written.
    pub not_found_max: u32,
    /// Whether look-ups of rolled-back branches are kept, if the question says nothing.
    pub salvage: bool,
    /// The most look-ups that are kept for one question.
    pub salvage_max: NonZeroUsize,
    /// How long a look-up that nobody needs is kept.
    pub salvage_time: Duration,
    /// Whether planning continues without a guess, if the question says nothing.
    pub plan_ahead: PlanAhead,
    /// Tenants of whom no provider may learn ahead of need what may be asked; `*` for all of them.
    pub quiet: Vec<String>,
    /// Guesses of one hop that branches are built upon, if the question says nothing.
    pub guesses: NonZeroUsize,
    /// Most guesses of a hop that may be asked for.
    pub guesses_max: NonZeroUsize,
    /// Branches less likely than this to become head are not built, if the question says nothing. `None`:
    /// each guess is weighed.
    pub chance_min: Option<Chance>,
    /// An answer less likely than this to be right is withheld.
    pub confidence_min: Chance,
    /// Most look-ups that are drafted for a hop, if the question says nothing. `None`: one, if that pays.
    pub drafts: Option<usize>,
    /// Whether the answers of drafted look-ups are guessed before they are asked for.
    pub draft_guesses: bool,
    /// How many drafts a language model writes of a sub-question, if one does.
    pub draft_samples: u32,
    /// The longest that any question may take.
    pub deadline_max: Duration,
    /// Soft limits of every question.
    pub budget: Budget,
    /// What calls cost.
    pub prices: Prices,
    /// Limits of single stages.
    pub limits: StageLimits,
}

impl Questions {
    /// Whether nothing may be looked up elsewhere ahead of need on behalf of this tenant.
    pub(crate) fn is_quiet(&self, tenant: &Tenant) -> bool {
        let mut quiet = self.quiet.iter();
        quiet.any(|name| name == "*" || name == tenant.as_str())
    }

    /// What of a question is left to the server, if the question says nothing.
    pub(crate) fn free(&self) -> Free {
        Free {
            k: self.auto,
            plan_ahead: self.plan_ahead == PlanAhead::Auto,
            gate: self.chance_min.is_none(),
            drafts: self.drafts.is_none(),
        }
    }

    /// The window's policy as the simulator plays it, with nothing chosen.
    pub(crate) fn policy(&self, salvage: bool) -> Policy {
        Policy {
            orphans_max: if salvage { self.salvage_max.get() } else { 0 },
            // What else a speculator would have guessed is not recorded.
            guesses_max: NonZeroUsize::MIN,
            chance_min: self.chance_min.unwrap_or(Chance::NONE),
            plan_ahead: self.plan_ahead == PlanAhead::On,
            drafts_max: self.drafts.unwrap_or(0),
            draft_guesses: self.draft_guesses,
            ..Policy::PAPER
        }
    }
}

/// Whether planning continues without a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAhead {
    /// Always.
    On,
    /// Never.
    Off,
    /// If it would have paid for the last questions.
    Auto,
}

impl Config {
    /// Whether anything runs on ONNX Runtime.
    pub(crate) fn needs_runtime(&self) -> bool {
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
        /// Threads; `None` means one for each core.
        threads: Option<NonZeroUsize>,
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
        /// Threads; `None` means one for each core.
        threads: Option<NonZeroUsize>,
    },
}

/// Where a language model runs.
#[derive(Clone, Debug)]
pub enum Engine {
    /// In this process.
    Local(LocalModelOptions),
    /// Behind an OpenAI-compatible endpoint; the key comes from the variable that the operator named.
    OpenAi(Endpoint),
}

impl Reader {
    /// Whether our small reader reads.
    pub(crate) fn is_spans(&self) -> bool {
        matches!(self, Self::Spans { .. })
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
    pub cascade: Cascade,
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
    pub shared: Option<SharedMemory>,
}

/// Speculators that are asked together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cascade {
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
