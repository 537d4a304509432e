//! Who runs, who waits, who makes room.

use futures::future::join_all;
use futures::{FutureExt, join, select_biased};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_sched::Kind;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_authoritative_call_takes_the_place_of_the_least_useful_guess() {
    let (backend, work) = (backend(2, 2), Work::default());
    let (likely, unlikely, needed) = (guess(0.9), guess(0.1), Call::authoritative());
    let start = Instant::now();
    let (first, second, third) = join!(
        backend.run(&unlikely, 1.0, work.lasting(100 * MS)),
        backend.run(&likely, 1.0, work.lasting(100 * MS)),
        async {
            sleep(10 * MS).await;
            assert_eq!(work.live(), 2);
            backend.run(&needed, 1.0, work.lasting(5 * MS)).await
        },
    );
    assert!(was_preempted(&first));
    assert_eq!(second.expect("it stays") - start, 100 * MS);
    assert_eq!(third.expect("it is needed") - start, 15 * MS);
    let gauges = backend.gauges();
    assert!(is_idle(gauges));
    assert_eq!((gauges.started, gauges.preempted), (3, 1));
    assert_eq!(work.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_victim_is_gone_before_its_place_is_taken() {
    let (backend, work) = (backend(1, 1), Work::default());
    let (unlikely, needed) = (guess(0.1), Call::authoritative());
    let live_at_start = async {
        let live = work.live();
        Ok(live)
    };
    let (victim, live) = join!(
        backend.run(&unlikely, 1.0, work.lasting(100 * MS)),
        backend.run(&needed, 1.0, live_at_start),
    );
    assert!(was_preempted(&victim));
    assert_eq!(live.expect("it is needed"), 0);
}

#[tokio::test(start_paused = true)]
async fn guesses_run_by_utility_and_calls_by_arrival() {
    let backend = backend(1, 1);
    let holder = Call::authoritative();
    let held = backend.run(&holder, 1.0, async {
        sleep(MS).await;
        Ok(())
    });
    let order = parking_lot::Mutex::new(Vec::new());
    let run = |name, call: Call, cost| {
        let (backend, order) = (&backend, &order);
        async move {
            let noted = async {
                order.lock().push(name);
                sleep(MS).await;
                Ok(())
            };
            backend.run(&call, cost, noted).await
        }
    };
    let (_, all) = join!(
        held,
        join_all([
            run("half", guess(0.5), 1.0).boxed_local(),
            run("half again", guess(0.5), 1.0).boxed_local(),
            run("likely", guess(0.9), 1.0).boxed_local(),
            run("likely and dear", guess(0.9), 10.0).boxed_local(),
            run("needed", Call::authoritative(), 1.0).boxed_local(),
            run("needed too", Call::authoritative(), 1.0).boxed_local(),
        ]),
    );
    assert!(all.iter().all(Result::is_ok));
    let order = order.into_inner();
    let expected = [
        "needed",
        "needed too",
        "likely",
        "half",
        "half again",
        "likely and dear",
    ];
    assert_eq!(order, expected);
}

#[tokio::test(start_paused = true)]
async fn how_long_a_call_takes_counts_by_what_its_use_saves() {
    let backend = backend(1, 1);
    let target = Kind::default();
    let [quick_guess] = Kind::guess(std::slice::from_ref(&target));
    let kinds = [
        ("segment", Kind::default(), 400 * MS, 0.5),
        ("target", target, 2000 * MS, 0.5),
        ("guess", quick_guess, 500 * MS, 0.2),
        ("likely segment", Kind::default(), 800 * MS, 0.55),
    ];
    // Each is measured once, as needed.
    for (_, kind, takes, _) in &kinds {
        let call = Call::authoritative();
        let work = async {
            sleep(*takes).await;
            Ok(())
        };
        let measured = backend.of_kind(kind.clone()).run(&call, 1.0, work).await;
        assert!(measured.is_ok());
    }
    let holder = Call::authoritative();
    let held = backend.run(&holder, 1.0, async {
        sleep(MS).await;
        Ok(())
    });
    let order = parking_lot::Mutex::new(Vec::new());
    let waiting = kinds.map(|(name, kind, _, chance)| {
        let (backend, order) = (backend.of_kind(kind), &order);
        async move {
            let call = guess(chance);
            let noted = async {
                order.lock().push(name);
                Ok(())
            };
            backend.run(&call, 1.0, noted).await
        }
    });
    let (_, all) = join!(held, join_all(waiting));
    assert!(all.iter().all(Result::is_ok));
    // The guess saves (2 s - 0.5 s) for 0.5 s: 0.2 · 3. The others save what they take, so that
    // their chances decide, and then their arrival.
    let expected = ["guess", "likely segment", "segment", "target"];
    assert_eq!(order.into_inner(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_promoted_guess_keeps_its_place_and_runs_once() {
    let (backend, work) = (backend(1, 1), Work::default());
    let (promoted, needed) = (guess(0.1), Call::authoritative());
    let start = Instant::now();
    let (first, second, ()) = join!(
        backend.run(&promoted, 1.0, work.lasting(50 * MS)),
        async {
            sleep(20 * MS).await;
            backend.run(&needed, 1.0, work.lasting(50 * MS)).await
        },
        async {
            sleep(10 * MS).await;
            promoted.promote();
        },
    );
    assert_eq!(first.expect("it is needed") - start, 50 * MS);
    assert_eq!(second.expect("it is needed") - start, 100 * MS);
    assert_eq!(work.begun(), 2);
    assert_eq!(backend.gauges().promoted, 1);
}

#[tokio::test(start_paused = true)]
async fn a_promotion_before_the_victim_was_dropped_saves_it() {
    let (backend, work) = (backend(1, 1), Work::default());
    let (unlucky, needed) = (guess(0.1), Call::authoritative());
    let mut first = Box::pin(backend.run(&unlucky, 1.0, work.lasting(50 * MS)));
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(backend.run(&needed, 1.0, work.lasting(50 * MS)));
    assert!(second.as_mut().now_or_never().is_none());
    // It has been told to go, and has not been polled since.
    unlucky.promote();
    let (first, second) = join!(first, second);
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(work.begun(), 2);
    assert_eq!(backend.gauges().preempted, 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_guess_that_is_promoted_overtakes_nobody_who_was_needed_before() {
    let (backend, work) = (backend(1, 0), Work::default());
    let (first, guessed) = (Call::authoritative(), guess(0.1));
    let late = Call::authoritative();
    let start = Instant::now();
    let (_, guessed_end, late_end, ()) = join!(
        backend.run(&first, 1.0, work.lasting(10 * MS)),
        backend.run(&guessed, 1.0, work.lasting(10 * MS)),
        backend.run(&late, 1.0, work.lasting(10 * MS)),
        async {
            sleep(5 * MS).await;
            guessed.promote();
        },
    );
    assert_eq!(late_end.expect("it is needed") - start, 20 * MS);
    assert_eq!(guessed_end.expect("it is needed") - start, 30 * MS);
}

#[tokio::test(start_paused = true)]
async fn no_guess_runs_where_none_may() {
    let (backend, work) = (backend(4, 0), Work::default());
    let call = guess(1.0);
    let mut waits = Box::pin(backend.run(&call, 1.0, work.lasting(MS)));
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(backend.gauges().waiting_speculative, 1);
    call.promote();
    assert!(waits.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_token_bucket_spreads_calls_over_time() {
    let backend = limited(8, 8, Some((10.0, 2)));
    let start = Instant::now();
    let ends = join_all((0..6).map(|_| async {
        let call = Call::authoritative();
        let end = backend.run(&call, 1.0, async { Ok(Instant::now()) }).await;
        (end.expect("its turn") - start).as_millis()
    }));
    assert_eq!(ends.await, [0, 0, 100, 200, 300, 400]);
    // Half of the burst is not for guesses: two tokens are back after 200 ms, one of them spare
    // a little past the first.
    sleep(1000 * MS).await;
    let start = Instant::now();
    let ends = join_all((0..2).map(|_| async {
        let call = guess(0.5);
        let end = backend.run(&call, 1.0, async { Ok(Instant::now()) }).await;
        (end.expect("its turn") - start).as_millis()
    }));
    assert_eq!(ends.await, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn whoever_keeps_the_time_hands_it_on() {
    let backend = limited(8, 8, Some((1.0, 1)));
    let run = || async {
        let call = Call::authoritative();
        backend.run(&call, 1.0, async { Ok(Instant::now()) }).await
    };
    run().await.expect("the first token");
    let start = Instant::now();
    let mut keeper = Box::pin(run().fuse());
    let mut other = Box::pin(run().fuse());
    select_biased! {
        _ = keeper.as_mut() => panic!("there is no token yet"),
        _ = other.as_mut() => panic!("there is no token yet"),
        () = sleep(500 * MS).fuse() => {}
    }
    drop(keeper);
    let end = other.await.expect("the second token");
    assert_eq!(end - start, 1000 * MS);
}

/// Permits and places return to zero, whatever is dropped when.
#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_with_cancels_leave_nothing_behind() {
    let backend = limited(16, 8, Some((20_000.0, 64)));
    let work = Work::default();
    let mut rng = StdRng::seed_from_u64(11);
    let calls = 10_000;
    let all = (0..calls).map(|_| {
        let [arrives, lasts, cancelled, promoted] = [4000, 12, 30, 20].map(|most| {
            let micros = rng.random_range(0..most * 1000);
            Duration::from_micros(micros)
        });
        let is_needed = rng.random_bool(0.4);
        let call = if is_needed {
            Call::authoritative()
        } else {
            guess(rng.random_range(0.0..1.0))
        };
        let (backend, work) = (&backend, &work);
        async move {
            sleep(arrives).await;
            let mut run = Box::pin(backend.run(&call, 1.0, work.lasting(lasts))).fuse();
            let mut cancel = Box::pin(sleep(cancelled)).fuse();
            let mut promote = Box::pin(sleep(promoted)).fuse();
            loop {
                select_biased! {
                    outcome = run => break usize::from(outcome.is_ok()),
                    () = cancel => break 0,
                    () = promote => call.promote(),
                }
            }
        }
    });
    let pusher = async {
        sleep(2000 * MS).await;
        let call = Call::authoritative();
        let pushed = async {
            call.push_back();
            Ok(())
        };
        backend.run(&call, 1.0, pushed).await
    };
    let (answered, pushed) = join!(join_all(all), pusher);
    assert!(pushed.is_ok());
    let answered: usize = answered.into_iter().sum();
    let gauges = backend.gauges();
    assert!(is_idle(gauges), "{gauges:?}");
    assert_eq!(work.live(), 0);
    // A turn that was given and dropped in the same moment was never begun.
    assert!(work.begun() as u64 <= gauges.started);
    assert!(answered <= work.begun());
    assert!(
        answered > 1000 && gauges.preempted > 100 && gauges.promoted > 100,
        "{gauges:?}"
    );
}
