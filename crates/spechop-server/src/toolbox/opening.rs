//! Opens the parts of a toolbox, one after the other. Every call of every one of them takes its turn at a
//! backend.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use spechop_config::{
    Config, DraftedBy, Engine, LexicalWeight, Model, PASSAGES_MAX, SpeculatorKind, Style,
};
use spechop_llm::{LlmDraftWriter, ReadLimits, StepPlanner, Tools};
use spechop_ports::{
    DraftWriter, Encoder, Fallback, Planner, Reader, RecentQueries, Retriever, Speculator, Vitals,
};
use spechop_sched::ScheduledRetriever;
use spechop_speculate::IndexGuesser;
use spechop_store::{IndexRetriever, PassageIndex};

use super::voice::{ReadBy, Voice};
use super::{OpenError, slowed};
use crate::backends::{Backends, LookUp};
use crate::drafts::GuardedWriter;
use crate::encoders;
use crate::hot::HotSubset;
use crate::readiness::role;
use crate::tool_cache::ToolCache;
use crate::web;

/// What a guess may say: 16 tokens, as the paper lets a cached subset say, and two tags of three.
const HASTY_ANSWER_TOKENS: u32 = 16 + 6;

/// How many plans are drawn for a question that is asked with high effort, if its first one is not sure.
const PLANS_DRAWN: u32 = 4;

/// What every part is opened with.
pub(super) struct Opening<'a> {
    config: &'a Config,
    tool_cache: Option<Arc<ToolCache>>,
    pub(super) encoder: Arc<dyn Encoder>,
    pub(super) backends: Backends,
    pub(super) vitals: Vitals,
}

/// Who retrieves.
pub(super) struct Retrieval {
    /// The rules of target calls.
    pub(super) target: LookUp,
    /// For target calls.
    pub(super) retriever: Arc<ScheduledRetriever>,
    /// The index, whose calls take no turns yet; `None` if look-ups go elsewhere and there is none.
    index: Option<Arc<dyn Retriever>>,
    /// What target calls find there; `None` if they go elsewhere.
    pub(super) passages: Option<Arc<PassageIndex>>,
}

/// The models. A generator may be all of them.
pub(super) struct Models {
    pub(super) generator: Voice,
    reader: ReadBy,
    /// `None` if the others guess.
    guesser: Option<ReadBy>,
}

/// Who plans and reads for answers; the fields are those of the toolbox.
pub(super) struct Answering {
    pub(super) planner: Arc<dyn Planner>,
    pub(super) drawing: Vec<Arc<dyn Planner>>,
    pub(super) reader: Arc<dyn Reader>,
    pub(super) any_form: Option<(Arc<dyn Planner>, Arc<dyn Reader>)>,
}

/// Who guesses; the fields are those of the toolbox.
pub(super) struct Guessing {
    pub(super) speculators: BTreeMap<SpeculatorKind, Arc<dyn Speculator>>,
    pub(super) hot: Option<Arc<HotSubset>>,
}

impl<'a> Opening<'a> {
    pub(super) fn new(
        config: &'a Config,
        tool_cache: Option<Arc<ToolCache>>,
    ) -> Result<Self, OpenError> {
        let vitals = Vitals::default();
        let mut backends = Backends::new(config);
        let mut encoder =
            encoders::for_answers(&config.encoder, &vitals.of(role::ENCODER), &mut backends)?;
        if let Some(most) = NonZeroUsize::new(config.encoder.queries_kept) {
            encoder = Arc::new(RecentQueries::new(encoder, most));
        }
        Ok(Self {
            config,
            tool_cache,
            encoder,
            backends,
            vitals,
        })
    }

    pub(super) fn retrieval(&mut self) -> Result<Retrieval, OpenError> {
        let config = self.config;
        let mut target = self.backends.target();
        let far = web::target(
            &config.target,
            &self.encoder,
            &mut self.backends,
            &mut target,
        )?;
        match far {
            None => {
                let (index, passages) = self.index()?;
                let retriever = slowed(Arc::clone(&index), config);
                Ok(Retrieval {
                    retriever: self.backends.retrieves(retriever, &target),
                    target,
                    index: Some(index),
                    passages: Some(passages),
                })
            }
            Some(far) => {
                // The index only guesses then, if it is there.
                let index = match config.index_dir.exists() {
                    true => Some(self.index()?.0),
                    false => None,
                };
                let (name, lanes) = config.target.lanes(&config.scheduler);
                let far = slowed(far, config);
                Ok(Retrieval {
                    retriever: self.backends.retrieves_at(name, lanes, far, &target),
                    target,
                    index,
                    passages: None,
                })
            }
        }
    }

