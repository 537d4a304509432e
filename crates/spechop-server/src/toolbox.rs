//! Opens the models and indexes that the configuration names, once, and hands them to questions.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use spechop_agent::Ports;
use spechop_config::{Config, SpeculatorKind};
use spechop_ports::{
    DraftWriter, Encoder, Passages, Planner, Reader, Retriever, Rewriter, Speculator, Vitals,
};
use spechop_sched::{Backend, Cores};
use spechop_store::IndexPassages;

use crate::cores::Load;
use crate::drafts;
use crate::hot::{HotSubset, Traffic};
use crate::inject::SlowRetriever;
use crate::intact;
use crate::tool_cache::{self, ToolCache};

mod bare;
mod opening;
mod remembering;
mod voice;

pub use bare::Bare;
pub use remembering::Verified;

use self::opening::Opening;

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
    /// Outputs of tool calls that clients leave; the retriever asks it, and so does a planner in this process.
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
        let tool_cache = ToolCache::open(config.server.tool_outputs);
        let mut opening = Opening::new(config, tool_cache.clone())?;
        let retrieval = opening.retrieval()?;
        let models = opening.models()?;
        let answering = opening.answering(&models, &retrieval.target)?;
        let draft_writer = opening.draft_writer(&models.generator)?;
        let guessing = opening.guessing(&models, &retrieval)?;
        let Opening {
            encoder,
            mut backends,
            vitals,
            ..
        } = opening;
        let rewriter = models.generator.rewriter(&backends);
        let asked_for_vectors = backends.encodes(Arc::clone(&encoder));
        let (backends, cores) = backends.opened();
        let passages = retrieval.passages;
        let toolbox = Self {
            encoder: Some(asked_for_vectors),
            rewriter,
            retriever: tool_cache::asked_first(retrieval.retriever, tool_cache.as_ref()),
            tool_cache,
            drafter: drafts::open(&config.drafter, config.shared.is_some())
                .map_err(OpenError::of("drafter"))?,
            draft_writer,
            planner: answering.planner,
            drawing: answering.drawing,
            reader: answering.reader,
            any_form: answering.any_form,
            passages: passages.map(|index| Arc::new(IndexPassages::new(index)) as _),
            speculators: guessing.speculators,
            memory: None,
            traffic: traffic(config),
            hot: guessing.hot,
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

/// Counts of what answers come from, if anybody's are counted. Passages of the web and of tools are in no
/// index.
fn traffic(config: &Config) -> Option<Arc<Traffic>> {
    let is_web = matches!(
        config.target,
        spechop_config::Target::Web(_) | spechop_config::Target::Mcp(_)
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
