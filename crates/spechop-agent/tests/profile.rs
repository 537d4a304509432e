//! What the time of a question was spent on, as far as its ports tell.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use spechop_agent::{Calls, Report};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Activities, Activity, CommitKind};

use crate::asking::{ask, settings, steady};

/// The activities that took any time, in milliseconds.
fn millis(of: &Activities) -> Vec<(Activity, u128)> {
    let taken = of.iter().filter(|(_, time)| !time.is_zero());
    taken.map(|(of, time)| (of, time.as_millis())).collect()
}

fn stages(report: &Report) -> [Calls; 3] {
    let usage = report.usage;
    [usage.segments, usage.targets, usage.speculations]
}

#[tokio::test(start_paused = true)]
async fn the_activities_of_the_standard_agent_add_up_to_its_time() {
    let report = ask(&steady(&[true, true]), &settings(1)).await.unwrap();
    let [segments, targets, guesses] = stages(&report);
    assert_eq!(
        millis(&segments.cost.activities),
        [(Activity::Generate, 300)]
    );
    let looked_up = [(Activity::Read, 500), (Activity::Scan, 1500)];
    assert_eq!(millis(&targets.cost.activities), looked_up);
    assert_eq!(millis(&guesses.cost.activities), []);
    let sum: Activities = stages(&report)
        .map(|calls| calls.cost.activities)
        .into_iter()
        .sum();
    assert_eq!(sum.total(), report.elapsed);
    for hop in &report.hops {
        let own = [
            (Activity::Read, 250),
            (Activity::Scan, 750),
            (Activity::Generate, 100),
        ];
        assert_eq!(millis(&hop.activities), own);
    }
}

#[tokio::test(start_paused = true)]
async fn a_guess_counts_for_its_hop_if_it_was_right() {
    let report = ask(&steady(&[true, false, true]), &settings(3))
        .await
        .unwrap();
    for hop in &report.hops {
        let written = hop.activities.of(Activity::Generate);
        let guessed = hop.hop.kind == CommitKind::Accepted;
        let expected = if guessed { 100 + 50 } else { 100 };
        assert_eq!(written, Duration::from_millis(expected), "{hop:?}");
    }
    let [segments, ..] = stages(&report);
    let wasted = segments.cost_wasted.activities;
    assert!(!wasted.total().is_zero(), "a branch stood on a wrong guess");
}

/// Whatever becomes of the calls: these ports are busy from the beginning of a call to its end.
#[tokio::test(start_paused = true)]
async fn activities_are_used_and_wasted_as_the_time_is() {
    for seed in 0..64 {
        for k in [1, 3, 0] {
            let ports = ScriptedPorts::new(Script::random(seed));
            let report = ask(&ports, &settings(k)).await.unwrap();
            for calls in stages(&report) {
                for cost in [calls.cost, calls.cost_wasted] {
                    let busy = cost.activities.total();
                    assert_eq!(busy, cost.time, "seed {seed}, k = {k}: {calls:?}");
                }
            }
        }
    }
}