    fn index(&self) -> Result<(Arc<dyn Retriever>, Arc<PassageIndex>), OpenError> {
        let part = "index";
        let (dir, words) = (&self.config.index_dir, self.config.lexical_weight);
        let index = PassageIndex::open_watched(dir, &self.vitals.of(role::INDEX));
        let index = index.and_then(|index| index.with_words(words));
        let index = index.map_err(OpenError::of(part))?;
        let weight = words.over(index.rows());
        if weight > 0.0 {
            tracing::info!(part, %weight, "words count beside vectors");
        } else if !matches!(words, LexicalWeight::Fixed(_)) {
            let key = spechop_config::LEXICAL_WEIGHT;
            tracing::info!(part, key, "too many passages for words to count by default");
        }
        tracing::info!(part, passages = index.rows(), dir = %dir.display(), "index opened");
        let index = Arc::new(index);
        let retriever = IndexRetriever::new(Arc::clone(&self.encoder), Arc::clone(&index));
        Ok((Arc::new(retriever.map_err(OpenError::of(part))?), index))
    }

    pub(super) fn models(&mut self) -> Result<Models, OpenError> {
        let config = self.config;
        let generator = Voice::open(
            "generator",
            &asking(&config.generator, self.tool_cache.as_ref()),
            &self.vitals.of(role::GENERATOR),
            |threads_alone| self.backends.generator(threads_alone),
        )?;
        let room = self.backends.room();
        let parts = (config, &self.vitals.of(role::READER));
        let reader = ReadBy::open("reader", &config.reader, parts, room.clone(), |alone| {
            self.backends.reader(alone)
        })?;
        let guesser = &config.speculator.model;
        let parts = (config, &self.vitals.of(role::SPECULATOR));
        let guesser = ReadBy::open("speculator's model", guesser, parts, room, |alone| {
            self.backends.speculator(alone)
        })?;
        Ok(Models {
            reader: reader.unwrap_or_else(|| ReadBy::Voice(generator.clone())),
            generator,
            guesser,
        })
    }

    /// Who plans and reads in target calls, the fallback behind both.
    pub(super) fn answering(
        &mut self,
        models: &Models,
        target: &LookUp,
    ) -> Result<Answering, OpenError> {
        let Models {
            generator, reader, ..
        } = models;
        let fallback = self.config.fallback.as_ref();
        let first = ReadLimits {
            // What is too long for one reader may be read whole by the other.
            shortens: !fallback.is_some_and(Model::can_read),
            ..read_limits()
        };
        let samples = match generator.model.draws_samples() {
            true => PLANS_DRAWN,
            false => 0,
        };
        let is_last = fallback.is_none();
        let drawing =
            (1..=samples).map(|sample| generator.drawing(&self.backends, sample, is_last));
        let mut answering = Answering {
            planner: generator.planner(&self.backends, is_last),
            drawing: drawing.collect(),
            reader: reader.reader(&self.backends, target, first),
            any_form: None,
        };
        if let Some(model) = fallback {
            let model = asking(model, self.tool_cache.as_ref());
            let vitals = self.vitals.of(role::FALLBACK);
            let second = Voice::open("fallback", &model, &vitals, |alone| {
                self.backends.fallback(&model, alone)
            })?;
            let plans = second.planner(&self.backends, true);
            answering.planner = Arc::new(Fallback::new(answering.planner, Arc::clone(&plans)));
            if model.can_read() {
                let reads = ReadBy::Voice(second).reader(&self.backends, target, read_limits());
                answering.reader = Arc::new(Fallback::new(answering.reader, Arc::clone(&reads)));
                answering.any_form = Some((plans, reads));
            }
        }
        Ok(answering)
    }

