//! Identical calls share a run, within a tenant.

use std::pin::pin;

use futures::{FutureExt, join};
use spechop_sched::Flights;
use spechop_types::{Chance, Tenant};

use super::*;

fn of(tenant: &str, lane: Lane) -> Call {
    Call::of(Tenant::new(tenant).expect("a tenant"), lane, Chance::EVEN)
}

/// Asks for "paris" through a backend with one place, held for 50 ms.
struct World {
    backend: Backend,
    flights: Flights<&'static str, u32>,
    work: Work,
}

impl World {
    fn new(speculative_max: usize) -> Self {
        let backend = backend(4, speculative_max);
        Self {
            flights: Flights::new(backend.clone()),
            backend,
            work: Work::default(),
        }
    }

    /// The first `failures` runs fail.
    async fn ask(&self, call: &Call, failures: usize) -> Result<u32, PortError> {
        let (backend, work) = (self.backend.clone(), self.work.clone());
        let start = move |call: Call| {
            async move {
                let work = async {
                    work.lasting(50 * MS).await?;
                    if work.begun() <= failures {
                        return Err(PortError::unavailable("the thing", "it is down"));
                    }
                    Ok(7)
                };
                backend.run(&call, 1.0, work).await
            }
            .boxed()
        };
        self.flights.join("paris", call, start).await
    }
}

#[tokio::test(start_paused = true)]
async fn identical_calls_share_a_run_within_a_tenant_only() {
    let world = World::new(4);
    let needed = Lane::Authoritative;
    let calls = [of("a", needed), of("a", needed), of("b", needed)];
    let (first, second, other) = join!(
        world.ask(&calls[0], 0),
        world.ask(&calls[1], 0),
        world.ask(&calls[2], 0),
    );
    assert!(first.is_ok() && second.is_ok() && other.is_ok());
    assert_eq!(world.work.begun(), 2);
    assert_eq!(world.backend.gauges().joined, 1);
    assert!(world.flights.is_empty());
    // What has landed is no cache.
    assert!(world.ask(&calls[0], 0).await.is_ok());
    assert_eq!(world.work.begun(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_shared() {
    let world = World::new(4);
    let calls = [0, 1, 2].map(|_| of("a", Lane::Authoritative));
    let (first, second, third) = join!(
        world.ask(&calls[0], 1),
        world.ask(&calls[1], 1),
        world.ask(&calls[2], 1),
    );
    assert!(matches!(first, Err(PortError::Unavailable { .. })));
    assert!(second.is_ok() && third.is_ok());
    assert_eq!(world.work.begun(), 3);
    assert!(world.flights.is_empty());
}

/// Without that, whoever drops the run panics in turn, which ends the process.
#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_whoever_launched_the_run() {
    let backend = backend(4, 4);
    let flights: Flights<&str, u32> = Flights::new(backend.clone());
    let call = of("a", Lane::Authoritative);
    let panics = |_: Call| async { panic!("a bug") }.boxed();
    let error = flights.join("paris", &call, panics).await.unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert!(matches!(error, PortError::Unavailable { .. }), "{error}");
    assert_eq!(source.as_deref(), Some("it panicked: a bug"));
    assert!(flights.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_promotion_of_one_promotes_the_run_of_all() {
    // No guess may run here: whatever ends was promoted.
    let world = World::new(0);
    let (first, second) = (of("a", Lane::Speculative), of("a", Lane::Speculative));
    let start = Instant::now();
    let (one, two, ()) = join!(world.ask(&first, 0), world.ask(&second, 0), async {
        sleep(10 * MS).await;
        second.promote();
    });
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(start.elapsed(), 60 * MS);
    assert_eq!((world.work.begun(), first.lane()), (1, Lane::Speculative));

    let (guessed, needed) = (of("a", Lane::Speculative), of("a", Lane::Authoritative));
    let (one, two) = join!(world.ask(&guessed, 0), world.ask(&needed, 0));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(world.work.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_outlives_its_first_caller_and_not_its_last() {
    let world = World::new(4);
    let (first, second) = (of("a", Lane::Speculative), of("a", Lane::Speculative));
    {
        let mut two = pin!(world.ask(&second, 0));
        {
            let mut one = pin!(world.ask(&first, 0));
            assert!(one.as_mut().now_or_never().is_none());
            assert!(two.as_mut().now_or_never().is_none());
            sleep(10 * MS).await;
        }
        assert!(two.as_mut().now_or_never().is_none());
        assert_eq!((world.work.begun(), world.work.live()), (1, 1));
        assert_eq!(world.flights.len(), 1);
    }
    assert_eq!((world.flights.len(), world.work.live()), (0, 0));
    assert!(is_idle(world.backend.gauges()));

    let mut two = pin!(world.ask(&second, 0));
    let mut one = Box::pin(world.ask(&first, 0));
    assert!(one.as_mut().now_or_never().is_none());
    assert!(two.as_mut().now_or_never().is_none());
    drop(one);
    assert_eq!(two.await.expect("its result"), 7);
    assert_eq!(world.work.begun(), 2);
}
