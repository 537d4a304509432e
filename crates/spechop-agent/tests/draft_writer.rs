//! Drafts that somebody writes while the planner writes: what they save, what they cost, and that they
//! harm nothing, whatever becomes of them.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::sync::Arc;
use std::time::Duration;

use crate::asking::{line, millis, question, settings, trajectory};
use spechop_agent::{Agent, Policy, Ports, Prices, Report, Settings, StageLimits, TraceEvent};
use spechop_ports::Wishes;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Budget, Money, Price, Stage};

/// Two hops of 100 ms to write, 1,000 ms to look up and 50 ms to guess; drafts take `draft_ms`.
fn script(draft_ms: u64, held: Option<bool>) -> Script {
    let mut script = Script::steady(&[true, true], 100, 1000, 50);
    script.draft_time = Duration::from_millis(draft_ms);
    for hop in &mut script.hops {
        hop.draft_held = held;
    }
    script
}

fn agent(ports: &ScriptedPorts, patterns: bool) -> Agent {
    let port = Arc::new(ports.clone());
    Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port.clone(),
        speculator: Some(port.clone()),
        drafter: patterns.then(|| port.clone() as _),
        draft_writer: Some(port),
    })
}

fn drafting(samples: u32, drafts_max: usize) -> Settings {
    Settings {
        draft_samples: samples,
        policy: Policy {
            drafts_max,
            ..Policy::default()
        },
        prices: Prices {
            draft: Price {
                call: Money(100),
                prompt_million: Money(1_000_000),
                completion_million: Money(10_000_000),
            },
            ..Prices::default()
        },
        ..settings(3)
    }
}

async fn ask(script: Script, settings: &Settings) -> (Report, Vec<String>) {
    let ports = ScriptedPorts::new(script);
    let mut lines = Vec::new();
    let mut trace = |event: TraceEvent| lines.push(line(&event));
    let agent = agent(&ports, false);
    let report = agent.answer(&question(), settings, &mut trace).await;
    assert_eq!(ports.live(), 0, "SPEC-9: calls are left");
    (report.unwrap(), lines)
}

/// Looked up ahead, of these asked for; drafts written, of these wasted.
fn counts(report: &Report) -> [u32; 4] {
    let usage = report.usage;
    [
        usage.drafted,
        usage.foreseen,
        usage.drafts.started,
        usage.drafts.wasted,
    ]
}

