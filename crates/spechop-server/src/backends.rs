//! The backends: which one schedules the calls of which port.
//!
//! Ports that share a model share its backend: a generator that also reads and guesses is one backend.

use std::sync::Arc;

use spechop_ports::{Planner, Reader, Retriever, Speculator};
use spechop_sched::{
    Backend, Eligibility, ScheduledPlanner, ScheduledReader, ScheduledRetriever,
    ScheduledSpeculator,
};

use crate::config::{Config, Model, Scheduler};

/// Makes backends as they are asked for, and puts them in front of ports.
pub(crate) struct Backends {
    limits: Scheduler,
    opened: Vec<Backend>,
}

impl Backends {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            limits: config.scheduler.clone(),
            opened: Vec::new(),
        }
    }

    pub(crate) fn generator(&mut self) -> Backend {
        self.backend("generator", self.limits.generator)
    }

    pub(crate) fn reader(&mut self) -> Backend {
        self.backend("reader", self.limits.reader)
    }

    pub(crate) fn speculator(&mut self) -> Backend {
        self.backend("speculator", self.limits.speculator)
    }

    /// The second choice takes what its own engine takes.
    pub(crate) fn fallback(&mut self, model: &Model) -> Backend {
        self.backend("fallback", crate::config::lanes_of(model))
    }

    /// The index and its hot subset share the encoder.
    pub(crate) fn retriever(&mut self, inner: Arc<dyn Retriever>) -> Arc<dyn Retriever> {
        let backend = self.backend("retriever", self.limits.retriever);
        let rule = self.policy().of("retriever");
        Arc::new(ScheduledRetriever::new(inner, &backend, rule))
    }

    pub(crate) fn plans(&self, inner: Arc<dyn Planner>, backend: &Backend) -> Arc<dyn Planner> {
        let rule = self.policy().of("planner");
        Arc::new(ScheduledPlanner::new(inner, backend, rule))
    }

    pub(crate) fn reads(&self, inner: Arc<dyn Reader>, backend: &Backend) -> Arc<dyn Reader> {
        let rule = self.policy().of("reader");
        Arc::new(ScheduledReader::new(inner, backend, rule))
    }

    pub(crate) fn speculates(
        &self,
        inner: Arc<dyn Speculator>,
        backend: &Backend,
    ) -> Arc<dyn Speculator> {
        let rule = self.policy().of("speculator");
        Arc::new(ScheduledSpeculator::new(inner, backend, rule))
    }

    /// Every backend that was asked for.
    pub(crate) fn opened(self) -> Vec<Backend> {
        self.opened
    }

    fn policy(&self) -> &Eligibility {
        &self.limits.eligibility
    }

    fn backend(&mut self, name: &str, limits: spechop_sched::Limits) -> Backend {
        if let Some(known) = self.opened.iter().find(|backend| backend.name() == name) {
            return known.clone();
        }
        let backend = Backend::new(name, limits);
        self.opened.push(backend.clone());
        backend
    }
}
