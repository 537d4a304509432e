//! Opens the models and indexes that the configuration names, once, and hands them to questions.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use spechop_agent::Ports;
use spechop_embed::{ReaderOptions, SpanReader};
use spechop_llm::{LlmDraftWriter, ReadLimits};
use spechop_ports::{
    DraftWriter, Encoder, Fallback, Passages, Planner, Reader, RecentQueries, Retriever, Rewriter,
    Speculator, Vitals,
};
use spechop_sched::{Backend, Cores};
use spechop_speculate::IndexGuesser;
use spechop_store::{IndexPassages, IndexRetriever, PassageIndex};

use crate::backends::{Backends, LookUp};
use crate::config::{self, Config, DraftedBy, LexicalWeight, PASSAGES_MAX, SpeculatorKind, Style};
use crate::cores::Load;
use crate::drafts;
use crate::encoders;
use crate::hot::{HotSubset, Traffic};
use crate::inject::SlowRetriever;
use crate::intact;
use crate::tool_cache::{self, ToolCache};
use crate::web;

mod bare;
mod remembering;
mod voice;

pub use bare::Bare;
pub use remembering::Verified;

use self::voice::{ReadBy, Voice};

/// What a guess may say: 16 tokens, as the paper lets a cached subset say, and two tags of three.
const HASTY_ANSWER_TOKENS: u32 = 16 + 6;

/// How many plans are drawn for a question that is asked with high effort, if its first one is not sure.
const PLANS_DRAWN: u32 = 4;

/// The ports of every question. Every call of every one of them takes its turn at a backend.
#[derive(Clone)]
pub struct Toolbox {
    /// Writes sub-questions and answers.
    pub planner: Arc<dyn Planner>,
    /// Each draws plans of its own, for questions that are asked with high effort. None: those are answered
    /// as all others.
    pub drawing: Vec<Arc<dyn Planner>>,
    /// Reads passages.
    pub reader: Arc<dyn Reader>,
    /// Plans and reads for questions that `planner` was not made for, if somebody does.
    pub any_form: Option<(Arc<dyn Planner>, Arc<dyn Reader>)>,
    /// Finds passages.
    pub retriever: Arc<dyn Retriever>,
    /// Knows the passages that it finds by their identifiers, if anything does.
    pub passages: Option<Arc<dyn Passages>>,
    /// Guess; [`SpeculatorKind::None`] needs no entry.
    pub speculators: BTreeMap<SpeculatorKind, Arc<dyn Speculator>>,
    /// Guesses sub-questions while they are being written.
    pub drafter: Option<Arc<drafts::Guarded>>,
    /// Writes guesses of them.
    pub draft_writer: Option<Arc<dyn DraftWriter>>,
    /// Gives vectors to clients that ask for some: the one that searches the index.
    pub encoder: Option<Arc<dyn Encoder>>,
    /// Puts into a question what its conversation says, if the generator can.
    pub rewriter: Option<Arc<dyn Rewriter>>,
    /// Outputs of tool calls that clients leave; the retriever asks it.
    pub(crate) tool_cache: Option<Arc<ToolCache>>,
    /// What was verified before; it is among the speculators, too.
    pub memory: Option<Verified>,
    /// Which passages verified answers came from, of the tenants that are counted.
    pub traffic: Option<Arc<Traffic>>,
    /// The hot subset, which can be exchanged; it is among the speculators, too.
    pub hot: Option<Arc<HotSubset>>,
    /// Where the turns are given.
    pub backends: Vec<Backend>,
    /// What some of them compute on; `None` if nobody knows where they do.
    pub cores: Option<Cores>,
    /// Where a part says that it is broken for good.
    pub vitals: Vitals,
}

/// A part that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the {part}")]
pub struct OpenError {
    /// Which part.
    part: &'static str,
    /// Why.
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

impl Toolbox {
    /// Opens everything. **Blocks** for as long as models take to load.
    ///
    /// # Errors
    ///
    /// The first part that cannot be opened.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        intact::compare(config)?;
        let vitals = Vitals::default();
        let mut backends = Backends::new(config);
        let mut encoder = encoders::for_answers(&config.encoder, &vitals)?;
        if let Some(most) = NonZeroUsize::new(config.encoder.queries_kept) {
            encoder = Arc::new(RecentQueries::new(encoder, most));
        }
        let mut target = backends.target();
        let far = web::target(&config.target, &encoder, &mut backends, &mut target)?;
        // Where look-ups go elsewhere, the index only guesses, if it is there.
        let near = match far {
            Some(_) if !config.index_dir.exists() => None,
            _ => {
                let (dir, weight) = (&config.index_dir, config.lexical_weight);
                Some(index("index", &encoder, dir, weight, &vitals)?)
            }
        };
        let (near, stored) = near.unzip();
        let stored = stored.filter(|_| far.is_none());
        let shares_index = far.is_none() && config.injected_latency.is_none();
        let retriever = match (far, &near) {
            (Some(far), _) => {
                let (name, lanes) = config.target.lanes(&config.scheduler);
                backends.retrieves_at(name, lanes, slowed(far, config), &target)
            }
            (None, Some(near)) => backends.retrieves(slowed(Arc::clone(near), config), &target),
            (None, None) => return Err(OpenError::of("index")("there is none")),
        };
        let generator = Voice::open(
            "generator",
            &config.generator,
            backends.generator(),
            &vitals,
        )?;
        let (room, parts) = (backends.room(), (config, &vitals));
        let source = ReadBy::open("reader", &config.reader, parts, room.clone(), || {
            backends.reader()
        })?;
        let source = source.unwrap_or_else(|| ReadBy::Voice(generator.clone()));
        let guesser = &config.speculator.model;
        let guesser = ReadBy::open("speculator's model", guesser, parts, room, || {
            backends.speculator()
        })?;

