//! Waiting for a turn, and for a call that is under way, are activities of a call.

use futures::FutureExt;
use futures::future::join;
use spechop_ports::Call;
use spechop_sched::Flights;
use spechop_types::Activity;

use super::*;

fn millis(call: &Call) -> Vec<(Activity, u128)> {
    let all = call.activities();
    let taken = all.iter().filter(|(_, time)| !time.is_zero());
    taken.map(|(of, time)| (of, time.as_millis())).collect()
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_turn_says_so() {
    let backend = backend(1, 1);
    let (first, second) = (Call::authoritative(), Call::authoritative());
    let run = |call: &Call, ms: u32| {
        let call = call.clone();
        let backend = backend.clone();
        async move {
            let work = async {
                let _reading = call.doing(Activity::Read);
                sleep(ms * MS).await;
                Ok(())
            };
            backend.run(&call, 1.0, work).await.expect("it works");
        }
    };
    join(run(&first, 30), run(&second, 5)).await;
    assert_eq!(millis(&first), [(Activity::Read, 30)]);
    assert_eq!(millis(&second), [(Activity::Read, 5), (Activity::Turn, 30)]);
}

#[tokio::test(start_paused = true)]
async fn the_work_is_told_of_the_call_that_launched_it_and_others_join() {
    let flights: Flights<&str, ()> = Flights::new(backend(4, 4));
    let start = |call: Call| {
        async move {
            let _scanning = call.doing(Activity::Scan);
            sleep(20 * MS).await;
            Ok(())
        }
        .boxed()
    };
    let (first, second) = (Call::authoritative(), Call::authoritative());
    let late = async {
        sleep(12 * MS).await;
        flights.join("q", &second, start).await
    };
    let (one, other) = join(flights.join("q", &first, start), late).await;
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(millis(&first), [(Activity::Scan, 20)]);
    assert_eq!(millis(&second), [(Activity::Join, 8)]);
}
