//! A recorded question against the real agent's: the same answer, the same calls, the same times.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::recording::{
    Told, in_memory, live, live_times, parts, paused, question, record, recorded, recorder, times,
    variant,
};
use proptest::prelude::*;
use spechop_eval::{Bundle, HopKind, Injected, MissingStage, Row, Variant, play, replay};
use spechop_sim::{Clock, InjectedLatency};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{AnswerOptions, Chance, K, VerifierMode};

/// Times are drawn in steps, so that some stages take many times as long as others, and from a range
/// so wide that no two sums of them are ever the same: what ends in the same moment ends in an order
/// that is nobody's promise. Paused time has days to spare.
const STEP_MS: u64 = 40_000_000;
/// Guess 1, 2 or 3 is right; before them, none is.
const NONE_RIGHT: u8 = 0;
/// There is no guess at all.
const NO_GUESS: u8 = 4;
/// The first guess is right by the rules, and in other letters.
const OTHER_LETTERS: u8 = 5;

/// A hop as it is drawn.
#[derive(Clone, Debug)]
struct Drawn {
    /// `Ok`: a long time. `Err`: 1 to 3, for a segment so short that an orphan outlives it.
    segment: Result<u64, u64>,
    target_ms: u64,
    speculation_ms: u64,
    right: u8,
    /// Which earlier hops it depends on, as bits.
    needs: u8,
    finds: bool,
    /// It asks again what the first hop asked.
    repeats: bool,
    confidence: Option<f32>,
}

fn time(steps: u64) -> impl Strategy<Value = u64> {
    (0..steps, 0..STEP_MS / 4).prop_map(|(steps, rest)| steps * STEP_MS + rest * 4)
}

fn hops() -> impl Strategy<Value = Vec<Drawn>> {
    let segment = prop_oneof![time(10).prop_map(Ok), (1..4_u64).prop_map(Err)];
    let guess = prop_oneof![NONE_RIGHT..=OTHER_LETTERS, Just(1_u8)];
    let confidence = proptest::option::of(0.0..=1.0_f32);
    let odd = (
        proptest::bool::weighted(0.85),
        proptest::bool::weighted(0.03),
    );
    let hop = (
        segment,
        time(20),
        time(20),
        guess,
        // Half of the hops depend on few.
        prop_oneof![0..4_u8, any::<u8>()],
        odd,
        confidence,
    );
    let drawn = |(segment, target_ms, speculation_ms, right, needs, odd, confidence)| {
        let (finds, repeats) = odd;
        Drawn {
            segment,
            target_ms,
            speculation_ms,
            right,
            needs,
            finds,
            repeats,
            confidence,
        }
    };
    proptest::collection::vec(hop.prop_map(drawn), 0..6)
}

