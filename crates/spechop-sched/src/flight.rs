//! Single-flight: identical calls of one tenant that are under way at the same time share one run
//! ([`SharedCalls`]).

use std::hash::Hash;
use std::sync::Arc;

use futures::TryFutureExt;
use parking_lot::Mutex;
use spechop_ports::{Call, PortError, SharedCalls};
use spechop_types::Refusal;

use crate::backend::Backend;

/// The runs that are under way, by tenant and key. Their results are shared, and their failures are not.
pub struct Flights<K: Eq + Hash, T> {
    /// Where those who join are counted.
    backend: Backend,
    calls: SharedCalls<K, Result<T, Failed>>,
}

/// Why a run failed, for the call that began it.
type Failed = Arc<Mutex<Option<PortError>>>;

impl<K, T> Flights<K, T>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// None under way. Those who join are counted among the backend's.
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            calls: SharedCalls::default(),
        }
    }

    /// Shares the run of the call's tenant under this key, or `start`s it. The run is given a call
    /// of its own, and has to pass that on.
    ///
    /// # Errors
    ///
    /// Those of the run. A failure is not shared: the others then make the call alone, each with `start` and
    /// its own call.
    pub async fn join<F>(
        &self,
        key: K,
        call: &Call,
        start: impl FnOnce(Call) -> F,
    ) -> Result<T, PortError>
    where
        F: Future<Output = Result<T, PortError>> + Send + 'static,
    {
        let begin = |call: Call| start(call).map_err(|error| Arc::new(Mutex::new(Some(error))));
        let (waiter, unused) = self.calls.join(key, call, begin);
        if unused.is_some() {
            self.backend.joined();
        }
        let outcome = match (waiter.outcome().await, unused) {
            (Ok(Err(_)) | Err(_), Some(begin)) => Ok(begin(call.clone()).await),
            (outcome, _) => outcome,
        };
        match outcome {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(failed)) => {
                let error = failed.lock().take();
                Err(error.unwrap_or_else(|| self.backend.refusal(Refusal::Preempted)))
            }
            Err(panic) => Err(PortError::unavailable(self.backend.name(), panic)),
        }
    }

    /// Runs under way.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}
