//! Latency that is added to every look-up on purpose.

use std::f64::consts::{SQRT_2, TAU};

use serde::{Deserialize, Serialize};
use spechop_types::{GOLDEN, canonical, spread};

/// Log-normal latency added to every look-up, drawn from the seed and the canonical query: the same
/// look-up costs the same at every k, in every run, live or simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectedLatency {
    /// Mean, in milliseconds.
    pub mean_ms: f64,
    /// Standard deviation, in milliseconds.
    pub sigma_ms: f64,
    /// Seed of the draws.
    pub seed: u64,
}

impl InjectedLatency {
    /// How long the look-up of `query` waits, in milliseconds.
    pub fn of(self, query: &str) -> f64 {
        let (centre, spread) = self.logarithm();
        (centre + spread * normal(self.seed, &canonical(query))).exp()
    }

    /// The chance that a look-up waits at most this long.
    pub fn chance_within(self, ms: f64) -> f64 {
        let (centre, spread) = self.logarithm();
        0.5 * libm::erfc((centre - ms.ln()) / (spread * SQRT_2))
    }

    /// Mean and standard deviation of the logarithm of a log-normal with this mean and deviation.
    fn logarithm(self) -> (f64, f64) {
        let variance = (self.sigma_ms / self.mean_ms).powi(2).ln_1p();
        (self.mean_ms.ln() - variance / 2.0, variance.sqrt())
    }

    /// Every draw by this factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        // Divided and multiplied again, a number may come back with another last digit.
        let scaled = |ms: f64| (ms * factor * 1e6).round() / 1e6;
        Self {
            mean_ms: scaled(self.mean_ms),
            sigma_ms: scaled(self.sigma_ms),
            seed: self.seed,
        }
    }
}

/// A standard normal number that depends on nothing but its arguments (Box and Muller).
fn normal(seed: u64, text: &str) -> f64 {
    // FNV-1a tells texts apart; SplitMix64 makes numbers of that.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64 ^ mixed(seed), |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let (u, v) = (unit(mixed(hash)), unit(mixed(hash.wrapping_add(1))));
    (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
}

/// The next number of SplitMix64 from this state.
fn mixed(state: u64) -> u64 {
    spread(state.wrapping_add(GOLDEN))
}

/// Into (0, 1]: its logarithm exists.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: InjectedLatency = InjectedLatency {
        mean_ms: 4150.0,
        sigma_ms: 1680.0,
        seed: 7,
    };

    #[test]
    fn has_the_mean_and_the_deviation_that_were_asked_for() {
        let n = 20_000;
        let waits: Vec<f64> = (0..n).map(|i| WEB.of(&format!("query {i}"))).collect();
        let mean = waits.iter().sum::<f64>() / f64::from(n);
        let sigma =
            (waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>() / f64::from(n)).sqrt();
        assert!((mean / WEB.mean_ms - 1.0).abs() < 0.02, "mean {mean}");
        assert!((sigma / WEB.sigma_ms - 1.0).abs() < 0.05, "sigma {sigma}");
        for limit in [2000.0, 4000.0, 8000.0] {
            let within = waits.iter().filter(|wait| **wait <= limit).count();
            let share = f64::from(u32::try_from(within).unwrap()) / f64::from(n);
            assert!(
                (share - WEB.chance_within(limit)).abs() < 0.01,
                "{limit}: {share}"
            );
        }
    }

    #[test]
    fn the_same_look_up_waits_the_same() {
        assert_eq!(
            WEB.of("Who directed Halcón?"),
            WEB.of("who directed  halcon")
        );
        assert_ne!(WEB.of("a b"), WEB.of("a c"));
        assert_ne!(WEB.of("a b"), InjectedLatency { seed: 8, ..WEB }.of("a b"));
        let (once, halved) = (WEB.of("a b"), WEB.times(0.5).of("a b"));
        assert!((halved / once - 0.5).abs() < 1e-9);
        assert_eq!(WEB.times(0.125).times(8.0), WEB);
        let steady = InjectedLatency {
            sigma_ms: 0.0,
            ..WEB
        };
        assert!((steady.of("x") - 4150.0).abs() < 1e-6);
    }
}
