//! What a load run has seen, and what follows from it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use spechop_theory::Interval;
use spechop_types::ms;

use super::LoadSetting;
use crate::stats;

/// Four digits of a latency count: of twelve seconds, a millisecond.
const DIGITS: u8 = 4;

/// What came of one asking.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Answered(Times),
    /// The status, as gRPC's documents write it.
    Failed(String),
    /// The run ended first.
    Unfinished,
}

/// Times of an answered question, counted from the moment at which it was to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub(super) answered: Duration,
    /// The first event of a stream.
    pub(super) first: Option<Duration>,
    /// Target calls that were started for it.
    pub(super) targets: u32,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latencies {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// Nine in ten are at or below this.
    pub p90: f64,
    /// 99 in a hundred are at or below this.
    pub p99: f64,
    /// 999 in a thousand are at or below this.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

/// What was measured of one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The setting, as it was written.
    pub setting: String,
    /// Questions that were to be sent after the warm-up.
    pub asked: u64,
    /// Those of them that were answered.
    pub answered: u64,
    /// Those that were not, by status.
    pub errors: BTreeMap<String, u64>,
    /// Those that were under way when the run was ended early.
    pub unfinished: u64,
    /// From the moment at which a question was to be sent to its answer. `None`: none was answered.
    pub latency_ms: Option<Latencies>,
    /// From the same moment to the first event of its stream. `None` if nothing was streamed.
    pub first_event_ms: Option<Latencies>,
    /// Look-ups that an answered question started, on average.
    pub target_calls: Option<f64>,
    /// The most questions of this setting that were under way at once.
    pub in_flight_max: usize,
}

/// The second setting divided by the first: means, with 95 % bounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The first setting.
    pub a: String,
    /// The second setting.
    pub b: String,
    /// Pairs of neighbouring arrivals, one of each setting, that were both answered.
    pub pairs: usize,
    /// Of the latencies, by bootstrap over pairs. `None`: no pair was answered.
    pub latency: Option<Interval>,
    /// Of the target calls.
    pub target_calls: Option<Interval>,
}

/// Counts for each setting.
pub(super) struct Tally {
    settings: Vec<Counts>,
    /// For each pair and setting: milliseconds and target calls.
    pairs: BTreeMap<usize, Vec<Option<(f64, f64)>>>,
}

struct Counts {
    name: String,
    asked: u64,
    errors: BTreeMap<String, u64>,
    unfinished: u64,
    latency: Latency,
    first: Latency,
    targets: u64,
    in_flight: usize,
    in_flight_max: usize,
}

impl Tally {
    pub(super) fn new(settings: &[LoadSetting]) -> Self {
        let counts = |setting: &LoadSetting| Counts {
            name: setting.to_string(),
            asked: 0,
            errors: BTreeMap::new(),
            unfinished: 0,
            latency: Latency::default(),
            first: Latency::default(),
            targets: 0,
            in_flight: 0,
            in_flight_max: 0,
        };
        Self {
            settings: settings.iter().map(counts).collect(),
            pairs: BTreeMap::new(),
        }
    }

    /// A question of this setting is under way; one of the warm-up does not count.
    pub(super) fn begins(&mut self, setting: usize, counts: bool) {
        if let Some(of) = self.settings.get_mut(setting) {
            of.in_flight += 1;
            if counts {
                of.in_flight_max = of.in_flight_max.max(of.in_flight);
            }
        }
    }

    /// It is no longer.
    pub(super) fn ends(&mut self, setting: usize) {
        if let Some(counts) = self.settings.get_mut(setting) {
            counts.in_flight = counts.in_flight.saturating_sub(1);
        }
    }

    /// Counts what came of a question that was to be sent after the warm-up.
    pub(super) fn count(&mut self, setting: usize, pair: usize, outcome: Outcome) {
        let of = self.settings.len();
        let Some(counts) = self.settings.get_mut(setting) else {
            return;
        };
        counts.asked += 1;
        match outcome {
            Outcome::Answered(times) => {
                counts.latency.record(times.answered);
                if let Some(first) = times.first {
                    counts.first.record(first);
                }
                counts.targets += u64::from(times.targets);
                if of > 1 {
                    let both = self.pairs.entry(pair).or_insert_with(|| vec![None; of]);
                    let ms = ms(times.answered);
                    if let Some(place) = both.get_mut(setting) {
                        *place = Some((ms, f64::from(times.targets)));
                    }
                }
            }
            Outcome::Failed(code) => *counts.errors.entry(code).or_default() += 1,
            Outcome::Unfinished => counts.unfinished += 1,
        }
    }

    pub(super) fn measured(&self) -> Vec<Measured> {
        let measured = |counts: &Counts| {
            let answered = counts.latency.count();
            Measured {
                setting: counts.name.clone(),
                asked: counts.asked,
                answered,
                errors: counts.errors.clone(),
                unfinished: counts.unfinished,
                latency_ms: counts.latency.summary(),
                first_event_ms: counts.first.summary(),
                target_calls: (answered > 0).then(|| counts.targets as f64 / answered as f64),
                in_flight_max: counts.in_flight_max,
            }
        };
        self.settings.iter().map(measured).collect()
    }