        let mut planner = generator.planner(&backends);
        let limits = ReadLimits {
            passages: PASSAGES_MAX.get(),
            ..ReadLimits::default()
        };
        // A planner in steps cannot read, and knows no other forms of questions either.
        let reads_too = |model: &config::Model| model.style != Style::Steps;
        let first = ReadLimits {
            // What is too long for one reader may be read whole by the other.
            shortens: !config.fallback.as_ref().is_some_and(reads_too),
            ..limits
        };
        let mut reader = source.reader(&backends, &target, first);
        let mut any_form = None;
        if let Some(model) = &config.fallback {
            let second = Voice::open("fallback", model, backends.fallback(model), &vitals)?;
            let plans = second.planner(&backends);
            planner = Arc::new(Fallback::new(planner, Arc::clone(&plans)));
            if reads_too(model) {
                let reads = ReadBy::Voice(second).reader(&backends, &target, limits);
                reader = Arc::new(Fallback::new(reader, Arc::clone(&reads)));
                any_form = Some((plans, reads));
            }
        }

        let samples = match generator.model.draws_samples() {
            true => PLANS_DRAWN,
            false => 0,
        };
        let drawing = (1..=samples).map(|sample| generator.drawing(&backends, sample));
        let drawing = drawing.collect();
        let draft_writer = draft_writer(config, &generator, &mut backends, &vitals)?;
        let mut speculators: BTreeMap<_, Arc<dyn Speculator>> = BTreeMap::new();
        let talker = match &guesser {
            Some(ReadBy::Voice(voice)) => voice,
            Some(ReadBy::Spans(..)) | None => &generator,
        };
        if talker.style != Style::Steps {
            let from_memory = talker.recalls(&backends);
            speculators.insert(SpeculatorKind::Llm, from_memory);
        }
        // They are shown the passages as the reader is, so that where both look at the same ones, a
        // language model finds what the guess has read in its cache. Its answer is cut shorter: a guess
        // must be there long before the observation.
        let reads = guesser.unwrap_or(source);
        let guess_over = |backends: &Backends, look_up, passages: NonZeroUsize, guess: &LookUp| {
            let hasty = ReadLimits {
                passages: passages.get(),
                answer_tokens: HASTY_ANSWER_TOKENS,
                ..limits
            };
            let reader = reads.reader(backends, guess, hasty);
            IndexGuesser::new(look_up, reader, passages)
        };
        let mut subset = None;
        if let Some(dir) = &config.speculator.hot_dir {
            let guess = backends.guess();
            let opened = HotSubset::open(dir, &encoder, config.lexical_weight, &vitals);
            let opened = Arc::new(opened.map_err(OpenError::of("hot subset"))?);
            subset = Some(Arc::clone(&opened));
            let subset = backends.retrieves(opened, &guess);
            let hot = guess_over(&backends, subset, config.speculator.hot_passages, &guess);
            speculators.insert(SpeculatorKind::Hot, Arc::new(hot));
        }
        if let Some(near) = near {
            let guess = backends.guess();
            // A target that is slowed on purpose stands for one that is elsewhere. The index itself is near.
            let look_up = match shares_index {
                true => backends.shares(&retriever, &guess),
                false => backends.retrieves(near, &guess),
            };
            let whole = guess_over(&backends, look_up, config.questions.passages(), &guess);
            speculators.insert(SpeculatorKind::Index, Arc::new(whole.of_all()));
        }
        let rewriter = generator.rewriter(&backends);
        let asked_for_vectors = backends.encodes(Arc::clone(&encoder));
        let (backends, cores) = backends.opened();
        let tool_cache = ToolCache::open(config.server.tool_outputs);
        let toolbox = Self {
            encoder: Some(asked_for_vectors),
            rewriter,
            retriever: tool_cache::asked_first(retriever, tool_cache.as_ref()),
            tool_cache,
            drafter: drafts::open(&config.drafter, config.shared.is_some())
                .map_err(OpenError::of("drafter"))?,
            draft_writer,
            planner,
            drawing,
            reader,
            any_form,
            passages: stored.map(|index| Arc::new(IndexPassages::new(index)) as _),
            speculators,
            memory: None,
            traffic: traffic(config),
            hot: subset,
            backends,
            cores,
            vitals,
        };
        Ok(match &config.speculator.memory.shared {
            Some(shared) => {
                let entries = crate::qdrant::memory(shared, &encoder)?;
                toolbox.sharing(entries, encoder, config)
            }
            None => toolbox.remembering(encoder, config),
        })
    }

