//! Drawn questions: stage times of given means and variation, guesses right with a given chance.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Bernoulli, Distribution, Gamma};

use crate::{Hop, Trace};

/// Mean time of a drawn target call, in milliseconds. Ratios do not depend on it.
const TARGET_MS: f64 = 1_000.0;

/// What questions are drawn from.
#[derive(Clone, Debug)]
pub struct Draw {
    accepted: Bernoulli,
    segment: Time,
    target: Time,
    speculation: Time,
    hop_count: usize,
}

/// The time of one stage.
#[derive(Clone, Copy, Debug)]
enum Time {
    /// Always the same.
    Fixed(f64),
    /// Gamma: positive, any coefficient of variation, light-tailed.
    Varying(Gamma<f64>),
}

impl Draw {
    /// Questions of `hop_count` hops: guesses right with chance `p`, mean times α and β times the
    /// target's, all with the coefficient of variation ν. `None` where a value makes no sense.
    pub fn new(p: f64, alpha: f64, beta: f64, nu: f64, hop_count: usize) -> Option<Self> {
        Some(Self {
            accepted: Bernoulli::new(p).ok()?,
            segment: Time::new(beta * TARGET_MS, nu)?,
            target: Time::new(TARGET_MS, nu)?,
            speculation: Time::new(alpha * TARGET_MS, nu)?,
            hop_count,
        })
    }

    /// `trials` questions; the same seed gives the same ones.
    pub fn traces(&self, seed: u64, trials: u64) -> impl Iterator<Item = Trace> + '_ {
        let mut rng = SmallRng::seed_from_u64(seed);
        (0..trials).map(move |trial| {
            let mut hops = Vec::with_capacity(self.hop_count);
            for _ in 0..self.hop_count {
                hops.push(Hop {
                    segment_ms: self.segment.sample(&mut rng),
                    target_ms: self.target.sample(&mut rng),
                    speculation_ms: self.speculation.sample(&mut rng),
                    accepted: self.accepted.sample(&mut rng),
                });
            }
            Trace {
                id: trial.to_string(),
                hops,
                final_ms: self.segment.sample(&mut rng),
            }
        })
    }
}

impl Time {
    fn new(mean: f64, nu: f64) -> Option<Self> {
        if !(mean.is_finite() && mean >= 0.0 && nu.is_finite() && nu >= 0.0) {
            return None;
        }
        if mean == 0.0 || nu == 0.0 {
            return Some(Self::Fixed(mean));
        }
        let shape = 1.0 / (nu * nu);
        Gamma::new(shape, mean / shape).ok().map(Self::Varying)
    }

    fn sample(&self, rng: &mut SmallRng) -> f64 {
        match self {
            Self::Fixed(mean) => *mean,
            Self::Varying(gamma) => gamma.sample(rng),
        }
    }
}
