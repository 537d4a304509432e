//! What the last questions teach of guesses and drafts: how often they are right, those guesses above all
//! that say how likely they are, and how much time a right guess hides.

use spechop_types::Chance;
use spechop_window::{Hidden, ReliabilityCurve};

use crate::{History, PastGuess};

/// Fewest guesses that a point of the calibration stands for.
const GUESSES_MIN: usize = 12;
/// Most points. More would follow chance.
const POINTS_MAX: usize = 8;
/// So many guesses of the usual worth are added to each point: a few cases prove little.
const USUAL: f64 = 2.0;
/// Ages of a call at which it is asked what is left of it: when so large a share of all calls has ended.
const AGES: [f64; 6] = [0.0, 0.25, 0.5, 0.75, 0.85, 0.95];
/// Most calls that this is reckoned with.
const CALLS_MAX: usize = 256;

/// How likely a draft is to be right: the share of those that were, by what each hop says of its draft
/// ([`crate::Hop::draft_held`]). As likely as not, as long as nothing was drafted.
pub fn draft_chance(held: impl IntoIterator<Item = Option<bool>>) -> Chance {
    let (mut right, mut all) = (0_u32, 0_u32);
    for held in held.into_iter().flatten() {
        right = right.saturating_add(u32::from(held));
        all = all.saturating_add(1);
    }
    match all {
        0 => Chance::EVEN,
        all => Chance::of(f64::from(right) / f64::from(all)),
    }
}

impl History {
    /// How likely a draft is to be right, by the drafts of the last questions.
    pub fn draft_chance(&self) -> Chance {
        let hops = self.questions().flat_map(|past| &past.hops);
        draft_chance(hops.map(|hop| hop.draft_held))
    }

    /// How often guesses were right, by how likely they said that they were. As they say, as long as too
    /// few were compared.
    ///
    /// Guesses are put in order of what they say and parted into groups of the same size. If a group
    /// that claims more was right less often, it is joined with the one before it (isotonic
    /// regression by pooling adjacent violators).
    pub fn calibration(&self) -> ReliabilityCurve {
        let guesses = self.questions().flat_map(|past| &past.hops);
        let mut said: Vec<(f64, bool)> = guesses
            .filter_map(|hop| match hop.guess {
                PastGuess::Compared {
                    accepted,
                    confidence,
                    ..
                } => Some((confidence?, accepted)),
                PastGuess::Untried | PastGuess::Late | PastGuess::NoIdea { .. } => None,
            })
            .collect();
        let groups = (said.len() / GUESSES_MIN).min(POINTS_MAX);
        if groups < 2 {
            return ReliabilityCurve::AS_SAID;
        }
        said.sort_by(|a, b| a.0.total_cmp(&b.0));
        let right = said.iter().filter(|(_, right)| *right).count();
        let usual = right as f64 / said.len() as f64;
        let mut pooled: Vec<Pool> = Vec::with_capacity(groups);
        for group in 0..groups {
            let within = group * said.len() / groups..(group + 1) * said.len() / groups;
            pooled.push(Pool::of(&said[within], usual));
            while let [.., before, last] = &mut pooled[..]
                && (before.share() >= last.share() || before.claims_as(last))
            {
                before.take(last);
                pooled.pop();
            }
        }
        let points = pooled.iter();
        ReliabilityCurve::through(
            points.map(|pool| (Chance::of(pool.said()), Chance::of(pool.share()))),
        )
    }

    /// How much time a right guess of a hop hides, by the age of the hop's target call: as much as what
    /// comes next takes, and no more than what is left of the call. Of calls that were as old as
    /// that, so that a few very long ones count for as much as they are.
    pub fn hidden(&self) -> Hidden {
        let mut calls = Vec::new();
        let mut next = Vec::new();
        for past in self.questions().rev() {
            let behind = past.hops.iter().skip(1);
            let behind = behind.map(|hop| hop.segment_ms + hop.target_ms);
            let behind = behind.chain([past.final_ms]);
            for (hop, follows) in past.hops.iter().zip(behind) {
                calls.push(hop.target_ms);
                next.push(follows);
            }
            if calls.len() >= CALLS_MAX {
                break;
            }
        }
        calls.sort_by(f64::total_cmp);
        let steps = AGES.into_iter().filter_map(|share| {
            let ended = (share * calls.len() as f64) as usize;
            let age = match ended {
                0 => 0.0,
                ended => *calls.get(ended - 1)?,
            };
            let left = &calls[calls.partition_point(|call| *call <= age)..];
            if left.is_empty() {
                return Some((age.round() as u32, 0));
            }
            let each = left.iter().map(|call| {
                let hides = |next: &f64| next.min(call - age);
                next.iter().map(hides).sum::<f64>() / next.len() as f64
            });
            let hidden = each.sum::<f64>() / left.len() as f64;
            Some((age.round() as u32, hidden.round() as u32))
        });
        Hidden::from_steps(steps)
    }
}

/// Guesses that are taken for as likely as each other.
struct Pool {
    guesses: f64,
    said: f64,
    right: f64,
}

impl Pool {
    fn of(said: &[(f64, bool)], usual: f64) -> Self {
        let right = said.iter().filter(|(_, right)| *right).count() as f64;
        let guesses = said.len() as f64;
        Self {
            guesses,
            said: said.iter().map(|(said, _)| said).sum(),
            right: (right + USUAL * usual) * guesses / (guesses + USUAL),
        }
    }

    fn take(&mut self, other: &Self) {
        self.guesses += other.guesses;
        self.said += other.said;
        self.right += other.right;
    }

    fn said(&self) -> f64 {
        self.said / self.guesses
    }

    /// Whether guesses of both say the same of themselves: a calibration has one point for them.
    fn claims_as(&self, other: &Self) -> bool {
        Chance::of(self.said()) == Chance::of(other.said())
    }

    fn share(&self) -> f64 {
        self.right / self.guesses
    }
}
