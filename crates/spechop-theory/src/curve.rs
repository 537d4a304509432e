//! What every k would give on short questions whose stage times vary.
//!
//! [`Setting::rel_lat_k`](crate::Setting::rel_lat_k) speaks of endless questions and steady stages. Real questions have
//! two to six hops, and there the wide windows lose most of their worth. So the same timeline is
//! played on hops that were seen, drawn anew, and the expectation over which guesses are right is
//! taken exactly: after a rejection a question goes on like a shorter one. Ours, not the paper's; what
//! salvage, plan-ahead and second guesses add is not in it.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::hash::spread;

/// Fewest timelines that are played for an expectation.
const DRAWS_MIN: usize = 128;
/// Longest question that is played; longer ones count as this long.
pub(crate) const HOPS_MAX: usize = 12;

/// What the stages of one hop took, where it was guessed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) segment: f64,
    pub(crate) target: f64,
    /// The target's time, where the guess was not there before the observation.
    pub(crate) speculation: f64,
}

/// What a window of k branches is expected to give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The window.
    pub k: NonZeroUsize,
    /// Latency as a share of the latency at k = 1.
    pub rel_lat: f64,
    /// Target calls of a question beyond those of k = 1.
    pub extra_targets: f64,
}

/// The points of k = 1 to `k_max`, for questions as long as `lengths` says: so many of no hop, of
/// one, of two. Empty where nothing is known.
pub(crate) fn curve(times: &[Times], lengths: &[u32], p: f64, k_max: NonZeroUsize) -> Vec<Point> {
    let longest = lengths.iter().rposition(|count| *count > 0).unwrap_or(0);
    if times.is_empty() || longest == 0 {
        return Vec::new();
    }
    // Beside its hops a question has the segment that answers: nothing is gained by a wider window.
    let widest = k_max.get().min(longest + 1);
    let draws = draw(times, longest + widest + 1);
    let mut standard = None;
    let mut points = Vec::with_capacity(widest);
    for k in (1..=widest).filter_map(NonZeroUsize::new) {
        let (latency, extra_targets) = Expected::new(&draws, longest, p, k.get()).of(lengths);
        let standard = *standard.get_or_insert(latency);
        let rel_lat = if standard > 0.0 {
            latency / standard
        } else {
            1.0
        };
        points.push(Point {
            k,
            rel_lat,
            extra_targets,
        });
    }
    points
}

/// Timelines of so many hops, each hop one that was seen. The same for every k, so that what is
/// compared is k and not luck; and at every place of a timeline every hop stands equally often, so that a
/// question that begins anew after a rejection does not begin with luckier hops.
fn draw(times: &[Times], hops: usize) -> Vec<Vec<Times>> {
    let rounds = DRAWS_MIN.div_ceil(times.len());
    let mut draws = vec![Vec::with_capacity(hops); rounds * times.len()];
    let mut shuffled = times.to_vec();
    let mut at = 0_u64;
    for _ in 0..hops {
        for lines in draws.chunks_mut(times.len()) {
            for last in (1..shuffled.len()).rev() {
                at += 1;
                shuffled.swap(last, (spread(at) % (last as u64 + 1)) as usize);
            }
            for (line, times) in lines.iter_mut().zip(&shuffled) {
                line.push(*times);
            }
        }
    }
    draws
}

/// Expectations over the timelines of one k, from the moment at which a head begins with nothing
/// else alive. Each is over the timelines *and* the cases that it names.
struct Expected {
    /// Case: the first rejected guess is that of hop g. Its chance,
    lost: Vec<f64>,
    /// the time until it is known,
    lost_after: Vec<f64>,
    /// and how many of the e-th hops behind it are then being looked up for nothing.
    wasted: Vec<Vec<f64>>,
    /// Case: none of n hops is rejected. The time until the answer.
    through: Vec<f64>,
}

impl Expected {
    fn new(draws: &[Vec<Times>], hops: usize, p: f64, k: usize) -> Self {
        let mut sums = Self {
            lost: vec![0.0; hops],
            lost_after: vec![0.0; hops],
            wasted: vec![vec![0.0; k]; hops],
            through: vec![0.0; hops + 1],
        };
        let mut line = Timeline::default();
        for draw in draws {
            line.play(draw, k);
            sums.add(draw, &line, p, k);
        }
        let n = draws.len() as f64;
        let all = [&mut sums.lost, &mut sums.lost_after, &mut sums.through];
        let all = all.into_iter().chain(sums.wasted.iter_mut());
        all.flatten().for_each(|sum| *sum /= n);
        sums
    }

    fn add(&mut self, draw: &[Times], line: &Timeline, p: f64, k: usize) {
        let mut chance = 1.0;
        self.through[0] += draw[0].segment;
        for hop in 0..self.lost.len() {
            let next = line.begun[hop + 1];
            // Built upon what was observed, there is no guess to reject.
            let right = if line.observed[hop] <= next { 1.0 } else { p };
            let lost = chance * (1.0 - right);
            chance *= right;
            let known = line.committed[hop];
            self.lost[hop] += lost;
            self.lost_after[hop] += lost * known;
            for behind in 1..k {
                if line.asked[hop + behind] < known {
                    self.wasted[hop][behind] += lost;
                }
            }
            let answered = next + draw[hop + 1].segment;
            self.through[hop + 1] += chance * answered.max(known);
        }
    }

    /// Latency and wasted target calls of a question, on average over the lengths.
    fn of(&self, lengths: &[u32]) -> (f64, f64) {
        let hops = self.lost.len();
        let (mut latency, mut waste) = (vec![0.0; hops + 1], vec![0.0; hops + 1]);
        for n in 0..=hops {
            latency[n] = self.through[n];
            for lost in 0..n {
                let left = n - 1 - lost;
                let wasted = self.wasted[lost].iter().skip(1).take(left);
                latency[n] += self.lost_after[lost] + self.lost[lost] * latency[left];
                waste[n] += wasted.sum::<f64>() + self.lost[lost] * waste[left];
            }
        }
        let weigh = |of: &[f64]| {
            let pairs = lengths.iter().zip(of);
            let sum: f64 = pairs.map(|(count, of)| f64::from(*count) * of).sum();
            sum / lengths
                .iter()
                .take(hops + 1)
                .map(|n| f64::from(*n))
                .sum::<f64>()
        };
        (weigh(&latency), weigh(&waste))
    }
}

/// When what happens to each hop, as long as no guess is rejected.
#[derive(Default)]
struct Timeline {
    begun: Vec<f64>,
    asked: Vec<f64>,
    observed: Vec<f64>,
    committed: Vec<f64>,
}

impl Timeline {
    fn play(&mut self, draw: &[Times], k: usize) {
        for times in [
            &mut self.begun,
            &mut self.asked,
            &mut self.observed,
            &mut self.committed,
        ] {
            times.clear();
        }
        let (mut free, mut before) = (0.0, 0.0_f64);
        for (hop, times) in draw.iter().enumerate() {
            // The branch k places before it must have made room.
            let room = hop.checked_sub(k).map_or(0.0, |at| self.committed[at]);
            let begun = room.max(free);
            let asked = begun + times.segment;
            let observed = asked + times.target;
            free = asked + times.speculation.min(times.target);
            before = before.max(observed);
            self.begun.push(begun);
            self.asked.push(asked);
            self.observed.push(observed);
            self.committed.push(before);
        }
    }
}
