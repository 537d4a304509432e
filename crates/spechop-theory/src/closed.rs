//! The closed forms.

use std::num::NonZeroUsize;

/// Largest window that is looked for; wider ones cost more than they are worth.
const K_MAX: usize = 1 << 20;

/// Shares of a slow hop that differ by no more than this are the same one, written in binary: 1.35 is three
/// times 0.45, and 1.0 + 0.35 − 3.0 · (0.1 + 0.35) is not quite 0.
const ROUNDING: f64 = 1e-9;

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
    /// α + β = 0, or hardly more: a branch costs no time, so no window is wide enough.
    Instant,
    /// The times vary so much that every window waits more often than ε allows.
    TooWide {
        /// By how much.
        nu: f64,
        /// How often a window may wait.
        epsilon: f64,
    },
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

    /// Observation 1: mean time of a hop if its verdict were known the moment its guess exists, with the
    /// mean time of a look-up as the unit: β + p α + (1 − p). A segment, and then the guess if it is right,
    /// else the look-up. At α ≥ 1 no guess is in time.
    pub fn oracle_hop(self) -> f64 {
        self.beta + self.p * self.alpha.min(1.0) + (1.0 - self.p)
    }

    /// RelLat* (Corollary 1 of Observation 1): that time divided by the hop of the standard agent,
    /// 1 + β, which is 1 − p (1 − α) / (1 + β). What an unbounded window reaches over many hops.
    pub fn rel_lat_oracle(self) -> f64 {
        self.oracle_hop() / (1.0 + self.beta)
    }

    /// μ_k = (1 − p^k) / (1 − p), the mean number of hops that a round of k settles (Theorem 2): those up
    /// to and with its first wrong guess, or all k. Guesses are right independently of each other.
    fn hops_per_round(self, k: NonZeroUsize) -> f64 {
        let k = k.get() as f64;
        if self.p == 1.0 {
            return k;
        }
        (1.0 - self.p.powf(k)) / (1.0 - self.p)
    }

    /// RelLat_k of a bounded window that works in rounds, over many hops (Theorem 2 and Corollary 3): a
    /// round costs a look-up, a segment for each hop that it settles, and a guess for each of them but the
    /// last. So RelLat_k = (β + α (μ_k − 1) / μ_k + 1 / μ_k) / (1 + β). It tends to RelLat* as k grows.
    ///
    /// The windows of this program do not work in rounds, unless they are asked to for comparison: see
    /// [`Self::rel_lat_continuous`].
    pub fn rel_lat_k(self, k: NonZeroUsize) -> f64 {
        let mu = self.hops_per_round(k);
        (self.beta + self.alpha.min(1.0) * (mu - 1.0) / mu + 1.0 / mu) / (1.0 + self.beta)
    }

    /// RelLat of the continuous window of k branches over many hops, for stage times that do not vary and
    /// guesses that are right independently of each other. This form is ours: the paper has none for
    /// a finite k. It agrees with the simulator.
    ///
    /// Hops come in cycles of G accepted ones and a rejected one, G geometric. In a cycle a full
    /// window lets k hops pass in (1 + β): the hop after them waits for the first to commit.
    /// So the time of a cycle is (1 + β)(1 + E⌊G/k⌋) + (α + β) E\[G mod k\].
    pub fn rel_lat_continuous(self, k: NonZeroUsize) -> f64 {
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

    /// The approximate probability that a window of k branches is full, and waits, while the head's
    /// look-up is still under way (Theorem 4, with the largest coefficient of variation for every stage):
    /// Φ(((1 + β) − k (α + β)) / (ν √(k α² + (k − 1) β² + 1))). Without variation it is 0 or 1.
    pub fn p_starve(self, k: NonZeroUsize) -> f64 {
        let of = |mean: f64| StageTime {
            mean,
            deviation: self.nu * mean,
        };
        let alpha = self.alpha.min(1.0);
        p_starve(of(self.beta), of(1.0), of(alpha), k)
    }
}

