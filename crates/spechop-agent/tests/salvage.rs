//! Salvage, live: what it saves, what it is told as, and when it ends.

use std::time::Duration;

use crate::asking::{agent, ask, line, millis, question, settings, steady, trajectory};
use spechop_agent::{Policy, Settings, TraceKind};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Budget, Stage};

/// Three hops, the last of which needs none before it; the first guess is wrong.
fn independent() -> ScriptedPorts {
    let mut script = Script::steady(&[false, true, true], 100, 1000, 50);
    script.hops[2].depends_on = Some(Vec::new());
    ScriptedPorts::new(script)
}

#[tokio::test(start_paused = true)]
async fn salvage_takes_over_what_a_wrong_guess_had_begun() {
    let plain = Settings {
        policy: Policy::EAGER,
        ..settings(0)
    };
    let without = ask(&independent(), &plain).await.unwrap();
    let with = ask(&independent(), &settings(0)).await.unwrap();
    assert_eq!(trajectory(&with), trajectory(&without));
    // Begun at 400 behind the wrong guess: there when it is asked again at 1,350, and answered with the
    // second hop at 2,200; alone it would take until 2,350.
    assert_eq!((millis(&with), millis(&without)), (2200, 2350));
    assert_eq!((with.usage.salvaged, without.usage.salvaged), (1, 0));
    assert_eq!(
        with.usage.targets.started,
        without.usage.targets.started - 1
    );
    assert_eq!(
        with.usage.targets.wasted, 1,
        "the second hop, asked about a wrong guess"
    );
    let salvaged: Vec<_> = with.hops.iter().map(|hop| hop.salvaged).collect();
    assert_eq!(salvaged, [false, false, true]);
    assert_eq!(with.hops[2].times.target.as_millis(), 1000);
}

/// The look-up is taken over at 1,200 ms, fails at 1,750, and is made again.
#[tokio::test(start_paused = true)]
async fn what_is_made_again_was_not_salvaged() {
    let mut script = Script::steady(&[false, true], 100, 1000, 50);
    script.hops[1].depends_on = Some(Vec::new());
    script.hops[1].target = Duration::from_millis(2000);
    script.failures.insert((1, Stage::Target), 1);
    let mut told = 0;
    let report = agent(&ScriptedPorts::new(script))
        .answer(&question(), &settings(2), &mut |event| {
            told += u32::from(matches!(event.kind, TraceKind::Salvaged { .. }));
        })
        .await
        .unwrap();
    assert_eq!((told, report.usage.salvaged), (1, 0));
    assert!(report.hops.iter().all(|hop| !hop.salvaged));
    let targets = report.usage.targets;
    assert_eq!((targets.started, targets.wasted), (3, 1));
    assert_eq!(millis(&report), 3750);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_lives_no_longer_than_it_may() {
    let brief = Settings {
        orphan_time: Duration::from_millis(200),
        ..settings(0)
    };
    let report = ask(&independent(), &brief).await.unwrap();
    assert_eq!(report.usage.salvaged, 0);
    assert_eq!(report.usage.targets.started, 5);
}

#[tokio::test(start_paused = true)]
async fn orphans_are_stopped_where_the_budget_has_nothing_to_spare() {
    let tight = Settings {
        budget: Budget {
            target_calls: Some(5),
            ..Budget::default()
        },
        ..settings(0)
    };
    let report = ask(&independent(), &tight).await.unwrap();
    assert!(report.usage.targets.started <= 5);
    let paper = Settings {
        policy: Policy::EAGER,
        ..tight
    };
    let without = ask(&independent(), &paper).await.unwrap();
    assert_eq!(trajectory(&report), trajectory(&without));
}

/// Without salvage, what a rejection rolls back is stopped before the hop is told to be committed.
#[tokio::test(start_paused = true)]
async fn what_is_rolled_back_is_stopped_at_once() {
    let ports = steady(&[false, true]);
    let plain = Settings {
        policy: Policy::EAGER,
        ..settings(3)
    };
    let mut live = Vec::new();
    agent(&ports)
        .answer(&question(), &plain, &mut |event| {
            if matches!(event.kind, TraceKind::Committed { .. }) {
                live.push(ports.live());
            }
        })
        .await
        .unwrap();
    // Behind the second hop, the answer is written already.
    assert_eq!(live, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn salvage_is_told() {
    let mut lines = Vec::new();
    let ports = independent();
    agent(&ports)
        .answer(&question(), &settings(0), &mut |event| {
            lines.push(line(&event));
        })
        .await
        .unwrap();
    insta::assert_snapshot!(lines.join("\n"));
}
