//! How long the web takes, by script: the same look-up waits the same time whenever it is asked.

use std::time::Duration;

use crate::Injected;

/// Pages that a look-up fetches at once, and the longest that it waits for any of them (paper, D.1).
const PAGES: i32 = 5;
const PAGE_MS_MAX: f64 = 3000.0;
/// A page's mean and deviation, as shares of the whole look-up's. One page in fifty is then later than the limit.
const PAGE_MEAN: f64 = 0.27;
const PAGE_SIGMA: f64 = 0.4;
/// Steps of the numeric integral: the moments are exact to a tenth of a millisecond.
const STEPS: u32 = 3000;

/// Waiting times of searches and of pages; log-normal, so that some are long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency(Option<Waits>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Waits {
    search: Injected,
    page: Injected,
}

/// No such waiting times.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "a search and five pages cannot take {mean_ms} ms with a deviation of {sigma_ms} ms: take a mean above 0 and a \
     deviation above 0 and below the mean"
)]
pub struct InvalidLatency {
    mean_ms: f64,
    sigma_ms: f64,
}

impl Latency {
    /// Nothing waits.
    pub const NONE: Self = Self(None);

    /// A search and the slowest of its five pages, of which none is waited for longer than 3 s, take this long
    /// together, in milliseconds.
    ///
    /// # Errors
    ///
    /// No search and pages have this mean and this standard deviation.
    pub fn new(mean_ms: f64, sigma_ms: f64, seed: u64) -> Result<Self, InvalidLatency> {
        let invalid = InvalidLatency { mean_ms, sigma_ms };
        if !(mean_ms.is_finite() && sigma_ms > 0.0 && sigma_ms < mean_ms) {
            return Err(invalid);
        }
        let page = Injected {
            mean_ms: PAGE_MEAN * mean_ms,
            sigma_ms: PAGE_SIGMA * sigma_ms,
            // A page's draw has nothing to do with that of the search.
            seed: seed.wrapping_add(1),
        };
        let slowest = slowest(page);
        let search = Injected {
            mean_ms: mean_ms - slowest.0,
            sigma_ms: (sigma_ms.powi(2) - slowest.1).sqrt(),
            seed,
        };
        if search.mean_ms > 0.0 && search.sigma_ms > 0.0 {
            Ok(Self(Some(Waits { search, page })))
        } else {
            Err(invalid)
        }
    }

    /// How long the search for this query waits.
    pub fn search(self, query: &str) -> Duration {
        self.0
            .map_or(Duration::ZERO, |waits| wait(waits.search, query))
    }

    /// How long the page at this path waits.
    pub fn page(self, path: &str) -> Duration {
        self.0
            .map_or(Duration::ZERO, |waits| wait(waits.page, path))
    }
}

fn wait(latency: Injected, text: &str) -> Duration {
    Duration::try_from_secs_f64(latency.of(text) / 1000.0).unwrap_or_default()
}

/// Mean and variance of the slowest page, by the tail of its distribution: E[X] = ∫P(X > x) dx, E[X²] =
/// ∫2x·P(X > x) dx.
fn slowest(page: Injected) -> (f64, f64) {
    let step = PAGE_MS_MAX / f64::from(STEPS);
    let (mut mean, mut square) = (0.0, 0.0);
    for at in 0..STEPS {
        let ms = (f64::from(at) + 0.5) * step;
        let later = 1.0 - page.chance_within(ms).powi(PAGES);
        mean += later * step;
        square += 2.0 * ms * later * step;
    }
    (mean, square - mean * mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 10_000;

    /// Mean, deviation and the share of pages that come too late.
    fn simulated(latency: Latency) -> (f64, f64, f64) {
        let (mut waits, mut late) = (Vec::new(), 0_u32);
        for draw in 0..DRAWS {
            let mut slowest = 0.0_f64;
            for page in 0..PAGES {
                let ms = latency.page(&format!("/wiki/{draw}_{page}")).as_secs_f64() * 1e3;
                late += u32::from(ms > PAGE_MS_MAX);
                slowest = slowest.max(ms.min(PAGE_MS_MAX));
            }
            waits.push(latency.search(&format!("query {draw}")).as_secs_f64() * 1e3 + slowest);
        }
        let mean = waits.iter().sum::<f64>() / f64::from(DRAWS);
        let square = waits.iter().map(|wait| (wait - mean).powi(2));
        let sigma = (square.sum::<f64>() / f64::from(DRAWS)).sqrt();
        (
            mean,
            sigma,
            f64::from(late) / f64::from(DRAWS) / f64::from(PAGES),
        )
    }

    #[test]
    fn a_look_up_takes_what_was_asked_for() {
        for (mean_ms, sigma_ms, seed) in [
            (4150.0, 1680.0, 1),
            (4150.0, 1680.0, 2),
            (400.0, 150.0, 1),
            (20_000.0, 5000.0, 1),
        ] {
            let latency = Latency::new(mean_ms, sigma_ms, seed).unwrap();
            let (mean, sigma, late) = simulated(latency);
            assert!(
                (mean / mean_ms - 1.0).abs() < 0.02,
                "mean {mean} of {mean_ms}"
            );
            assert!(
                (sigma / sigma_ms - 1.0).abs() < 0.05,
                "sigma {sigma} of {sigma_ms}"
            );
            assert!(
                late < 0.03 || mean_ms > 10_000.0,
                "{late} of the pages are late"
            );
        }
    }

    #[test]
    fn the_same_look_up_waits_the_same() {
        let latency = Latency::new(4150.0, 1680.0, 1).unwrap();
        assert_eq!(latency.search("Who, she?"), latency.search("who  she"));
        assert_ne!(latency.search("a b"), latency.page("a b"));
        let other = Latency::new(4150.0, 1680.0, 2).unwrap();
        assert_ne!(latency.search("a b"), other.search("a b"));
        assert_eq!(Latency::NONE.search("a b"), Duration::ZERO);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (mean, sigma) in [
            (0.0, 0.0),
            (100.0, 100.0),
            (100.0, 0.0),
            (-4.0, 1.0),
            (f64::NAN, 1.0),
            (f64::INFINITY, 1.0),
            (1.0, f64::NAN),
        ] {
            assert!(Latency::new(mean, sigma, 1).is_err(), "{mean} {sigma}");
        }
    }
}
