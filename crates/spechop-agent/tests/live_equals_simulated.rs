//! One window, two drivers: in paused time the agent takes what the simulator says, and makes as
//! many calls, for any trace and every k.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use spechop_agent::{Agent, Ports, Settings, Width};
use spechop_sim::{Hop, Simulator, Trace};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Question;
use spechop_verifier::Mode;

/// A hop: segment, target, speculation in milliseconds; whether the guess is right.
type Drawn = (u64, u64, u64, bool);

/// No two stages of a question may end in the same moment: then the order of their news is
/// nobody's promise. Distinct powers of ten apart would do; odd offsets by position do as well.
fn times((segment, target, speculation, _): Drawn, at: usize) -> [u64; 3] {
    let at = at as u64;
    [
        segment * 400 + at * 4,
        target * 400 + 100 + at * 28,
        speculation * 400 + 200 + at * 12,
    ]
}

fn script(hops: &[Drawn]) -> Script {
    let right: Vec<bool> = hops.iter().map(|hop| hop.3).collect();
    let mut script = Script::steady(&right, 0, 0, 0);
    for (at, (scripted, hop)) in script.hops.iter_mut().zip(hops).enumerate() {
        let times = times(*hop, at).map(Duration::from_millis);
        [scripted.segment, scripted.target, scripted.speculation] = times;
    }
    script.final_segment = Duration::from_millis(52);
    script
}

fn trace(hops: &[Drawn]) -> Trace {
    let hop = |(at, hop): (usize, &Drawn)| {
        let [segment_ms, target_ms, speculation_ms] = times(*hop, at).map(|ms| ms as f64);
        Hop {
            segment_ms,
            target_ms,
            speculation_ms,
            accepted: hop.3,
        }
    };
    Trace {
        id: "drawn".into(),
        hops: hops.iter().enumerate().map(hop).collect(),
        final_ms: 52.0,
    }
}

fn hops() -> impl Strategy<Value = Vec<Drawn>> {
    let hop = (0..10_u64, 0..20_u64, 0..20_u64, any::<bool>());
    proptest::collection::vec(hop, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn agent_and_simulator_agree(hops in hops(), k in 0..7usize) {
        let width = NonZeroUsize::new(k).map_or(Width::UNBOUNDED, Width::bounded);
        let simulated = Simulator::new().run(&trace(&hops), width);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let port = Arc::new(ScriptedPorts::new(script(&hops)));
        let agent = Agent::new(Ports {
            planner: port.clone(),
            reader: port.clone(),
            retriever: port.clone(),
            speculator: Some(port),
        });
        let settings = Settings {
            width,
            hops_max: 8,
            verifier: Mode::Exact,
            ..Settings::default()
        };
        let question = Question::new("Who is the mother of the director?").unwrap();
        let report = runtime.block_on(agent.answer(&question, &settings, &mut |_| {})).unwrap();
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
    }
}
