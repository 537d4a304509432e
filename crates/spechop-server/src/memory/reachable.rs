//! Shared entries that may be out of reach: said once, and then left alone for a while.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_ports::{Call, PortError, Remembered, SharedEntries, Version};
use spechop_types::{Owned, Tenant};
use tokio::time::Instant;

use crate::status::chain;

/// How long nobody is asked after a failure. Otherwise every guess would wait for a server that does not
/// answer.
const PAUSE: Duration = Duration::from_secs(5);

/// Asks entries that are elsewhere. After a failure the log says so once, and for five seconds every call
/// fails at once. When they answer again, the log says that, too.
pub(crate) struct Reachable {
    inner: Arc<dyn SharedEntries>,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// Nobody is asked before.
    paused_until: Option<Instant>,
    /// Why the last call failed, if it did.
    failed: Option<String>,
}

impl Reachable {
    pub(crate) fn new(inner: Arc<dyn SharedEntries>) -> Self {
        Self {
            inner,
            line: Mutex::default(),
        }
    }

    async fn ask<T>(
        &self,
        call: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        if let Some(error) = self.line.lock().pause() {
            return Err(error);
        }
        let answer = call.await;
        self.line.lock().hears(answer.as_ref().err());
        answer
    }
}

impl Line {
    fn pause(&self) -> Option<PortError> {
        let is_paused = self.paused_until? > Instant::now();
        let why = self.failed.clone().unwrap_or_default();
        is_paused.then(|| PortError::unavailable("the shared memory", why))
    }

    fn hears(&mut self, error: Option<&PortError>) {
        let Some(error) = error else {
            self.paused_until = None;
            if self.failed.take().is_some() {
                tracing::info!("the shared memory answers again");
            }
            return;
        };
        self.paused_until = Some(Instant::now() + PAUSE);
        let is_first = self.failed.is_none();
        let reason = chain(error);
        if is_first {
            tracing::warn!(
                reason,
                "the shared memory cannot be asked: questions go without its guesses, and what is \
                 verified waits"
            );
        }
        self.failed = Some(reason);
    }
}

#[async_trait]
impl SharedEntries for Reachable {
    async fn find(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
    ) -> Result<Option<(Remembered, Version)>, PortError> {
        self.ask(self.inner.find(call, key)).await
    }

    async fn near(
        &self,
        call: &Call,
        tenant: &Tenant,
        vector: &[i8],
        least: f32,
        most: NonZeroUsize,
    ) -> Result<Vec<(f32, Remembered)>, PortError> {
        let near = self.inner.near(call, tenant, vector, least, most);
        self.ask(near).await
    }

    async fn replace(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
        entry: &Remembered,
        before: Option<&Version>,
    ) -> Result<bool, PortError> {
        let replaced = self.inner.replace(call, key, entry, before);
        self.ask(replaced).await
    }

    async fn trim(&self, call: &Call, most: NonZeroUsize) -> Result<u64, PortError> {
        self.ask(self.inner.trim(call, most)).await
    }
}

#[cfg(test)]
mod tests {
    use spechop_testkit::SharedMap;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_nobody_is_asked_for_a_while() {
        let entries = SharedMap::default();
        let line = Reachable::new(Arc::new(entries.clone()));
        let key = Owned::new(&Tenant::default(), "k".into());
        let find = async || line.find(&Call::authoritative(), &key).await.is_ok();
        assert!(find().await);
        entries.set_down(true);
        for asked in [2, 2, 2] {
            assert!(!find().await);
            assert_eq!(entries.asked(), asked);
        }
        tokio::time::advance(PAUSE).await;
        assert!(!find().await);
        assert_eq!(entries.asked(), 3);
        entries.set_down(false);
        assert!(!find().await, "not yet");
        tokio::time::advance(PAUSE).await;
        assert!(find().await && find().await);
        assert_eq!(entries.asked(), 5);
    }

    #[tokio::test]
    async fn keeps_the_contract() {
        let line = Reachable::new(Arc::new(SharedMap::default()));
        spechop_ports::contract::shared_entries(&line).await;
    }
}