/// The time of a stage, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageTime {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// The approximate probability that a window of k branches is full, and waits, while the head's look-up is
/// still under way (Theorem 4 in its general form): the look-up outlasts k guesses and the k − 1 segments
/// between them. The stages are independent, and their sum is taken as normal. Without variation it is 0
/// or 1.
pub fn p_starve(
    segment: StageTime,
    target: StageTime,
    speculation: StageTime,
    k: NonZeroUsize,
) -> f64 {
    let k = k.get() as f64;
    // As shares of a slow hop, so that no square of a long time is beyond all numbers.
    let slow = target.mean + segment.mean;
    let unit = if slow > 0.0 { slow } else { 1.0 };
    let lead = slow / unit - k * ((speculation.mean + segment.mean) / unit);
    let lead = if lead.abs() <= ROUNDING { 0.0 } else { lead };
    let square = |stage: StageTime| (stage.deviation / unit).powi(2);
    let variance = k * square(speculation) + (k - 1.0) * square(segment) + square(target);
    if variance == 0.0 {
        return if lead > 0.0 { 1.0 } else { 0.0 };
    }
    normal_cdf(lead / variance.sqrt())
}

/// The smallest window that never waits if stage times do not vary: ⌈(1 + β) / (α + β)⌉, at which
/// [`Setting::p_starve`] is at most one half.
pub fn k_deterministic(setting: Setting) -> Result<NonZeroUsize, InvalidSetting> {
    let fast = setting.fast_hop();
    if fast == 0.0 {
        return Err(InvalidSetting::Instant);
    }
    Ok(whole((1.0 + setting.beta) / fast))
}

/// The smallest window whose [`Setting::p_starve`] is at most ε. It is found by search; the paper's closed
/// form ([`k_epsilon_closed`]) is an approximation of it.
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
    candidates.find(fits).ok_or_else(|| {
        // Without variation one would do, or not even then.
        match k_deterministic(setting) {
            Ok(k) if k.get() <= K_MAX => InvalidSetting::TooWide {
                nu: setting.nu,
                epsilon,
            },
            Ok(_) | Err(_) => InvalidSetting::Instant,
        }
    })
}

/// The paper's closed form of the window for a given risk (Corollary 5): ⌈k₀ + z ν √(k₀ α² + (k₀ − 1) β² + 1)
/// / (α + β)⌉, with k₀ = (1 + β) / (α + β) not rounded and z the (1 − ε) quantile of the standard normal. In
/// 4 of the 18 settings of Table 1 it is one less than [`k_epsilon`].
pub fn k_epsilon_closed(setting: Setting, epsilon: f64) -> Result<NonZeroUsize, InvalidSetting> {
    if !(epsilon > 0.0 && epsilon < 1.0) {
        return Err(InvalidSetting::Epsilon(epsilon));
    }
    let (alpha, beta, fast) = (setting.alpha.min(1.0), setting.beta, setting.fast_hop());
    if fast == 0.0 {
        return Err(InvalidSetting::Instant);
    }
    let k = (1.0 + beta) / fast;
    // As shares of a fast hop, so that no square of a long time is beyond all numbers. That of a look-up may be, and
    // is not taken.
    let square = |time: f64| (time / fast).powi(2);
    let branches = (k * square(alpha) + (k - 1.0) * square(beta)).sqrt();
    let spread = libm::hypot(branches, 1.0 / fast);
    if !spread.is_finite() {
        return Err(InvalidSetting::Instant);
    }
    let k = k + normal_quantile(1.0 - epsilon) * setting.nu * spread;
    Ok(whole(k))
}

/// The smallest window of at least so many branches. A quotient like 3.0000000000000004 means 3.
fn whole(k: f64) -> NonZeroUsize {
    let k = (k * (1.0 - ROUNDING)).ceil().max(1.0);
    NonZeroUsize::new(k as usize).unwrap_or(NonZeroUsize::MIN)
}

/// Φ, the distribution function of the standard normal.
fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// The inverse of Φ, by bisection: to the last bits of a double within ±40.
fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if normal_cdf(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
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
            Self::TooWide { nu, epsilon } => write!(
                f,
                "nu = {nu} is so large that every window waits more often than epsilon = {epsilon} allows"
            ),
        }
    }
}

impl std::error::Error for InvalidSetting {}
