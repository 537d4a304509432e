//! Identical calls of one tenant that are under way at the same time share one run.
//!
//! A run has a [`Call`] of its own, which is authoritative as soon as one of those who wait for it is. The run
//! is dropped when the last of them has gone. Its outcome is told to all who wait, and to nobody who comes
//! later. Nobody shares anything with another tenant.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::future::{BoxFuture, Either, Shared, select};
use parking_lot::Mutex;
use spechop_types::{Activity, Owned};
use tokio::sync::Notify;

use crate::{Call, Doing, panic_text};

/// The runs that are under way, by tenant and key. Those who wait hold them, so that none outlives the last of
/// those.
pub struct SharedCalls<K: Eq + Hash, O>(Arc<UnderWay<K, O>>);

type UnderWay<K, O> = Mutex<HashMap<Owned<K>, Weak<Run<K, O>>>>;

struct Run<K: Eq + Hash, O> {
    key: Owned<K>,
    under_way: Arc<UnderWay<K, O>>,
    /// Its own call, which hears of all who wait.
    call: Arc<Call>,
    outcome: Shared<BoxFuture<'static, Result<O, Panicked>>>,
    /// One of those who waited has gone.
    left: Notify,
}

/// A run that panicked, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it panicked: {0}")]
pub struct Panicked(Arc<str>);

/// A call that waits for a run. It takes along how far the run has come, even if it leaves early.
#[must_use = "it leaves the run when this is dropped"]
pub struct Waiter<'a, K: Eq + Hash, O> {
    call: &'a Call,
    run: Arc<Run<K, O>>,
    _joining: Option<Doing>,
}

impl<K: Eq + Hash, O> Default for SharedCalls<K, O> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, O> SharedCalls<K, O>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    O: Clone + Send + Sync + 'static,
{
    /// Joins the run of the call's tenant under this key, or else `start`s one. A new run is given a call of
    /// its own, and has to pass that on. If there was a run already, `start` is given back.
    ///
    /// `start` is called under the lock of all runs: it only makes the future.
    pub fn join<'a, S>(&self, key: K, call: &'a Call, start: S) -> (Waiter<'a, K, O>, Option<S>)
    where
        S: FnOnce(Call) -> BoxFuture<'static, O>,
    {
        let key = call.owned(key);
        let mut under_way = self.0.lock();
        let known = under_way.get(&key).and_then(Weak::upgrade);
        let (run, unused) = match known {
            Some(run) => (run, Some(start)),
            None => {
                let run = Arc::new(Run::new(key.clone(), &self.0, call.detached(), start));
                under_way.insert(key, Arc::downgrade(&run));
                (run, None)
            }
        };
        // A promotion is told outside the lock.
        drop(under_way);
        call.share(&run.call);
        // The work of the run is told of the call that began it.
        let joining = unused.is_some().then(|| call.doing(Activity::Join));
        let waiter = Waiter {
            call,
            run,
            _joining: joining,
        };
        (waiter, unused)
    }
}

impl<K: Eq + Hash, O> SharedCalls<K, O> {
    /// Runs under way.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, O> Run<K, O>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    O: Clone + Send + Sync + 'static,
{
    fn new<S>(key: Owned<K>, under_way: &Arc<UnderWay<K, O>>, call: Call, start: S) -> Self
    where
        S: FnOnce(Call) -> BoxFuture<'static, O>,
    {
        let coming = start(call.clone());
        let (place, all) = (key.clone(), Arc::clone(under_way));
        let outcome = async move {
            // Passed on, a panic would reach everybody who looks at the run, even while they unwind, and that
            // ends the process.
            let outcome = AssertUnwindSafe(coming).catch_unwind().await;
            // The next call begins a new run. While this one is awaited, the place is its own.
            all.lock().remove(&place);
            outcome.map_err(|panic| Panicked(panic_text(&*panic).into()))
        };
        Self {
            key,
            under_way: Arc::clone(under_way),
            call: Arc::new(call),
            outcome: outcome.boxed().shared(),
            left: Notify::new(),
        }
    }
}

impl<K: Eq + Hash, O> Drop for Run<K, O> {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock();
        // Its place may have gone to a later run.
        if let Some(run) = under_way.get(&self.key)
            && run.strong_count() == 0
        {
            under_way.remove(&self.key);
        }
        // Its work is dropped with its fields, outside the lock: that may well make a call of its own.
    }
}

impl<K: Eq + Hash, O: Clone> Waiter<'_, K, O> {
    /// The outcome of the run.
    ///
    /// # Errors
    ///
    /// The run panicked.
    pub async fn outcome(self) -> Result<O, Panicked> {
        let mut outcome = self.run.outcome.clone();
        loop {
            let left = pin!(self.run.left.notified());
            if let Either::Left((outcome, _)) = select(&mut outcome, left).await {
                return outcome;
            }
            // The one that left may have been woken to drive the run on, and this one not.
        }
    }
}

impl<K: Eq + Hash, O> Drop for Waiter<'_, K, O> {
    fn drop(&mut self) {
        let run = &self.run.call;
        self.call.advance(run.progress());
        for change in run.provider_changes() {
            self.call.changed_provider(change);
        }
        if run.was_kept() {
            self.call.serve_kept();
        }
        self.run.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
