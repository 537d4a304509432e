//! Opens the models and indexes that the configuration names, once, and hands them to questions.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use spechop_agent::Ports;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_llm::{
    LlmPlanner, LlmReader, LlmSpeculator, LocalModel, OpenAiModel, PromptStyle, ReadLimits,
    TextModel,
};
use spechop_ports::{Encoder, Fallback, Planner, Reader, Retriever, Speculator};
use spechop_speculate::HotSubset;
use spechop_store::{IndexRetriever, PassageIndex};

use crate::config::{Config, Engine, Model, SpeculatorKind};
use crate::inject::SlowRetriever;

/// What a guess may say: a name or a date, and its tags.
const HASTY_ANSWER_TOKENS: u32 = 32;

/// The ports of every question.
#[derive(Clone)]
pub struct Toolbox {
    /// Writes sub-questions and answers.
    pub planner: Arc<dyn Planner>,
    /// Reads passages.
    pub reader: Arc<dyn Reader>,
    /// Finds passages.
    pub retriever: Arc<dyn Retriever>,
    /// Guess; [`SpeculatorKind::None`] needs no entry.
    pub speculators: BTreeMap<SpeculatorKind, Arc<dyn Speculator>>,
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
        let encoder: Arc<dyn Encoder> = Arc::new(encoder(config)?);
        let retriever = index("index", &encoder, &config.index_dir)?;
        let generator = Voice::open("generator", &config.generator)?;
        let other = |part, model: Option<&Model>| match model {
            Some(model) => Voice::open(part, model),
            None => Ok(generator.clone()),
        };
        let reader = other("reader", config.reader.as_ref())?;
        let guesser = other("speculator's model", config.speculator.model.as_ref())?;

        let mut planner: Arc<dyn Planner> = Arc::new(LlmPlanner::new(
            Arc::clone(&generator.model),
            generator.style,
        ));
        let passages_max = config.questions.passages_max;
        let mut reader: Arc<dyn Reader> = Arc::new(reader.reader(passages_max));
        if let Some(model) = &config.fallback {
            let second = Voice::open("fallback", model)?;
            let second_planner = LlmPlanner::new(Arc::clone(&second.model), second.style);
            planner = Arc::new(Fallback::new(planner, Arc::new(second_planner)));
            reader = Arc::new(Fallback::new(reader, Arc::new(second.reader(passages_max))));
        }

        let mut speculators: BTreeMap<_, Arc<dyn Speculator>> = BTreeMap::new();
        let from_memory = LlmSpeculator::new(Arc::clone(&guesser.model));
        speculators.insert(SpeculatorKind::Llm, Arc::new(from_memory));
        if let Some(dir) = &config.speculator.hot_dir {
            let passages = config.speculator.hot_passages;
            let hot = HotSubset::new(
                index("hot subset", &encoder, dir)?,
                Arc::new(guesser.hasty_reader(passages)),
                passages,
            );
            speculators.insert(SpeculatorKind::Hot, Arc::new(hot));
        }
        Ok(Self {
            planner,
            reader,
            retriever,
            speculators,
        })
    }

    /// With the injected latency of the configuration, if there is one.
    pub(crate) fn slowed(mut self, config: &Config) -> Self {
        if let Some(latency) = config.injected_latency {
            tracing::warn!(
                mean_ms = latency.mean_ms,
                sigma_ms = latency.sigma_ms,
                seed = latency.seed,
                "every look-up is slowed on purpose: latency is INJECTED"
            );
            self.retriever = Arc::new(SlowRetriever::new(self.retriever, latency));
        }
        self
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

    /// The ports of a question.
    pub(crate) fn ports(&self, speculator: SpeculatorKind) -> Ports {
        Ports {
            planner: Arc::clone(&self.planner),
            reader: Arc::clone(&self.reader),
            retriever: Arc::clone(&self.retriever),
            speculator: self.speculators.get(&speculator).cloned(),
        }
    }
}

/// A model and how it is spoken to.
#[derive(Clone)]
struct Voice {
    model: Arc<dyn TextModel>,
    style: PromptStyle,
}

impl Voice {
    fn open(part: &'static str, model: &Model) -> Result<Self, OpenError> {
        let style = model.style;
        let model: Arc<dyn TextModel> = match &model.engine {
            Engine::Local(options) => {
                Arc::new(LocalModel::open(options.clone()).map_err(OpenError::of(part))?)
            }
            Engine::OpenAi(endpoint) => {
                Arc::new(OpenAiModel::new(endpoint).map_err(OpenError::of(part))?)
            }
        };
        tracing::info!(part, model = model.name(), "model opened");
        Ok(Self { model, style })
    }

    fn reader(&self, passages: NonZeroUsize) -> LlmReader {
        let limits = ReadLimits {
            passages: passages.get(),
            ..ReadLimits::default()
        };
        LlmReader::new(Arc::clone(&self.model), self.style, limits)
    }

    /// A reader with a shorter cap: a guess must be there long before the observation. It is shown
    /// the passages as the reader is, so that where both look at the same ones, the model finds what
    /// the guess has read in its cache.
    fn hasty_reader(&self, passages: NonZeroUsize) -> LlmReader {
        let limits = ReadLimits {
            passages: passages.get(),
            answer_tokens: HASTY_ANSWER_TOKENS,
            ..ReadLimits::default()
        };
        LlmReader::new(Arc::clone(&self.model), self.style, limits)
    }
}

fn encoder(config: &Config) -> Result<OnnxEncoder, OpenError> {
    let mut options = EncoderOptions::new(&config.encoder.runtime_library);
    if let Some(threads) = config.encoder.threads {
        options.threads = threads;
    }
    OnnxEncoder::open(&config.encoder.dir, &options).map_err(OpenError::of("encoder"))
}

fn index(
    part: &'static str,
    encoder: &Arc<dyn Encoder>,
    dir: &Path,
) -> Result<Arc<dyn Retriever>, OpenError> {
    let index = PassageIndex::open(dir).map_err(OpenError::of(part))?;
    tracing::info!(part, passages = index.rows(), dir = %dir.display(), "index opened");
    let retriever = IndexRetriever::new(Arc::clone(encoder), Arc::new(index));
    Ok(Arc::new(retriever.map_err(OpenError::of(part))?))
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
