//! Single-flight: identical calls of one tenant that are under way at the same time share one run.
//!
//! What runs has a [`Call`] of its own, which is authoritative as soon as one of those who share it
//! is. It is dropped when the last of them has gone. Nobody shares anything with another tenant.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use spechop_ports::{Call, PortError, panic_text};
use spechop_types::{Activity, Owned, Refusal};

use crate::backend::Backend;

/// The runs that are under way, by tenant and key: nothing outlives the last of those who share it.
pub struct Flights<K, T: Clone> {
    /// Where those who join are counted.
    backend: Backend,
    under_way: Mutex<UnderWay<K, T>>,
}

struct UnderWay<K, T: Clone> {
    runs: HashMap<Owned<K>, Flight<T>>,
    launched: u64,
}

struct Flight<T: Clone> {
    number: u64,
    run: SharedOutcome<T>,
    shared: Arc<SharedCall>,
    passengers: usize,
}

/// What comes of it, for all; `None` where it failed.
type SharedOutcome<T> = Shared<BoxFuture<'static, Option<T>>>;

struct SharedCall {
    /// The run's own call, which hears of all who share it.
    call: Arc<Call>,
    /// Of the run that failed: whoever launched it takes it.
    error: Mutex<Option<PortError>>,
}

impl<K, T> Flights<K, T>
where
    K: Clone + Eq + Hash,
    T: Clone + Send + Sync + 'static,
{
    /// None under way. Those who join are counted among the backend's.
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            under_way: Mutex::new(UnderWay {
                runs: HashMap::new(),
                launched: 0,
            }),
        }
    }

    /// Shares the run of the call's tenant under this key, or `start`s it. The run is given a call
    /// of its own, and has to pass that on.
    ///
    /// # Errors
    ///
    /// Those of the run. A failure is not shared: whoever joined then makes the call alone, with
    /// `start` and its own call.
    pub async fn join(
        &self,
        key: K,
        call: &Call,
        start: impl FnOnce(Call) -> BoxFuture<'static, Result<T, PortError>>,
    ) -> Result<T, PortError> {
        let mut start = Some(start);
        let passenger = self.board(key, call, &mut start);
        // What the run does is told of the call that launched it.
        let joining = (!passenger.has_launched).then(|| call.doing(Activity::Join));
        let landed = passenger.run.clone().await;
        drop(joining);
        let error = passenger.shared.take_error(passenger.has_launched);
        // The next call with this key is a new one.
        drop(passenger);
        match (landed, error, start) {
            (Some(result), _, _) => Ok(result),
            (None, Some(error), _) => Err(error),
            (None, None, Some(start)) => start(call.clone()).await,
            // Whoever launched it took the error.
            (None, None, None) => Err(self.backend.refusal(Refusal::Preempted)),
        }
    }

    /// Runs under way.
    pub fn len(&self) -> usize {
        self.under_way.lock().runs.len()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn board<'a, S>(&'a self, key: K, call: &'a Call, start: &mut Option<S>) -> Passenger<'a, K, T>
    where
        S: FnOnce(Call) -> BoxFuture<'static, Result<T, PortError>>,
    {
        let key = call.owned(key);
        let mut under_way = self.under_way.lock();
        let passenger = match under_way.runs.get_mut(&key) {
            Some(flight) => {
                flight.passengers += 1;
                Passenger::new(self, key, flight, call, false)
            }
            None => {
                under_way.launched += 1;
                let name = self.backend.name();
                let mut flight = Flight::new(under_way.launched, name, call, start.take());
                flight.passengers = 1;
                let passenger = Passenger::new(self, key.clone(), &flight, call, true);
                under_way.runs.insert(key, flight);
                passenger
            }
        };
        drop(under_way);
        if !passenger.has_launched {
            self.backend.joined();
        }
        call.share(&passenger.shared.call);
        passenger
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    fn new<S>(number: u64, what: &str, call: &Call, start: Option<S>) -> Self
    where
        S: FnOnce(Call) -> BoxFuture<'static, Result<T, PortError>>,
    {
        let own = call.apart();
        let shared = Arc::new(SharedCall {
            call: Arc::new(own.clone()),
            error: Mutex::new(None),
        });
        let run = start.map(|start| start(own));
        let log = Arc::clone(&shared);
        let what = what.to_owned();
        let run = async move {
            // A panic is one call's failure. Passed on, it would reach everybody who only looks at the run,
            // even while they unwind, and that ends the process.
            let outcome = AssertUnwindSafe(run?).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|panic| {
                let panic = format!("it panicked: {}", panic_text(&*panic));
                Err(PortError::unavailable(what, panic))
            });
            outcome.map_err(|error| log.keep_error(error)).ok()
        };
        Self {
            number,
            run: run.boxed().shared(),
            shared,
            passengers: 0,
        }
    }
}

impl SharedCall {
    fn keep_error(&self, error: PortError) {
        *self.error.lock() = Some(error);
    }

    fn take_error(&self, has_launched: bool) -> Option<PortError> {
        if has_launched {
            self.error.lock().take()
        } else {
            None
        }
    }
}

/// One of those who share a run.
struct Passenger<'a, K: Eq + Hash, T: Clone> {
    flights: &'a Flights<K, T>,
    key: Owned<K>,
    number: u64,
    run: SharedOutcome<T>,
    shared: Arc<SharedCall>,
    /// The call of its own, which the run takes along.
    call: &'a Call,
    has_launched: bool,
}

impl<'a, K: Eq + Hash, T: Clone> Passenger<'a, K, T> {
    fn new(
        flights: &'a Flights<K, T>,
        key: Owned<K>,
        flight: &Flight<T>,
        call: &'a Call,
        has_launched: bool,
    ) -> Self {
        Self {
            flights,
            key,
            number: flight.number,
            run: flight.run.clone(),
            shared: Arc::clone(&flight.shared),
            call,
            has_launched,
        }
    }
}

impl<K: Eq + Hash, T: Clone> Drop for Passenger<'_, K, T> {
    fn drop(&mut self) {
        // The run is as far as it is for each of them.
        self.call.advance(self.shared.call.progress());
        for change in self.shared.call.provider_changes() {
            self.call.changed_provider(change);
        }
        if self.shared.call.was_kept() {
            self.call.serve_kept();
        }
        let mut under_way = self.flights.under_way.lock();
        let Some(flight) = under_way.runs.get_mut(&self.key) else {
            return;
        };
        if flight.number != self.number {
            return;
        }
        flight.passengers -= 1;
        let has_landed = flight.run.peek().is_some();
        let over = if has_landed || flight.passengers == 0 {
            under_way.runs.remove(&self.key)
        } else {
            None
        };
        // The run goes with the last of them, outside the lock: it may well make a call of its own.
        drop(under_way);
        drop(over);
    }
}
