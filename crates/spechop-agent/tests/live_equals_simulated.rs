//! One window, two drivers: in paused time the agent takes what the simulator says, and makes as
//! many calls, for any trace and every k.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use spechop_agent::{Agent, Policy, Ports, Report, Settings, Width};
use spechop_sim::{Hop, Outcome, Rules, Simulator, Trace};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Question;
use spechop_verifier::Mode;

/// A hop: segment, target, speculation in steps of time; which of three guesses is right, if any, or
/// whether there is none at all; which earlier hops it depends on, as bits.
type Drawn = (u64, u64, u64, u8, u8);

const NO_GUESS: u8 = 4;

/// No two stages of a question may end in the same moment: then the order of their news is
/// nobody's promise. Distinct powers of ten apart would do; odd offsets by position do as well.
fn times((segment, target, speculation, ..): Drawn, at: usize) -> [u64; 3] {
    let at = at as u64;
    [
        segment * 400 + at * 4,
        target * 400 + 100 + at * 28,
        speculation * 400 + 200 + at * 12,
    ]
}

fn depends_on((.., bits): Drawn, at: usize) -> Vec<usize> {
    (0..at).filter(|hop| bits >> hop & 1 == 1).collect()
}

fn script(hops: &[Drawn]) -> Script {
    let mut script = Script::steady(&vec![true; hops.len()], 0, 0, 0);
    for (at, (scripted, hop)) in script.hops.iter_mut().zip(hops).enumerate() {
        let times = times(*hop, at).map(Duration::from_millis);
        [scripted.segment, scripted.target, scripted.speculation] = times;
        scripted.depends_on = Some(depends_on(*hop, at));
        let guess = |rank| match rank == hop.3 {
            true => format!("fact {at}"),
            false => format!("fiction {at}.{rank}"),
        };
        scripted.guesses = match hop.3 {
            NO_GUESS => Vec::new(),
            _ => (1..=3).map(guess).collect(),
        };
    }
    script.final_segment = Duration::from_millis(52);
    script
}

fn trace(hops: &[Drawn]) -> Trace {
    let hop = |(at, hop): (usize, &Drawn)| {
        let [segment_ms, target_ms, speculation_ms] = times(*hop, at).map(|ms| ms as f64);
        let from_1 = |hop: usize| hop as u32 + 1;
        Hop {
            segment_ms,
            target_ms,
            speculation_ms,
            accepted: hop.3 == 1,
            guessed: hop.3 != NO_GUESS,
            right_guess: (2..=3).find(|rank| *rank == u32::from(hop.3)),
            depends_on: Some(depends_on(*hop, at).into_iter().map(from_1).collect()),
        }
    };
    Trace {
        id: "drawn".into(),
        hops: hops.iter().enumerate().map(hop).collect(),
        final_ms: 52.0,
    }
}

fn hops() -> impl Strategy<Value = Vec<Drawn>> {
    let hop = (0..10_u64, 0..20_u64, 0..20_u64, 0..=NO_GUESS, any::<u8>());
    proptest::collection::vec(hop, 0..6)
}

fn policies() -> impl Strategy<Value = Policy> {
    (0..4_usize, any::<bool>(), 1..4_usize).prop_map(|(orphans_max, plan_ahead, guesses)| Policy {
        orphans_max,
        plan_ahead,
        guesses_max: guesses.try_into().unwrap(),
    })
}

/// How long an orphan lives. Odd, so that its end falls together with nothing else.
const ORPHAN_MS: u64 = 3_001;

fn simulate(hops: &[Drawn], width: Width, policy: Policy) -> Outcome {
    let rules = Rules {
        orphan_ms: ORPHAN_MS as f64,
        ..Rules::new(width, policy)
    };
    Simulator::new().run(&trace(hops), rules)
}

async fn live(script: Script, width: Width, policy: Policy) -> Report {
    let port = Arc::new(ScriptedPorts::new(script));
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port.clone(),
        speculator: Some(port.clone()),
    });
    let settings = Settings {
        width,
        policy,
        orphan_time: Duration::from_millis(ORPHAN_MS),
        hops_max: u32::MAX,
        verifier: Mode::Exact,
        ..Settings::default()
    };
    let question = Question::new("Who is the mother of the director?").unwrap();
    let report = agent
        .answer(&question, &settings, &mut |_| {})
        .await
        .unwrap();
    assert_eq!(port.live(), 0, "nothing outlives the answer");
    report
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn agent_and_simulator_agree(hops in hops(), k in 0..9_usize, policy in policies()) {
        let width = NonZeroUsize::new(k).map_or(Width::UNBOUNDED, Width::bounded);
        let simulated = simulate(&hops, width, policy);
        let report = paused().block_on(live(script(&hops), width, policy));
        let live_ms = report.elapsed.as_secs_f64() * 1000.0;
        // tokio's timers are exact to a millisecond each, and waits follow each other.
        let slack = 2.0 * (hops.len() as f64 + 1.0);
        prop_assert!(
            (live_ms - simulated.latency_ms).abs() <= slack,
            "live {} ms, simulated {} ms", live_ms, simulated.latency_ms
        );
        let usage = report.usage;
        prop_assert_eq!(u64::from(usage.segments.started), simulated.calls.segments);
        prop_assert_eq!(u64::from(usage.targets.started), simulated.calls.targets);
        prop_assert_eq!(u64::from(usage.speculations.started), simulated.calls.speculations);
        prop_assert_eq!(u64::from(usage.salvaged), simulated.salvaged);
        let right: Vec<_> = (0..hops.len()).map(|at| format!("fact {at}")).collect();
        let answers: Vec<_> = report.hops.iter().map(|hop| hop.hop.answer.to_string()).collect();
        prop_assert_eq!(answers, right);
    }
}
