//! Running estimates of p, α, β and ν from live stages.

use serde::{Deserialize, Serialize};

use crate::Setting;

/// A stage that takes longer than so many times the running mean is counted as this many: one
/// stalled connection must not pass for a slow tool.
const OUTLIER_RATIO: f64 = 6.0;
/// Observations before outliers can be told.
const WARM_UP: u32 = 8;
/// Two-sided 95 %.
const Z: f64 = 1.959_963_985;

/// What one hop has shown, in any one unit of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages {
    /// Writing the sub-question.
    pub segment: Option<f64>,
    /// Retrieval and reading.
    pub target: Option<f64>,
    /// The guess.
    pub speculation: Option<f64>,
    /// Whether the guess was right, where there was a comparison.
    pub accepted: Option<bool>,
}

/// A number with its 95 % confidence bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The number.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// The share `value` of `n` observations with Wilson's 95 % interval, which is sensible near 0 and 1, too.
/// `n` is more than 0.
pub fn wilson(value: f64, n: f64) -> Interval {
    let centre = (value + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let spread = value * (1.0 - value) / n + Z * Z / (4.0 * n * n);
    let half = Z * spread.sqrt() / (1.0 + Z * Z / n);
    Interval {
        value,
        low: (centre - half).max(0.0),
        high: (centre + half).min(1.0),
    }
}

/// Estimates that forget: a hop's weight halves every `half_life` hops.
#[derive(Clone, Debug)]
pub struct Estimator {
    keep: f64,
    seen: Seen,
}

/// What an [`Estimator`] has seen, weighed by its age.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    segment: Moments,
    target: Moments,
    speculation: Moments,
    /// 1 for each guess that was right, 0 for each that was wrong.
    accepted: Moments,
}

/// Decayed moments of a quantity.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Moments {
    weight: f64,
    weight_squares: f64,
    sum: f64,
    squares: f64,
}

impl Estimator {
    /// Forgets half of what it knew every `half_life` hops (at least 1).
    pub fn new(half_life: f64) -> Self {
        Self::resume(half_life, Seen::default())
    }

    /// Resumes from what another estimator has seen, whatever its half-life was.
    pub(crate) fn resume(half_life: f64, seen: Seen) -> Self {
        Self {
            keep: 0.5_f64.powf(1.0 / half_life.max(1.0)),
            seen,
        }
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Takes in one hop. Times that are not finite or negative are passed over.
    pub fn record(&mut self, stages: Stages) {
        let keep = self.keep;
        for (moments, time) in [
            (&mut self.seen.segment, stages.segment),
            (&mut self.seen.target, stages.target),
            (&mut self.seen.speculation, stages.speculation),
        ] {
            if let Some(time) = time.filter(|time| time.is_finite() && *time >= 0.0) {
                moments.add(keep, moments.clip(keep, time));
            }
        }
        if let Some(accepted) = stages.accepted {
            self.seen.accepted.add(keep, f64::from(u8::from(accepted)));
        }
    }

    /// Forgets every comparison: what was guessed with is no longer the same. Times are kept.
    pub(crate) fn forget_accepted(&mut self) {
        self.seen.accepted = Moments::default();
    }

    /// Share of guesses accepted (Wilson's interval); `None` before the first comparison.
    pub fn p(&self) -> Option<Interval> {
        let n = self.seen.accepted.size()?;
        Some(wilson(self.seen.accepted.mean(), n))
    }

    /// E\[speculation\] / E\[target\]; `None` before there is one of each.
    pub fn alpha(&self) -> Option<Interval> {
        self.seen.speculation.over(&self.seen.target)
    }

    /// E\[segment\] / E\[target\]; `None` before there is one of each.
    pub fn beta(&self) -> Option<Interval> {
        self.seen.segment.over(&self.seen.target)
    }

    /// The largest coefficient of variation of the three stages; 0 before there are two of any.
    pub fn nu(&self) -> f64 {
        let seen = &self.seen;
        [&seen.segment, &seen.target, &seen.speculation]
            .into_iter()
            .filter(|moments| moments.mean() > 0.0)
            .map(|moments| moments.variance().sqrt() / moments.mean())
            .fold(0.0, f64::max)
    }

    /// The point estimates as a setting; `None` while one is missing.
    pub fn setting(&self) -> Option<Setting> {
        let (p, alpha, beta) = (self.p()?, self.alpha()?, self.beta()?);
        Setting::new(p.value, alpha.value, beta.value, self.nu()).ok()
    }
}

impl Seen {
    /// Whether an estimator can have seen this: no estimate that follows from it is out of its range.
    pub(crate) fn is_sensible(&self) -> bool {
        let accepted = &self.accepted;
        [&self.segment, &self.target, &self.speculation, accepted]
            .into_iter()
            .all(Moments::is_sensible)
            && accepted.sum <= accepted.weight
    }
}

/// The weight after as many observations as the warm-up has. With a short half-life old ones count for so
/// little that their number is never reached, however many there are.
fn warm_up(keep: f64) -> f64 {
    (0..WARM_UP).fold(0.0, |weight, _| Moments::grown(keep, weight))
}

impl Moments {
    fn is_sensible(&self) -> bool {
        let parts = [self.weight, self.weight_squares, self.sum, self.squares];
        parts.iter().all(|part| part.is_finite() && *part >= 0.0)
            && (self.weight > 0.0) == (self.weight_squares > 0.0)
    }

    fn add(&mut self, keep: f64, x: f64) {
        self.weight = Self::grown(keep, self.weight);
        self.weight_squares = self.weight_squares * keep * keep + 1.0;
        self.sum = self.sum * keep + x;
        self.squares = self.squares * keep + x * x;
    }

    /// The weight with one observation more. Rounded always alike, so that the same number of them weighs
    /// the same.
    fn grown(keep: f64, weight: f64) -> f64 {
        weight * keep + 1.0
    }

    fn clip(&self, keep: f64, x: f64) -> f64 {
        if self.weight < warm_up(keep) || self.mean() == 0.0 {
            return x;
        }
        x.min(OUTLIER_RATIO * self.mean())
    }

    /// Effective number of observations.
    fn size(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.weight * self.weight / self.weight_squares)
    }

    fn mean(&self) -> f64 {
        if self.weight > 0.0 {
            self.sum / self.weight
        } else {
            0.0
        }
    }

    fn variance(&self) -> f64 {
        if self.weight <= 1.0 {
            return 0.0;
        }
        let raw = self.squares / self.weight - self.mean().powi(2);
        let n = self.size().unwrap_or(1.0);
        if n > 1.0 {
            raw.max(0.0) * n / (n - 1.0)
        } else {
            0.0
        }
    }

    /// Ratio of means; its variance by the delta method.
    fn over(&self, other: &Self) -> Option<Interval> {
        let (n, m) = (self.size()?, other.size()?);
        if other.mean() <= 0.0 {
            return None;
        }
        let value = self.mean() / other.mean();
        let relative = |x: &Self, n: f64| {
            let mean = x.mean();
            if mean > 0.0 {
                x.variance() / (n * mean * mean)
            } else {
                0.0
            }
        };
        let half = Z * value * (relative(self, n) + relative(other, m)).sqrt();
        Some(Interval {
            value,
            low: (value - half).max(0.0),
            high: value + half,
        })
    }
}
