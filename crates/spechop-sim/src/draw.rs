//! Drawn questions: stage times of given means and variation, guesses right with a given chance.

use std::sync::Arc;

use rand::SeedableRng;
use rand::distr::weighted::WeightedIndex;
use rand::rngs::SmallRng;
use rand_distr::{Bernoulli, Beta, Distribution, Gamma};
use serde::Deserialize;

use crate::trace::are_before;
use crate::{Hop, Trace};

/// Mean time of a drawn target call, in milliseconds. Ratios do not depend on it.
const TARGET_MS: f64 = 1_000.0;
/// Where a speculator's confidence hangs on as many guesses as this, it tells no difference between
/// two of them.
const N_MAX: f64 = 1e9;
/// A Beta distribution of a shape below this is all at one end.
const SHAPE_MIN: f64 = 1e-9;
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
    /// How much the speculator's confidence tells: the share of the variance of *right or wrong* that
    /// it explains. 0 is as sure of every guess, 1 knows. `None`: it says nothing.
    pub sharpness: Option<f64>,
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
    confidence: Option<Confidence>,
    segment: Time,
    target: Time,
    speculation: Time,
    shapes: Vec<Dependencies>,
    which: WeightedIndex<u32>,
}

/// Of each hop of a shape.
type Dependencies = Vec<Option<Arc<[u32]>>>;

/// How likely the best guess is said to be, where it is right and where it is wrong.
#[derive(Clone, Copy, Debug)]
struct Confidence {
    right: Said,
    wrong: Said,
}

/// What is said of a guess.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// Always the same.
    Fixed(f64),
    /// Beta: any mean, any variance that a share may have.
    Varying(Beta<f64>),
}

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
            sharpness: None,
        }
    }

    /// Share of the best guesses that are right, hops without a guess aside.
    pub fn guess_chance(&self) -> f64 {
        let guessed = self.p + (1.0 - self.p) * (1.0 - self.missing);
        if guessed > 0.0 { self.p / guessed } else { 0.0 }
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
        let mut hops = self.depends_on.iter().enumerate();
        self.count > 0 && hops.all(|(at, on)| on.iter().all(|hops| are_before(at, hops)))
    }
}

impl Draw {
    /// The hops of the longest question that it draws.
    pub fn hops_max(&self) -> usize {
        self.shapes.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Questions of these shapes, as often as their counts say. `None` where a value makes no sense.
    pub fn new(chances: Chances, shapes: &[Shape]) -> Option<Self> {
        let Chances {
            p,
            alpha,
            beta,
            nu,
            missing,
            later,
            sharpness,
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
            confidence: match sharpness {
                Some(sharpness) => Some(Confidence::new(chances.guess_chance(), sharpness)?),
                None => None,
            },
            segment: Time::new(beta * TARGET_MS, nu)?,
            target: Time::new(TARGET_MS, nu)?,
            speculation: Time::new(alpha * TARGET_MS, nu)?,
            shapes: shapes.iter().map(shared).collect(),
            which: WeightedIndex::new(shapes.iter().map(|shape| shape.count)).ok()?,
        })
    }

    /// `trials` questions; the same seed gives the same ones, whatever is said of their guesses.
    pub fn traces(&self, seed: u64, trials: u64) -> impl Iterator<Item = Trace> + '_ {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut sayings = SmallRng::seed_from_u64(!seed);
        (0..trials).map(move |trial| {
            let shape = &self.shapes[self.which.sample(&mut rng)];
            Trace {
                id: trial.to_string(),
                hops: shape
                    .iter()
                    .map(|all| self.hop(all.clone(), &mut rng, &mut sayings))
                    .collect(),
                final_ms: self.segment.sample(&mut rng),
            }
        })
    }

    fn hop(
        &self,
        depends_on: Option<Arc<[u32]>>,
        rng: &mut SmallRng,
        sayings: &mut SmallRng,
    ) -> Hop {
        let accepted = self.accepted.sample(rng);
        let guessed = accepted || !self.missing.sample(rng);
        let later = |rng: &mut SmallRng| (2..=GUESSES_MAX).find(|_| self.later.sample(rng));
        Hop {
            segment_ms: self.segment.sample(rng),
            target_ms: self.target.sample(rng),
            speculation_ms: self.speculation.sample(rng),
            accepted,
            confidence: self
                .confidence
                .filter(|_| guessed)
                .map(|confidence| confidence.sample(accepted, sayings)),
            guessed,
            right_guess: if guessed && !accepted {
                later(rng)
            } else {
                None
            },
            draft_held: None,
            depends_on,
        }
    }
}

impl Confidence {
    /// Calibrated: of the guesses of which it is said that they are right with some chance, that share
    /// is right. Their chances are Beta(a, b) by a mean of `p` and a variance of `sharpness` · p (1 - p);
    /// whether a guess is right is drawn before, so this is what Bayes makes of either case.
    fn new(p: f64, sharpness: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&sharpness) {
            return None;
        }
        let said = |right: bool| {
            // Minus zero lies between 0 and 1, and what is divided by it is less than nothing.
            let n = 1.0 / sharpness.abs() - 1.0;
            let (a, b) = (p * n, (1.0 - p) * n);
            let (a, b) = if right { (a + 1.0, b) } else { (a, b + 1.0) };
            if n > N_MAX {
                return Some(Said::Fixed(p));
            }
            if a < SHAPE_MIN || b < SHAPE_MIN {
                return Some(Said::Fixed(if right { 1.0 } else { 0.0 }));
            }
            Beta::new(a, b).ok().map(Said::Varying)
        };
        Some(Self {
            right: said(true)?,
            wrong: said(false)?,
        })
    }

    fn sample(&self, right: bool, rng: &mut SmallRng) -> f64 {
        let said = if right { self.right } else { self.wrong };
        match said {
            Said::Fixed(share) => share,
            Said::Varying(beta) => beta.sample(rng),
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
