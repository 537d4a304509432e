//! Latency added to every look-up on purpose, so that a small machine with a fast index can show
//! what speculation does for a slow tool. Whoever sees the times is told.

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::{Call, PortError, Retriever};
use spechop_types::{Passage, canonical};

use crate::config::InjectedLatency;

/// A [`Retriever`] that waits before it looks up.
///
/// The wait is log-normal, drawn from the seed and the canonical query: the same look-up costs the
/// same at every k, in every run.
pub(crate) struct SlowRetriever {
    inner: Arc<dyn Retriever>,
    latency: InjectedLatency,
}

impl SlowRetriever {
    pub(crate) fn new(inner: Arc<dyn Retriever>, latency: InjectedLatency) -> Self {
        Self { inner, latency }
    }
}

#[async_trait]
impl Retriever for SlowRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let wait = draw(self.latency, query);
        tracing::debug!(injected_ms = wait.as_millis(), "injected latency");
        tokio::time::sleep(wait).await;
        self.inner.retrieve(call, query, limit).await
    }

    async fn warm(&self, call: &Call, query: &str) -> Result<(), PortError> {
        self.inner.warm(call, query).await
    }
}

/// How long the look-up of `query` waits.
fn draw(latency: InjectedLatency, query: &str) -> Duration {
    let InjectedLatency {
        mean_ms,
        sigma_ms,
        seed,
    } = latency;
    // Of a log-normal with this mean and deviation: the variance and the mean of its logarithm.
    let variance = (sigma_ms / mean_ms).powi(2).ln_1p();
    let centre = mean_ms.ln() - variance / 2.0;
    let wait_ms = (centre + variance.sqrt() * normal(seed, &canonical(query))).exp();
    Duration::try_from_secs_f64(wait_ms / 1000.0).unwrap_or(Duration::ZERO)
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
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
        let waits: Vec<f64> = (0..n)
            .map(|i| draw(WEB, &format!("query {i}")).as_secs_f64() * 1000.0)
            .collect();
        let mean = waits.iter().sum::<f64>() / f64::from(n);
        let sigma =
            (waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>() / f64::from(n)).sqrt();
        assert!((mean / WEB.mean_ms - 1.0).abs() < 0.02, "mean {mean}");
        assert!((sigma / WEB.sigma_ms - 1.0).abs() < 0.05, "sigma {sigma}");
    }

    #[test]
    fn the_same_look_up_waits_the_same() {
        assert_eq!(
            draw(WEB, "Who directed Halcón?"),
            draw(WEB, "who directed  halcon")
        );
        assert_ne!(draw(WEB, "a b"), draw(WEB, "a c"));
        assert_ne!(
            draw(WEB, "a b"),
            draw(InjectedLatency { seed: 8, ..WEB }, "a b")
        );
        let steady = InjectedLatency {
            sigma_ms: 0.0,
            ..WEB
        };
        assert!((draw(steady, "x").as_secs_f64() - 4.15).abs() < 1e-6);
    }
}