    /// The second setting against the first, if there are two. Neighbours in time are drawn again together:
    /// what loads the server then loads both.
    pub(super) fn compared(&self) -> Option<Ratio> {
        let [a, b] = &self.settings[..] else {
            return None;
        };
        let pairs: Vec<_> = self
            .pairs
            .values()
            .filter_map(|both| match both[..] {
                [Some(a), Some(b)] => Some((a, b)),
                _ => None,
            })
            .collect();
        let latencies: Vec<_> = pairs.iter().map(|(a, b)| [b.0, a.0]).collect();
        let targets: Vec<_> = pairs.iter().map(|(a, b)| [b.1, a.1]).collect();
        Some(Ratio {
            a: a.name.clone(),
            b: b.name.clone(),
            pairs: pairs.len(),
            latency: stats::ratio(&latencies),
            target_calls: stats::ratio(&targets),
        })
    }
}

/// A histogram of microseconds, which is made when the first one comes.
#[derive(Default)]
pub(super) struct Latency(Option<Histogram<u64>>);

impl Latency {
    pub(super) fn record(&mut self, took: Duration) {
        if self.0.is_none() {
            self.0 = Histogram::new(DIGITS).ok();
        }
        if let Some(histogram) = &mut self.0 {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            // It grows by itself, so nothing is too large for it but what no clock says.
            let _ = histogram.record(micros);
        }
    }

    fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    pub(super) fn summary(&self) -> Option<Latencies> {
        let histogram = self.0.as_ref()?;
        let at = |share: f64| histogram.value_at_quantile(share) as f64 / 1e3;
        Some(Latencies {
            mean: histogram.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(settings: &[&str]) -> Tally {
        let settings: Vec<_> = settings.iter().map(|text| text.parse().unwrap()).collect();
        Tally::new(&settings)
    }

    fn answered(ms: u64, targets: u32) -> Outcome {
        Outcome::Answered(Times {
            answered: Duration::from_millis(ms),
            first: None,
            targets,
        })
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_latencies() {
        let mut tally = tally(&["k=1"]);
        for ms in 1..=1000 {
            tally.count(0, ms as usize, answered(ms, 2));
        }
        let measured = &tally.measured()[0];
        let latency = measured.latency_ms.unwrap();
        for (seen, expected) in [
            (latency.mean, 500.5),
            (latency.p50, 500.0),
            (latency.p90, 900.0),
            (latency.p99, 990.0),
            (latency.p999, 999.0),
            (latency.max, 1000.0),
        ] {
            assert!((seen / expected - 1.0).abs() < 2e-3, "{seen} {expected}");
        }
        assert_eq!(measured.target_calls, Some(2.0));
        assert!(measured.first_event_ms.is_none() && tally.compared().is_none());
    }

    #[test]
    fn errors_are_counted_by_status_and_have_no_latency() {
        let mut tally = tally(&["k=1"]);
        for _ in 0..3 {
            tally.count(0, 0, Outcome::Failed("UNAVAILABLE".into()));
        }
        tally.count(0, 1, Outcome::Failed("DEADLINE_EXCEEDED".into()));
        tally.count(0, 2, Outcome::Unfinished);
        let measured = &tally.measured()[0];
        assert_eq!(
            (measured.asked, measured.answered, measured.unfinished),
            (5, 0, 1)
        );
        assert_eq!(measured.errors["UNAVAILABLE"], 3);
        assert_eq!(measured.latency_ms, None);
    }

    #[test]
    fn the_ratio_is_that_of_whole_pairs() {
        let mut tally = tally(&["k=1", "k=auto"]);
        for pair in 0..50 {
            tally.count(0, pair, answered(100 + pair as u64, 2));
            tally.count(1, pair, answered(50 + pair as u64 / 2, 3));
        }
        // Half a pair says nothing.
        tally.count(0, 50, answered(60_000, 2));
        tally.count(1, 50, Outcome::Failed("INTERNAL".into()));
        let compared = tally.compared().unwrap();
        assert_eq!((&*compared.a, &*compared.b), ("k=1", "k=auto"));
        assert_eq!(compared.pairs, 50);
        let latency = compared.latency.unwrap();
        assert!((latency.value - 0.5).abs() < 0.01, "{latency:?}");
        assert!(latency.low <= latency.value && latency.value <= latency.high);
        assert!(latency.high - latency.low < 0.01, "{latency:?}");
        assert!((compared.target_calls.unwrap().value - 1.5).abs() < 1e-9);
    }

    #[test]
    fn the_most_at_once_is_kept() {
        let mut tally = tally(&["k=1"]);
        tally.begins(0, true);
        tally.begins(0, true);
        tally.ends(0);
        tally.begins(0, true);
        assert_eq!(tally.measured()[0].in_flight_max, 2);
    }
}
