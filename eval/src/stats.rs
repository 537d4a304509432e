//! How sure a number is: bootstrap intervals, Wilson's for shares of 0 and 1, and paired tests.
//!
//! Questions are what was drawn, so questions are what is drawn again, whole: both sides of a ratio
//! come from the same questions. Everything is seeded with the same seed, by a generator of our own:
//! the same runs give the same bytes, whatever a library's next version draws.

use spechop_theory::{Interval, wilson};
use spechop_types::{GOLDEN, spread};

/// Resamples of an interval.
const RESAMPLES: usize = 2_000;
/// Sign flips of a permutation test.
const FLIPS: usize = 10_000;
/// Up to so many differences every flip is tried: 2¹³ < [`FLIPS`].
const EXACT_MAX: usize = 13;
const SEED: u64 = 0x5eed;

/// A statistic of sums over questions, with its percentile bootstrap interval. Each question brings
/// `N` addends; the statistic is given their sums. `None` where it is no finite number.
pub(crate) fn of_sums<const N: usize>(
    questions: &[[f64; N]],
    statistic: impl Fn([f64; N]) -> f64,
) -> Option<Interval> {
    let mut sums = [0.0; N];
    questions.iter().for_each(|addends| add(&mut sums, addends));
    let value = statistic(sums);
    if questions.is_empty() || !value.is_finite() {
        return None;
    }
    let mut random = Random(SEED);
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut sums = [0.0; N];
        for _ in questions {
            add(&mut sums, &questions[random.below(questions.len())]);
        }
        values.push(statistic(sums));
    }
    // A draw without, say, any accepted guess may have no ratio.
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    Some(Interval {
        value,
        low: quantile(&values, 0.025).unwrap_or(value),
        high: quantile(&values, 0.975).unwrap_or(value),
    })
}

/// The mean.
pub(crate) fn mean(values: &[f64]) -> Option<Interval> {
    let questions: Vec<_> = values.iter().map(|value| [*value, 1.0]).collect();
    ratio(&questions)
}

/// The mean of the first over the mean of the second.
pub(crate) fn ratio(questions: &[[f64; 2]]) -> Option<Interval> {
    of_sums(questions, |[above, below]| above / below)
}

/// The share of the first in the second: a ratio from 0 to 1. If it is 0 or 1, all resamples are alike,
/// and the bootstrap would be certain. Then the interval is Wilson's, over the questions that have any
/// of the second.
pub(crate) fn share(questions: &[[f64; 2]]) -> Option<Interval> {
    let found = ratio(questions)?;
    if 0.0 < found.value && found.value < 1.0 {
        return Some(found);
    }
    let n = questions.iter().filter(|[_, of]| *of > 0.0).count();
    Some(wilson(found.value, n as f64))
}

/// The mean of values from 0 to 1.
pub(crate) fn mean_share(values: &[f64]) -> Option<Interval> {
    let questions: Vec<_> = values.iter().map(|value| [*value, 1.0]).collect();
    share(&questions)
}

/// The smallest value that at least this share is at or below, interpolated. The values are sorted.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (
        sorted.get(at.floor() as usize)?,
        sorted.get(at.ceil() as usize)?,
    );
    Some(low + (high - low) * at.fract())
}

/// McNemar's exact test, two-sided: p of so lopsided a disagreement, were both as often right.
pub(crate) fn mcnemar(pairs: impl IntoIterator<Item = (bool, bool)>) -> f64 {
    let (mut only_first, mut only_second) = (0_u32, 0_u32);
    for pair in pairs {
        match pair {
            (true, false) => only_first += 1,
            (false, true) => only_second += 1,
            _ => {}
        }
    }
    let n = only_first + only_second;
    // Logarithms, as 2⁻ⁿ underflows.
    let mut log_choose = 0.0_f64;
    let mut tail = 0.0;
    for i in 0..=only_first.min(only_second) {
        tail += (log_choose - f64::from(n) * std::f64::consts::LN_2).exp();
        log_choose += (f64::from(n - i) / f64::from(i + 1)).ln();
    }
    (2.0 * tail).min(1.0)
}

/// Paired permutation test, two-sided: p of a mean difference so far from 0, were each difference as
/// likely to have the other sign. Exact for few differences, else by seeded draws.
pub(crate) fn sign_flip(differences: &[f64]) -> f64 {
    // A difference of nothing is the same whichever way round.
    let differences: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    let size: f64 = differences.iter().map(|d| d.abs()).sum();
    // Sums that only differ by rounding count as equal.
    let bar = differences.iter().sum::<f64>().abs() - 1e-9 * size;
    if differences.len() <= EXACT_MAX {
        let all = 1_u64 << differences.len();
        let far = (0..all).filter(|flips| {
            let mut bits = *flips;
            flipped_sum(&differences, || take_bit(&mut bits)).abs() >= bar
        });
        return far.count() as f64 / all as f64;
    }
    let mut random = Random(SEED);
    let far = (0..FLIPS).filter(|_| {
        let (mut bits, mut left) = (0, 0);
        let sign = || {
            if left == 0 {
                (bits, left) = (random.next(), 64);
            }
            left -= 1;
            take_bit(&mut bits)
        };
        flipped_sum(&differences, sign).abs() >= bar
    });
    // What was seen is itself one of the flips.
    (far.count() + 1) as f64 / (FLIPS + 1) as f64
}

