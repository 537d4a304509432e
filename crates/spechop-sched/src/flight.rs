//! Single-flight: identical calls of one tenant that are under way at the same time share one run.
//!
//! What runs has a [`Call`] of its own, which is authoritative as soon as one of those who share it
//! is. It is dropped when the last of them has gone. Nobody shares anything with another tenant.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use spechop_ports::{Call, Lane, PortError, Seat};
use spechop_types::Tenant;

use crate::backend::Backend;

/// The runs that are under way, by tenant and key.
pub struct Flights<K, T: Clone> {
    /// Where those who join are counted.
    backend: Backend,
    aloft: Mutex<Aloft<K, T>>,
}

struct Aloft<K, T: Clone> {
    runs: HashMap<(Tenant, K), Flight<T>>,
    launched: u64,
}

struct Flight<T: Clone> {
    number: u64,
    run: Run<T>,
    cabin: Arc<Cabin>,
    passengers: usize,
}

/// What comes of it, for all; `None` where it failed.
type Run<T> = Shared<BoxFuture<'static, Option<T>>>;

/// Where all who share a run sit.
struct Cabin {
    /// The run's own call.
    call: Call,
    /// Of the run that failed: whoever launched it takes it.
    error: Mutex<Option<PortError>>,
}

impl Seat for Cabin {
    fn promoted(&self) {
        self.call.promote();
    }

    fn pushed_back(&self) {
        self.call.push_back();
    }
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
            aloft: Mutex::new(Aloft {
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
        let place = self.board(key, call, &mut start);
        let landed = place.run.clone().await;
        let error = place.cabin.take_error(place.has_launched);
        // The next call with this key is a new one.
        drop(place);
        match (landed, error, start) {
            (Some(result), _, _) => Ok(result),
            (None, Some(error), _) => Err(error),
            (None, None, Some(start)) => start(call.clone()).await,
            // Whoever launched it took the error.
            (None, None, None) => Err(self.backend.preempted()),
        }
    }

    /// Runs under way.
    pub fn len(&self) -> usize {
        self.lock().runs.len()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn board<S>(&self, key: K, call: &Call, start: &mut Option<S>) -> Place<'_, K, T>
    where
        S: FnOnce(Call) -> BoxFuture<'static, Result<T, PortError>>,
    {
        let key = (call.tenant().clone(), key);
        let mut aloft = self.lock();
        let place = match aloft.runs.get_mut(&key) {
            Some(flight) => {
                flight.passengers += 1;
                Place::new(self, key, flight, false)
            }
            None => {
                aloft.launched += 1;
                let mut flight = Flight::new(aloft.launched, call, start.take());
                flight.passengers = 1;
                let place = Place::new(self, key.clone(), &flight, true);
                aloft.runs.insert(key, flight);
                place
            }
        };
        drop(aloft);
        if !place.has_launched {
            self.backend.joined();
        }
        let seat: Weak<Cabin> = Arc::downgrade(&place.cabin);
        call.sit(seat);
        // A promotion before it sat was told to nobody.
        if call.lane() == Lane::Authoritative {
            place.cabin.call.promote();
        }
        place
    }
}

impl<K, T: Clone> Flights<K, T> {
    fn lock(&self) -> MutexGuard<'_, Aloft<K, T>> {
        // Nothing panics while it is held.
        self.aloft.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    fn new<S>(number: u64, call: &Call, start: Option<S>) -> Self
    where
        S: FnOnce(Call) -> BoxFuture<'static, Result<T, PortError>>,
    {
        let own = Call::of(call.tenant().clone(), call.lane(), call.chance());
        let cabin = Arc::new(Cabin {
            call: own.clone(),
            error: Mutex::new(None),
        });
        let run = start.map(|start| start(own));
        let log = Arc::clone(&cabin);
        let run = async move {
            let outcome = run?.await;
            outcome.map_err(|error| log.keep_error(error)).ok()
        };
        Self {
            number,
            run: run.boxed().shared(),
            cabin,
            passengers: 0,
        }
    }
}

impl Cabin {
    fn keep_error(&self, error: PortError) {
        *self.lock() = Some(error);
    }

    fn take_error(&self, has_launched: bool) -> Option<PortError> {
        if has_launched {
            self.lock().take()
        } else {
            None
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<PortError>> {
        // Nothing panics while it is held.
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of those who share a run.
struct Place<'a, K: Eq + Hash, T: Clone> {
    flights: &'a Flights<K, T>,
    key: (Tenant, K),
    number: u64,
    run: Run<T>,
    cabin: Arc<Cabin>,
    has_launched: bool,
}

impl<'a, K: Eq + Hash, T: Clone> Place<'a, K, T> {
    fn new(
        flights: &'a Flights<K, T>,
        key: (Tenant, K),
        flight: &Flight<T>,
        has_launched: bool,
    ) -> Self {
        Self {
            flights,
            key,
            number: flight.number,
            run: flight.run.clone(),
            cabin: Arc::clone(&flight.cabin),
            has_launched,
        }
    }
}

impl<K: Eq + Hash, T: Clone> Drop for Place<'_, K, T> {
    fn drop(&mut self) {
        let mut aloft = self.flights.lock();
        let Some(flight) = aloft.runs.get_mut(&self.key) else {
            return;
        };
        if flight.number != self.number {
            return;
        }
        flight.passengers -= 1;
        let has_landed = flight.run.peek().is_some();
        let over = if has_landed || flight.passengers == 0 {
            aloft.runs.remove(&self.key)
        } else {
            None
        };
        // The run goes with the last of them, outside the lock: it may well make a call of its own.
        drop(aloft);
        drop(over);
    }
}
