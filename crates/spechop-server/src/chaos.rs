//! Puts the faults of the configuration in front of ports, nearest to what is behind them: the scheduler,
//! retries and fallbacks meet them as they would meet real ones.

use std::sync::Arc;

use spechop_config::Chaos;
use spechop_ports::{
    Chaotic, DraftWriter, Faults, Planner, Reader, Retriever, Rewriter, Speculator,
};

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

    pub(crate) fn rewriter(&self, inner: Arc<dyn Rewriter>) -> Arc<dyn Rewriter> {
        match self.faults("rewriter") {
            Some(faults) => Arc::new(Chaotic::new(inner, "rewriter", faults)),
            None => inner,
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use spechop_ports::{Call, PortError, RewriteRequest, Rewritten};
    use spechop_types::Tokens;

    use super::*;
    use crate::backends::Backends;
    use crate::server_state::scripted;

    /// Says the question again.
    struct Echo;

    #[async_trait]
    impl Rewriter for Echo {
        async fn rewrite(&self, _: &Call, request: RewriteRequest) -> Result<Rewritten, PortError> {
            Ok(Rewritten {
                question: request.question,
                tokens: Tokens::default(),
            })
        }
    }

    /// The ports that a server of scripted ports has are seen from outside (`tests/chaos.rs`).
    #[tokio::test]
    async fn a_rewriter_has_faults_if_it_is_named_or_none_is() {
        for (ports, fails) in [
            ("ports = [\"rewriter\"]", true),
            ("ports = [\"reader\"]", false),
            ("", true),
        ] {
            let config = scripted::config(&format!("[chaos]\nerror = 1.0\n{ports}"));
            let mut backends = Backends::new(&config);
            let generator = backends.generator(None);
            let rewriter = backends.rewrites(Arc::new(Echo), &generator);
            let request = RewriteRequest {
                turns: Vec::new(),
                question: "And where?".into(),
            };
            let rewritten = rewriter.rewrite(&Call::authoritative(), request).await;
            assert_eq!(rewritten.is_err(), fails, "{ports}: {rewritten:?}");
        }
    }
}
