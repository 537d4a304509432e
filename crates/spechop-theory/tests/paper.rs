//! The figures that the paper prints, and what must hold of every setting.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::num::NonZeroUsize;

use spechop_theory::{
    Estimator, HopCount, InvalidSetting, PUBLISHED, Published, Setting, StageTime, Stages,
    k_deterministic, k_epsilon, k_epsilon_closed, p_starve,
};

fn setting(p: f64, alpha: f64, beta: f64, nu: f64) -> Setting {
    Setting::new(p, alpha, beta, nu).unwrap()
}

fn k(k: usize) -> NonZeroUsize {
    NonZeroUsize::new(k).unwrap()
}

/// How far RelLat* may be off if p, α, β and itself were rounded to two digits.
fn rounding(row: &Published) -> f64 {
    let half = 0.005;
    let (p, alpha, beta) = (row.p, row.alpha, row.beta);
    half * ((1.0 - alpha) + p + p * (1.0 - alpha) / (1.0 + beta)) / (1.0 + beta) + half
}

/// Tables 1 and 3: p, α, β and RelLat*, all of them printed with two digits. So each input is off by up to
/// 0.005, and RelLat* by what comes of that, beside its own rounding.
#[test]
fn oracle_of_every_published_row() {
    for row in PUBLISHED {
        let bound = rounding(&row);
        let got = setting(row.p, row.alpha, row.beta, 0.0).rel_lat_oracle();
        assert!(
            (got - row.rel_lat_oracle).abs() <= bound,
            "{row:?}: {got}, not {} ± {bound}",
            row.rel_lat_oracle
        );
        // No measured latency is below the bound.
        assert!(row.rel_lat >= got - bound, "{row:?}");
    }
}

/// Figure 2 prints the hops of one row. Of the others, those of CoRAG follow from Table 2 and Figure 5.
#[test]
fn hops_of_every_published_row() {
    for row in PUBLISHED {
        let got = match row.hops() {
            Some(HopCount::Given(mean)) => format!("given {mean}"),
            Some(HopCount::Inferred(mean)) => format!("inferred {mean:.1}"),
            None => "unknown".into(),
        };
        let expected = match (row.generator, row.target, row.dataset) {
            ("GPT-5", _, _) => "unknown",
            (_, "E5", "2WikiMultihopQA") => "inferred 5.0",
            (_, "E5", "MuSiQue") => "inferred 5.4",
            (_, "E5", _) => "inferred 6.9",
            (_, _, "2WikiMultihopQA") => "inferred 4.6",
            (_, _, "MuSiQue") => "inferred 3.4",
            _ if row.speculator == "GPT-4o" => "given 5.48",
            _ => "inferred 4.3",
        };
        assert_eq!(got, expected, "{row:?}");
    }
}

/// Observation 1, in look-ups: at p = 1 a hop is a segment and a guess, at p = 0 that of the standard agent.
/// Corollary 1 is the form in which the paper divides it.
#[test]
fn a_hop_with_an_oracle_verdict() {
    let hop = |p| setting(p, 0.19, 0.10, 0.0).oracle_hop();
    for (p, expected) in [(1.0, 0.29), (0.0, 1.10), (0.68, 0.10 + 0.68 * 0.19 + 0.32)] {
        assert!((hop(p) - expected).abs() < 1e-12, "p = {p}: {}", hop(p));
    }
    for row in PUBLISHED {
        let setting = setting(row.p, row.alpha, row.beta, 0.0);
        let corollary = 1.0 - row.p * (1.0 - row.alpha) / (1.0 + row.beta);
        assert!(
            (setting.rel_lat_oracle() - corollary).abs() < 1e-12,
            "{row:?}"
        );
    }
}

