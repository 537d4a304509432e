//! Equations 1 to 6 and lemma 1 of arXiv 2512.15834, by figures worked out by hand and by what the
//! paper proves of them.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use spechop_theory::{Calls, Engine, InvalidCalls, Turn};

#[track_caller]
fn near(got: f64, wanted: f64) {
    assert!((got - wanted).abs() < 5e-5, "{got}, not {wanted}");
}

#[test]
fn one_request_by_hand() {
    // G = T = 2, g = 0.5: 0.8 · 2.5 + 0.2 · 4 = 2.8.
    let calls = Calls::new(2.0, 0.5, 2.0, 0.8).unwrap();
    near(calls.standard(), 4.0);
    near(calls.speculative(), 2.8);
    near(calls.speed_up(), 1.4286);
    near(calls.speed_up_max(), 1.6);
    near(calls.speed_up_bound(), 1.7778);
}

const TIMES: [f64; 6] = [0.01, 0.3, 0.5, 1.0, 2.0, 40.0];

/// Lemma 1, for g < G: it rises strictly from 1 to its maximum, which is at most the bound, below 2.
#[test]
fn lemma_1() {
    for generation in TIMES {
        for guess in TIMES.into_iter().filter(|guess| *guess < generation) {
            for tool in TIMES {
                let at = |share: f64| Calls::new(generation, guess, tool, share).unwrap();
                near(at(0.0).speed_up(), 1.0);
                let shares = (0..=20).map(|n| at(f64::from(n) / 20.0).speed_up());
                let shares: Vec<_> = shares.collect();
                assert!(shares.is_sorted_by(|a, b| a < b), "{shares:?}");
                near(at(1.0).speed_up(), at(0.3).speed_up_max());
                let (most, bound) = (at(1.0).speed_up_max(), at(1.0).speed_up_bound());
                assert!(most <= bound + 1e-12 && bound < 2.0, "{most} {bound}");
            }
        }
    }
}

/// Equation 3: if the guess is slower than the model, it pays only as long as g + T < G would hold, which
/// it then never does.
#[test]
fn a_slow_guess_does_not_pay() {
    for guess in [1.0, 1.5, 9.0] {
        let calls = Calls::new(1.0, guess, 2.0, 0.9).unwrap();
        assert!(calls.speed_up() <= 1.0, "{guess}");
    }
    // The best tool time is G − g: then the maximum is 2 − g / G.
    let best = Calls::new(2.0, 0.5, 1.5, 1.0).unwrap();
    near(best.speed_up_max(), 2.0 - 0.25);
    for other in [1.4, 1.6] {
        let other = Calls::new(2.0, 0.5, other, 1.0).unwrap();
        assert!(other.speed_up_max() < best.speed_up_max());
    }
}

fn engine(turns: usize) -> Engine {
    let turn = Turn {
        reasoning: 200.0,
        call: 50.0,
        output: 500.0,
        tool: 1.0,
    };
    Engine::new(0.1, 0.001, 0.01, 1000.0, vec![turn; turns]).unwrap()
}

#[test]
fn an_engine_by_hand() {
    let two = engine(2);
    near(two.vanilla(), 9.95);
    near(two.cached(), 9.50);
    near(two.speculative(0.5).unwrap(), 7.81);
    near(two.speculative(1.0).unwrap(), 6.12);
    // Without a right call it is equation 5; with all of them 2Ko + δ(Σt − K) + ΣT less.
    near(two.speculative(0.0).unwrap(), two.cached());
    near(
        two.cached() - two.speculative(1.0).unwrap(),
        0.4 + 0.98 + 2.0,
    );
    // Equation 5 counts the last output's prefill, equation 4 does not.
    assert!(engine(1).cached() > engine(1).vanilla());
}

#[test]
fn nonsense_is_refused() {
    for (bad, name) in [
        ([0.0, 1.0, 1.0], "generation"),
        ([1.0, -1.0, 1.0], "guess"),
        ([1.0, 1.0, f64::INFINITY], "tool"),
        ([1.0, 1.0, f64::NAN], "tool"),
    ] {
        let [generation, guess, tool] = bad;
        let error = Calls::new(generation, guess, tool, 0.5).unwrap_err();
        assert!(error.to_string().starts_with(name), "{error}");
    }
    for share in [-0.1, 1.1, f64::NAN] {
        let error = Calls::new(1.0, 1.0, 1.0, share).unwrap_err();
        assert!(error.to_string().contains("between 0 and 1"), "{error}");
        assert!(engine(1).speculative(share).is_err());
    }
    assert_eq!(
        Engine::new(0.1, 0.1, 0.1, 1.0, Vec::new()),
        Err(InvalidCalls::NoTurns)
    );
    let error = Engine::new(0.1, -0.1, 0.1, 1.0, Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "prefill = -0.1 must be finite and not negative"
    );
}
