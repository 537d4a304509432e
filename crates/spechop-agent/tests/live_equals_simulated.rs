//! One window, two drivers: in paused time the agent takes what the simulator says, and makes as
//! many calls, for any trace and every k. In real time: `benches/live_ratio.rs`.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::num::NonZeroUsize;

use crate::traces::{Drawn, NO_GUESS, live, simulate};
use proptest::prelude::*;
use spechop_agent::{Hidden, Policy, ReliabilityCurve, TraceKind, Weighing, Width};
use spechop_sim::{Rules, What};
use spechop_types::Chance;

/// Times are drawn in steps, so that some stages take many times as long as others, and from a range
/// so wide that no two sums of them are ever the same: what ends in the same moment ends in an order
/// that is nobody's promise. Paused time has days to spare.
const STEP_MS: u64 = 40_000_000;
/// How long an orphan lives.
const ORPHAN_MS: u64 = 300_000_000;

/// A time of up to so many steps. Retrieval takes three quarters of a look-up, to the millisecond.
fn time(steps: u64) -> impl Strategy<Value = u64> {
    (0..steps, 0..STEP_MS / 4).prop_map(|(steps, rest)| steps * STEP_MS + rest * 4)
}

fn hops() -> impl Strategy<Value = Vec<Drawn>> {
    let times = (time(10), time(20), time(20));
    let drawn = |((segment, target, speculation), right, needs, confidence, draft_held)| Drawn {
        times_ms: [segment, target, speculation],
        right,
        needs,
        confidence,
        draft_held,
    };
    let confidence = proptest::option::of(0.0..=1.0_f32);
    let hop = (
        times,
        0..=NO_GUESS,
        any::<u8>(),
        confidence,
        any::<Option<bool>>(),
    );
    let hop = hop.prop_map(drawn);
    proptest::collection::vec(hop, 0..6)
}

