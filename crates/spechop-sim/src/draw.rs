//! Drawn questions: stage times of given means and variation, guesses right with a given chance.

use std::sync::Arc;

use rand::SeedableRng;
use rand::distr::weighted::WeightedIndex;
use rand::rngs::SmallRng;
use rand_distr::{Bernoulli, Distribution, Gamma};
use serde::Deserialize;

use crate::{Hop, Trace};

/// Mean time of a drawn target call, in milliseconds. Ratios do not depend on it.
const TARGET_MS: f64 = 1_000.0;
/// Most guesses that are drawn for a hop.
const GUESSES_MAX: u32 = 8;

/// What questions are drawn from: mean times as shares of the target's, all with the same
/// coefficient of variation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chances {
    /// Share of hops whose best guess is right.
    pub p: f64,
    /// Mean time of a guess.
    pub alpha: f64,
    /// Mean time of a segment.
    pub beta: f64,
    /// Coefficient of variation of all times.
    pub nu: f64,
    /// Share of the other hops for which there is no guess at all.
    pub missing: f64,
    /// Chance of each later guess to be right where all before it are wrong.
    pub later: f64,
}

/// Which hop of a question depends on which, and how many questions are of this shape.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// For each hop, the earlier ones (counted from 1) whose answers its sub-question is made of;
    /// `null` where it is made of all of them.
    pub depends_on: Vec<Option<Vec<u32>>>,
    /// How many questions are like this.
    pub count: u32,
    /// What the dataset calls them.
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// A source of questions.
#[derive(Clone, Debug)]
pub struct Draw {
    accepted: Bernoulli,
    missing: Bernoulli,
    later: Bernoulli,
    segment: Time,
    target: Time,
    speculation: Time,
    shapes: Vec<Dependencies>,
    which: WeightedIndex<u32>,
}

/// Of each hop of a shape.
type Dependencies = Vec<Option<Arc<[u32]>>>;

/// The time of one stage.
#[derive(Clone, Copy, Debug)]
enum Time {
    /// Always the same.
    Fixed(f64),
    /// Gamma: positive, any coefficient of variation, light-tailed.
    Varying(Gamma<f64>),
}

impl Chances {
    /// What the paper's closed forms speak of: every hop is guessed, once.
    pub fn paper(p: f64, alpha: f64, beta: f64, nu: f64) -> Self {
        Self {
            p,
            alpha,
            beta,
            nu,
            missing: 0.0,
            later: 0.0,
        }
    }
}

impl Shape {
    /// A question of `hops` hops, each of which depends on all before it.
    pub fn chain(hops: usize) -> Self {
        Self {
            depends_on: vec![None; hops],
            count: 1,
            kind: "chain".into(),
        }
    }

    /// Whether every hop depends on earlier ones only, and there are questions like this.
    pub fn is_sensible(&self) -> bool {
        let earlier =
            |at: usize, all: &[u32]| all.iter().all(|hop| (1..=at).contains(&(*hop as usize)));
        let hops = self.depends_on.iter().enumerate();
        self.count > 0
            && hops
                .into_iter()
                .all(|(at, all)| all.as_ref().is_none_or(|all| earlier(at, all)))
    }
}

impl Draw {
    /// Questions of these shapes, as often as their counts say. `None` where a value makes no sense.
    pub fn new(chances: Chances, shapes: &[Shape]) -> Option<Self> {
        let Chances {
            p,
            alpha,
            beta,
            nu,
            missing,
            later,
        } = chances;
        if !shapes.iter().all(Shape::is_sensible) {
            return None;
        }
        let shared = |shape: &Shape| -> Dependencies {
            let hop = |all: &Option<Vec<u32>>| all.clone().map(Arc::from);
            shape.depends_on.iter().map(hop).collect()
        };
        Some(Self {
            accepted: Bernoulli::new(p).ok()?,
            missing: Bernoulli::new(missing).ok()?,
            later: Bernoulli::new(later).ok()?,
            segment: Time::new(beta * TARGET_MS, nu)?,
            target: Time::new(TARGET_MS, nu)?,
            speculation: Time::new(alpha * TARGET_MS, nu)?,
            shapes: shapes.iter().map(shared).collect(),
            which: WeightedIndex::new(shapes.iter().map(|shape| shape.count)).ok()?,
        })
    }

    /// `trials` questions; the same seed gives the same ones.
    pub fn traces(&self, seed: u64, trials: u64) -> impl Iterator<Item = Trace> + '_ {
        let mut rng = SmallRng::seed_from_u64(seed);
        (0..trials).map(move |trial| {
            let shape = &self.shapes[self.which.sample(&mut rng)];
            Trace {
                id: trial.to_string(),
                hops: shape
                    .iter()
                    .map(|all| self.hop(all.clone(), &mut rng))
                    .collect(),
                final_ms: self.segment.sample(&mut rng),
            }
        })
    }

    fn hop(&self, depends_on: Option<Arc<[u32]>>, rng: &mut SmallRng) -> Hop {
        let accepted = self.accepted.sample(rng);
        let guessed = accepted || !self.missing.sample(rng);
        let later = |rng: &mut SmallRng| (2..=GUESSES_MAX).find(|_| self.later.sample(rng));
        Hop {
            segment_ms: self.segment.sample(rng),
            target_ms: self.target.sample(rng),
            speculation_ms: self.speculation.sample(rng),
            accepted,
            guessed,
            right_guess: if guessed && !accepted {
                later(rng)
            } else {
                None
            },
            depends_on,
        }
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
