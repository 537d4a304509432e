//! How many target calls questions have really made, and what a choice may therefore expect of the next ones.

use serde::{Deserialize, Serialize};

/// From this share of the allowance on, less is expected of the next questions.
const BRAKED_FROM: f64 = 0.9;
/// How much less, at least, for each call beyond that. It is more if the allowance is below a quarter.
/// Questions that always make 8 % more than is expected of them then stay within a limit of 1.25, and those
/// that make 5 % more within one of 1.1.
const BRAKE_MIN: f64 = 4.0;

/// Target calls that were begun, for each one of the standard agent. The weight of a hop halves every
/// `half_life` hops.
///
/// A choice goes by what settings would have made of the last questions. The next ones can do otherwise
/// for longer than any estimate notices, so what came of the choices is counted, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallRate {
    /// Of the standard agent, weighed by their age.
    standard: f64,
    /// Begun, weighed likewise.
    made: f64,
}

impl CallRate {
    /// Takes in a question: the calls that it takes at k = 1, and those that were begun for it.
    pub fn record(&mut self, standard: u64, made: u64, half_life: f64) {
        let keep = 0.5_f64.powf(standard as f64 / half_life.max(1.0));
        self.standard = self.standard * keep + standard as f64;
        self.made = self.made * keep + made as f64;
    }

    /// Calls for each one of the standard agent; `None` before the first one.
    pub fn value(&self) -> Option<f64> {
        let rate = self.made / self.standard;
        (self.standard > 0.0 && rate.is_finite()).then_some(rate)
    }

    /// How many calls the next questions may be expected to make, for each one of the standard agent, so
    /// that they make at most `calls_max` (at least 1): that many, as long as those before stayed below nine
    /// tenths of the additional ones, and then fewer, down to 1.
    pub fn expectable(&self, calls_max: f64) -> f64 {
        let Some(made) = self.value().filter(|_| calls_max.is_finite()) else {
            return calls_max;
        };
        let allowance = (calls_max - 1.0).max(f64::EPSILON);
        let beyond = (made - (1.0 + BRAKED_FROM * allowance)).max(0.0);
        let brake = allowance.recip().max(BRAKE_MIN);
        (calls_max - brake * beyond).max(1.0)
    }

    /// Whether so many calls were made that fewer are expected of the next questions, or none in vain.
    pub fn holds_back(&self, calls_max: f64) -> bool {
        self.expectable(calls_max) < calls_max || self.value().is_some_and(|made| made > calls_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS_MAX: f64 = 1.25;

    #[test]
    fn a_question_counts_less_the_older_it_is() {
        let mut rate = CallRate::default();
        assert_eq!(rate.value(), None);
        rate.record(100, 150, 100.0);
        assert_eq!(rate.value(), Some(1.5));
        rate.record(100, 100, 100.0);
        // 75 and 100 of 50 and 100.
        assert_eq!(rate.value(), Some(175.0 / 150.0));
        // An answer without a look-up is none that can make too many.
        let before = rate;
        rate.record(0, 0, 100.0);
        assert_eq!(rate, before);
    }

    #[test]
    fn what_may_be_expected_falls_before_the_limit_is_reached() {
        let after = |made| {
            let mut rate = CallRate::default();
            rate.record(1000, made, 150.0);
            rate.expectable(CALLS_MAX)
        };
        assert_eq!(CallRate::default().expectable(CALLS_MAX), CALLS_MAX);
        assert_eq!(after(1000), CALLS_MAX);
        assert_eq!(after(1225), CALLS_MAX);
        assert!((after(1235) - 1.21).abs() < 1e-9);
        assert!((after(1250) - 1.15).abs() < 1e-9);
        assert_eq!(after(1400), 1.0);
        let mut rate = CallRate::default();
        rate.record(10, 40, 150.0);
        assert_eq!(rate.expectable(f64::INFINITY), f64::INFINITY);
    }

    /// Questions that always make more calls than what was expected of them.
    #[test]
    fn the_limit_is_kept_although_questions_make_more_than_expected() {
        for (calls_max, excess) in [(1.25, 1.05), (1.25, 1.08), (1.1, 1.05), (2.0, 1.2)] {
            let mut rate = CallRate::default();
            let (mut standard, mut made) = (0, 0);
            let mut owed = 0.0;
            for question in 0..2000 {
                let hops = 2 + question % 2;
                owed += hops as f64 * excess * rate.expectable(calls_max);
                let calls = (owed as u64).max(hops);
                owed -= calls as f64;
                rate.record(hops, calls, 150.0);
                standard += hops;
                made += calls;
            }
            let came = made as f64 / standard as f64;
            let used = (came - 1.0) / (calls_max - 1.0);
            assert!(used <= 1.0 && used > 0.8, "{came} of {calls_max}");
        }
    }

    #[test]
    fn it_can_be_kept_and_taken_up_again() {
        let mut rate = CallRate::default();
        rate.record(7, 9, 150.0);
        let kept = serde_json::to_string(&rate).unwrap();
        assert_eq!(serde_json::from_str::<CallRate>(&kept).unwrap(), rate);
    }

    #[test]
    fn it_holds_back_near_the_limit_and_beyond() {
        let mut rate = CallRate::default();
        rate.record(7, 9, 150.0);
        for (limit, expectable, holds_back) in
            [(1.0, 1.0, true), (1.25, 1.007, true), (1.5, 1.5, false)]
        {
            assert!(
                (rate.expectable(limit) - expectable).abs() < 0.001,
                "{limit}"
            );
            assert_eq!(rate.holds_back(limit), holds_back, "{limit}");
        }
        assert!(!CallRate::default().holds_back(1.0));
    }
}