#[tokio::test(start_paused = true)]
async fn a_right_draft_hides_the_rest_of_writing_and_is_paid() {
    let (without, _) = ask(script(30, None), &drafting(0, 1)).await;
    assert_eq!((millis(&without), counts(&without)), (1250, [0; 4]));
    let (with, lines) = ask(script(30, Some(true)), &drafting(1, 1)).await;
    assert_eq!(trajectory(&with), trajectory(&without));
    // The look-up begins when the draft is there: after 30 of 100 ms. The final segment's is in vain.
    assert_eq!((millis(&with), counts(&with)), (1180, [2, 2, 3, 1]));
    assert_eq!(with.usage.hidden.as_millis(), 140);
    assert!(with.hops.iter().all(|hop| hop.draft_held == Some(true)));
    let drafts = with.usage.drafts;
    // Each takes 10 tokens and writes 2: 30 millionths, and 100 for the call.
    let money = |calls: u64| Money(calls * 130);
    assert_eq!(drafts.cost.money, money(3));
    assert_eq!(drafts.cost_wasted.money, money(1));
    assert_eq!(drafts.cost.tokens.total(), 36);
    assert_eq!(with.usage.targets.started, without.usage.targets.started);
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_draft_costs_its_call_and_its_look_up_and_no_time() {
    let (without, _) = ask(script(30, None), &drafting(0, 1)).await;
    let (with, _) = ask(script(30, Some(false)), &drafting(1, 1)).await;
    assert_eq!(trajectory(&with), trajectory(&without));
    assert_eq!(with.elapsed, without.elapsed);
    assert_eq!(counts(&with), [2, 0, 3, 3]);
    let drafts = with.usage.drafts;
    assert_eq!(drafts.cost, drafts.cost_wasted);
    assert_eq!(with.usage.targets.wasted, 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_of_several_samples_counts_and_the_others_are_stopped() {
    // There is room for one look-up: the others are stopped once it has begun.
    let (one, _) = ask(script(30, Some(true)), &drafting(3, 1)).await;
    assert_eq!((millis(&one), counts(&one)), (1180, [2, 2, 9, 7]));
    // There is room for two, so all samples are heard. They say the same, which is looked up once.
    let (two, _) = ask(script(30, Some(true)), &drafting(3, 2)).await;
    assert_eq!((millis(&two), counts(&two)), (1180, [2, 2, 9, 7]));
    assert!(two.usage.drafts.cost.tokens.total() > one.usage.drafts.cost.tokens.total());
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_slow_or_fails_harms_nothing() {
    let (without, _) = ask(script(30, None), &drafting(0, 1)).await;
    let hour = 3_600_000;
    let hasty = Settings {
        limits: StageLimits {
            draft: Duration::from_millis(20),
            ..StageLimits::default()
        },
        ..drafting(2, 1)
    };
    let mut failing = script(10, Some(true));
    failing
        .failures
        .extend((0..3).map(|hop| ((hop, Stage::Draft), 9)));
    for (script, settings, told) in [
        // It ends with its segment.
        (script(hour, Some(true)), drafting(2, 1), None),
        (script(150, Some(true)), drafting(2, 1), None),
        // It ends at its limit.
        (
            script(hour, Some(true)),
            hasty.clone(),
            Some("failed draft: the draft stage took longer than 20 ms"),
        ),
        (
            failing,
            hasty,
            Some("failed draft: the scripted draft of hop 0 is unavailable: so it is written"),
        ),
    ] {
        let (report, lines) = ask(script, &settings).await;
        assert_eq!(trajectory(&report), trajectory(&without));
        assert_eq!(report.elapsed, without.elapsed);
        assert_eq!(counts(&report), [0, 0, 6, 6]);
        let is_told = |told: &str| lines.iter().any(|line| line.contains(told));
        assert!(told.is_none_or(is_told), "{lines:#?}");
        assert_eq!(told.is_some(), is_told("failed"), "{lines:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_writes_what_may_not_be_looked_up_or_paid() {
    let quiet = Settings {
        wishes: Wishes {
            quiet: true,
            ..Wishes::default()
        },
        ..drafting(1, 1)
    };
    // As much as three segments take, half of which may be spent ahead of need.
    let poor = Settings {
        budget: Budget {
            tokens: Some(60),
            ..Budget::default()
        },
        ..drafting(8, 1)
    };
    let right = || script(30, Some(true));
    let (report, lines) = ask(right(), &quiet).await;
    assert_eq!(counts(&report), [0; 4]);
    assert!(lines[1].contains("no draft ahead"), "{lines:?}");
    let (standard, _) = ask(right(), &Settings { ..settings(1) }).await;
    assert_eq!(counts(&standard), [0; 4]);
    let (none, _) = ask(right(), &drafting(1, 0)).await;
    assert_eq!(counts(&none), [0; 4]);
    let (report, lines) = ask(right(), &poor).await;
    // One, until it is known what it takes; and then none.
    assert_eq!(report.usage.drafts.started, 1, "{lines:#?}");
    let refused = lines.iter().filter(|line| line.contains("no draft ahead"));
    assert!(refused.count() > 0, "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn patterns_come_first_and_leave_the_rest_of_the_room() {
    let ports = ScriptedPorts::new(script(30, Some(true)));
    for (drafts_max, started) in [(1, 1), (2, 3)] {
        let settings = drafting(1, drafts_max);
        let asked = agent(&ports, true);
        let report = asked.answer(&question(), &settings, &mut |_| {}).await;
        let report = report.unwrap();
        // The pattern's look-up begins with the segment. Where it is there, what was written is not used. The
        // final segment has no pattern.
        assert_eq!(millis(&report), 1150);
        assert_eq!(counts(&report), [2, 2, started, started]);
    }
}

/// Drawn questions: with and without written drafts, and at k = 1, the same hops and the same answer.
#[tokio::test(start_paused = true)]
async fn no_draft_changes_an_answer() {
    let mut foreseen = 0;
    for seed in 0..400 {
        let mut script = Script::random(seed);
        script.draft_time = Duration::from_millis(seed % 60);
        if seed % 5 == 0 {
            script.failures.insert((0, Stage::Draft), 1);
        }
        let standard = ask(script.clone(), &settings(1)).await.0;
        for samples in [1, 3] {
            let (report, _) = ask(script.clone(), &drafting(samples, 2)).await;
            assert_eq!(trajectory(&report), trajectory(&standard), "seed {seed}");
            assert_eq!(report.answer, standard.answer, "seed {seed}");
            foreseen += report.usage.foreseen;
            let drafts = report.usage.drafts;
            assert!(drafts.wasted <= drafts.started, "seed {seed}");
            assert!(drafts.started - drafts.wasted <= report.usage.foreseen);
        }
    }
    assert!(foreseen > 300, "{foreseen}");
}

/// A thousand questions, each dropped somewhere on its way.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_drafts_of_cancelled_questions() {
    let ports = ScriptedPorts::new(script(30, Some(true)));
    let before = ports.started();
    for turn in 0..1000 {
        let limit = Duration::from_millis(turn % 1300);
        let (asked, question, settings) = (agent(&ports, false), question(), drafting(3, 2));
        let mut trace = |_: TraceEvent| ();
        let answering = asked.answer(&question, &settings, &mut trace);
        let _ = tokio::time::timeout(limit, answering).await;
        assert_eq!(ports.live(), 0, "after {limit:?}");
    }
    assert!(ports.started() > before + 4000);
}
