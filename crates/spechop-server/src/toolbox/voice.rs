//! A language model of the configuration in each role that it may have, and what reads.

use std::path::Path;
use std::sync::Arc;

use spechop_config::{Config, Engine, GUESSES_MAX, Model, PASSAGES_MAX, Style};
use spechop_embed::{ReaderOptions, Room, SpanReader};
use spechop_llm::{
    LlmPlanner, LlmReader, LlmRewriter, LlmSpeculator, LocalModel, OpenAiModel, PromptStyle,
    ReadLimits, StepPlanner, TextModel,
};
use spechop_ports::{Planner, Reader, Rewriter, Speculator, Vitals};
use spechop_sched::Backend;
use spechop_speculate::Samples;

use super::OpenError;
use crate::backends::{Backends, LookUp};

/// A model, how it is spoken to, and where its calls take their turns.
#[derive(Clone)]
pub(super) struct Voice {
    pub(super) model: Arc<dyn TextModel>,
    pub(super) style: Style,
    pub(super) backend: Backend,
}

impl Voice {
    /// Opens a model, and asks for its backend by the threads that it then has for a call that is alone.
    pub(super) fn open(
        part: &'static str,
        model: &Model,
        vitals: &Vitals,
        backend: impl FnOnce(Option<u32>) -> Backend,
    ) -> Result<Self, OpenError> {
        let style = model.style;
        let (model, threads_alone): (Arc<dyn TextModel>, _) = match &model.engine {
            Engine::Local(options) => {
                let mut options = options.clone();
                options.vitals = vitals.clone();
                let model = LocalModel::open(options).map_err(OpenError::of(part))?;
                let threads_alone = model.threads_alone();
                (Arc::new(model), Some(threads_alone))
            }
            Engine::OpenAi(endpoint) => {
                let model = OpenAiModel::new(endpoint).map_err(OpenError::of(part))?;
                (Arc::new(model), None)
            }
        };
        tracing::info!(part, model = model.name(), "model opened");
        Ok(Self {
            model,
            style,
            backend: backend(threads_alone),
        })
    }

    pub(super) fn chat_style(&self) -> PromptStyle {
        match self.style {
            Style::Chat(style) => style,
            // The configuration lets nobody read or draft who cannot.
            Style::Steps => PromptStyle::default(),
        }
    }

    /// A planner, which `is_last` if no other is asked behind it.
    pub(super) fn planner(&self, backends: &Backends, is_last: bool) -> Arc<dyn Planner> {
        self.drawing(backends, 0, is_last)
    }

    /// A planner that draws its own plans; sample 0 plans what is likeliest.
    pub(super) fn drawing(
        &self,
        backends: &Backends,
        sample: u32,
        is_last: bool,
    ) -> Arc<dyn Planner> {
        let model = Arc::clone(&self.model);
        let planner: Arc<dyn Planner> = match self.style {
            Style::Chat(style) => {
                let planner = LlmPlanner::new(model, style);
                Arc::new(planner.of_sample(sample).as_last(is_last))
            }
            Style::Steps => {
                let planner = StepPlanner::new(model);
                Arc::new(planner.of_sample(sample).as_last(is_last))
            }
        };
        backends.plans(planner, &self.backend)
    }

    /// A speculator with a sample for each guess that may be asked for. A model that draws no samples guesses
    /// once.
    pub(super) fn recalls(&self, backends: &Backends) -> Arc<dyn Speculator> {
        let samples = match self.model.draws_samples() {
            true => GUESSES_MAX,
            false => 1,
        };
        let sample = |sample| {
            let guesser = LlmSpeculator::new(Arc::clone(&self.model));
            Arc::new(guesser.of_sample(sample)) as Arc<dyn Speculator>
        };
        let scheduled = backends.speculates(&self.backend);
        Arc::new(Samples::new(
            (0..samples).map(sample).map(scheduled).collect(),
        ))
    }

    /// A model that was trained to plan, and nothing else, rewrites nothing.
    pub(super) fn rewriter(&self, backends: &Backends) -> Option<Arc<dyn Rewriter>> {
        match self.style {
            Style::Chat(PromptStyle::Tagged) => {
                let rewriter = Arc::new(LlmRewriter::new(Arc::clone(&self.model)));
                Some(backends.rewrites(rewriter, &self.backend))
            }
            Style::Chat(PromptStyle::Corag) | Style::Steps => None,
        }
    }
}

/// What reads.
pub(super) enum ReadBy {
    Voice(Voice),
    Spans(Arc<SpanReader>, Backend),
}

impl ReadBy {
    /// Opens a section's own reader; `None` if it has none. Only then it needs the backend.
    pub(super) fn open(
        part: &'static str,
        reader: &spechop_config::Reader,
        (config, vitals): (&Config, &Vitals),
        room: Option<Room>,
        backend: impl FnOnce(Option<u32>) -> Backend,
    ) -> Result<Option<Self>, OpenError> {
        Ok(match reader {
            spechop_config::Reader::Generator => None,
            spechop_config::Reader::Model(model) => {
                Some(Self::Voice(Voice::open(part, model, vitals, backend)?))
            }
            spechop_config::Reader::Spans { dir, threads } => {
                let mut options = ReaderOptions::new(&config.encoder.runtime_library);
                options.threads = *threads;
                options.room = room;
                options.vitals = vitals.clone();
                let reader = span_reader(part, dir, options)?;
                Some(Self::Spans(Arc::new(reader), backend(None)))
            }
        })
    }

    /// The reader of such a look-up. Only a language model has limits.
    pub(super) fn reader(
        &self,
        backends: &Backends,
        of: &LookUp,
        limits: ReadLimits,
    ) -> Arc<dyn Reader> {
        let voice = match self {
            Self::Spans(reader, backend) => {
                return backends.reads(Arc::clone(reader) as Arc<dyn Reader>, backend, of);
            }
            Self::Voice(voice) => voice,
        };
        let style = voice.chat_style();
        let reader = Arc::new(LlmReader::new(Arc::clone(&voice.model), style, limits));
        backends.reads(reader, &voice.backend, of)
    }
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
