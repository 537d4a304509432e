//! The running estimates of `spechop-theory`, fed by live stages: what the agent reports of its hops
//! is enough to know p, α and β by.

use crate::asking::{ask, settings};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_theory::{Estimator, Interval, Stages};
use spechop_types::CommitKind;

#[tokio::test(start_paused = true)]
async fn live_stages_give_the_estimates() {
    let mut estimator = Estimator::new(1_000.0);
    // Segments take a tenth of a look-up, guesses a twentieth; three in five are right.
    let (p, alpha, beta) = (0.6, 0.05, 0.1);
    for _ in 0..60 {
        let right = [true, false, true, true, false];
        let ports = ScriptedPorts::new(Script::steady(&right, 100, 1_000, 50));
        let report = ask(&ports, &settings(4)).await.unwrap();
        for hop in &report.hops {
            let seconds = |time: std::time::Duration| Some(time.as_secs_f64());
            estimator.record(Stages {
                segment: seconds(hop.times.segment),
                target: seconds(hop.times.target),
                speculation: hop.times.speculation.map(|time| time.as_secs_f64()),
                accepted: match hop.hop.kind {
                    CommitKind::Accepted => Some(true),
                    CommitKind::Rejected => Some(false),
                    CommitKind::Observed => None,
                },
            });
        }
    }
    let holds = |estimate: Option<Interval>, truth: f64, slack: f64| {
        let Interval { value, low, high } = estimate.unwrap();
        assert!((value - truth).abs() <= slack, "{value}, not {truth}");
        assert!(
            low - slack <= truth && truth <= high + slack,
            "{low} to {high}"
        );
    };
    // The newest hops weigh a little more, and tokio's timers are exact to a millisecond.
    holds(estimator.p(), p, 0.01);
    holds(estimator.alpha(), alpha, 0.002);
    holds(estimator.beta(), beta, 0.002);
    assert!(estimator.nu() < 0.05, "steady stages: {}", estimator.nu());
}
