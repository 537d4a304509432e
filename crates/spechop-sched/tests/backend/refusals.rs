//! Why a speculative call did not run, or not to its end: said by its error, and counted.

use futures::FutureExt;
use spechop_ports::{Progress, Retriever};
use spechop_sched::{Eligibility, Grade, Rule, ScheduledRetriever};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Refusal, Refusals};

use super::*;

/// One refusal.
fn one(why: Refusal) -> Refusals {
    let mut refusals = Refusals::default();
    refusals[why] = 1;
    refusals
}

fn reason<T>(outcome: &Result<T, PortError>) -> Option<Refusal> {
    match outcome {
        Err(PortError::NotSpeculated { why, .. }) => Some(*why),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_needed_and_a_lane_that_closed_are_told_apart() {
    for (pushes_back, why) in [(false, Refusal::Preempted), (true, Refusal::PushedBack)] {
        let (backend, work) = (backend(1 + usize::from(pushes_back), 1), Work::default());
        let (guessed, needed) = (guess(0.5), Call::authoritative());
        let (lost, won) = futures::join!(
            backend.run(&guessed, 1.0, work.lasting(100 * MS)),
            backend.run(&needed, 1.0, async {
                if pushes_back {
                    needed.push_back();
                }
                work.lasting(MS).await
            }),
        );
        assert!(won.is_ok());
        assert_eq!(reason(&lost), Some(why));
        assert_eq!(backend.gauges().refused, one(why));
        assert_eq!(guessed.progress(), Progress::Begun);
    }
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_line_without_a_turn_found_no_place() {
    let (backend, work) = (backend(1, 1), Work::default());
    let (needed, guessed, promoted) = (Call::authoritative(), guess(0.5), guess(0.5));
    let mut held = Box::pin(backend.run(&needed, 1.0, work.lasting(100 * MS)));
    assert!(held.as_mut().now_or_never().is_none());
    assert_eq!(guessed.progress(), Progress::New);
    for (call, is_promoted) in [(&guessed, false), (&promoted, true)] {
        let mut waiting = Box::pin(backend.run(call, 1.0, work.lasting(MS)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(call.progress(), Progress::Queued);
        if is_promoted {
            call.promote();
        }
    }
    // The promoted one was no speculation any more when it left.
    assert_eq!(backend.gauges().refused, one(Refusal::NoPlace));
    assert!(held.await.is_ok());
    assert_eq!(work.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn those_who_share_a_run_are_as_far_as_it_is() {
    let rules = Eligibility::shipped();
    let (backend, work) = (backend(1, 1), Work::default());
    let script = Arc::new(ScriptedPorts::new(Script::steady(&[true], 10, 20, 5)));
    let retriever = ScheduledRetriever::new(script, &backend, rules.of("retriever"));
    let query = "q0 after nothing?";
    let (first, second, needed) = (guess(0.5), guess(0.5), Call::authoritative());
    let mut held = Box::pin(backend.run(&needed, 1.0, work.lasting(100 * MS)));
    assert!(held.as_mut().now_or_never().is_none());
    for call in [&first, &second] {
        let mut waiting = retriever.retrieve(call, query, 3);
        assert!(waiting.as_mut().now_or_never().is_none());
        // While it waits, and when it has left.
        assert_eq!(call.progress(), Progress::Queued);
        drop(waiting);
        assert_eq!(call.progress(), Progress::Queued);
    }
    assert!(held.await.is_ok());
    let late = guess(0.5);
    let mut running = retriever.retrieve(&late, query, 3);
    assert!(running.as_mut().now_or_never().is_none());
    assert_eq!(late.progress(), Progress::Begun);
    drop(running);
    assert_eq!(late.progress(), Progress::Begun);
}

#[tokio::test(start_paused = true)]
async fn what_the_policy_denies_is_counted_and_never_in_line() {
    let backend = backend(1, 1);
    let rule = Rule {
        grade: Grade::Never,
        ..Eligibility::shipped().of("retriever")
    };
    let script = Arc::new(ScriptedPorts::new(Script::instant(1)));
    let retriever = ScheduledRetriever::new(script, &backend, rule);
    let call = guess(0.5);
    let denied = retriever.retrieve(&call, "q0 after nothing?", 3).await;
    assert_eq!(reason(&denied), Some(Refusal::Denied));
    assert_eq!(backend.gauges().refused, one(Refusal::Denied));
    assert_eq!(call.progress(), Progress::New);
}
