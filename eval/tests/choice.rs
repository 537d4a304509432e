//! The choice of each hop on the recorded runs of the repository: as quick as the best fixed setting, for as
//! many target calls.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::num::NonZeroUsize;
use std::path::Path;

use spechop_eval::{Bundle, Injected, Recording, compare};
use spechop_sim::{Clock, PastGuess, Wanted};

/// As the tuner looks for it, if a target call has no price.
const WANTED: Wanted = Wanted {
    tolerance: 0.002,
    worth: 0.0,
    calls_max: f64::INFINITY,
    load: 0.0,
};
/// With the price and the limit that a server has by default: fewer calls may cost a little time.
const SHIPPED: Wanted = Wanted {
    worth: 0.01,
    calls_max: 1.25,
    ..WANTED
};
const WEB: Injected = Injected {
    mean_ms: 4150.0,
    sigma_ms: 1680.0,
    seed: 1,
};

fn bundle(name: &str) -> Bundle {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    Bundle::read(&runs.join(name).join("bundle")).unwrap()
}

#[test]
fn it_is_as_good_as_the_best_fixed_setting() {
    let k_max = NonZeroUsize::new(6).unwrap();
    let cases = [
        ("2wiki-own", WANTED, 1.005),
        ("musique-own", WANTED, 1.005),
        ("musique-gold", WANTED, 1.005),
        ("musique-own", SHIPPED, 1.015),
        ("musique-gold", SHIPPED, 1.005),
    ];
    for (name, wanted, most) in cases {
        let recording = Recording {
            bundle: &bundle(name),
            speculator: "hot",
            injected: Some(WEB),
            k_max,
        };
        let (compared, _) = compare(&recording, wanted).unwrap();
        let all = compared.iter().find(|of| of.kind.is_none()).unwrap();
        let (setting, best) = all.best().unwrap();
        let chosen = all.chosen;
        let told = format!("{name}: {setting} {best:?}, chosen {chosen:?}");
        assert!(chosen.rel_lat <= most * best.rel_lat, "{told}");
        assert!(chosen.targets <= best.targets, "{told}");
    }
}

/// That speculator was recorded at k = 3 alone, so it was not asked about every hop.
#[test]
fn hops_that_nobody_guessed_are_told() {
    let untried = |speculator| {
        let recording = Recording {
            bundle: &bundle("musique-gold"),
            speculator,
            injected: None,
            k_max: NonZeroUsize::MIN,
        };
        recording.hops().unwrap()
    };
    assert_eq!(untried("hot-0.05"), [392, 7]);
    assert_eq!(untried("hot"), [392, 0]);
}

#[test]
fn a_recorded_question_is_remembered_as_it_was() {
    let bundle = bundle("2wiki-own");
    let mut clock = Clock::new();
    let mut guesses = (0, 0);
    for question in &bundle.questions()[..40] {
        let past = spechop_eval::past(&mut clock, &bundle, question, "hot", Some(WEB)).unwrap();
        let standard = spechop_eval::Variant::standard();
        let row = spechop_eval::play(&mut clock, &bundle, question, &standard, Some(WEB)).unwrap();
        let took = past.hops.iter().map(|hop| hop.segment_ms + hop.target_ms);
        let took = took.sum::<f64>() + past.final_ms;
        // A planner that repeats itself writes twice.
        assert!(took <= row.latency_ms + 1e-6 && took > 0.9 * row.latency_ms);
        for hop in &past.hops {
            match hop.guess {
                PastGuess::Compared { accepted, .. } => {
                    guesses = (guesses.0 + u32::from(accepted), guesses.1 + 1);
                }
                PastGuess::Untried | PastGuess::Late | PastGuess::NoIdea { .. } => {}
            }
        }
    }
    let (right, compared) = guesses;
    assert!(compared > 40 && right * 2 > compared, "{guesses:?}");
}
