//! An encoder that remembers.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_types::OwnedCache;

use crate::{Call, Encoded, Encoder, PortError, TextKind};

/// Remembers the vectors of the last few queries: the index, its hot subset and a look-up that was only
/// warmed up ask for the same ones.
pub struct RecentQueries {
    inner: Arc<dyn Encoder>,
    recent: Mutex<OwnedCache<Box<str>, Arc<[f32]>>>,
}

impl RecentQueries {
    /// The last `most` queries of `inner`.
    pub fn new(inner: Arc<dyn Encoder>, most: NonZeroUsize) -> Self {
        Self {
            inner,
            recent: Mutex::new(OwnedCache::new(most)),
        }
    }
}

#[async_trait]
impl Encoder for RecentQueries {
    fn fingerprint(&self) -> &str {
        self.inner.fingerprint()
    }

    fn width(&self) -> usize {
        self.inner.width()
    }

    async fn encode_query(&self, call: &Call, text: &str) -> Result<Vec<f32>, PortError> {
        let query = call.owned(text.into());
        let known = self
            .recent
            .lock()
            .get(&query)
            .map(|vector| Arc::clone(vector));
        if let Some(vector) = known {
            return Ok(vector.to_vec());
        }
        let vector = self.inner.encode_query(call, text).await?;
        self.recent.lock().insert(query, vector.as_slice().into());
        Ok(vector)
    }

    /// Nothing of it is remembered: it belongs to no question.
    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        self.inner.encode(call, kind, texts).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::{Context, Poll, Waker};

    use spechop_types::{Chance, Tenant};

    use super::*;
    use crate::Lane;

    /// As wide as it has been asked often.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    #[async_trait]
    impl Encoder for Counting {
        fn fingerprint(&self) -> &'static str {
            "counting"
        }

        fn width(&self) -> usize {
            1
        }

        async fn encode(
            &self,
            _: &Call,
            _: TextKind,
            texts: Vec<String>,
        ) -> Result<Encoded, PortError> {
            let asked = self.0.fetch_add(1, SeqCst);
            Ok(Encoded {
                vectors: vec![vec![0.0; asked]; texts.len()],
                tokens: None,
            })
        }
    }

    #[test]
    fn a_query_is_encoded_once_for_each_tenant_until_it_is_forgotten() {
        let inner = Arc::new(Counting::default());
        let two = NonZeroUsize::MIN.saturating_add(1);
        let recent = RecentQueries::new(inner.clone(), two);
        let ask = |tenant: &str, text: &str| {
            let tenant = Tenant::new(tenant).unwrap_or_default();
            let call = Call::of(tenant, Lane::Authoritative, Chance::CERTAIN);
            let asking = pin!(recent.encode_query(&call, text));
            match Future::poll(asking, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(vector)) => vector.len(),
                _ => usize::MAX,
            }
        };
        assert_eq!([ask("a", "x"), ask("a", "x"), ask("b", "x")], [0, 0, 1]);
        // Of the two that are known, the one that was asked last stays.
        assert_eq!([ask("a", "x"), ask("a", "y")], [0, 2]);
        assert_eq!([ask("a", "x"), ask("b", "x"), ask("a", "y")], [0, 3, 4]);
        assert_eq!(inner.0.load(SeqCst), 5);
    }

    #[tokio::test]
    async fn a_tenant_finds_nothing_of_another() {
        let inner = Arc::new(Counting::default());
        let recent = RecentQueries::new(inner.clone(), NonZeroUsize::MIN.saturating_add(9));
        crate::contract::cache(async |tenant| {
            let before = inner.0.load(SeqCst);
            let call = Call::of(tenant, Lane::Authoritative, Chance::CERTAIN);
            recent.encode_query(&call, "x").await.unwrap();
            (inner.0.load(SeqCst) - before) as u64
        })
        .await;
    }
}
