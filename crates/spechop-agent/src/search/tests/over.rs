//! Questions that are handed over: whose answer is taken, what is told, and what it costs.

use spechop_types::BranchId;

use super::*;

/// Of a question that is first answered by "Rome 0.1" and then by another agent: both answers, as far as there
/// are any, and what was told: the branch, the hop, and whether it was handed over.
async fn take_over(
    second: &'static str,
    settings: &Settings,
) -> (Report, Option<AgentError>, Vec<(u32, u32, bool)>) {
    let mut told = Vec::new();
    let hear = &mut |event: TraceEvent| {
        let is_over = matches!(event.kind, TraceKind::HandedOver { .. });
        if is_over || matches!(event.kind, TraceKind::Planned { .. }) {
            told.push((event.branch.0, event.hop, is_over));
        }
    };
    let (asked, of_form) = (question(), Chance::of(0.1));
    let first = agent("Rome 0.1").answer(&asked, settings, hear).await;
    let first = first.expect("an answer");
    let second = agent(second);
    let (report, failed) = second
        .take_over(first, of_form, &asked, settings, hear)
        .await;
    (report, failed, told)
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_answers_and_the_first_answer_is_wasted() {
    let journal = Journal::default();
    let settings = Settings {
        journal: Some(journal.clone()),
        ..settings()
    };
    let (report, failed, told) = take_over("Oslo 0.9", &settings).await;
    // The answer stands on the second agent's look-up alone, whose branch has the number that is told.
    let notes = journal.take();
    assert_eq!(numbers(&notes), [1, 2, 3, 4, 5, 6]);
    let of_answer = notes.calls.iter().filter(|call| call.lookup.is_some());
    let of_answer: Vec<_> = of_answer.map(|call| (call.branch, call.began)).collect();
    let branch = Some(BranchId(2));
    assert_eq!(of_answer, [(branch, Duration::from_millis(30))]);
    assert_eq!(notes.committed.len(), 1);
    assert!(failed.is_none());
    assert_eq!((&*report.answer, report.plans), ("Oslo", 1));
    assert_eq!(report.handed_over, Some(Chance::of(0.1)));
    // One branch looks up and one answers, both times; no number comes twice.
    assert_eq!(told, [(0, 1, false), (2, 1, true), (2, 1, false)]);
    assert_eq!(report.branches, 4);
    assert_eq!(targets(&report), (2, 1));
    assert_eq!(money_wasted(&report), 1);
    assert_eq!(report.elapsed.as_millis(), 40);
    assert_eq!(report.followed.as_millis(), 20);
    assert_eq!(report.first_answer.at.as_millis(), 40);
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_has_what_is_left_of_the_budget() {
    let (report, failed, _) = take_over("Oslo 0.9", &limited(2)).await;
    assert!(failed.is_none());
    assert_eq!((&*report.answer, targets(&report)), ("Oslo", (2, 1)));
    let (report, failed, told) = take_over("Oslo 0.9", &limited(1)).await;
    assert!(failed.is_none());
    assert_eq!((&*report.answer, report.handed_over), ("Rome", None));
    assert_eq!(told, [(0, 1, false)]);
    // Its time is over before the second answer is whole.
    let settings = Settings {
        budget: Budget {
            time: Some(Duration::from_millis(35)),
            ..Budget::default()
        },
        ..settings()
    };
    let (report, failed, _) = take_over("Oslo 0.9", &settings).await;
    assert!(failed.is_none());
    assert_eq!((&*report.answer, report.handed_over), ("Rome", None));
    assert_eq!(targets(&report), (2, 1));
    assert_eq!(changed(&report), ["Rome 0.1", "Oslo 0.9"]);
    // It was writing, and nobody waits for what it would write now.
    assert_eq!(report.usage.segments.started, 4);
    assert_eq!(report.elapsed.as_millis(), 35);
}

/// The second agent would look up twice, and there is one call left.
#[tokio::test(start_paused = true)]
async fn who_has_no_call_left_writes_no_beginning_of_an_answer() {
    let (first, second) = (agent("Rome 0.1"), agent_of(of_hops(2, "Oslo 0.9")));
    let (asked, settings, form) = (question(), limited(2), Chance::of(0.1));
    let hear = &mut |_: TraceEvent| ();
    let report = first.answer(&asked, &settings, hear).await.expect("Rome");
    let over = second.take_over(report, form, &asked, &settings, hear);
    let (report, failed) = over.await;
    assert!(failed.is_none());
    assert_eq!((&*report.answer, targets(&report)), ("Rome", (2, 1)));
    assert_eq!(report.usage.segments.started, 4);
    assert_eq!(report.elapsed.as_millis(), 40);
}

#[tokio::test(start_paused = true)]
async fn behind_a_first_answer_the_cost_so_far_is_that_of_both() {
    let mut told = Vec::new();
    let hear = &mut |event: TraceEvent| told.extend(by_commit(&event));
    let (first, second) = (agent("Rome 0.1"), agent("Oslo 0.9"));
    let (asked, settings, form) = (question(), settings(), Chance::of(0.1));
    let report = first.answer(&asked, &settings, hear).await.expect("Rome");
    let over = second.take_over(report, form, &asked, &settings, hear);
    let (report, _) = over.await;
    assert_eq!((&*report.answer, targets(&report)), ("Oslo", (2, 1)));
    assert_eq!(told, [(1, 0), (2, 1)]);
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_stays_if_who_takes_over_fails() {
    let journal = Journal::default();
    let settings = Settings {
        journal: Some(journal.clone()),
        ..settings()
    };
    let (report, failed, _) = take_over("broken", &settings).await;
    // Its one call is noted behind those of the first answer, which stands.
    let notes = journal.take();
    assert_eq!(numbers(&notes), [1, 2, 3, 4]);
    let of_answer = notes.calls.iter().filter(|call| call.lookup.is_some());
    let of_answer: Vec<_> = of_answer.map(|call| call.branch).collect();
    assert_eq!(of_answer, [Some(BranchId(0))]);
    assert_eq!(notes.committed.len(), 1);
    assert!(matches!(failed, Some(AgentError::Stage { .. })));
    assert_eq!((&*report.answer, report.handed_over), ("Rome", None));
    assert_eq!(targets(&report), (1, 0));
    let segments = report.usage.segments;
    assert_eq!((segments.started, segments.wasted), (3, 1));
    assert_eq!(report.elapsed.as_millis(), 30);
    assert_eq!(report.followed.as_millis(), 20);
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_stays_if_it_is_wanted_before_the_second_is_there() {
    let (settings, now) = wanted_after(35);
    let ((report, failed, _), ()) = tokio::join!(take_over("Oslo 0.9", &settings), now);
    assert!(failed.is_none());
    assert_eq!((&*report.answer, report.handed_over), ("Rome", None));
    // The second agent had looked up, and was writing its answer.
    assert_eq!(targets(&report), (2, 1));
    assert_eq!(report.elapsed.as_millis(), 35);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_dropped_owes_for_both_answers() {
    let bill = Bill::default();
    let settings = Settings {
        bill: Some(bill.clone()),
        ..settings()
    };
    let (first, asked) = (agent("Rome 0.1"), question());
    let hear = &mut |_: TraceEvent| ();
    let report = first.answer(&asked, &settings, hear).await.expect("Rome");
    let second = Agent::new(Ports {
        planner: slow(),
        ..first.ports().clone()
    });
    let (asked, form) = (question(), Chance::of(0.1));
    let over = second.take_over(report, form, &asked, &settings, hear);
    assert!(timeout(Duration::from_secs(61), over).await.is_err());
    let due = bill.take().expect("a bill");
    let (segments, targets) = (due.usage.segments, due.usage.targets);
    assert_eq!((segments.started, segments.wasted), (4, 4));
    assert_eq!((targets.started, targets.wasted), (2, 2));
    assert_eq!(due.elapsed.as_millis(), 61_020);
}
