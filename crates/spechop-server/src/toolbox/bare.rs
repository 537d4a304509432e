//! A toolbox over ports that somebody else has made.

use std::collections::BTreeMap;
use std::sync::Arc;

use spechop_config::{Config, SpeculatorKind};
use spechop_ports::{Encoder, Planner, Reader, Retriever, Rewriter, Speculator, Vitals};
use spechop_sched::{Backend, Kind, Limits, Scheduled};

use super::{Toolbox, slowed, traffic};
use crate::backends::Backends;
use crate::tool_cache::{self, ToolCache};

/// Ports whose calls take no turns yet.
pub struct Bare {
    /// Writes sub-questions and answers.
    pub planner: Arc<dyn Planner>,
    /// Each draws plans of its own, for questions that are asked with high effort.
    pub drawing: Vec<Arc<dyn Planner>>,
    /// Reads passages.
    pub reader: Arc<dyn Reader>,
    /// Finds passages.
    pub retriever: Arc<dyn Retriever>,
    /// Guess.
    pub speculators: BTreeMap<SpeculatorKind, Arc<dyn Speculator>>,
}

impl Toolbox {
    /// With these ports, whatever the configuration says about models and indexes; their calls take
    /// their turns as it says, and look-ups are slowed as it says.
    pub fn of(bare: Bare, config: &Config) -> Self {
        let mut backends = Backends::elsewhere(config);
        let (generator, reader, guesser) = (
            backends.generator(None),
            backends.reader(None),
            backends.speculator(None),
        );
        let target = backends.target();
        let speculators = bare
            .speculators
            .into_iter()
            .map(|(kind, guesses)| (kind, backends.speculates(&guesser)(guesses)))
            .collect();
        let planner = backends.plans(bare.planner, &generator);
        let drawing = bare.drawing.into_iter();
        let drawing = drawing.map(|drawing| backends.plans(drawing, &generator));
        let drawing = drawing.collect();
        let reader = backends.reads(bare.reader, &reader, &target);
        let retriever = backends.retrieves(slowed(bare.retriever, config), &target);
        let (backends, cores) = backends.opened();
        let tool_cache = ToolCache::open(config.server.tool_outputs);
        Self {
            encoder: None,
            rewriter: None,
            retriever: tool_cache::asked_first(retriever, tool_cache.as_ref()),
            tool_cache,
            drafter: None,
            draft_writer: None,
            planner,
            drawing,
            reader,
            any_form: None,
            passages: None,
            speculators,
            memory: None,
            traffic: traffic(config),
            hot: None,
            backends,
            cores,
            vitals: Vitals::default(),
        }
    }

    /// With somebody who plans and reads for questions that the others were not made for.
    #[must_use]
    pub fn knowing_any_form(
        mut self,
        planner: Arc<dyn Planner>,
        reader: Arc<dyn Reader>,
        config: &Config,
    ) -> Self {
        let backend = self.backend("fallback", config.scheduler.generator);
        let rule = |port| config.scheduler.eligibility.of(port);
        let planner = Scheduled::new(planner, &backend, rule("planner"));
        let reader = Scheduled::new(reader, &backend, rule("reader"));
        self.any_form = Some((Arc::new(planner), Arc::new(reader)));
        self
    }

    /// With an encoder that clients may ask for vectors. Its calls take their turns where look-ups do.
    #[must_use]
    pub fn encoding(mut self, encoder: Arc<dyn Encoder>, config: &Config) -> Self {
        let rule = config.scheduler.eligibility.of("retriever");
        let backend = self.backend("retriever", config.scheduler.retriever);
        self.encoder = Some(Arc::new(Scheduled::new(encoder, &backend, rule)));
        self
    }

    /// With one that resolves the questions of conversations. Its calls take their turns where segments do.
    #[must_use]
    pub fn rewriting(mut self, rewriter: Arc<dyn Rewriter>, config: &Config) -> Self {
        let rule = config.scheduler.eligibility.of("planner");
        let backend = self.backend("generator", config.scheduler.generator);
        self.rewriter = Some(Arc::new(Scheduled::new(rewriter, &backend, rule)));
        self
    }

    fn backend(&mut self, name: &str, limits: Limits) -> Backend {
        let known = self.backends.iter().find(|backend| backend.name() == name);
        if let Some(known) = known {
            return known.of_kind(Kind::default());
        }
        let backend = Backend::new(name, limits);
        self.backends.push(backend.clone());
        backend
    }
}
