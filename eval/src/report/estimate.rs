//! p, α, β and ν of a run, and the bound that follows.
//!
//! Plain means over all hops. The server's running estimates clip outliers; here that would hold a
//! ratio of plain means, RelLat, against a bound of clipped ones.

use spechop_theory::{Interval, Setting};

use spechop_types::K;

use crate::stats;
use crate::{HopKind, Row};

/// Columns: what each question adds to the sums.
const ACCEPTED: usize = 0;
const COMPARED: usize = 1;
const HOPS: usize = 2;
const SEGMENT: usize = 3;
const TARGET: usize = 4;
const SPECULATION: usize = 5;
const SPECULATIONS: usize = 6;
/// Of the accepted: those with a hop after them.
const ACCEPTED_AHEAD: usize = 7;
/// Of the accepted: those of last hops.
const ACCEPTED_LAST: usize = 8;
const FINAL: usize = 9;
const QUESTIONS: usize = 10;

type Sums = [f64; 11];

/// What the hops of some rows have shown.
pub(crate) struct Estimates {
    questions: Vec<Sums>,
    nu: f64,
}

/// Some of it without intervals; nothing if there is nothing to divide by.
pub(crate) struct Plain {
    pub(crate) p_effective: Option<f64>,
    pub(crate) alpha: Option<f64>,
}

impl Estimates {
    pub(crate) fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let (mut segment, mut target, mut speculation) = (vec![], vec![], vec![]);
        let mut questions = Vec::new();
        for row in rows {
            let mut sums = Sums::default();
            sums[FINAL] = row.final_ms;
            sums[QUESTIONS] = 1.0;
            for (at, hop) in row.hops.iter().enumerate() {
                let accepted = f64::from(u8::from(hop.kind == HopKind::Accepted));
                let ahead = at + 1 < row.hops.len();
                sums[if ahead { ACCEPTED_AHEAD } else { ACCEPTED_LAST }] += accepted;
                sums[HOPS] += 1.0;
                sums[SEGMENT] += hop.segment_ms;
                sums[TARGET] += hop.target_ms;
                segment.push(hop.segment_ms);
                target.push(hop.target_ms);
                if let Some(ms) = hop.speculation_ms {
                    sums[SPECULATION] += ms;
                    sums[SPECULATIONS] += 1.0;
                    speculation.push(ms);
                }
                sums[ACCEPTED] += accepted;
                sums[COMPARED] += f64::from(u8::from(hop.kind != HopKind::Observed));
            }
            questions.push(sums);
        }
        let nu = [segment, target, speculation].map(|times| variation(&times));
        Self {
            questions,
            nu: nu.into_iter().fold(0.0, f64::max),
        }
    }

    /// Share of hops that a guess was compared for.
    pub(super) fn compared(&self) -> Option<Interval> {
        self.share(COMPARED, HOPS)
    }

    /// Share of the compared guesses that were accepted.
    pub(super) fn p(&self) -> Option<Interval> {
        self.share(ACCEPTED, COMPARED)
    }

    /// Share of all hops whose guess was accepted: what the bound needs.
    pub(super) fn p_effective(&self) -> Option<Interval> {
        self.share(ACCEPTED, HOPS)
    }

    pub(super) fn alpha(&self) -> Option<Interval> {
        self.interval(alpha)
    }

    pub(super) fn beta(&self) -> Option<Interval> {
        self.interval(beta)
    }

    /// The largest coefficient of variation of the three stages.
    pub(super) fn nu(&self) -> f64 {
        self.nu
    }

    /// RelLat*.
    pub(super) fn bound(&self) -> Option<Interval> {
        // The bound does not depend on ν.
        self.interval(|sums| setting(sums, 0.0).map_or(f64::NAN, Setting::rel_lat_oracle))
    }

    /// RelLat* at this length: ours, not the paper's. It is the RelLat of questions as long as these, were
    /// every stage to take its mean time and every accepted guess to save all that it can.
    pub(super) fn bound_at_length(&self) -> Option<Interval> {
        self.interval(at_length)
    }

    /// What the theory says of a window of k branches, over many hops; nothing of one that changes.
    pub(super) fn rel_lat(&self, k: K) -> Option<f64> {
        let setting = setting(self.sums(), self.nu)?;
        match k {
            K::Auto => None,
            K::Unbounded => Some(setting.rel_lat_oracle()),
            K::Bounded(k) => Some(setting.rel_lat_continuous(k)),
        }
    }

    /// RelLat* of a single question; nothing if it has no hop, or if it is not known how long a guess takes.
    pub(super) fn bound_of(row: &Row) -> Option<f64> {
        let sums = Self::of([row]).sums();
        if sums[HOPS] == 0.0 {
            return None;
        }
        if sums[ACCEPTED] == 0.0 {
            // Whatever a guess takes.
            return Some(1.0);
        }
        setting(sums, 0.0).map(Setting::rel_lat_oracle)
    }

    pub(crate) fn plain(&self) -> Plain {
        let sums = self.sums();
        let finite = |share: f64| share.is_finite().then_some(share);
        Plain {
            p_effective: finite(sums[ACCEPTED] / sums[HOPS]),
            alpha: finite(alpha(sums)),
        }
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for question in &self.questions {
            sums.iter_mut().zip(question).for_each(|(sum, x)| *sum += x);
        }
        sums
    }

    fn share(&self, part: usize, whole: usize) -> Option<Interval> {
        let of = |sums: &Sums| [sums[part], sums[whole]];
        stats::share(&self.questions.iter().map(of).collect::<Vec<_>>())
    }

    fn interval(&self, statistic: impl Fn(Sums) -> f64) -> Option<Interval> {
        stats::of_sums(&self.questions, statistic)
    }
}

fn alpha(sums: Sums) -> f64 {
    (sums[SPECULATION] / sums[SPECULATIONS]) / (sums[TARGET] / sums[HOPS])
}

fn beta(sums: Sums) -> f64 {
    sums[SEGMENT] / sums[TARGET]
}

/// 1 − \[a (1 − α) + l min(φ, 1 − α)\] / \[n (1 + β) + φ\], per question: n hops, of which a have an accepted
/// guess and a hop after them, and l an accepted guess and none; φ is the final segment. In target calls.
fn at_length(sums: Sums) -> f64 {
    let target = sums[TARGET] / sums[HOPS];
    // A guess that is slower than its look-up saves nothing.
    let hidden = 1.0 - alpha(sums).min(1.0);
    let last = sums[FINAL] / sums[QUESTIONS] / target;
    // After the last guess nothing but the final segment can be begun earlier.
    let saved = sums[ACCEPTED_AHEAD] * hidden + sums[ACCEPTED_LAST] * last.min(hidden);
    1.0 - saved / (sums[HOPS] * (1.0 + beta(sums)) + sums[QUESTIONS] * last)
}

fn setting(sums: Sums, nu: f64) -> Option<Setting> {
    Setting::new(sums[ACCEPTED] / sums[HOPS], alpha(sums), beta(sums), nu).ok()
}

/// Standard deviation over mean.
fn variation(times: &[f64]) -> f64 {
    let n = times.len() as f64;
    let mean = times.iter().sum::<f64>() / n;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    let variation = (squares / (n - 1.0)).sqrt() / mean;
    if variation.is_finite() {
        variation
    } else {
        0.0
    }
}
