//! The agent over scripted ports in paused time: what it answers, how long it takes, what is left.

use std::sync::Arc;
use std::time::Duration;

use crate::asking::{agent, ask, line, millis, question, settings, steady, trajectory};
use proptest::prelude::*;
use spechop_agent::{
    Agent, AgentError, Policy, Ports, Settings, StageLimits, Stopped, TraceEvent, TraceKind,
    Weighing,
};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Budget, Chance, CommitKind, Observation, Question, Stage};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn standard_agent_waits_for_everything() {
    let ports = steady(&[true, true, true]);
    let report = ask(&ports, &settings(1)).await.unwrap();
    assert_eq!(&*report.answer, "so fact 2");
    assert_eq!(millis(&report), 3 * (100 + 1000) + 100);
    assert_eq!(report.usage.speculations.started, 0);
    assert_eq!(report.usage.targets.wasted, 0);
    assert_eq!(report.stopped, Stopped::Answered);
    assert!(
        report
            .hops
            .iter()
            .all(|hop| hop.hop.kind == CommitKind::Observed)
    );
    assert!(
        report
            .hops
            .iter()
            .all(|hop| hop.hop.observation.evidence.len() == 3)
    );
}

#[tokio::test(start_paused = true)]
async fn right_guesses_overlap_the_look_ups() {
    let ports = steady(&[true, true, true]);
    let report = ask(&ports, &settings(4)).await.unwrap();
    // The segments and guesses of all hops, then the last look-up; the answer was written
    // meanwhile.
    assert_eq!(millis(&report), 3 * 100 + 2 * 50 + 1000);
    assert!(
        report
            .hops
            .iter()
            .all(|hop| hop.hop.kind == CommitKind::Accepted)
    );
    assert!(
        report
            .hops
            .iter()
            .all(|hop| hop.verdict.as_ref().is_some_and(|v| v.accepted))
    );
    assert_eq!(report.usage.targets.wasted, 0);
    // k = 2 is the one-step setting: the third look-up waits for the first.
    let one_step = ask(&steady(&[true, true, true]), &settings(2))
        .await
        .unwrap();
    // The first hop commits at 1,100; the third, whose guess is ready by then, is asked from then on.
    assert_eq!(millis(&one_step), 1100 + 100 + 1000);
    assert_eq!(trajectory(&one_step), trajectory(&report));
}

#[tokio::test(start_paused = true)]
async fn wrong_guesses_cost_calls_and_no_time() {
    let ports = steady(&[false, false]);
    let report = ask(&ports, &settings(3)).await.unwrap();
    let standard = ask(&steady(&[false, false]), &settings(1)).await.unwrap();
    assert_eq!(millis(&report), millis(&standard));
    assert_eq!(trajectory(&report), trajectory(&standard));
    assert_eq!(report.hops[0].hop.kind, CommitKind::Rejected);
    assert_eq!(report.hops[0].hop.guess.as_deref(), Some("fiction 0"));
    assert!(report.usage.targets.wasted > 0);
    assert_eq!(
        report.usage.targets.started - report.usage.targets.wasted,
        2
    );
    assert_eq!(
        report.usage.segments.started - report.usage.segments.wasted,
        3
    );
}

#[tokio::test(start_paused = true)]
async fn failed_guess_is_no_guess() {
    let mut script = Script::steady(&[true, true], 100, 1000, 50);
    script.failures.insert((0, Stage::Speculation), 1);
    let report = ask(&ScriptedPorts::new(script), &settings(3))
        .await
        .unwrap();
    assert_eq!(report.hops[0].hop.kind, CommitKind::Observed);
    assert_eq!(report.hops[1].hop.kind, CommitKind::Accepted);
}

#[tokio::test(start_paused = true)]
async fn late_guess_is_no_guess() {
    let settings = Settings {
        limits: StageLimits {
            speculation: Duration::from_millis(40),
            ..StageLimits::default()
        },
        ..settings(3)
    };
    let report = ask(&steady(&[true, true]), &settings).await.unwrap();
    assert!(
        report
            .hops
            .iter()
            .all(|hop| hop.hop.kind == CommitKind::Observed)
    );
}

