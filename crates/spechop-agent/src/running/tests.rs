//! Stages that end, stop and run late.

use std::future::{pending, poll_fn, ready};
use std::sync::Arc;

use futures::FutureExt;
use spechop_types::{Chance, Step, Tokens};

use super::*;
use crate::stages::Output;

fn work(n: u32) -> Work {
    Work::Target(LookupId(n))
}

fn call() -> Call {
    Call::new(Lane::Speculative, Chance::EVEN)
}

fn outcome() -> Result<Outcome, PortError> {
    Ok(Outcome {
        output: Output::Step {
            step: Step::Answer("42".into()),
            certainty: None,
        },
        tokens: Tokens::default(),
    })
}

async fn next(running: &mut Running<'_>) -> (Work, bool) {
    match poll_fn(|cx| running.poll_news(cx)).await {
        News::Finished { work, outcome, .. } => (work, outcome.is_ok()),
        _ => (work(u32::MAX), false),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_stage_is_dropped_at_once_and_no_other_misses_its_turn() {
    let mut running = Running::new(None, None, None);
    let held = Arc::new(());
    let holds = held.clone();
    let limit = Duration::from_secs(60);
    running.launch(
        work(0),
        call(),
        limit,
        Box::pin(async move {
            pending::<()>().await;
            drop(holds);
            outcome()
        }),
    );
    running.launch(work(1), call(), limit, Box::pin(ready(outcome())));
    assert_eq!(next(&mut running).await, (work(1), true));
    assert_eq!(Arc::strong_count(&held), 2);
    running.stop(work(0));
    assert_eq!(Arc::strong_count(&held), 1);
    running.launch(work(2), call(), limit, Box::pin(ready(outcome())));
    let news = next(&mut running).now_or_never();
    assert_eq!(news, Some((work(2), true)));
    let idle = poll_fn(|cx| running.poll_news(cx)).await;
    assert!(matches!(idle, News::Idle));
}

#[tokio::test(start_paused = true)]
async fn what_is_stopped_before_anything_of_it_ran_never_began() {
    let mut running = Running::new(None, None, None);
    for was_polled in [false, true] {
        running.launch(work(0), call(), Duration::MAX, Box::pin(pending()));
        if was_polled {
            assert_eq!(next(&mut running).now_or_never(), None);
        }
        let dropped = running.stop(work(0)).unwrap();
        assert_eq!(dropped.taken.never_began, !was_polled);
    }
}

#[tokio::test(start_paused = true)]
async fn one_timer_serves_limits_that_come_and_go() {
    let started = Instant::now();
    let mut running = Running::new(None, None, None);
    let seconds = |n| Duration::from_secs(n);
    let a_second = || async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        outcome()
    };
    running.launch(work(0), call(), seconds(9), Box::pin(pending()));
    running.launch(work(1), call(), seconds(90), Box::pin(a_second()));
    assert_eq!(next(&mut running).await, (work(1), true));
    // The timer is set to 9 s. An earlier limit comes, and passes.
    running.launch(work(2), call(), seconds(3), Box::pin(pending()));
    assert_eq!(next(&mut running).await, (work(2), false));
    assert_eq!(started.elapsed(), seconds(4));
    // Another comes, and goes.
    running.launch(work(3), call(), seconds(2), Box::pin(pending()));
    running.launch(work(4), call(), seconds(90), Box::pin(a_second()));
    assert_eq!(next(&mut running).await, (work(4), true));
    running.stop(work(3));
    assert_eq!(next(&mut running).await, (work(0), false));
    assert_eq!(started.elapsed(), seconds(9));
}

#[tokio::test(start_paused = true)]
async fn every_stage_is_polled_once_each_time_the_question_is_woken() {
    let mut running = Running::new(None, None, None);
    let polls = Arc::new(parking_lot::Mutex::new([0; 2]));
    for n in 0..2_u32 {
        let polls = polls.clone();
        let stage = poll_fn(move |_| {
            polls.lock()[n as usize] += 1;
            Poll::Pending
        });
        running.launch(work(n), call(), Duration::MAX, Box::pin(stage));
    }
    for n in 2..5 {
        running.launch(work(n), call(), Duration::MAX, Box::pin(ready(outcome())));
        assert_eq!(next(&mut running).await, (work(n), true));
    }
    assert_eq!(*polls.lock(), [1, 1]);
    for _ in 0..2 {
        assert_eq!(next(&mut running).now_or_never(), None);
    }
    assert_eq!(*polls.lock(), [2, 2]);
}
