//! What asks for less gets less, and those who are needed feel nothing.

use futures::future::join_all;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_push_back_closes_the_lane_at_once_and_it_opens_by_doubling() {
    let (backend, work) = (backend(16, 8), Work::default());
    let start = Instant::now();
    let guesses = join_all((0..8).map(|_| async {
        let call = guess(0.5);
        backend.run(&call, 1.0, work.lasting(60_000 * MS)).await
    }));
    let needed = async {
        sleep(10 * MS).await;
        assert_eq!(backend.gauges().running_speculative, 8);
        let call = Call::authoritative();
        let pushed_back = async {
            call.push_back();
            work.lasting(10 * MS).await
        };
        let end = backend.run(&call, 1.0, pushed_back).await;
        assert_eq!(end.expect("it is needed") - start, 20 * MS);
        assert_eq!(backend.gauges().running_speculative, 0);
        assert_eq!(backend.gauges().speculative_places, 0);
    };
    let (guesses, ()) = futures::join!(guesses, needed);
    assert!(guesses.iter().all(was_preempted));

    let late = join_all((0..8).map(|_| async {
        let call = guess(0.5);
        backend.run(&call, 1.0, work.lasting(60_000 * MS)).await
    }));
    let seen = async {
        let mut seen = Vec::new();
        for at in [900, 1100, 2100, 3100, 4100] {
            tokio::time::sleep_until(start + at * MS).await;
            let call = Call::authoritative();
            let needed = backend.run(&call, 1.0, async { Ok(Instant::now()) }).await;
            assert_eq!(needed.expect("at once") - start, at * MS);
            seen.push(backend.gauges().running_speculative);
        }
        seen
    };
    let (late, seen) = futures::join!(late, seen);
    assert_eq!(seen, [0, 1, 2, 4, 8]);
    assert!(late.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_slows_down_loses_its_guesses() {
    let (backend, work) = (backend(4, 2), Work::default());
    for _ in 0..60 {
        let call = Call::authoritative();
        let end = backend.run(&call, 1.0, work.lasting(20 * MS)).await;
        assert!(end.is_ok());
    }
    let guessed = guess(0.9);
    let (guessed, ()) = futures::join!(
        backend.run(&guessed, 1.0, work.lasting(10_000 * MS)),
        async {
            for places in [2, 0] {
                let call = Call::authoritative();
                let end = backend.run(&call, 1.0, work.lasting(200 * MS)).await;
                assert!(end.is_ok());
                assert_eq!(backend.gauges().speculative_places, places);
            }
        },
    );
    assert!(was_preempted(&guessed));
    assert_eq!(backend.gauges().pushed_back, 1);
}
