//! When questions arrive. Pure: the moments are drawn before anything is sent, so a slow server cannot
//! thin them out.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The shape of the arrivals; the mean rate is the same for both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A Poisson process: arrivals know nothing of each other.
    Poisson,
    /// On and off: Poisson at `factor` times the mean rate for the first 1/`factor` of every `period`,
    /// then silence.
    Bursts {
        /// How many times faster than the mean the arrivals of a burst are; more than 1.
        factor: f64,
        /// From the beginning of a burst to that of the next one.
        period: Duration,
    },
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    /// When it is sent, counted from the beginning.
    pub(super) at: Duration,
    /// Which of the settings it is asked with.
    pub(super) setting: usize,
    /// The pair that it belongs to: one arrival of each setting, next to each other in time.
    pub(super) pair: usize,
    /// Which question is asked: a place in the list of questions.
    pub(super) question: usize,
}

/// Endless arrivals in the order of their times.
pub(super) struct Arrivals {
    random: StdRng,
    rate: f64,
    shape: Shape,
    settings: usize,
    questions: usize,
    /// Seconds in which something may arrive, so far.
    busy_s: f64,
    /// The settings that the pair still lacks, shuffled.
    order: Vec<usize>,
    pair: usize,
}

impl Arrivals {
    /// `rate` arrivals a second on average, each with one of so many settings and questions.
    pub(super) fn new(
        shape: Shape,
        rate: f64,
        settings: usize,
        questions: usize,
        seed: u64,
    ) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            rate,
            shape,
            settings: settings.max(1),
            questions: questions.max(1),
            busy_s: 0.0,
            order: Vec::new(),
            pair: 0,
        }
    }

    /// The time between two arrivals is exponential. In bursts the time runs only while one lasts.
    fn next_at(&mut self) -> Duration {
        let gap = -(1.0 - self.random.random::<f64>()).ln();
        let seconds = match self.shape {
            Shape::Poisson => {
                self.busy_s += gap / self.rate;
                self.busy_s
            }
            Shape::Bursts { factor, period } => {
                self.busy_s += gap / (self.rate * factor);
                let period = period.as_secs_f64();
                let burst = period / factor;
                let before = (self.busy_s / burst).floor();
                before * period + (self.busy_s - before * burst)
            }
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        if self.order.is_empty() {
            self.order.extend(0..self.settings);
            for left in (1..self.settings).rev() {
                let with = self.random.random_range(0..=left);
                self.order.swap(left, with);
            }
            self.pair += 1;
        }
        let setting = self.order.pop()?;
        let pair = self.pair - 1;
        // Every setting asks every question. Half of the others lie between two askings of one question:
        // at the same time they would share their look-ups.
        let question = (pair + setting * self.questions / self.settings) % self.questions;
        Some(Arrival {
            at: self.next_at(),
            setting,
            pair,
            question,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 50.0;

    fn arrivals(shape: Shape) -> Arrivals {
        Arrivals::new(shape, RATE, 2, 4, 7)
    }

    const BURSTS: Shape = Shape::Bursts {
        factor: 5.0,
        period: Duration::from_secs(10),
    };

    #[test]
    fn the_mean_rate_is_that_which_was_asked_for() {
        for shape in [Shape::Poisson, BURSTS] {
            let within = |arrival: &Arrival| arrival.at < Duration::from_secs(1000);
            let count = arrivals(shape).take_while(within).count();
            // A Poisson count of mean 50,000 deviates by 224.
            assert!((49_000..51_000).contains(&count), "{shape:?}: {count}");
        }
    }

    #[test]
    fn times_never_go_back_and_gaps_are_exponential() {
        let times: Vec<_> = arrivals(Shape::Poisson)
            .take(20_000)
            .map(|arrival| arrival.at.as_secs_f64())
            .collect();
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| *gap >= 0.0));
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let deviation = (square / gaps.len() as f64).sqrt();
        // Of an exponential time they are the same.
        assert!((deviation / mean - 1.0).abs() < 0.05, "{deviation} {mean}");
    }

    #[test]
    fn nothing_arrives_between_bursts() {
        for arrival in arrivals(BURSTS).take(5_000) {
            let within = arrival.at.as_secs_f64() % 10.0;
            assert!(within < 2.0 + 1e-6, "{within}");
        }
    }

    #[test]
    fn every_pair_has_each_setting_once_and_every_setting_every_question() {
        let all: Vec<_> = arrivals(Shape::Poisson).take(400).collect();
        let mut first = [0; 2];
        for pair in all.chunks(2) {
            assert_eq!(pair[0].pair, pair[1].pair);
            assert_ne!(pair[0].setting, pair[1].setting);
            assert_ne!(pair[0].question, pair[1].question);
            first[pair[0].setting] += 1;
        }
        // Neither of the two always goes first.
        assert!(first.iter().all(|times| *times > 60), "{first:?}");
        for setting in 0..2 {
            let mut asked = [0; 4];
            for arrival in all.iter().filter(|arrival| arrival.setting == setting) {
                asked[arrival.question] += 1;
            }
            assert_eq!(asked, [50; 4]);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        let some = |seed| -> Vec<_> { Arrivals::new(BURSTS, RATE, 2, 4, seed).take(50).collect() };
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
    }
}