    /// The speculators that there are, the default one first.
    pub(crate) fn speculators(&self, default: SpeculatorKind) -> Vec<SpeculatorKind> {
        let there = |kind: &SpeculatorKind| {
            *kind == SpeculatorKind::None || self.speculators.contains_key(kind)
        };
        let mut kinds: Vec<_> = SpeculatorKind::ALL.into_iter().filter(there).collect();
        kinds.sort_by_key(|kind| *kind != default);
        kinds
    }

    /// The load of now ([`Load::now`]).
    pub(crate) fn load(&self) -> f64 {
        self.load_gauge().now()
    }

    /// The load, for whoever asks later.
    pub(crate) fn load_gauge(&self) -> Load {
        Load::of(self.backends.clone(), self.cores.clone())
    }

    /// The ports of a question.
    pub(crate) fn ports(&self, speculator: SpeculatorKind) -> Ports {
        Ports {
            planner: Arc::clone(&self.planner),
            reader: Arc::clone(&self.reader),
            retriever: Arc::clone(&self.retriever),
            speculator: self.speculators.get(&speculator).cloned(),
            drafter: self.drafter.clone().map(|drafter| drafter as _),
            draft_writer: self.draft_writer.clone(),
        }
    }

    /// The ports of a question that those are not made for, if there are any.
    pub(crate) fn any_form(&self, speculator: SpeculatorKind) -> Option<Ports> {
        let (planner, reader) = self.any_form.clone()?;
        Some(Ports {
            planner,
            reader,
            // They foresee the words of the other planner, and are to learn no others.
            drafter: None,
            draft_writer: None,
            ..self.ports(speculator)
        })
    }
}

/// Who writes drafts, if anybody does.
fn draft_writer(
    config: &Config,
    generator: &Voice,
    backends: &mut Backends,
    vitals: &Vitals,
) -> Result<Option<Arc<dyn DraftWriter>>, OpenError> {
    let Some(by) = &config.drafter.writer else {
        return Ok(None);
    };
    let voice = match by {
        DraftedBy::Generator => generator.clone(),
        DraftedBy::Model(model) => {
            Voice::open("drafter's model", model, backends.drafter(model), vitals)?
        }
    };
    let style = voice.chat_style();
    let writer = Arc::new(LlmDraftWriter::new(voice.model, style));
    let writer = backends.drafts(writer, &voice.backend);
    Ok(Some(Arc::new(drafts::GuardedWriter::new(writer))))
}

/// Counts of what answers come from, if anybody's are counted. Passages of the web and of tools are in no
/// index.
fn traffic(config: &Config) -> Option<Arc<Traffic>> {
    let is_web = matches!(
        config.target,
        config::Target::Web(_) | config::Target::Mcp(_)
    );
    let traffic = Traffic::of(&config.speculator.hot.tenants);
    traffic.filter(|_| !is_web).map(Arc::new)
}

/// With the injected latency of the configuration, if there is one.
fn slowed(retriever: Arc<dyn Retriever>, config: &Config) -> Arc<dyn Retriever> {
    let Some(latency) = config.injected_latency else {
        return retriever;
    };
    tracing::warn!(
        mean_ms = latency.mean_ms,
        sigma_ms = latency.sigma_ms,
        seed = latency.seed,
        "every look-up is slowed on purpose: latency is INJECTED"
    );
    Arc::new(SlowRetriever::new(retriever, latency))
}

fn span_reader(
    part: &'static str,
    dir: &Path,
    mut options: ReaderOptions,
) -> Result<SpanReader, OpenError> {
    options.passages_max = PASSAGES_MAX;
    let reader = SpanReader::open(dir, &options).map_err(OpenError::of(part))?;
    tracing::info!(part, model = reader.recipe().name, "model opened");
    Ok(reader)
}

fn index(
    part: &'static str,
    encoder: &Arc<dyn Encoder>,
    dir: &Path,
    lexical_weight: LexicalWeight,
    vitals: &Vitals,
) -> Result<(Arc<dyn Retriever>, Arc<PassageIndex>), OpenError> {
    let index = PassageIndex::open_watched(dir, vitals);
    let index = index.and_then(|index| index.with_words(lexical_weight));
    let index = index.map_err(OpenError::of(part))?;
    let weight = lexical_weight.over(index.rows());
    if weight > 0.0 {
        tracing::info!(part, %weight, "words count beside vectors");
    } else if !matches!(lexical_weight, LexicalWeight::Fixed(_)) {
        let key = config::LEXICAL_WEIGHT;
        tracing::info!(part, key, "too many passages for words to count by default");
    }
    tracing::info!(part, passages = index.rows(), dir = %dir.display(), "index opened");
    let index = Arc::new(index);
    let retriever = IndexRetriever::new(Arc::clone(encoder), Arc::clone(&index));
    Ok((Arc::new(retriever.map_err(OpenError::of(part))?), index))
}

impl OpenError {
    pub(crate) fn of<E: Into<Box<dyn Error + Send + Sync>>>(
        part: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self {
            part,
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests;