/// Corollary 3 at p .68, α .19, β .10.
#[test]
fn rounds_of_table_1() {
    let setting = setting(0.68, 0.19, 0.10, 0.0);
    for (width, expected) in [(1, 1.0), (2, 0.702), (3, 0.607), (6, 0.525)] {
        let got = setting.rel_lat_k(k(width));
        assert!((got - expected).abs() < 5e-4, "k = {width}: {got}");
        // The other way in which the corollary is written.
        let share = (1.0 - 0.68) / (1.0 - 0.68_f64.powi(width as i32));
        let other = 1.0 - (1.0 - 0.19) * (1.0 - share) / 1.1;
        assert!((got - other).abs() < 1e-12);
    }
    assert!((setting.rel_lat_k(k(200)) - setting.rel_lat_oracle()).abs() < 1e-12);
    // The continuous window is never slower than the one that works in rounds.
    for width in 1..20 {
        let (rounds, continuous) = (
            setting.rel_lat_k(k(width)),
            setting.rel_lat_continuous(k(width)),
        );
        assert!(continuous <= rounds + 1e-12, "k = {width}");
    }
    assert!((setting.rel_lat_continuous(k(3)) - 0.530).abs() < 5e-4);
}

/// Theorem 4 with a deviation for each stage.
#[test]
fn starvation_of_stages_that_vary_differently() {
    let stage = |mean, deviation| StageTime { mean, deviation };
    let (segment, target, speculation) = (stage(0.33, 0.0), stage(4.15, 1.68), stage(0.18, 0.0));
    // Only the look-up varies: it outlasts k guesses and k − 1 segments. At k = 8 these take 3.75 s, which
    // is 0.238 deviations below its mean.
    let got = p_starve(segment, target, speculation, k(8));
    assert!((got - 0.594).abs() < 1e-3, "{got}");
    // With one ν for all it is the form in α, β, ν, whatever the unit.
    let (alpha, beta, nu) = (0.2, 0.15, 0.4);
    let of = |mean: f64| stage(7.0 * mean, 7.0 * mean * nu);
    for width in 1..9 {
        let general = p_starve(of(beta), of(1.0), of(alpha), k(width));
        let special = setting(0.5, alpha, beta, nu).p_starve(k(width));
        assert!((general - special).abs() < 1e-12);
    }
}

/// Corollary 5 is an approximation: over the settings of Table 1 it is as the search finds, or one less.
#[test]
fn closed_form_of_k_for_a_risk() {
    let mut one_less = 0;
    for row in PUBLISHED.iter().filter(|row| row.table == 1) {
        let setting = setting(row.p, row.alpha, row.beta, 0.4);
        let (searched, closed) = (
            k_epsilon(setting, 0.05).unwrap().get(),
            k_epsilon_closed(setting, 0.05).unwrap().get(),
        );
        assert!(searched == closed || searched == closed + 1, "{row:?}");
        one_less += usize::from(searched != closed);
    }
    assert_eq!(one_less, 4);
    let example = setting(0.5, 0.16, 0.10, 0.4);
    assert_eq!(k_epsilon_closed(example, 0.05), Ok(k(7)));
    assert_eq!(k_epsilon(example, 0.05), Ok(k(8)));
}

#[test]
fn both_examples_of_k() {
    assert_eq!(k_epsilon(setting(0.5, 0.2, 0.15, 0.4), 0.05), Ok(k(6)));
    assert_eq!(k_epsilon(setting(0.5, 0.3, 0.75, 0.4), 0.05), Ok(k(3)));
    assert_eq!(
        k_epsilon_closed(setting(0.5, 0.2, 0.15, 0.4), 0.05),
        Ok(k(6))
    );
    assert_eq!(
        k_epsilon_closed(setting(0.5, 0.3, 0.75, 0.4), 0.05),
        Ok(k(3))
    );
    assert_eq!(k_deterministic(setting(0.5, 0.2, 0.15, 0.0)), Ok(k(4)));
    assert_eq!(k_deterministic(setting(0.5, 0.3, 0.75, 0.0)), Ok(k(2)));
    // A whole quotient is not rounded up: 1.2 / 0.3.
    assert_eq!(k_deterministic(setting(0.5, 0.1, 0.2, 0.0)), Ok(k(4)));
}

