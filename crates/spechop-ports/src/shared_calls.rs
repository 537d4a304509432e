//! Identical calls of one tenant that are under way at the same time share one run.
//!
//! A run has a [`Call`] of its own, which is authoritative as soon as one of those who wait for it is, and which
//! holds the [`Life`] of each of them. The run is dropped when the last of them has gone. Its outcome is told to
//! all who wait, and to nobody who comes later. Nobody shares anything with another tenant.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, Either, FutureExt, Shared, TryFutureExt, select};
use parking_lot::Mutex;
use spechop_types::{Activity, Owned};
use tokio::sync::Notify;

use crate::{Call, Doing, Life, panic_text};

/// The runs that are under way, by tenant and key. Those who wait hold them, so that none outlives the last of
/// those.
pub struct SharedCalls<K, O>(Mutex<Runs<K, O>>);

/// A run that is over leaves its place until it is swept: so a call looks for its key once. A key should
/// therefore hold nothing that others wait for the end of.
struct Runs<K, O> {
    by_key: HashMap<Owned<K>, Weak<Run<O>>>,
    /// So many places call for a sweep.
    sweep_at: usize,
}

/// Fewest places that are swept.
const SWEEP_MIN: usize = 64;

struct Run<O> {
    /// Its own call, which hears of all who wait.
    call: Arc<Call>,
    outcome: Shared<BoxFuture<'static, Result<O, Panicked>>>,
    /// One of those who waited has gone.
    left: Notify,
    /// Held by its call, too.
    lives: Arc<Mutex<Lives>>,
}

/// The lives of those who wait for a run: whatever works for it works for their questions.
#[derive(Default)]
struct Lives {
    waiting: Vec<Option<Life>>,
    /// Nobody waits. The life of the last who did stays, since work may not end with the wait for it.
    is_forsaken: bool,
}

impl Lives {
    /// One more waits. What is given back is over here, and to be dropped outside the lock.
    fn join(&mut self, life: Option<&Life>) -> Option<Life> {
        let was_forsaken = std::mem::take(&mut self.is_forsaken);
        let last = was_forsaken.then(|| self.waiting.pop());
        self.waiting.push(life.cloned());
        last.flatten().flatten()
    }

    /// One of those who waited has gone. The same holds of what is given back.
    fn leave(&mut self, life: Option<&Life>) -> Option<Life> {
        self.is_forsaken = self.waiting.len() == 1;
        if self.is_forsaken {
            return None;
        }
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|waiting| waiting.as_ref() == life)?;
        self.waiting.swap_remove(at)
    }
}

/// A run that panicked, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it panicked: {0}")]
pub struct Panicked(Arc<str>);

/// A call that waits for a run. It takes along how far the run has come, even if it leaves early.
#[must_use = "it leaves the run when this is dropped"]
pub struct Waiter<'a, O> {
    call: &'a Call,
    run: Arc<Run<O>>,
    _joining: Option<Doing>,
}

impl<K, O> Default for SharedCalls<K, O> {
    fn default() -> Self {
        Self(Mutex::new(Runs {
            by_key: HashMap::new(),
            sweep_at: SWEEP_MIN,
        }))
    }
}

impl<K, O> SharedCalls<K, O>
where
    K: Eq + Hash,
    O: Clone + Send + Sync + 'static,
{
    /// Joins the run of the call's tenant under this key, or else `start`s one. A new run is given a call of
    /// its own, and has to pass that on. If there was a run already, `start` is given back.
    ///
    /// `start` is called under the lock of all runs: it only makes the future.
    pub fn join<'a, S, F>(&self, key: K, call: &'a Call, start: S) -> (Waiter<'a, O>, Option<S>)
    where
        S: FnOnce(Call) -> F,
        F: Future<Output = O> + Send + 'static,
    {
        let mut runs = self.0.lock();
        let place = runs.place(call.owned(key));
        let (run, unused, over) = match place.upgrade() {
            Some(run) if !run.is_over() => (run, Some(start), None),
            over => {
                let run = Arc::new(Run::new(call, start));
                *place = Arc::downgrade(&run);
                (run, None, over)
            }
        };
        // A promotion is told outside the lock, and a run is dropped outside it: its work may well make a call
        // of its own then.
        drop(runs);
        drop(over);
        call.share(&run.call);
        let _over = run.lives.lock().join(call.life());
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

impl<K, O: Clone> SharedCalls<K, O> {
    /// Runs under way.
    pub fn len(&self) -> usize {
        let runs = self.0.lock();
        let known: Vec<_> = runs.by_key.values().filter_map(Weak::upgrade).collect();
        drop(runs);
        known.iter().filter(|run| !run.is_over()).count()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Eq + Hash, O> Runs<K, O> {
    fn place(&mut self, key: Owned<K>) -> &mut Weak<Run<O>> {
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, run| run.strong_count() > 0);
            self.sweep_at = SWEEP_MIN.max(2 * self.by_key.len());
        }
        self.by_key.entry(key).or_default()
    }
}

impl<O: Clone + Send + Sync + 'static> Run<O> {
    /// `begins` is the call that begins it.
    fn new<S, F>(begins: &Call, start: S) -> Self
    where
        S: FnOnce(Call) -> F,
        F: Future<Output = O> + Send + 'static,
    {
        let lives: Arc<Mutex<Lives>> = Arc::default();
        let call = begins.detached().within(Life::of(lives.clone()));
        // Passed on, a panic would reach everybody who looks at the run, even while they unwind, and that ends
        // the process.
        let outcome = AssertUnwindSafe(start(call.clone()))
            .catch_unwind()
            .map_err(|panic| Panicked(panic_text(&*panic).into()));
        Self {
            call: Arc::new(call),
            outcome: outcome.boxed().shared(),
            left: Notify::new(),
            lives,
        }
    }
}

impl<O: Clone> Run<O> {
    /// The next call begins a new one, even if somebody still holds this one.
    fn is_over(&self) -> bool {
        self.outcome.peek().is_some()
    }
}

impl<O: Clone> Waiter<'_, O> {
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

impl<O> Drop for Waiter<'_, O> {
    fn drop(&mut self) {
        let run = &self.run.call;
        self.call.advance(run.progress());
        for change in run.provider_changes() {
            self.call.changed_provider(change);
        }
        if run.was_kept() {
            self.call.serve_kept();
        }
        let _over = self.run.lives.lock().leave(self.call.life());
        self.run.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
