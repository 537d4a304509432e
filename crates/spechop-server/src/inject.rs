//! Latency added to every look-up on purpose, so that a small machine with a fast index can show
//! what speculation does for a slow tool. Whoever sees the times is told.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::{Call, PortError, Retriever};
use spechop_sim::InjectedLatency;
use spechop_types::{Activity, Passage};

/// A [`Retriever`] that waits before it looks up.
///
/// The same look-up waits the same at every k, in every run.
pub(crate) struct SlowRetriever {
    inner: Arc<dyn Retriever>,
    latency: InjectedLatency,
}

impl SlowRetriever {
    pub(crate) fn new(inner: Arc<dyn Retriever>, latency: InjectedLatency) -> Self {
        Self { inner, latency }
    }
}

#[async_trait]
impl Retriever for SlowRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let wait_ms = self.latency.of(query);
        tracing::debug!(injected_ms = wait_ms, "injected latency");
        let wait = Duration::try_from_secs_f64(wait_ms / 1000.0).unwrap_or_default();
        let waiting = call.doing(Activity::Injected);
        tokio::time::sleep(wait).await;
        drop(waiting);
        self.inner.retrieve(call, query, limit).await
    }

    async fn warm(&self, call: &Call, query: &str) -> Result<(), PortError> {
        self.inner.warm(call, query).await
    }
}
