//! Drafted look-ups that are refused: they have hidden nothing, and what is asked is not refused with them.

use std::collections::BTreeSet;
use std::time::Duration;

use spechop_agent::{Policy, Settings, TraceEvent, TraceKind, Usage};
use spechop_sched::Grade;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Refusal, Stage};

use crate::asking::settings;
use crate::refusals::{ask, backend, check, committed, ports, rule, told};

/// Two hops, guessed rightly; their sub-questions are drafted, word for word or not.
fn drafted(held: bool) -> ScriptedPorts {
    let mut script = Script::steady(&[true, true], 100, 1000, 50);
    for hop in &mut script.hops {
        hop.draft_held = Some(held);
    }
    ScriptedPorts::new(script)
}

fn drafting(k: usize) -> Settings {
    Settings {
        policy: Policy {
            drafts_max: 1,
            ..Policy::default()
        },
        ..settings(k)
    }
}

/// While a look-up runs that the answer needs, no look-up of its branch is told to be refused.
fn check_needed_look_ups(events: &[TraceEvent]) {
    let mut looking_up = BTreeSet::new();
    for event in events {
        match event.kind {
            TraceKind::Launched {
                stage: Stage::Target,
            } if !event.provisional => {
                looking_up.insert(event.branch);
            }
            TraceKind::Observed { .. } => {
                looking_up.remove(&event.branch);
            }
            TraceKind::NotSpeculated {
                stage: Stage::Target,
                ..
            } => assert!(!looking_up.contains(&event.branch), "{events:#?}"),
            _ => {}
        }
    }
}

/// Every draft is right, and waits for a place until the planner has written the same words.
#[tokio::test(start_paused = true)]
async fn a_drafted_look_up_that_only_stood_in_line_has_hidden_nothing() {
    let (script, full) = (drafted(true), rule(Grade::Full));
    let (without, _) = ask(ports(&script, &backend(1, 0), full), &settings(2)).await;
    let (with, events) = ask(ports(&script, &backend(1, 0), full), &drafting(2)).await;
    assert_eq!(with.elapsed, without.elapsed);
    let counts = |usage: &Usage| (usage.targets.started, usage.drafted, usage.foreseen);
    assert_eq!(counts(&with.usage), (2, 2, 2));
    assert_eq!(with.usage.hidden, Duration::ZERO);
    for hop in &with.hops {
        assert_eq!((hop.draft_held, hop.foreseen), (Some(true), Duration::ZERO));
    }
    let saved = |event: &TraceEvent| match event.kind {
        TraceKind::Foreseen { saved } => Some(saved),
        _ => None,
    };
    let saved: Vec<_> = events.iter().filter_map(saved).collect();
    assert_eq!(saved, [Duration::ZERO; 2]);
    // The second one is asked for by the first commit, and has still not been started.
    let told: Vec<_> = committed(&events).iter().map(counts).collect();
    assert_eq!(told, [(1, 1, 1), (2, 2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_was_never_looked_up_is_not_counted() {
    // Right ones that the policy forbids, and wrong ones that wait in vain.
    for (held, index, grade, why) in [
        (true, backend(64, 64), Grade::Never, Refusal::Denied),
        (false, backend(1, 0), Grade::Full, Refusal::NoPlace),
    ] {
        let (report, events) = ask(ports(&drafted(held), &index, rule(grade)), &drafting(2)).await;
        let refused = told(&events);
        assert!(refused.len() >= 2, "{refused:?}");
        assert!(refused.iter().all(|told| *told == (Stage::Target, why)));
        check(&report, &events, &refused);
        let usage = report.usage;
        assert_eq!((usage.drafted, usage.foreseen), (0, 0), "{why}");
        assert_eq!(usage.hidden, Duration::ZERO);
        assert_eq!((usage.targets.started, usage.targets.wasted), (2, 0));
        assert_eq!(index.gauges().started, 2);
        // None has failed that was not tried.
        assert!(report.hops.iter().all(|hop| hop.draft_held.is_none()));
        for usage in committed(&events) {
            assert_eq!(usage.drafted, 0);
        }
        check_needed_look_ups(&events);
    }
}

/// Both drafts are right. The second look-up is asked for at 250 ms, loses its place, and is made again by need.
#[tokio::test(start_paused = true)]
async fn a_drafted_look_up_that_is_made_again_has_hidden_nothing() {
    let (script, index) = (drafted(true), backend(2, 1));
    let other = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let needed = spechop_ports::Call::authoritative();
        let work = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(())
        };
        index.run(&needed, 1.0, work).await
    };
    let settings = drafting(2);
    let asked = ask(ports(&script, &index, rule(Grade::Full)), &settings);
    let ((report, events), other) = futures::join!(asked, other);
    assert!(other.is_ok());
    check(&report, &events, &[(Stage::Target, Refusal::Preempted)]);
    let usage = report.usage;
    assert_eq!((usage.targets.started, usage.targets.wasted), (3, 1));
    assert_eq!((usage.drafted, usage.foreseen), (2, 1));
    assert_eq!(usage.hidden.as_millis(), 100);
    // The draft was right all the same.
    let hops = report.hops.iter();
    let drafts: Vec<_> = hops
        .map(|hop| (hop.draft_held, hop.foreseen.as_millis()))
        .collect();
    assert_eq!(drafts, [(Some(true), 100), (Some(true), 0)]);
}
