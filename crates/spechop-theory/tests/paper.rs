//! The figures that the paper prints, and what must hold of every setting.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::num::NonZeroUsize;

use spechop_theory::{Estimator, InvalidSetting, Setting, Stages, k_deterministic, k_epsilon};

fn setting(p: f64, alpha: f64, beta: f64, nu: f64) -> Setting {
    Setting::new(p, alpha, beta, nu).unwrap()
}

fn k(k: usize) -> NonZeroUsize {
    NonZeroUsize::new(k).unwrap()
}

/// Table 1: p, α, β and RelLat*, all of them printed with two digits. So each input is off by up to
/// 0.005, and RelLat* by what comes of that, beside its own rounding.
#[test]
fn oracle_of_table_1() {
    for (p, alpha, beta, printed) in [
        (0.68, 0.19, 0.10, 0.50),
        (0.28, 0.03, 0.10, 0.75),
        (0.41, 0.05, 0.11, 0.65),
        (0.27, 0.30, 0.74, 0.89),
    ] {
        let bound = 0.005 * ((1.0 - alpha) + p + p * (1.0 - alpha)) / (1.0 + beta) + 0.005;
        let got = setting(p, alpha, beta, 0.0).rel_lat_oracle();
        assert!(
            (got - printed).abs() <= bound,
            "{got}, not {printed} ± {bound}"
        );
    }
}

#[test]
fn both_examples_of_k() {
    assert_eq!(k_epsilon(setting(0.5, 0.2, 0.15, 0.4), 0.05), Ok(k(6)));
    assert_eq!(k_epsilon(setting(0.5, 0.3, 0.75, 0.4), 0.05), Ok(k(3)));
    assert_eq!(k_deterministic(setting(0.5, 0.2, 0.15, 0.0)), Ok(k(4)));
    assert_eq!(k_deterministic(setting(0.5, 0.3, 0.75, 0.0)), Ok(k(2)));
    // A whole quotient is not rounded up: 1.2 / 0.3.
    assert_eq!(k_deterministic(setting(0.5, 0.1, 0.2, 0.0)), Ok(k(4)));
}

#[test]
fn windows_narrow_to_the_standard_agent_and_widen_to_the_oracle() {
    for (p, alpha, beta) in [
        (0.68, 0.19, 0.1),
        (0.27, 0.3, 0.74),
        (1.0, 0.05, 0.1),
        (0.0, 0.1, 0.1),
    ] {
        let setting = setting(p, alpha, beta, 0.3);
        assert!((setting.rel_lat_k(k(1)) - 1.0).abs() < 1e-12);
        let wide = k_deterministic(setting).unwrap();
        assert_eq!(setting.rel_lat_k(wide), setting.rel_lat_oracle());
        for narrow in 1..wide.get() {
            let (here, next) = (
                setting.rel_lat_k(k(narrow)),
                setting.rel_lat_k(k(narrow + 1)),
            );
            assert!(next <= here + 1e-12, "k = {narrow}: {next} > {here}");
            assert!(here >= setting.rel_lat_oracle() - 1e-12);
        }
    }
    // Every guess right: k hops at a time.
    assert_eq!(setting(1.0, 0.01, 0.01, 0.0).rel_lat_k(k(4)), 0.25);
    // A speculator as slow as the tool gains nothing.
    assert_eq!(setting(1.0, 1.5, 0.1, 0.0).rel_lat_oracle(), 1.0);
}

#[test]
fn starvation_falls_with_k() {
    let setting = setting(0.5, 0.2, 0.15, 0.4);
    let bounds: Vec<f64> = (1..12).map(|n| setting.p_starve(k(n))).collect();
    assert!(bounds.is_sorted_by(|a, b| a >= b), "{bounds:?}");
    assert!(bounds.iter().all(|bound| (0.0..=1.0).contains(bound)));
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert_eq!(
        Setting::new(1.1, 0.1, 0.1, 0.1),
        Err(InvalidSetting::P(1.1))
    );
    assert!(Setting::new(f64::NAN, 0.1, 0.1, 0.1).is_err());
    assert_eq!(
        Setting::new(0.5, -0.1, 0.1, 0.1),
        Err(InvalidSetting::Alpha(-0.1))
    );
    assert!(Setting::new(0.5, 0.1, f64::INFINITY, 0.1).is_err());
    assert!(Setting::new(0.5, 0.1, 0.1, f64::NAN).is_err());
    assert_eq!(
        k_deterministic(setting(0.5, 0.0, 0.0, 0.1)),
        Err(InvalidSetting::Instant)
    );
    for epsilon in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(
            k_epsilon(setting(0.5, 0.1, 0.1, 0.1), epsilon).is_err(),
            "{epsilon}"
        );
    }
}

/// Hops of steady means: target 1,000 with a spread, and so on.
fn feed(estimator: &mut Estimator, hops: usize, right: impl Fn(usize) -> bool) {
    for i in 0..hops {
        let swing = 1.0 + 0.3 * ((i % 5) as f64 - 2.0) / 2.0;
        estimator.record(Stages {
            segment: Some(100.0 * swing),
            target: Some(1000.0 * swing),
            speculation: Some(200.0 * swing),
            accepted: Some(right(i)),
        });
    }
}

#[test]
fn estimates_find_the_truth_and_bound_it() {
    let mut estimator = Estimator::new(200.0);
    assert_eq!(estimator.setting(), None);
    feed(&mut estimator, 500, |i| i % 4 != 0);
    let (p, alpha, beta) = (
        estimator.p().unwrap(),
        estimator.alpha().unwrap(),
        estimator.beta().unwrap(),
    );
    assert!(
        (p.value - 0.75).abs() < 0.01 && p.low < 0.75 && 0.75 < p.high,
        "{p:?}"
    );
    assert!(
        (alpha.value - 0.2).abs() < 0.01 && alpha.low < 0.2 && 0.2 < alpha.high,
        "{alpha:?}"
    );
    assert!((beta.value - 0.1).abs() < 0.01, "{beta:?}");
    let nu = estimator.nu();
    assert!((nu - 0.212).abs() < 0.02, "{nu}");
}

#[test]
fn estimates_follow_a_change_and_shrug_at_an_outlier() {
    let mut estimator = Estimator::new(20.0);
    feed(&mut estimator, 200, |i| i % 5 < 3);
    feed(&mut estimator, 50, |i| i % 10 == 0);
    let p = estimator.p().unwrap();
    assert!((0.05..0.25).contains(&p.value), "{p:?}");
    let before = estimator.alpha().unwrap().value;
    estimator.record(Stages {
        target: Some(10_000_000.0),
        ..Stages::default()
    });
    let after = estimator.alpha().unwrap().value;
    assert!(
        after > before * 0.8,
        "one stalled look-up moved α from {before} to {after}"
    );
    estimator.record(Stages {
        target: Some(f64::NAN),
        segment: Some(-1.0),
        ..Stages::default()
    });
    assert_eq!(estimator.alpha().unwrap().value, after);
}