fn script(hops: &[Drawn]) -> Script {
    let mut script = Script::steady(&vec![true; hops.len()], 0, 0, 0);
    for (at, (scripted, hop)) in script.hops.iter_mut().zip(hops).enumerate() {
        // Each short one is longer than all before it, so that their sums differ too; all of them
        // are shorter than an orphan's life.
        let segment = hop.segment.unwrap_or_else(|short| (short * 8) << (2 * at));
        let times = [segment, hop.target_ms, hop.speculation_ms].map(Duration::from_millis);
        [scripted.segment, scripted.target, scripted.speculation] = times;
        let earlier = (0..at).filter(|earlier| hop.needs >> earlier & 1 == 1);
        scripted.depends_on = Some(earlier.collect());
        if hop.repeats {
            scripted.ask = "q0 after".into();
            scripted.depends_on = Some(Vec::new());
        }
        if !hop.finds {
            scripted.answer = String::new();
        }
        scripted.confidence = hop.confidence.map(|share| Chance::of(f64::from(share)));
        let guess = |rank| match rank == hop.right {
            true => format!("fact {at}"),
            false => format!("fiction {at}.{rank}"),
        };
        scripted.guesses = match hop.right {
            NO_GUESS => Vec::new(),
            OTHER_LETTERS => vec![format!("FACT {at}")],
            _ => (1..=3).map(guess).collect(),
        };
    }
    script.final_segment = Duration::from_millis(52);
    script
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn budgets() -> impl Strategy<Value = u32> {
    prop_oneof![1..4_u32, 4..9_u32]
}

fn variants() -> impl Strategy<Value = Variant> {
    let k = proptest::option::weighted(0.8, 1..5_usize);
    let verifier = prop_oneof![Just(VerifierMode::Exact), Just(VerifierMode::Rule)];
    let gate = prop_oneof![3 => Just(0.0), 1 => 0.0..=1.0];
    let switches = any::<[bool; 3]>();
    (k, verifier, 1..4_usize, gate, switches).prop_map(|(k, verifier, guesses, chance_min, on)| {
        let [salvage, plan_ahead, rounds] = on;
        let options = AnswerOptions {
            verifier: Some(verifier),
            salvage: Some(salvage),
            plan_ahead: Some(plan_ahead),
            guesses: NonZeroUsize::new(guesses),
            chance_min: Some(Chance::of(chance_min)),
            ..AnswerOptions::default()
        };
        let usual = Variant::at(k.and_then(K::of).unwrap_or(K::Unbounded));
        Variant {
            options: options.or(&usual.options),
            rounds,
            ..usual
        }
    })
}

fn played(bundle: &Bundle, variant: &Variant) -> Result<Row, MissingStage> {
    let question = &bundle.questions()[0];
    play(&mut Clock::new(), bundle, question, variant, None)
}

/// tokio's timers are exact to a millisecond each, and waits follow each other.
fn near(row: &[f64], live: &[f64], slack_ms: f64) -> bool {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= slack_ms;
    row.len() == live.len() && row.iter().zip(live).all(near)
}

proptest! {
    #![proptest_config(config())]

    /// Whatever is recorded says of any variant what the real agent does.
    #[test]
    fn recorded_is_live(hops in hops(), variant in variants(), hop_budget in budgets()) {
        let (script, question) = (script(&hops), question(hop_budget));
        let (row, report) = paused().block_on(async {
            let mut recorder = recorder(&ScriptedPorts::new(script.clone()));
            let mut bundle = in_memory(question.clone());
            let row = record(&mut recorder, &mut bundle, &variant).await.unwrap();
            assert_eq!(played(&bundle, &variant).unwrap(), row, "it is deterministic");
            let ports = ScriptedPorts::new(script);
            (row, live(parts(&ports), &question, &variant, 1.0).await.unwrap())
        });
        prop_assert_eq!(Told::from(&row), Told::from(&report));
        let (row, live) = (times(&row), live_times(&report, 1.0));
        let slack_ms = 2.0 * (hops.len() as f64 + 1.0);
        prop_assert!(near(&row, &live, slack_ms), "{row:?} is not {live:?}");
    }

    /// SPEC-8, recorded: with an exact verifier, nothing changes the trajectory and the answer.
    #[test]
    fn trajectory_does_not_depend_on_the_variant(
        hops in hops(),
        variants in proptest::collection::vec(variants(), 1..4),
        hop_budget in budgets(),
    ) {
        paused().block_on(async {
            let mut recorder = recorder(&ScriptedPorts::new(script(&hops)));
            let mut bundle = in_memory(question(hop_budget));
            let standard = record(&mut recorder, &mut bundle, &Variant::standard()).await.unwrap();
            for variant in variants {
                let mut exact = variant;
                exact.options.verifier = Some(VerifierMode::Exact);
                let row = record(&mut recorder, &mut bundle, &exact).await.unwrap();
                prop_assert_eq!(&row.answer, &standard.answer);
                prop_assert_eq!(trajectory(&row), trajectory(&standard));
                prop_assert!(row.latency_ms <= standard.latency_ms + 1e-3, "{}", exact);
            }
            Ok(())
        })?;
    }

    /// The agent over a replay is the recording, at any speed.
    #[test]
    fn replayed_is_recorded(
        hops in hops(),
        variant in variants(),
        speed in prop_oneof![Just(1.0), Just(2.0), Just(4.0)],
    ) {
        let question = question(6);
        let (row, report) = paused().block_on(async {
            let mut recorder = recorder(&ScriptedPorts::new(script(&hops)));
            let mut bundle = in_memory(question.clone());
            let row = record(&mut recorder, &mut bundle, &variant).await.unwrap();
            let parts = replay(&Arc::new(bundle), speed, &["hot"]).parts;
            (row, live(parts, &question, &variant, speed).await.unwrap())
        });
        prop_assert_eq!(Told::from(&row), Told::from(&report));
        let (row, live) = (times(&row), live_times(&report, speed));
        let slack_ms = speed * 2.0 * (hops.len() as f64 + 1.0);
        prop_assert!(near(&row, &live, slack_ms), "{row:?} is not {live:?}");
    }
}

fn trajectory(row: &Row) -> Vec<(&str, &str, &str, bool)> {
    let told = row.hops.iter().map(|hop| {
        let texts = (&*hop.sub_question, &*hop.answer, &*hop.observed);
        (texts.0, texts.1, texts.2, hop.found)
    });
    told.collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_not_recorded_cannot_be_replayed() {
    let question = question(5);
    let parts = replay(&Arc::new(in_memory(question.clone())), 1.0, &["hot"]).parts;
    let error = live(parts, &question, &variant("k=3"), 1.0).await;
    let source = std::error::Error::source(&error.unwrap_err())
        .unwrap()
        .to_string();
    assert_eq!(
        source,
        "the bundle refused the request: the segment after 0 hops of \
         “Who is the mother of the director of Żółć?” was not recorded"
    );
}

/// Segments take 100 ms, look-ups 1,000 ms, guesses 50 ms.
fn steady(right: &[bool]) -> Script {
    Script::steady(right, 100, 1000, 50)
}

#[tokio::test(start_paused = true)]
async fn added_latency_is_added_to_every_look_up() {
    let injected = Injected {
        mean_ms: 300.0,
        sigma_ms: 200.0,
        seed: 7,
    };
    let latency = InjectedLatency {
        mean_ms: 300.0,
        sigma_ms: 200.0,
        seed: 7,
    };
    let ways = ["k=1", "k=3", "k=inf"];
    let bundle = recorded(&steady(&[true, false, true]), question(5), &ways).await;
    for way in ways.map(variant) {
        let plain = played(&bundle, &way).unwrap();
        let question = &bundle.questions()[0];
        let mut clock = Clock::new();
        let slow = play(&mut clock, &bundle, question, &way, Some(injected)).unwrap();
        assert_eq!(trajectory(&slow), trajectory(&plain));
        let mut added_ms = 0.0;
        for (slow, plain) in slow.hops.iter().zip(&plain.hops) {
            let waits_ms = latency.of(&plain.sub_question);
            added_ms += waits_ms;
            let close = (slow.target_ms - plain.target_ms - waits_ms).abs() < 1e-6;
            assert!(close && slow.segment_ms.total_cmp(&plain.segment_ms).is_eq());
        }
        let latencies = slow.latency_ms - plain.latency_ms;
        match way.is_standard() {
            true => assert!((latencies - added_ms).abs() < 1e-6, "nothing overlaps"),
            false => assert!(latencies < added_ms, "{way}: look-ups overlap"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn full_speculation_looks_up_only_what_it_has_no_idea_of() {
    let mut script = steady(&[true, false, true]);
    script.hops[2].guesses.clear();
    let way = "k=1,verifier=none";
    let bundle = recorded(&script, question(5), &[way]).await;
    let row = played(&bundle, &variant(way)).unwrap();
    let hops: Vec<_> = row
        .hops
        .iter()
        .map(|hop| (&*hop.answer, hop.kind, hop.titles.len()))
        .collect();
    let astray = "fact 2 astray of (q2 after fiction 1?)";
    assert_eq!(
        hops,
        [
            ("fact 0", HopKind::Observed, 0),
            ("fiction 1", HopKind::Observed, 0),
            (astray, HopKind::Observed, 3),
        ]
    );
    // Nothing else was even recorded: four segments, three guesses, one look-up in two stages.
    assert_eq!(bundle.len(), 4 + 3 + 2);
    // Started, wasted, tokens, wasted tokens.
    let told = Told::from(&row);
    assert_eq!(told.calls, [[4, 0, 48, 0], [1, 0, 12, 0], [3, 1, 36, 12]]);
    let expected = 4.0 * 100.0 + 3.0 * 50.0 + 1000.0;
    assert!(near(&[row.latency_ms], &[expected], 16.0), "{row:?}");
    // Wider than the standard agent it cannot be: there is nothing to run ahead of.
    assert!("k=inf,verifier=none".parse::<Variant>().is_err());
}
