//! RelLat and cost of each k, with bounds. Pure.

use std::num::NonZeroUsize;

use spechop_eval::{CurveFigure, CurvePoint};
use spechop_proto::{Tuning, WhatIfResponse};
use spechop_theory::{Interval, Setting};

use crate::commands::tuning::interval;

/// What is expected of one k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AtK {
    pub(super) k: u32,
    /// Latency divided by that at k = 1.
    pub(super) rel_lat: Interval,
    /// Look-ups of a question.
    pub(super) targets: Interval,
    /// Mean latency of a question, in seconds.
    pub(super) seconds: f64,
}

/// One speculator's curve over k, the smallest k first. It begins at k = 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) speculator: String,
    pub(super) questions: u32,
    pub(super) hops: u64,
    pub(super) points: Vec<AtK>,
}

/// What else is known, for the advice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) p: Option<Interval>,
    /// The largest coefficient of variation of the stage times.
    pub(super) nu: f64,
    /// The share of hops without a recorded guess.
    pub(super) filled_in: f64,
    /// Needed calls that wait for a place at this moment.
    pub(super) waiting: u32,
    /// The k that the server itself would take, and why.
    pub(super) auto: Option<(u32, String)>,
}

impl Known {
    pub(super) fn of(tuning: &Tuning, played: &WhatIfResponse, waiting: u32) -> Self {
        let choice = tuning.choice.as_ref();
        Self {
            p: tuning.p.map(interval),
            nu: tuning.nu,
            filled_in: played.filled_in,
            waiting,
            auto: choice.map(|choice| (choice.k, choice.reason.clone())),
        }
    }
}

impl Curve {
    /// `None` if no question has been played.
    pub(super) fn of(tuning: &Tuning, played: &WhatIfResponse) -> Option<Self> {
        if played.questions == 0 {
            return None;
        }
        let mut outcomes = played.outcomes.clone();
        outcomes.sort_by_key(|outcome| outcome.k);
        let standard = outcomes.iter().find(|outcome| outcome.k == 1)?.targets;
        let points = outcomes.iter().map(|outcome| AtK {
            k: outcome.k,
            rel_lat: rel_lat(tuning, outcome.k, outcome.rel_lat),
            targets: targets(tuning, standard, outcome.targets),
            seconds: outcome.mean_ms / 1000.0,
        });
        Some(Self {
            speculator: tuning.speculator.clone(),
            questions: played.questions,
            hops: tuning.hops,
            points: points.collect(),
        })
    }

    pub(super) fn figure(&self) -> CurveFigure {
        let point = |at: &AtK| CurvePoint {
            k: at.k,
            rel_lat: (at.rel_lat.value, at.rel_lat.low, at.rel_lat.high),
            targets: (at.targets.value, at.targets.low, at.targets.high),
        };
        CurveFigure {
            title: format!(
                "RelLat and look-ups against k, speculator {}",
                self.speculator
            ),
            points: self.points.iter().map(point).collect(),
        }
    }
}

/// The played value, with the bounds of p and α carried over: as far as the closed form of the continuous
/// window moves if p and α are at their bounds, so far the played value may be off.
fn rel_lat(tuning: &Tuning, k: u32, value: f64) -> Interval {
    let sure = Interval {
        value,
        low: value,
        high: value,
    };
    let (Some(p), Some(alpha), Some(beta)) = (tuning.p, tuning.alpha, tuning.beta) else {
        return sure;
    };
    let Some(width) = usize::try_from(k).ok().and_then(NonZeroUsize::new) else {
        return sure;
    };
    if k == 1 {
        return sure;
    }
    let form = |p: f64, alpha: f64| {
        let setting = Setting::new(p.clamp(0.0, 1.0), alpha.max(0.0), beta.value, tuning.nu).ok();
        setting.map(|setting| setting.rel_lat_continuous(width))
    };
    let (Some(middle), Some(best), Some(worst)) = (
        form(p.value, alpha.value),
        form(p.high, alpha.low),
        form(p.low, alpha.high),
    ) else {
        return sure;
    };
    if middle <= 0.0 {
        return sure;
    }
    Interval {
        value,
        low: (value * best / middle).min(value),
        high: (value * worst / middle).max(value),
    }
}

/// Look-ups in vain come of wrong guesses, so they grow and shrink with 1 − p.
fn targets(tuning: &Tuning, standard: f64, value: f64) -> Interval {
    let extra = value - standard;
    let at = |p: f64| match tuning.p {
        Some(seen) if seen.value < 1.0 => {
            standard + extra * (1.0 - p.clamp(0.0, 1.0)) / (1.0 - seen.value)
        }
        _ => value,
    };
    let (low, high) = tuning.p.map_or((value, value), |p| (at(p.high), at(p.low)));
    Interval {
        value,
        low: low.min(value),
        high: high.max(value),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use spechop_proto::{Estimate, Outcome, Tuned};

    use super::*;

    pub(in super::super) fn estimate(value: f64, low: f64, high: f64) -> Option<Estimate> {
        Some(Estimate { value, low, high })
    }

    pub(in super::super) fn tuning() -> Tuning {
        Tuning {
            speculator: "index".into(),
            choice: Some(Tuned {
                k: 3,
                reason: "more gains nothing".into(),
                ..Tuned::default()
            }),
            p: estimate(0.62, 0.58, 0.66),
            alpha: estimate(0.12, 0.11, 0.13),
            beta: estimate(0.10, 0.09, 0.11),
            nu: 0.4,
            hops: 600,
            ..Tuning::default()
        }
    }

    /// Of each k: RelLat and look-ups.
    pub(in super::super) fn played(questions: u32, at: &[(u32, f64, f64)]) -> WhatIfResponse {
        let outcome = |&(k, rel_lat, targets): &(u32, f64, f64)| Outcome {
            k,
            rel_lat,
            targets,
            mean_ms: 12_000.0 * rel_lat,
            ..Outcome::default()
        };
        WhatIfResponse {
            questions,
            filled_in: 0.0,
            outcomes: at.iter().map(outcome).collect(),
        }
    }

    #[test]
    fn bounds_hold_the_value_and_grow_with_those_of_p() {
        let response = played(200, &[(3, 0.6, 4.0), (1, 1.0, 3.0)]);
        let sure = Curve::of(&tuning(), &response).unwrap();
        let ks: Vec<_> = sure.points.iter().map(|at| at.k).collect();
        assert_eq!(ks, [1, 3]);
        let one = sure.points[0];
        assert_eq!((one.rel_lat.low, one.rel_lat.high), (1.0, 1.0));
        assert_eq!((one.targets.low, one.targets.high), (3.0, 3.0));
        let mut tuning = tuning();
        tuning.p = estimate(0.62, 0.2, 0.9);
        let unsure = Curve::of(&tuning, &response).unwrap();
        for (narrow, wide) in [
            (sure.points[1].rel_lat, unsure.points[1].rel_lat),
            (sure.points[1].targets, unsure.points[1].targets),
        ] {
            assert!(
                wide.low < narrow.low && narrow.low < narrow.value,
                "{wide:?}"
            );
            assert!(
                wide.high > narrow.high && narrow.high > narrow.value,
                "{wide:?}"
            );
        }
    }

    #[test]
    fn without_estimates_there_are_no_bounds() {
        let response = played(1, &[(1, 1.0, 3.0), (2, 0.8, 3.5)]);
        let curve = Curve::of(&Tuning::default(), &response).unwrap();
        let at = curve.points[1];
        assert_eq!((at.rel_lat.low, at.rel_lat.high), (0.8, 0.8));
        assert_eq!(at.targets.high, 3.5);
    }
}