fn add<const N: usize>(sums: &mut [f64; N], addends: &[f64; N]) {
    sums.iter_mut().zip(addends).for_each(|(sum, x)| *sum += x);
}

fn flipped_sum(differences: &[f64], mut sign: impl FnMut() -> bool) -> f64 {
    let flipped = differences.iter().map(|d| if sign() { *d } else { -d });
    flipped.sum()
}

fn take_bit(bits: &mut u64) -> bool {
    let bit = *bits & 1 == 1;
    *bits >>= 1;
    bit
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        spread(self.0)
    }

    /// Even enough: the bias is below n / 2³².
    fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_resamples_both_sides_together() {
        // Every question is twice as fast: no resample can say otherwise.
        let pairs: Vec<[f64; 2]> = (1..40)
            .map(|i| [f64::from(i), 2.0 * f64::from(i)])
            .collect();
        let half = ratio(&pairs).unwrap();
        assert_eq!((half.value, half.low, half.high), (0.5, 0.5, 0.5));
    }

    #[test]
    fn a_mean_has_the_interval_of_the_normal_approximation() {
        // 400 coin tosses, half of them heads: 0.5 ± 1.96 · 0.025.
        let tosses: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let mean = mean(&tosses).unwrap();
        assert_eq!(mean.value, 0.5);
        assert!((mean.low - 0.451).abs() < 0.006, "{mean:?}");
        assert!((mean.high - 0.549).abs() < 0.006, "{mean:?}");
    }

    #[test]
    fn a_share_of_all_or_none_is_not_certain() {
        let all = mean_share(&[1.0; 40]).unwrap();
        assert_eq!(all.value, 1.0);
        // 40 / (40 + 1.96²)
        assert!(
            (all.low - 0.912).abs() < 0.001 && all.high > 0.999,
            "{all:?}"
        );
        let none = mean_share(&[0.0; 40]).unwrap();
        assert!(
            none.low < 0.001 && (none.high - 0.088).abs() < 0.001,
            "{none:?}"
        );
        // Questions are what was drawn, and not their hops. One without any says nothing.
        let hops = [vec![[3.0, 3.0]; 40], vec![[0.0, 0.0]; 9]].concat();
        assert_eq!(share(&hops), Some(all));
        let some = [0.0, 1.0, 1.0, 1.0];
        assert_eq!(mean_share(&some), mean(&some));
    }

    #[test]
    fn nothing_has_no_interval() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean_share(&[]), None);
        assert_eq!(ratio(&[[1.0, 0.0]]), None);
    }

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn mcnemar_is_the_sign_test_on_what_differs() {
        let test = |first: usize, second: usize| {
            let pairs = [vec![(true, false); first], vec![(false, true); second]].concat();
            mcnemar(pairs.into_iter().chain([(true, true), (false, false)]))
        };
        let close = |p: f64, known: f64| assert!((p - known).abs() < 1e-12, "{p} {known}");
        close(test(0, 0), 1.0);
        close(test(3, 3), 1.0);
        // 2 · (1 + 6) / 2⁶
        close(test(1, 5), 14.0 / 64.0);
        // 2 / 2¹⁰
        close(test(10, 0), 2.0 / 1024.0);
        assert!(test(3000, 3000) > 0.98);
    }

    #[test]
    fn few_differences_are_flipped_in_every_way() {
        assert_eq!(sign_flip(&[]), 1.0);
        assert_eq!(sign_flip(&[0.0, 0.0]), 1.0);
        // Only all of one sign reaches the sum: 2 of 2⁵.
        assert_eq!(sign_flip(&[1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 32.0);
        // |±1 ±1 ±1| ≥ 1 always holds.
        assert_eq!(sign_flip(&[1.0, 1.0, -1.0]), 1.0);
    }

    #[test]
    fn many_differences_are_flipped_by_chance() {
        assert_eq!(sign_flip(&[1.0; 40]), 1.0 / 10_001.0);
        let balanced: Vec<f64> = (0..40)
            .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        assert_eq!(sign_flip(&balanced), 1.0);
        // 15 up, 5 down: the sign test says 0.0414.
        let lopsided = [vec![1.0; 15], vec![-1.0; 5]].concat();
        assert!((sign_flip(&lopsided) - 0.0414).abs() < 0.006);
    }
}