fn policies() -> impl Strategy<Value = Policy> {
    let gate = prop_oneof![Just(0.0), 0.0..=1.0];
    let drafts = (0..3_usize, any::<bool>());
    let steps = (0..20 * STEP_MS, 0..20 * STEP_MS);
    let steps = steps.prop_map(|(from, hidden)| (from as u32, hidden as u32));
    let said = (0.0..=1.0_f64, 0.0..=1.0_f64);
    let said = said.prop_map(|(said, right)| (Chance::of(said), Chance::of(right)));
    let weighing = (
        proptest::collection::vec(said, 0..4),
        prop_oneof![Just(0), 0..20 * STEP_MS as u32],
        proptest::collection::vec(steps, 0..4),
    )
        .prop_map(|(said, price_ms, steps)| Weighing {
            calibration: ReliabilityCurve::through(said),
            price_ms,
            hidden: Hidden::from_steps(steps),
        });
    (
        0..4_usize,
        any::<bool>(),
        1..4_usize,
        gate,
        any::<bool>(),
        drafts,
        weighing,
        any::<(bool, bool)>(),
    )
        .prop_map(
            |(
                orphans_max,
                plan_ahead,
                guesses,
                chance_min,
                continuous,
                drafts,
                weighing,
                waits,
            )| Policy {
                orphans_max,
                plan_ahead,
                guesses_max: guesses.try_into().unwrap(),
                chance_min: Chance::of(chance_min),
                weighing,
                continuous,
                drafts_max: drafts.0,
                draft_guesses: drafts.1,
                guess_at_once: !waits.0,
                build_on_observations: !waits.1,
            },
        )
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

/// What happened, in words that both drivers have. `None` for what only one of them can tell.
fn live_words(kind: &TraceKind) -> Option<String> {
    Some(match kind {
        TraceKind::Launched { stage } => format!("launched {stage:?}"),
        TraceKind::Planned { .. } => "planned".to_owned(),
        TraceKind::Drafted { chance, .. } => format!("drafted {chance:?}"),
        TraceKind::Guessed { guesses, .. } => format!("guessed {}", !guesses.is_empty()),
        TraceKind::Observed { .. } => "observed".to_owned(),
        TraceKind::Verified { verdict } => format!("verified {}", verdict.accepted),
        TraceKind::Committed { hop, .. } => format!("committed {:?}", hop.kind),
        TraceKind::Promoted => "promoted".to_owned(),
        TraceKind::RolledBack => "rolled back".to_owned(),
        TraceKind::Salvaged { .. } => "salvaged".to_owned(),
        TraceKind::AskedAhead { chance, .. } => format!("asked ahead {chance:?}"),
        TraceKind::Foreseen { .. } => "foreseen".to_owned(),
        TraceKind::NotSpeculated { .. }
        | TraceKind::ProviderChanged { .. }
        | TraceKind::HandedOver { .. }
        | TraceKind::Failed { .. } => return None,
    })
}

fn simulated_words(what: &What) -> String {
    match what {
        What::Launched(stage) => format!("launched {stage:?}"),
        What::Planned { .. } => "planned".to_owned(),
        What::Drafted { chance, .. } => format!("drafted {chance:?}"),
        What::Guessed { right, .. } => format!("guessed {}", right.is_some()),
        What::Observed { .. } => "observed".to_owned(),
        What::Verified { accepted } => format!("verified {accepted}"),
        What::Committed(kind) => format!("committed {kind:?}"),
        What::Promoted => "promoted".to_owned(),
        What::RolledBack => "rolled back".to_owned(),
        What::Salvaged { .. } => "salvaged".to_owned(),
        What::AskedAhead { chance, .. } => format!("asked ahead {chance:?}"),
        What::Foreseen { .. } => "foreseen".to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn agent_and_simulator_agree(
        hops in hops(),
        k in 0..9_usize,
        policy in policies(),
        guess_chance in 0.0..=1.0_f64,
        draft_chance in 0.0..=1.0_f64,
    ) {
        let width = NonZeroUsize::new(k).map_or(Width::UNBOUNDED, Width::bounded);
        let rules = Rules {
            orphan_ms: ORPHAN_MS as f64,
            guess_chance: Chance::of(guess_chance),
            draft_chance: Chance::of(draft_chance),
            ..Rules::new(width, policy)
        };
        let (simulated, moments) = simulate(&hops, rules);
        let (report, told) = paused().block_on(live(&hops, rules)).unwrap();
        let live_ms = report.elapsed.as_secs_f64() * 1000.0;
        // tokio's timers are exact to a millisecond each, and waits follow each other.
        let slack = 2.0 * (hops.len() as f64 + 1.0);
        prop_assert!(
            (live_ms - simulated.latency_ms).abs() <= slack,
            "live {} ms, simulated {} ms", live_ms, simulated.latency_ms
        );
        let first_ms = report.first_answer.at.as_secs_f64() * 1000.0;
        prop_assert!((first_ms - simulated.first_answer_ms).abs() <= slack);
        prop_assert!(simulated.first_answer_ms <= simulated.latency_ms);
        let stall_ms: f64 = report.hops.iter().map(|hop| hop.stall.as_secs_f64() * 1000.0).sum();
        // Each hop's has both ends of its own.
        prop_assert!((stall_ms - simulated.stall_ms).abs() <= slack * (hops.len() as f64 + 1.0));
        for (hop, drawn) in report.hops.iter().zip(&hops) {
            let is_told = (1..=policy.guesses_max.get()).contains(&usize::from(drawn.right));
            let right = (is_told && hop.times.speculation.is_some()).then_some(u32::from(drawn.right));
            prop_assert_eq!(hop.right_guess, right);
        }
        prop_assert_eq!(report.first_answer.chance, simulated.first_answer_chance);
        // They also tell the same story.
        let told = told.iter().filter_map(|event| {
            let words = live_words(&event.kind)?;
            // At the end, the agent tells the siblings of the branch that answered from no head that failed.
            let provisional = event.provisional || words == "rolled back";
            Some((event.branch, event.hop, provisional, words, event.at.as_secs_f64() * 1000.0))
        });
        let simulated_told = moments.iter().map(|moment| {
            let words = simulated_words(&moment.what);
            (moment.branch, moment.hop, moment.provisional, words, moment.at_ms)
        });
        let (told, simulated_told): (Vec<_>, Vec<_>) = (told.collect(), simulated_told.collect());
        for (at, (live, simulated)) in told.iter().zip(&simulated_told).enumerate() {
            let same = (live.0, live.1, live.2, &live.3) == (simulated.0, simulated.1, simulated.2, &simulated.3);
            prop_assert!(same && (live.4 - simulated.4).abs() <= slack, "{}: {:?}, {:?}", at, live, simulated);
        }
        prop_assert_eq!(told.len(), simulated_told.len());
        let usage = report.usage;
        prop_assert_eq!(u64::from(usage.segments.started), simulated.calls.segments);
        prop_assert_eq!(u64::from(usage.targets.started), simulated.calls.targets);
        prop_assert_eq!(u64::from(usage.speculations.started), simulated.calls.speculations);
        prop_assert_eq!(u64::from(usage.salvaged), simulated.salvaged);
        prop_assert_eq!(u64::from(usage.foreseen), simulated.foreseen);
        let right: Vec<_> = (0..hops.len()).map(|at| format!("fact {at}")).collect();
        let answers: Vec<_> = report.hops.iter().map(|hop| hop.hop.answer.to_string()).collect();
        prop_assert_eq!(answers, right);
    }
}
