//! Puts the faults of the configuration in front of ports, nearest to what is behind them: the scheduler,
//! retries and fallbacks meet them as they would meet real ones.

use std::sync::Arc;

use spechop_config::Chaos;
use spechop_ports::{Chaotic, DraftWriter, Faults, Planner, Reader, Retriever, Speculator};

/// Ports with faults, if the configuration wants some.
pub(crate) struct Upset(Option<Chaos>);

impl Upset {
    /// Says so loudly: nobody must take such a server for a healthy one.
    pub(crate) fn of(chaos: Option<&Chaos>) -> Self {
        if let Some(Chaos { faults, ports }) = chaos {
            tracing::warn!(
                ports = ports.join(", "),
                ?faults,
                "CHAOS: these ports fail on purpose, as [chaos] says; this server is for drills only"
            );
        }
        Self(chaos.cloned())
    }

    fn faults(&self, port: &str) -> Option<Faults> {
        let chaos = self.0.as_ref()?;
        let is_named = chaos.ports.iter().any(|name| name == port);
        is_named.then_some(chaos.faults)
    }

    pub(crate) fn planner(&self, inner: Arc<dyn Planner>) -> Arc<dyn Planner> {
        match self.faults("planner") {
            Some(faults) => Arc::new(Chaotic::new(inner, "planner", faults)),
            None => inner,
        }
    }

    pub(crate) fn retriever(&self, inner: Arc<dyn Retriever>) -> Arc<dyn Retriever> {
        match self.faults("retriever") {
            Some(faults) => Arc::new(Chaotic::new(inner, "retriever", faults)),
            None => inner,
        }
    }

    pub(crate) fn reader(&self, inner: Arc<dyn Reader>) -> Arc<dyn Reader> {
        match self.faults("reader") {
            Some(faults) => Arc::new(Chaotic::new(inner, "reader", faults)),
            None => inner,
        }
    }

    pub(crate) fn speculator(&self, inner: Arc<dyn Speculator>) -> Arc<dyn Speculator> {
        match self.faults("speculator") {
            Some(faults) => Arc::new(Chaotic::new(inner, "speculator", faults)),
            None => inner,
        }
    }

    pub(crate) fn draft_writer(&self, inner: Arc<dyn DraftWriter>) -> Arc<dyn DraftWriter> {
        match self.faults("draft_writer") {
            Some(faults) => Arc::new(Chaotic::new(inner, "draft_writer", faults)),
            None => inner,
        }
    }
}