    /// Who writes drafts, if anybody does.
    pub(super) fn draft_writer(
        &mut self,
        generator: &Voice,
    ) -> Result<Option<Arc<dyn DraftWriter>>, OpenError> {
        let Some(by) = &self.config.drafter.writer else {
            return Ok(None);
        };
        let voice = match by {
            DraftedBy::Generator => generator.clone(),
            DraftedBy::Model(model) => {
                let vitals = self.vitals.of(role::DRAFTS);
                Voice::open("drafter's model", model, &vitals, |alone| {
                    self.backends.drafter(model, alone)
                })?
            }
        };
        let style = voice.chat_style();
        let writer = Arc::new(LlmDraftWriter::new(voice.model, style));
        let writer = self.backends.drafts(writer, &voice.backend);
        Ok(Some(Arc::new(GuardedWriter::new(writer))))
    }

    pub(super) fn guessing(
        &mut self,
        models: &Models,
        retrieval: &Retrieval,
    ) -> Result<Guessing, OpenError> {
        let config = self.config;
        let mut speculators: BTreeMap<_, Arc<dyn Speculator>> = BTreeMap::new();
        let voice = models.guessing_voice();
        if voice.style != Style::Steps {
            let from_memory = voice.recalls(&self.backends);
            speculators.insert(SpeculatorKind::Llm, from_memory);
        }
        let mut hot = None;
        if let Some(dir) = &config.speculator.hot_dir {
            let vitals = self.vitals.of(role::HOT);
            let subset = HotSubset::open(dir, &self.encoder, config.lexical_weight, &vitals);
            let subset = Arc::new(subset.map_err(OpenError::of("hot subset"))?);
            hot = Some(Arc::clone(&subset));
            let guess = self.backends.guess();
            let look_up = self.backends.retrieves(subset, &guess);
            let reader = models.guess_reader(&self.backends, &guess);
            let guesser = IndexGuesser::new(look_up, reader, config.speculator.hot_passages);
            speculators.insert(SpeculatorKind::Hot, Arc::new(guesser));
        }
        if let Some(index) = &retrieval.index {
            let guess = self.backends.guess();
            // A target that is slowed on purpose stands for one that is elsewhere. The index itself is near.
            let is_target = retrieval.passages.is_some() && config.injected_latency.is_none();
            let look_up = match is_target {
                true => self.backends.shares(&retrieval.retriever, &guess),
                false => self.backends.retrieves(Arc::clone(index), &guess),
            };
            let reader = models.guess_reader(&self.backends, &guess);
            let guesser = IndexGuesser::of_all(look_up, reader);
            speculators.insert(SpeculatorKind::Index, Arc::new(guesser));
        }
        Ok(Guessing { speculators, hot })
    }
}

impl Models {
    /// The language model that guesses.
    fn guessing_voice(&self) -> &Voice {
        match &self.guesser {
            Some(ReadBy::Voice(voice)) => voice,
            Some(ReadBy::Spans(..)) | None => &self.generator,
        }
    }

    /// Reads for a guess. It is shown the passages as the reader is, so that where both look at the same ones,
    /// a language model finds what the guess has read in its cache. Its answer is cut shorter: a guess must be
    /// there long before the observation.
    fn guess_reader(&self, backends: &Backends, guess: &LookUp) -> Arc<dyn Reader> {
        let reads = self.guesser.as_ref().unwrap_or(&self.reader);
        let hasty = ReadLimits {
            answer_tokens: HASTY_ANSWER_TOKENS,
            ..read_limits()
        };
        reads.reader(backends, guess, hasty)
    }
}

/// The same model. If it plans in steps in this process, it asks for what clients have left as soon as it has
/// written a sub-question. What any other model reads next does not continue what it has written.
pub(super) fn asking(model: &Model, tool_cache: Option<&Arc<ToolCache>>) -> Model {
    let mut model = model.clone();
    if let (Engine::Local(options), Style::Steps) = (&mut model.engine, model.style) {
        options.tools = tool_cache.cloned().map(|outputs| Tools {
            outputs,
            asked: StepPlanner::asked,
        });
    }
    model
}

fn read_limits() -> ReadLimits {
    ReadLimits {
        passages: PASSAGES_MAX.get(),
        ..ReadLimits::default()
    }
}