/// Where times do not vary, a window waits always or never, and all forms say so of the same k: also where the
/// quotient is whole, and what is left of it is what binary fractions cannot write.
#[test]
fn without_variation_all_forms_agree_on_k() {
    let hundredths = || (0..=100).map(|n| f64::from(n) / 100.0);
    for (alpha, beta) in hundredths().flat_map(|a| hundredths().map(move |b| (a, b))) {
        if alpha + beta == 0.0 {
            continue;
        }
        let setting = setting(0.5, alpha, beta, 0.0);
        let wide = k_deterministic(setting).unwrap();
        let told = format!("alpha {alpha}, beta {beta}: {wide}");
        assert!(setting.p_starve(wide) <= 0.5, "{told}");
        assert_eq!(k_epsilon(setting, 0.05), Ok(wide), "{told}");
        assert_eq!(k_epsilon_closed(setting, 0.05), Ok(wide), "{told}");
        if wide > k(1) {
            assert_eq!(setting.p_starve(k(wide.get() - 1)), 1.0, "{told}");
        }
    }
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
        assert!((setting.rel_lat_continuous(k(1)) - 1.0).abs() < 1e-12);
        let wide = k_deterministic(setting).unwrap();
        assert_eq!(setting.rel_lat_continuous(wide), setting.rel_lat_oracle());
        for narrow in 1..wide.get() {
            let (here, next) = (
                setting.rel_lat_continuous(k(narrow)),
                setting.rel_lat_continuous(k(narrow + 1)),
            );
            assert!(next <= here + 1e-12, "k = {narrow}: {next} > {here}");
            assert!(here >= setting.rel_lat_oracle() - 1e-12);
        }
    }
    // Every guess right: k hops at a time.
    assert_eq!(setting(1.0, 0.01, 0.01, 0.0).rel_lat_continuous(k(4)), 0.25);
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
    // Too wide for a search, by what a branch costs or by how much it varies.
    let tiny = setting(0.5, 1e-8, 1e-8, 0.0);
    assert_eq!(k_epsilon(tiny, 0.05), Err(InvalidSetting::Instant));
    // The square of such a share is beyond all numbers, and the share of the last one is so itself.
    let closed = |alpha| k_epsilon_closed(setting(0.5, alpha, 0.0, 0.0), 0.05);
    assert_eq!(closed(1e-160), Ok(k(usize::MAX)));
    assert_eq!(closed(1e-310), Err(InvalidSetting::Instant));
    let (nu, epsilon) = (1000.0, 0.05);
    let wild = setting(0.5, 0.1, 0.1, nu);
    let too_wide = InvalidSetting::TooWide { nu, epsilon };
    assert_eq!(k_epsilon(wild, epsilon), Err(too_wide));
    // What is no window is a number nevertheless, however long the times are.
    let long = setting(0.5, 0.1, 1e308, 0.4);
    assert!((1..9).all(|n| (0.0..=0.5).contains(&long.p_starve(k(n)))));
    // Beside such a segment a look-up takes no time at all.
    assert_eq!(k_epsilon(long, 0.05), Ok(k(1)));
    for epsilon in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(
            k_epsilon(setting(0.5, 0.1, 0.1, 0.1), epsilon).is_err(),
            "{epsilon}"
        );
        assert!(
            k_epsilon_closed(setting(0.5, 0.1, 0.1, 0.1), epsilon).is_err(),
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

/// A half-life so short that the weight of all observations together never reaches the number of the first ones.
#[test]
fn outliers_are_told_after_eight_observations_whatever_the_half_life() {
    let hop = |target| Stages {
        segment: Some(0.1),
        target: Some(target),
        ..Stages::default()
    };
    let beta = |half_life: f64, hops: usize| {
        let mut estimator = Estimator::new(half_life);
        (0..hops).for_each(|_| estimator.record(hop(1.0)));
        estimator.record(hop(60.0));
        estimator.beta().unwrap().value
    };
    assert!(beta(4.0, 50) > 0.05);
    for half_life in [4.0, 5.0, 6.0, 150.0, f64::INFINITY] {
        for hops in [8, 50] {
            let beta = beta(half_life, hops);
            assert!(beta > 0.04, "{half_life}, {hops}: {beta}");
        }
        // Not before: too little is known of what is usual.
        assert!(beta(half_life, 7) < 0.02, "{half_life}");
    }
}
