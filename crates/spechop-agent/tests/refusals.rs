//! Work ahead of need that is refused is told with its reason, counted, and done when it is needed.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{
    Agent, Bill, Calls, Finish, Policy, Ports, Prices, Report, Settings, TraceEvent, TraceKind,
    Usage,
};
use spechop_ports::{Planner, Reader, Speculator, Wishes};
use spechop_sched::{
    Backend, Cores, Demand, Eligibility, Grade, Limits, Millicores, Rule, Scheduled,
    ScheduledRetriever,
};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Budget, Chance, Money, Price, Refusal, Stage};

use crate::asking::{question, settings, steady, trajectory};

fn limits(capacity: usize, speculative_max: usize) -> Limits {
    Limits {
        capacity: NonZeroUsize::new(capacity).unwrap(),
        rate: None,
        speculative_max,
    }
}

pub(crate) fn backend(capacity: usize, speculative_max: usize) -> Backend {
    Backend::new("a backend", limits(capacity, speculative_max))
}

pub(crate) fn rule(grade: Grade) -> Rule {
    Rule {
        grade,
        ..Eligibility::shipped().of("retriever")
    }
}

/// Scripted ports; look-ups take their turns at `index` under a rule, everything else has room.
pub(crate) fn ports(script: &ScriptedPorts, index: &Backend, look_ups: Rule) -> Ports {
    let (port, free) = (Arc::new(script.clone()), backend(64, 64));
    let full = rule(Grade::Full);
    let speculator = Scheduled::<dyn Speculator>::new(port.clone(), &free, full);
    Ports {
        planner: Arc::new(Scheduled::<dyn Planner>::new(port.clone(), &free, full)),
        reader: Arc::new(Scheduled::<dyn Reader>::new(port.clone(), &free, full)),
        retriever: Arc::new(ScheduledRetriever::new(port.clone(), index, look_ups)),
        speculator: Some(Arc::new(speculator)),
        // It drafts nothing unless the script says so.
        drafter: Some(port),
        draft_writer: None,
    }
}

pub(crate) async fn ask(ports: Ports, settings: &Settings) -> (Report, Vec<TraceEvent>) {
    let mut events = Vec::new();
    let report = Agent::new(ports)
        .answer(&question(), settings, &mut |event| events.push(event))
        .await;
    (report.unwrap(), events)
}

/// The refusals that were told, by stage and reason.
pub(crate) fn told(events: &[TraceEvent]) -> Vec<(Stage, Refusal)> {
    let refusal = |event: &TraceEvent| match event.kind {
        TraceKind::NotSpeculated { stage, why } => Some((stage, why)),
        _ => None,
    };
    events.iter().filter_map(refusal).collect()
}

/// What had been started by each commit.
pub(crate) fn committed(events: &[TraceEvent]) -> Vec<Usage> {
    let usage = |event: &TraceEvent| match &event.kind {
        TraceKind::Committed { usage, .. } => Some(**usage),
        _ => None,
    };
    events.iter().filter_map(usage).collect()
}

