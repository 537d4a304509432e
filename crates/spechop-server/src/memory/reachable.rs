//! Shared entries that may be out of reach: said once, and then left alone for a while.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::{Call, PortError, Remembered, SharedEntries, Sparingly, Version};
use spechop_types::{Owned, Tenant, with_causes};

use crate::outage::Outage;

/// How long nobody is asked after a failure. Otherwise every guess would wait for a server that does not
/// answer.
const PAUSE: Duration = Duration::from_secs(5);

/// Asks entries that are elsewhere. After a failure the log says so once, and for five seconds every call
/// fails at once. When they answer again, the log says that, too. An entry that cannot be read is no such
/// failure: nobody waits for it.
pub(crate) struct Reachable {
    inner: Arc<dyn SharedEntries>,
    outage: Outage,
    warnings: Sparingly,
}

impl Reachable {
    pub(crate) fn new(inner: Arc<dyn SharedEntries>) -> Self {
        Self {
            inner,
            outage: Outage::with_pause(PAUSE),
            warnings: Sparingly::default(),
        }
    }

    async fn ask<T>(
        &self,
        call: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        if let Some(why) = self.outage.paused() {
            return Err(PortError::unavailable("the shared memory", why));
        }
        let answer = call.await;
        if let Err(error @ PortError::Malformed { .. }) = &answer
            && let Some(left_out) = self.warnings.turn("malformed")
        {
            let reason = with_causes(error);
            tracing::warn!(
                reason,
                left_out,
                "what the shared memory holds cannot be read"
            );
        }
        match &answer {
            Ok(_) | Err(PortError::Malformed { .. }) => {
                if self.outage.works() {
                    tracing::info!("the shared memory answers again");
                }
            }
            Err(error) => {
                let reason = with_causes(error);
                if self.outage.fails(&reason).is_none() {
                    tracing::warn!(
                        reason,
                        "the shared memory cannot be asked: questions go without its guesses, and \
                         what is verified waits"
                    );
                }
            }
        }
        answer
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

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_cannot_be_read_keeps_nobody_from_the_others() {
        let entries = SharedMap::default();
        let line = Reachable::new(Arc::new(entries.clone()));
        let damaged = PortError::malformed("an entry", "it has no version");
        assert!(line.ask(async { Err::<(), _>(damaged) }).await.is_err());
        let key = Owned::new(&Tenant::default(), "k".into());
        assert!(line.find(&Call::authoritative(), &key).await.is_ok());
        assert_eq!(entries.asked(), 1);
    }

    #[tokio::test]
    async fn keeps_the_contract() {
        let line = Reachable::new(Arc::new(SharedMap::default()));
        spechop_ports::contract::shared_entries(&line).await;
    }
}
