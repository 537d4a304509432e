//! A tenant is charged for the work that was started, however the question ends: over the wire.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use crate::support::{Server, at, eventually, of, question};
use spechop_proto::options::Width;
use spechop_proto::{AskRequest, Budget, StopReason};
use spechop_testkit::Script;
use spechop_types::Stage;
use tokio::task::JoinSet;
use tonic::Code;

/// Look-ups that each tenant may start in an hour.
const ALLOWANCE: u64 = 30;

/// More hops than anybody may look up. The first look-up takes a while, so that questions can be left in
/// the middle of it.
async fn server() -> Server {
    let mut script = Script::instant(32);
    script.hops[0].target = Duration::from_secs(1);
    // The very first segment fails, once.
    script.failures.insert((0, Stage::Segment), 1);
    let toml = format!("[tenant]\ntarget_calls = {ALLOWANCE}\nperiod_s = 3600");
    Server::configured(script, &toml).await
}

/// One look-up at a time, as many as may be, and a budget of a thousand.
fn greedy() -> AskRequest {
    AskRequest {
        budget: Some(Budget {
            target_calls: Some(1000),
            ..Budget::default()
        }),
        ..at(1)
    }
    .with(|asked| asked.hop_budget = Some(32))
}

/// What is left of a tenant's account: a question that wants more than that gets it all, and uses it up.
async fn left(server: &Server, tenant: &str) -> u64 {
    let asked = of(tenant, greedy());
    let answer = server.client().await.ask(asked).await.unwrap().into_inner();
    assert_eq!(answer.stop_reason(), StopReason::Budget);
    let started = answer.usage.unwrap().targets.unwrap().started;
    assert_eq!(answer.hops.len(), started as usize);
    let refused = server.client().await.ask(of(tenant, greedy())).await;
    assert_eq!(refused.unwrap_err().code(), Code::ResourceExhausted);
    u64::from(started)
}

/// Asks, and hangs up in the middle of the first look-up.
async fn hang_up(server: &Server, tenant: &str, request: AskRequest) {
    let before = server.ports.started();
    let mut client = server.client().await;
    tokio::select! {
        _ = client.ask(of(tenant, request)) => panic!("it takes a while"),
        // The segment and the look-up.
        () = eventually(|| server.ports.started() >= before + 2) => {}
    }
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_charged_for_what_was_started_and_no_more() {
    let server = server().await;
    let mut client = server.client().await;
    let mut wasted = 0;

    // The planner fails: nothing was looked up.
    let failed = client.ask(of("j4", greedy())).await.unwrap_err();
    assert_eq!(failed.code(), Code::Unavailable, "{failed}");
    assert_eq!(server.look_ups().await, 0);
    assert_eq!(left(&server, "j4").await, ALLOWANCE);

    // The name of another open question.
    let named = |id: &str| AskRequest {
        question_id: id.to_owned(),
        ..greedy()
    };
    let one = AskRequest {
        budget: Some(Budget {
            target_calls: Some(1),
            ..Budget::default()
        }),
        ..named("q")
    };
    let before = server.look_ups().await;
    let stream = client.ask_stream(of("j1", one)).await.unwrap();
    for _ in 0..5 {
        let refused = client.ask(of("j1", named("q"))).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    drop(stream);
    server.is_idle().await;
    let started = server.look_ups().await - before;
    assert!(started <= 1, "{started}");
    wasted += started;
    assert_eq!(left(&server, "j1").await, ALLOWANCE - started);

    // The client goes away.
    let before = server.look_ups().await;
    hang_up(&server, "j2", greedy()).await;
    assert_eq!(server.look_ups().await - before, 1);
    wasted += 1;
    assert_eq!(left(&server, "j2").await, ALLOWANCE - 1);

    // The deadline passes.
    let before = server.look_ups().await;
    let late = AskRequest {
        deadline_ms: Some(1),
        ..greedy()
    };
    let late = client.ask(of("j3", late)).await.unwrap_err();
    assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
    server.is_idle().await;
    let started = server.look_ups().await - before;
    wasted += started;
    assert_eq!(left(&server, "j3").await, ALLOWANCE - started);

    // Many that name no budget.
    let before = server.look_ups().await;
    for _ in 0..17 {
        let modest = AskRequest {
            budget: None,
            ..greedy()
        };
        hang_up(&server, "j5", modest).await;
    }
    assert_eq!(server.look_ups().await - before, 17);
    wasted += 17;
    assert_eq!(left(&server, "j5").await, ALLOWANCE - 17);

    // The metrics tell the same: every look-up is either used or wasted.
    for (outcome, times) in [("cancelled", 19), ("deadline", 1), ("failed", 1)] {
        let name = format!("spechop_questions_total{{outcome=\"{outcome}\"}}");
        assert_eq!(server.metric(&name).await, times, "{outcome}");
    }
    let targets = |fate: &str| format!("spechop_calls_total{{stage=\"target\",fate=\"{fate}\"}}");
    assert_eq!(server.metric(&targets("wasted")).await, wasted);
    let used = server.look_ups().await - wasted;
    assert_eq!(server.metric(&targets("used")).await, used);
    assert_eq!(used, 5 * ALLOWANCE - wasted);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_at_once_never_overdraw() {
    let server = server().await;
    // It fails; from then on nothing does.
    server.ask(question()).await.unwrap_err();
    for k in [1, 4] {
        let before = server.look_ups().await;
        let mut asking = JoinSet::new();
        for i in 0..20 {
            let mut client = server.client().await;
            let mut request = greedy().with(|asked| asked.width = Some(Width::K(k)));
            if i % 2 == 0 {
                request.budget = None;
            }
            let request = of(&format!("k{k}"), request);
            asking.spawn(async move { client.ask(request).await });
        }
        let mut told = 0;
        for asked in asking.join_all().await {
            match asked {
                Ok(answer) => {
                    let usage = answer.into_inner().usage.unwrap();
                    told += u64::from(usage.targets.unwrap().started);
                }
                Err(refused) => assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}"),
            }
        }
        let started = server.look_ups().await - before;
        // Equal look-ups of a tenant are one for the index, and each question counts its own.
        assert!(started <= ALLOWANCE, "{started} of {ALLOWANCE}");
        assert!((1..=ALLOWANCE).contains(&told), "{told} of {ALLOWANCE}");
    }
}