/// What was told is what was counted, and is all there is of that stage and reason.
pub(crate) fn check(report: &Report, events: &[TraceEvent], expected: &[(Stage, Refusal)]) {
    assert_eq!(told(events), expected, "{events:#?}");
    let usage = report.usage;
    for (stage, calls) in [
        (Stage::Segment, usage.segments),
        (Stage::Target, usage.targets),
        (Stage::Speculation, usage.speculations),
    ] {
        for (why, times) in calls.refused.iter() {
            let same = expected.iter().filter(|told| **told == (stage, why));
            assert_eq!(times, same.count() as u64, "{stage} {why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_the_policy_denies_is_told_and_costs_nothing() {
    let script = steady(&[true, true, true]);
    let settings = settings(3);
    let (free, _) = ask(
        ports(&script, &backend(64, 64), rule(Grade::Full)),
        &settings,
    )
    .await;
    check(&free, &[], &[]);
    let index = backend(64, 64);
    let (report, events) = ask(ports(&script, &index, rule(Grade::Never)), &settings).await;
    let denied = (Stage::Target, Refusal::Denied);
    check(&report, &events, &[denied; 2]);
    assert_eq!(trajectory(&report), trajectory(&free));
    // Each hop was looked up once, by the branch that needed it.
    assert_eq!(report.usage.targets.started, 3);
    assert_eq!(report.usage.targets.wasted, 0);
    assert_eq!(index.gauges().started, 3);
    assert!(
        !events
            .iter()
            .any(|event| matches!(event.kind, TraceKind::Failed { .. }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_quiet_question_looks_nothing_up_ahead_of_need() {
    let script = steady(&[true, true, true]);
    let settings = Settings {
        wishes: Wishes {
            quiet: true,
            ..Wishes::default()
        },
        ..settings(3)
    };
    let index = backend(64, 64);
    let (report, events) = ask(ports(&script, &index, rule(Grade::Full)), &settings).await;
    let denied = (Stage::Target, Refusal::Denied);
    check(&report, &events, &[denied; 2]);
    // Nothing was even asked for, and the rest of speculation goes on: every guess was built upon.
    assert_eq!(index.gauges().started, 3);
    assert_eq!(index.gauges().refused[Refusal::Denied], 0);
    let is_target = |event: &&TraceEvent| {
        matches!(
            event.kind,
            TraceKind::Launched {
                stage: Stage::Target
            }
        )
    };
    assert!(
        events
            .iter()
            .filter(is_target)
            .all(|event| !event.provisional)
    );
    assert!(report.hops.iter().all(|hop| hop.guess_held == Some(true)));
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_waited_in_vain_is_told_and_costs_nothing() {
    // The first guess is wrong, and no place is open to what its branch asks.
    let script = steady(&[false, true]);
    let index = backend(1, 0);
    let settings = Settings {
        policy: Policy::EAGER,
        ..settings(2)
    };
    let (report, events) = ask(ports(&script, &index, rule(Grade::Full)), &settings).await;
    check(&report, &events, &[(Stage::Target, Refusal::NoPlace)]);
    assert_eq!(report.usage.targets.started, 2);
    assert_eq!(report.usage.targets.wasted, 0);
    assert_eq!(index.gauges().refused[Refusal::NoPlace], 1);
}

/// The second look-up waits for its turn until its hop is the head's.
#[tokio::test(start_paused = true)]
async fn what_is_still_in_line_is_not_told_to_have_been_started() {
    let index = backend(1, 0);
    let script = steady(&[true, true]);
    let fee = Price {
        call: Money(1),
        ..Price::default()
    };
    let settings = Settings {
        prices: Prices {
            target: fee,
            ..Prices::default()
        },
        ..settings(2)
    };
    let (report, events) = ask(ports(&script, &index, rule(Grade::Full)), &settings).await;
    let targets = |usage: &Usage| (usage.targets.started, usage.targets.wasted);
    let told: Vec<_> = committed(&events).iter().map(targets).collect();
    assert_eq!(told, [(1, 0), (2, 0)]);
    assert_eq!(targets(&report.usage), (2, 0));
    // Nor has it cost anything.
    let money = |usage: &Usage| [usage.targets.cost, usage.targets.cost_wasted].map(|c| c.money.0);
    let told: Vec<_> = committed(&events).iter().map(money).collect();
    assert_eq!(told, [[1, 0], [2, 0]]);
}

/// What a tuner must not take for a slow speculator.
#[tokio::test(start_paused = true)]
async fn a_guess_without_a_turn_is_told_from_one_that_is_late_or_denied() {
    let script = steady(&[true, true]);
    let free = backend(64, 64);
    for (places, grade, is_refused) in [
        (0, Grade::Full, true),
        (64, Grade::Full, false),
        (64, Grade::Never, false),
    ] {
        let guesses = backend(64, places);
        let port = Arc::new(script.clone());
        let guesser = Scheduled::<dyn Speculator>::new(port, &guesses, rule(grade));
        let mut ports = ports(&script, &free, rule(Grade::Full));
        ports.speculator = Some(Arc::new(guesser));
        let (report, events) = ask(ports, &settings(3)).await;
        let has_guesses = places > 0 && grade == Grade::Full;
        for hop in &report.hops {
            assert_eq!(hop.guess_refused, is_refused, "{places} {grade:?}");
            assert_eq!(hop.times.speculation.is_some(), has_guesses);
        }
        // Without a guess every branch is the head, also the one that is told of its refusal.
        let is_provisional = events.iter().any(|event| event.provisional);
        assert_eq!(is_provisional, has_guesses, "{places} {grade:?}");
    }
}

/// The head goes first, and the guess of its hop is dropped behind it.
#[tokio::test(start_paused = true)]
async fn a_guess_that_still_waits_when_the_answer_is_wanted_was_the_heads() {
    let script = steady(&[true, true]);
    let guesses = backend(64, 0);
    let port = Arc::new(script.clone());
    let guesser = Scheduled::<dyn Speculator>::new(port, &guesses, rule(Grade::Full));
    let mut ports = ports(&script, &backend(64, 64), rule(Grade::Full));
    ports.speculator = Some(Arc::new(guesser));
    let finish = Finish::default();
    let hasty = Settings {
        finish: Some(finish.clone()),
        ..settings(3)
    };
    let wanted = async {
        // In the middle of the first look-up.
        tokio::time::sleep(Duration::from_millis(500)).await;
        finish.now();
    };
    let ((report, events), ()) = futures::join!(ask(ports, &hasty), wanted);
    check(&report, &events, &[(Stage::Speculation, Refusal::NoPlace)]);
    assert!(events.iter().all(|event| !event.provisional), "{events:#?}");
}

/// It had its turn for a while, and then somebody else needed the core until after the look-up.
#[tokio::test(start_paused = true)]
async fn a_guess_that_is_in_line_again_is_not_taken_for_a_slow_one() {
    let script = steady(&[true]);
    let cores = Cores::new(Millicores::ONE);
    let demand = Demand {
        each: Millicores::ONE,
        alone: Millicores::ONE,
        guess: Millicores::ONE,
        at_once: 1,
        yields: true,
    };
    let on_cores = |name| Backend::on(&cores, demand, name, limits(8, 8));
    let (guesses, others) = (on_cores("guesses"), on_cores("others"));
    let guesser =
        Scheduled::<dyn Speculator>::new(Arc::new(script.clone()), &guesses, rule(Grade::Full));
    let mut ports = ports(&script, &backend(64, 64), rule(Grade::Full));
    ports.speculator = Some(Arc::new(guesser));
    let other = async {
        // The segment takes 100 ms, and the guess 50.
        tokio::time::sleep(Duration::from_millis(120)).await;
        let work = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(())
        };
        let needed = spechop_ports::Call::authoritative();
        others.run(&needed, 1.0, work).await
    };
    let asked = settings(3);
    let ((report, events), other) = futures::join!(ask(ports, &asked), other);
    assert!(other.is_ok());
    let hop = &report.hops[0];
    assert!(hop.guess_refused && hop.times.speculation.is_none());
    check(
        &report,
        &events,
        &[(Stage::Speculation, Refusal::Preempted)],
    );
    let Calls {
        started, wasted, ..
    } = report.usage.speculations;
    assert_eq!((started, wasted), (1, 1), "it ran for a while");
    assert_eq!(report.tokens_lost, 0, "nothing of it is still under way");
}

/// The branch that asked first is rolled back, and another one takes its look-up over.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_of_the_branch_that_asks_by_then() {
    let mut script = Script::steady(&[false, true], 100, 1000, 50);
    script.hops[1].depends_on = Some(Vec::new());
    let script = ScriptedPorts::new(script);
    let (free, guesses, full) = (backend(64, 64), backend(1, 1), rule(Grade::Full));
    let guesser = Scheduled::<dyn Speculator>::new(Arc::new(script.clone()), &guesses, full);
    let mut ports = ports(&script, &free, full);
    ports.speculator = Some(Arc::new(guesser));
    let other = async {
        // Behind the first guess, somebody else needs the place until the end.
        tokio::time::sleep(Duration::from_millis(160)).await;
        let work = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(())
        };
        let needed = spechop_ports::Call::authoritative();
        guesses.run(&needed, 1.0, work).await
    };
    let asked = settings(2);
    let ((report, events), other) = futures::join!(ask(ports, &asked), other);
    assert!(other.is_ok());
    assert_eq!(report.usage.salvaged, 1);
    let no_place = (Stage::Speculation, Refusal::NoPlace);
    check(&report, &events, &[no_place; 2]);
    let is_refusal = |event: &&TraceEvent| matches!(event.kind, TraceKind::NotSpeculated { .. });
    let refused = events.iter().filter(is_refusal);
    let refused: Vec<_> = refused.map(|event| (event.branch.0, event.hop)).collect();
    assert_eq!(refused, [(1, 2), (2, 2)]);
}

/// Not even if the answer needs it: the index is busy with something else until the question ends.
#[tokio::test(start_paused = true)]
async fn a_look_up_that_never_had_its_turn_is_not_billed() {
    let (script, index, bill) = (steady(&[true]), backend(1, 1), Bill::default());
    let start = tokio::time::Instant::now();
    let settings = Settings {
        bill: Some(bill.clone()),
        deadline: Some(start + std::time::Duration::from_millis(500)),
        ..settings(1)
    };
    let call = spechop_ports::Call::authoritative();
    let busy = index.run(&call, 1.0, std::future::pending::<Result<(), _>>());
    let agent = Agent::new(ports(&script, &index, rule(Grade::Full)));
    let (asked, mut trace) = (question(), |_| ());
    tokio::select! {
        biased;
        _ = busy => {}
        failed = agent.answer(&asked, &settings, &mut trace) => assert!(failed.is_err()),
    }
    let usage = bill.take().unwrap().usage;
    assert_eq!((usage.segments.started, usage.targets.started), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_needed_is_told() {
    let script = steady(&[true, true]);
    let index = backend(2, 1);
    let interrupts = async {
        // Two others need places while the second hop is looked up ahead of need.
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        let call = spechop_ports::Call::authoritative();
        let work = async {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            Ok(())
        };
        index.run(&call, 1.0, work).await
    };
    let settings = settings(2);
    let asked = ask(ports(&script, &index, rule(Grade::Full)), &settings);
    let ((report, events), other) = futures::join!(asked, interrupts);
    assert!(other.is_ok());
    check(&report, &events, &[(Stage::Target, Refusal::Preempted)]);
    // It ran for a while, in vain.
    assert_eq!(report.usage.targets.started, 3);
    assert_eq!(report.usage.targets.wasted, 1);
}

/// Somebody leaves a place, and takes it back before anything of the look-up has run that was given it.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_lost_before_it_begins_costs_nothing() {
    let script = steady(&[true, true]);
    let index = backend(2, 1);
    let other = async {
        // The second hop is looked up ahead of need from 250 ms on, and waits.
        for millis in [600, 100] {
            let needed = spechop_ports::Call::authoritative();
            let work = async {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(())
            };
            index.run(&needed, 1.0, work).await.unwrap();
        }
    };
    let settings = settings(2);
    let asked = ask(ports(&script, &index, rule(Grade::Full)), &settings);
    let ((report, events), ()) = futures::join!(asked, other);
    check(&report, &events, &[(Stage::Target, Refusal::Preempted)]);
    let targets = report.usage.targets;
    assert_eq!((targets.started, targets.wasted), (2, 0));
}

/// Two hops, and a call for each: none is left for speculation.
fn without_a_call_to_spare(k: usize) -> Settings {
    Settings {
        hops_max: 2,
        budget: Budget {
            target_calls: Some(2),
            ..Budget::default()
        },
        ..settings(k)
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_budget_keeps_back_is_told() {
    let script = steady(&[true, true]);
    let settings = without_a_call_to_spare(2);
    let (report, events) = ask(
        ports(&script, &backend(64, 64), rule(Grade::Full)),
        &settings,
    )
    .await;
    let refused = told(&events);
    assert!(
        refused.iter().all(|(_, why)| *why == Refusal::Budget) && !refused.is_empty(),
        "{refused:?}"
    );
    check(&report, &events, &refused);
    assert_eq!(report.usage.targets.started, 2);
    // Nobody was asked, and nobody was too late.
    assert!(report.hops.iter().all(|hop| hop.guess_refused));
}

/// Planned ahead, segments could only lead to look-ups that the budget keeps back, too.
#[tokio::test(start_paused = true)]
async fn the_budget_keeps_back_what_is_written_ahead() {
    let script = steady(&[true, true]);
    let settings = Settings {
        policy: Policy {
            plan_ahead: true,
            ..Policy::default()
        },
        ..without_a_call_to_spare(4)
    };
    let ports = ports(&script, &backend(64, 64), rule(Grade::Full));
    let (report, events) = ask(ports, &settings).await;
    let segments = report.usage.segments;
    assert_eq!((segments.started, segments.wasted), (3, 0));
    assert!(told(&events).contains(&(Stage::Segment, Refusal::Budget)));
    assert_eq!(report.hops.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_the_gate_keeps_back_is_told_of_the_branch_it_would_stand_on() {
    let script = steady(&[true, true]);
    let gated = |least: f64| Settings {
        guess_chance: Chance::of(0.6),
        policy: Policy {
            chance_min: Chance::of(least),
            ..Policy::EAGER
        },
        ..settings(4)
    };
    let asked = |least: f64| {
        let (script, settings) = (script.clone(), gated(least));
        async move {
            let index = backend(64, 64);
            ask(ports(&script, &index, rule(Grade::Full)), &settings).await
        }
    };
    let unlikely = (Stage::Segment, Refusal::Unlikely);
    let (report, events) = asked(0.7).await;
    check(&report, &events, &[unlikely; 2]);
    assert!(events.iter().all(|event| !event.provisional));
    // One guess is likely enough, two of them are not.
    let (report, events) = asked(0.5).await;
    check(&report, &events, &[unlikely]);
    let (report, events) = asked(0.3).await;
    check(&report, &events, &[]);
    assert_eq!(report.hops.len(), 2);
}