#[tokio::test(start_paused = true)]
async fn failed_speculative_call_is_tried_again_when_it_is_needed() {
    for stage in [Stage::Segment, Stage::Target] {
        let mut script = Script::steady(&[true, true], 100, 1000, 50);
        script.failures.insert((1, stage), 1);
        let answer = script.answer();
        let report = ask(&ScriptedPorts::new(script), &settings(3))
            .await
            .unwrap();
        assert_eq!(*report.answer, answer);
        assert_eq!(
            report.usage.targets.started - report.usage.targets.wasted,
            2
        );
    }
}

#[tokio::test(start_paused = true)]
async fn failed_authoritative_call_ends_the_question() {
    let mut script = Script::steady(&[true, true], 100, 1000, 50);
    script.failures.insert((0, Stage::Target), 1);
    let error = ask(&ScriptedPorts::new(script), &settings(3))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "hop 1 got nothing from its target stage");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "the scripted target of hop 0 is unavailable");

    let mut aborted = Vec::new();
    let mut script = Script::steady(&[true, true], 100, 1000, 50);
    script.failures.insert((0, Stage::Target), 1);
    let ports = ScriptedPorts::new(script);
    let mut trace = |event: TraceEvent| {
        if matches!(event.kind, TraceKind::RolledBack) {
            aborted.push((event.hop, event.provisional));
        }
    };
    let answer = agent(&ports)
        .answer(&question(), &settings(3), &mut trace)
        .await;
    assert!(answer.is_err());
    assert_eq!(aborted, [(1, false), (2, true), (3, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_has_no_time_left_was_never_provisional() {
    let mut rolled_back = Vec::new();
    let mut trace = |event: TraceEvent| {
        if matches!(event.kind, TraceKind::RolledBack) {
            rolled_back.push((event.hop, event.provisional));
        }
    };
    let settings = Settings {
        budget: Budget {
            time: Some(Duration::from_millis(500)),
            ..Budget::default()
        },
        ..settings(3)
    };
    let ports = steady(&[true, true]);
    let (agent, asked) = (agent(&ports), question());
    let report = agent.answer(&asked, &settings, &mut trace).await.unwrap();
    assert_eq!(report.stopped, Stopped::Budget);
    assert_eq!(rolled_back, [(1, false), (2, true), (3, true)]);
}

#[tokio::test(start_paused = true)]
async fn stage_limit_ends_a_hanging_call() {
    let settings = Settings {
        limits: StageLimits {
            target: Duration::from_millis(900),
            ..StageLimits::default()
        },
        ..settings(1)
    };
    let error = ask(&steady(&[true]), &settings).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "the target stage took longer than 900 ms");
}

#[tokio::test(start_paused = true)]
async fn deadline_stops_everything() {
    for after in [0, 30, 120, 160, 1050, 1120, 2000] {
        let settings = Settings {
            deadline: Some(Instant::now() + Duration::from_millis(after)),
            ..settings(4)
        };
        let started = Instant::now();
        let error = ask(&steady(&[true, false, true, true]), &settings)
            .await
            .unwrap_err();
        assert!(
            matches!(error, AgentError::Deadline { .. }),
            "{after}: {error}"
        );
        assert_eq!(started.elapsed().as_millis(), u128::from(after));
    }
}

#[tokio::test(start_paused = true)]
async fn budget_of_time_answers_from_what_is_committed() {
    let settings = Settings {
        budget: Budget {
            time: Some(Duration::from_millis(1500)),
            ..Budget::default()
        },
        ..settings(1)
    };
    let report = ask(&steady(&[true, true, true]), &settings).await.unwrap();
    assert_eq!(&*report.answer, "so fact 0");
    assert_eq!(report.stopped, Stopped::Budget);
    assert_eq!(millis(&report), 1500 + 100);
}

#[tokio::test(start_paused = true)]
async fn budget_of_calls_is_never_overrun_and_never_changes_the_answer() {
    for most in 0..12 {
        let budget = Budget {
            target_calls: Some(most),
            ..Budget::default()
        };
        let at = |k| Settings {
            budget,
            hops_max: 4,
            ..settings(k)
        };
        let right = [true, false, true, false];
        let standard = ask(&steady(&right), &at(1)).await.unwrap();
        for k in [2, 4, 0] {
            let report = ask(&steady(&right), &at(k)).await.unwrap();
            assert!(report.usage.targets.started <= most);
            assert_eq!(trajectory(&report), trajectory(&standard));
            assert_eq!(report.answer, standard.answer);
            assert_eq!(report.stopped, standard.stopped);
        }
        assert_eq!(
            standard.stopped == Stopped::Budget,
            most < 4,
            "{most} calls"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn budget_of_tokens_ends_the_question() {
    // Every call costs 12 tokens: two hops and half of the third are paid.
    let settings = Settings {
        budget: Budget {
            tokens: Some(60),
            ..Budget::default()
        },
        ..settings(1)
    };
    let report = ask(&steady(&[true; 4]), &settings).await.unwrap();
    assert_eq!((report.hops.len(), report.stopped), (2, Stopped::Budget));
    assert_eq!(report.usage.cost().tokens.total(), 60 + 12);
}

#[tokio::test(start_paused = true)]
async fn nothing_found_is_reported_and_counted() {
    let mut script = Script::steady(&[true, true, true], 100, 1000, 50);
    for hop in &mut script.hops {
        hop.answer = String::new();
    }
    let report = ask(&ScriptedPorts::new(script), &settings(3))
        .await
        .unwrap();
    assert_eq!(report.stopped, Stopped::NotFound);
    assert!(!report.hops[0].hop.observation.found);
    assert_eq!(report.hops[0].hop.kind, CommitKind::Rejected);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_can_be_none_is_doubted() {
    let mut report = ask(&steady(&[true, true]), &settings(1)).await.unwrap();
    report.final_certainty = Some(Chance::CERTAIN);
    for hop in &mut report.hops {
        hop.certainty = Some(Chance::CERTAIN);
        Arc::make_mut(&mut hop.hop.observation).confidence = Some(Chance::CERTAIN);
    }
    let mut told = |asked: &str, answer: &str, stopped| {
        report.answer = answer.into();
        report.stopped = stopped;
        let told = report.confidence(&Question::new(asked).unwrap());
        (told.supported, told.chance.unwrap())
    };
    let (who, whether) = ("Who is the mother of Ann?", "Is the mother older than Ann?");
    // It stands in what was found, and answers something else.
    let (is_found, likely) = told(who, "fact 1", Stopped::Answered);
    let (is_answer, doubted) = told(whether, "fact 1", Stopped::Answered);
    assert!(is_found && !is_answer && doubted < likely);
    let (is_chosen, yes) = told(whether, "yes", Stopped::Answered);
    let (_, cut_short) = told(whether, "yes", Stopped::HopBudget);
    assert!(is_chosen && yes > likely && cut_short < yes);
    // A name of the question is a choice only if there is one.
    let (_, named) = told(who, "Ann", Stopped::Answered);
    let (_, chosen) = told("Who is older, Ann or Ben?", "Ann", Stopped::Answered);
    assert!(named < chosen);
}

#[tokio::test(start_paused = true)]
async fn a_guess_that_nothing_will_be_found_is_verified_as_any_other() {
    let mut script = Script::steady(&[true, true, true], 100, 1000, 50);
    script.hops[0].answer = String::new();
    for hop in &mut script.hops[..2] {
        hop.guesses = vec![Observation::NOTHING.to_owned()];
    }
    let slow = ask(&ScriptedPorts::new(script.clone()), &settings(1)).await;
    let fast = ask(&ScriptedPorts::new(script), &settings(3)).await;
    let (slow, fast) = (slow.unwrap(), fast.unwrap());
    assert_eq!(fast.answer, slow.answer);
    let hop = |at: usize| (fast.hops[at].hop.kind, fast.hops[at].guess_held);
    // Nothing was found, and it had been guessed; the next look-up did find something.
    assert_eq!(hop(0), (CommitKind::Accepted, Some(true)));
    assert_eq!(hop(1), (CommitKind::Rejected, Some(false)));
    assert!(!fast.hops[0].hop.observation.found);
    assert_eq!(&*fast.hops[0].hop.answer, Observation::NOTHING);
    assert!(fast.elapsed < slow.elapsed);
}

#[tokio::test(start_paused = true)]
async fn no_speculator_means_the_standard_agent() {
    let ports = steady(&[true, true]);
    let port = Arc::new(ports.clone());
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port,
        speculator: None,
        drafter: None,
        draft_writer: None,
    });
    let report = agent
        .answer(&question(), &settings(4), &mut |_| {})
        .await
        .unwrap();
    assert_eq!(millis(&report), 2 * 1100 + 100);
    assert_eq!(report.usage.speculations.started, 0);
}

#[tokio::test(start_paused = true)]
async fn thousand_dropped_questions_leave_nothing() {
    let ports = ScriptedPorts::new(Script::steady(&[true, false, true, true], 100, 1000, 50));
    let agent = agent(&ports);
    for i in 0..1000_u64 {
        let (question, settings) = (question(), settings(usize::try_from(i % 6).unwrap()));
        let time = Duration::from_millis(i * 7919 % 4000);
        let mut trace = |_| {};
        let answer = agent.answer(&question, &settings, &mut trace);
        let _ = tokio::time::timeout(time, answer).await;
        assert_eq!(ports.live(), 0, "question {i}, dropped after {time:?}");
    }
    assert!(ports.started() > 3000);
}

#[tokio::test(start_paused = true)]
async fn trace_tells_the_story() {
    let mut lines = Vec::new();
    let ports = steady(&[true, false]);
    let report = agent(&ports)
        .answer(&question(), &settings(3), &mut |event| {
            lines.push(line(&event));
        })
        .await
        .unwrap();
    lines.push(format!(
        "answer: {} after {} ms",
        report.answer,
        millis(&report)
    ));
    insta::assert_snapshot!(lines.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// SPEC-8, live: the committed trajectory depends neither on k nor on the policy, and neither does
    /// the answer; with an exact verifier and no failures it is never later than the standard agent's.
    #[test]
    fn answer_does_not_depend_on_width_or_policy(
        seed: u64,
        k in 0..7usize,
        orphans_max in 0..4_usize,
        plan_ahead: bool,
        guesses in 1..4_usize,
        // Guesses that say nothing are taken to hold in one case of two.
        chance_min in prop_oneof![Just(0.0), 0.0..0.6],
        continuous: bool,
        drafts in (0..3_usize, any::<bool>()),
        guess_at_once: bool,
        build_on_observations: bool,
    ) {
        let policy = Policy {
            orphans_max,
            plan_ahead,
            guesses_max: guesses.try_into().unwrap(),
            chance_min: Chance::of(chance_min),
            weighing: Weighing::NONE,
            continuous,
            drafts_max: drafts.0,
            draft_guesses: drafts.1,
            guess_at_once,
            build_on_observations,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let many = Settings { policy, ..settings(k) };
            let one = ask(&ScriptedPorts::new(Script::random(seed)), &settings(1)).await.unwrap();
            let many = ask(&ScriptedPorts::new(Script::random(seed)), &many).await.unwrap();
            prop_assert_eq!(trajectory(&many), trajectory(&one));
            prop_assert_eq!(&many.answer, &one.answer);
            // tokio's timers round each wait up to a millisecond.
            let slack = 20;
            prop_assert!(millis(&many) <= millis(&one) + slack, "{} > {}", millis(&many), millis(&one));
            Ok(())
        })?;
    }
}

/// Segment 100 ms, target 1,000 ms, guess 50 ms: the second branch's answer is there after 400 ms.
#[tokio::test(start_paused = true)]
async fn the_report_says_when_the_answer_was_first_there() {
    for (right, k, first_ms, chance, elapsed_ms) in [
        // The standard agent's answer is there when it is there.
        ([true, true], 1, 2300, 1.0, 2300),
        // Both guesses stand, which was as likely as two even ones.
        ([true, true], 3, 400, 0.25, 1250),
        // The answer of 400 ms fell with the second guess; the last segment wrote another one.
        ([true, false], 3, 1350, 1.0, 1350),
        ([false, true], 3, 1350, 0.5, 2200),
    ] {
        let mut drafts = Vec::new();
        let ports = steady(&right);
        let report = agent(&ports)
            .answer(&question(), &settings(k), &mut |event| {
                if let TraceKind::Drafted { answer, chance, .. } = event.kind {
                    drafts.push((answer, event.at, chance));
                }
            })
            .await
            .unwrap();
        let first = report.first_answer;
        let found = (first.at.as_millis(), first.chance, millis(&report));
        assert_eq!(
            found,
            (first_ms, Chance::of(chance), elapsed_ms),
            "{right:?} {k}"
        );
        // The stream had it then.
        assert!(drafts.contains(&(report.answer, first.at, first.chance)));
    }
}
