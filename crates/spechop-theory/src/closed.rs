//! The closed forms.

use std::num::NonZeroUsize;

/// Largest window that is looked for; wider ones cost more than they are worth.
const K_MAX: usize = 1 << 20;

/// A (p, α, β, ν) that makes sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    p: f64,
    alpha: f64,
    beta: f64,
    nu: f64,
}

/// Why a setting makes no sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InvalidSetting {
    /// p must be a share.
    P(f64),
    /// α must be finite and not negative.
    Alpha(f64),
    /// β must be finite and not negative.
    Beta(f64),
    /// ν must be finite and not negative.
    Nu(f64),
    /// ε must lie strictly between 0 and 1.
    Epsilon(f64),
    /// α + β = 0: a branch costs no time, so no finite window is wide enough.
    Instant,
}

impl Setting {
    /// Checks the domains: p in \[0, 1\], α, β, ν finite and ≥ 0.
    pub fn new(p: f64, alpha: f64, beta: f64, nu: f64) -> Result<Self, InvalidSetting> {
        let sensible = |x: f64| x.is_finite() && x >= 0.0;
        if !(0.0..=1.0).contains(&p) {
            return Err(InvalidSetting::P(p));
        }
        if !sensible(alpha) {
            return Err(InvalidSetting::Alpha(alpha));
        }
        if !sensible(beta) {
            return Err(InvalidSetting::Beta(beta));
        }
        if !sensible(nu) {
            return Err(InvalidSetting::Nu(nu));
        }
        Ok(Self { p, alpha, beta, nu })
    }

    /// Time of a hop whose guess is used: a guess that is slower than the look-up is not.
    fn fast_hop(self) -> f64 {
        self.alpha.min(1.0) + self.beta
    }

    /// The largest coefficient of variation of the stage times.
    pub fn nu(self) -> f64 {
        self.nu
    }

    /// RelLat* (Observation 1): what an unbounded window reaches over many hops,
    /// 1 − p (1 − α) / (1 + β). At α ≥ 1 no guess is in time: 1.
    pub fn rel_lat_oracle(self) -> f64 {
        1.0 - self.p * (1.0 - self.alpha.min(1.0)) / (1.0 + self.beta)
    }

    /// RelLat of a window of k branches over many hops (Theorem 2; the form is our own derivation and
    /// agrees with the simulator), for stage times that do not
    /// vary and guesses that are right independently of each other.
    ///
    /// Hops come in cycles of G accepted ones and a rejected one, G geometric. In a cycle a full
    /// window lets k hops pass in (1 + β): the hop after them waits for the first to commit.
    /// So the time of a cycle is (1 + β)(1 + E⌊G/k⌋) + (α + β) E\[G mod k\].
    pub fn rel_lat_k(self, k: NonZeroUsize) -> f64 {
        let (p, k) = (self.p, k.get() as f64);
        let (slow, fast) = (1.0 + self.beta, self.fast_hop());
        if k * fast >= slow {
            return self.rel_lat_oracle();
        }
        if p == 1.0 {
            return 1.0 / k;
        }
        let all_right = p.powf(k);
        let rounds = all_right / (1.0 - all_right);
        let rest = p / (1.0 - p) - k * rounds;
        (1.0 - p) * (slow * (1.0 + rounds) + fast * rest) / slow
    }

    /// The estimated probability that a window of k branches is full, and waits, while the
    /// head's look-up is still under way (Theorem 4): the look-up outlasts k guesses and the k − 1
    /// segments between them.
    ///
    /// The slack Σ S + Σ M − T has mean k (α + β) − (1 + β) and, with independent stages of
    /// coefficient of variation at most ν, variance at most ν² (1 + k α² + (k − 1) β²); its lower
    /// tail is taken as a normal one. Without variation it is 0 or 1.
    ///
    /// Our own derivation, to be held against the theorem's text: an approximation, not a proven
    /// bound. It gives both of the k that the paper prints (6 and 3).
    pub fn p_starve(self, k: NonZeroUsize) -> f64 {
        let k = k.get() as f64;
        let alpha = self.alpha.min(1.0);
        let mean = k * (alpha + self.beta) - (1.0 + self.beta);
        let variance = self.nu.powi(2) * (1.0 + k * alpha.powi(2) + (k - 1.0) * self.beta.powi(2));
        if variance == 0.0 {
            return if mean < 0.0 { 1.0 } else { 0.0 };
        }
        normal_cdf(-mean / variance.sqrt())
    }
}

/// The smallest window that never waits where stage times do not vary (Corollary 3):
/// ⌈(1 + β) / (α + β)⌉.
pub fn k_deterministic(setting: Setting) -> Result<NonZeroUsize, InvalidSetting> {
    let fast = setting.fast_hop();
    if fast == 0.0 {
        return Err(InvalidSetting::Instant);
    }
    // A quotient like 3.0000000000000004 means 3.
    let k = ((1.0 + setting.beta) / fast - 1e-9).ceil().max(1.0);
    Ok(NonZeroUsize::new(k as usize).unwrap_or(NonZeroUsize::MIN))
}

/// The smallest window whose [`Setting::p_starve`] is at most ε (Corollary 5).
pub fn k_epsilon(setting: Setting, epsilon: f64) -> Result<NonZeroUsize, InvalidSetting> {
    if !(epsilon > 0.0 && epsilon < 1.0) {
        return Err(InvalidSetting::Epsilon(epsilon));
    }
    if setting.fast_hop() == 0.0 {
        return Err(InvalidSetting::Instant);
    }
    // It falls with k once the mean slack is positive, so the first that fits is the smallest.
    let fits = |k: &NonZeroUsize| setting.p_starve(*k) <= epsilon;
    let mut candidates = (1..=K_MAX).filter_map(NonZeroUsize::new);
    candidates.find(fits).ok_or(InvalidSetting::Instant)
}

/// Φ, the distribution function of the standard normal.
fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

impl std::fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::P(p) => write!(f, "p = {p} is no share: it must lie between 0 and 1"),
            Self::Alpha(x) => write!(f, "alpha = {x} must be finite and not negative"),
            Self::Beta(x) => write!(f, "beta = {x} must be finite and not negative"),
            Self::Nu(x) => write!(f, "nu = {x} must be finite and not negative"),
            Self::Epsilon(x) => write!(f, "epsilon = {x} must lie strictly between 0 and 1"),
            Self::Instant => f.write_str("alpha + beta is so small that no window is wide enough"),
        }
    }
}

impl std::error::Error for InvalidSetting {}
