//! How much words should count: the weight at which most hops of training questions find their gold
//! passage among the first five, which is what the agent reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spechop_ports::{Call, Encoder};

use super::searched::Searched;
use super::{DEPTHS, LookUps, RetrievalError};
use crate::Machine;

/// The weights that are tried. Cosines of the default encoder lie between 0.7 and 0.9, shares of the
/// words between 0 and about 0.7.
const WEIGHTS: [f32; 20] = [
    0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7,
    1.0, 2.0, 5.0,
];

/// A fitted weight, and what it was fitted on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The weight. 0 if words never help.
    pub weight: f32,
    /// How it came about.
    pub info: FitInfo,
    /// By data set: what it was fitted on.
    pub sets: BTreeMap<String, FittedOn>,
    /// The mean of the data sets' recall@5 at each weight that was tried.
    pub recall_at_5: Vec<(f32, f64)>,
}

/// How a fit came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitInfo {
    /// SHA-256 of the list of ids that were left out.
    pub held_out_sha256: String,
    /// The encoder, by name and hash.
    pub encoder: String,
    /// The commit of this program.
    pub commit: String,
    /// The machine.
    pub machine: Machine,
    /// The command that makes it again.
    pub command: String,
}

/// The training hops of a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedOn {
    /// SHA-256 of the look-ups.
    pub look_ups_sha256: String,
    /// The index, by name and hash.
    pub index: String,
    /// Passages in it.
    pub passages: usize,
    /// Questions that were not held out.
    pub questions: usize,
    /// Their hops.
    pub hops: usize,
    /// At each weight: recall@2 and recall@5 per hop.
    pub recall: Vec<(f32, [f64; 2])>,
}

/// Asks every hop of the given questions, and says what each weight finds.
///
/// # Errors
///
/// The encoder fails, the index cannot be read, or there is no hop.
pub async fn fit(
    encoder: &dyn Encoder,
    corpus: &Searched,
    look_ups: &[LookUps],
    progress: &mut (dyn FnMut(usize) + Send),
) -> Result<Vec<(f32, [f64; 2])>, RetrievalError> {
    let numbers = corpus.numbers();
    let mut curve = Curve::default();
    for (done, question) in look_ups.iter().enumerate() {
        progress(done);
        for hop in &question.hops {
            let gold = hop.gold.iter().map(|id| {
                let number = numbers.get(id.as_str()).copied();
                number.ok_or_else(|| RetrievalError::NoSuchPassage {
                    question: question.id.clone(),
                    passage: id.clone(),
                })
            });
            let gold: Vec<usize> = gold.collect::<Result<_, _>>()?;
            let vector = encoder
                .encode_query(&Call::authoritative(), &hop.asks)
                .await;
            let vector = vector.map_err(|source| RetrievalError::Port {
                who: "the encoder".to_owned(),
                source,
            })?;
            curve.add(&corpus.cosines(&vector)?, &corpus.shares(&hop.asks), &gold);
        }
    }
    curve.recall().ok_or(RetrievalError::Nothing("fit"))
}

impl Fit {
    /// Chooses the weight of the best mean of the data sets; of equals the smallest. Each data set
    /// counts the same, however many hops it has.
    pub fn of(sets: BTreeMap<String, FittedOn>, info: FitInfo) -> Self {
        let mean = |(at, weight): (usize, &f32)| {
            let recalls = sets.values().filter_map(|set| set.recall.get(at));
            let sum: f64 = recalls.map(|(_, recall)| recall[1]).sum();
            (*weight, sum / sets.len().max(1) as f64)
        };
        let recall_at_5: Vec<(f32, f64)> = WEIGHTS.iter().enumerate().map(mean).collect();
        let mut best = (0.0, f64::MIN);
        for (weight, recall) in &recall_at_5 {
            if *recall > best.1 {
                best = (*weight, *recall);
            }
        }
        Self {
            weight: best.0,
            info,
            sets,
            recall_at_5,
        }
    }
}

/// How many hops find a gold passage at each weight.
#[derive(Default)]
struct Curve {
    found: [[u32; 2]; WEIGHTS.len()],
    hops: u32,
}

impl Curve {
    /// Counts a hop: every passage's cosine and share, and the numbers of its gold passages.
    fn add(&mut self, cosines: &[f32], shares: &[f32], gold: &[usize]) {
        self.hops += 1;
        for (weight, found) in WEIGHTS.iter().zip(&mut self.found) {
            let score = |at: usize| cosines[at] + weight * shares[at];
            let rank = |gold: &usize| {
                let own = score(*gold);
                let better = |at: &usize| {
                    let other = score(*at);
                    other > own || (other == own && at < gold)
                };
                (0..cosines.len()).filter(better).count()
            };
            let Some(rank) = gold.iter().map(rank).min() else {
                continue;
            };
            for (depth, found) in DEPTHS.iter().zip(found) {
                *found += u32::from(rank < *depth);
            }
        }
    }

    /// Recall at each weight; `None` if there was no hop.
    fn recall(&self) -> Option<Vec<(f32, [f64; 2])>> {
        if self.hops == 0 {
            return None;
        }
        let share = |found: &u32| f64::from(*found) / f64::from(self.hops);
        let recall = |found: &[u32; 2]| [share(&found[0]), share(&found[1])];
        let all = WEIGHTS.iter().zip(&self.found);
        Some(
            all.map(|(weight, found)| (*weight, recall(found)))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_counts_at_the_weights_that_lift_its_passage() {
        let mut curve = Curve::default();
        // The gold passage is the last of seven by its vector, and alone has the words.
        let cosines = [0.9, 0.89, 0.88, 0.87, 0.86, 0.85, 0.8];
        let shares = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5];
        curve.add(&cosines, &shares, &[6]);
        let recall = curve.recall().unwrap();
        let at = |weight: f32| recall.iter().find(|(w, _)| *w == weight).unwrap().1;
        assert_eq!(at(0.0), [0.0, 0.0]);
        // 0.8 + 0.06 beats the last two; it is the fifth, as equals keep their order.
        assert_eq!(at(0.15), [0.0, 1.0]);
        assert_eq!(at(0.2), [1.0, 1.0]);
        assert_eq!(Curve::default().recall(), None);
    }

    #[test]
    fn any_passage_of_a_page_will_do() {
        let mut curve = Curve::default();
        let (cosines, shares) = ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.0; 6]);
        curve.add(&cosines, &shares, &[5, 1]);
        curve.add(&cosines, &shares, &[5]);
        assert_eq!(curve.recall().unwrap()[0], (0.0, [0.5, 0.5]));
    }

    #[test]
    fn data_sets_count_the_same_and_a_tie_goes_to_the_smaller_weight() {
        let set = |recalls: [f64; 3], hops| {
            let recall = |(at, weight): (usize, &f32)| (*weight, [0.0, recalls[at.min(2)]]);
            FittedOn {
                look_ups_sha256: String::new(),
                index: String::new(),
                passages: 9,
                questions: 9,
                hops,
                recall: WEIGHTS.iter().enumerate().map(recall).collect(),
            }
        };
        let info = FitInfo {
            held_out_sha256: String::new(),
            encoder: String::new(),
            commit: String::new(),
            machine: Machine {
                cores: 1,
                cpu: String::new(),
            },
            command: String::new(),
        };
        let fitted = |a, b| {
            let sets = [("a".to_owned(), set(a, 1000)), ("b".to_owned(), set(b, 10))];
            Fit::of(sets.into(), info.clone()).weight
        };
        assert_eq!(fitted([0.9, 0.9, 0.9], [0.5, 0.5, 0.5]), 0.0);
        assert_eq!(fitted([0.9, 0.8, 0.8], [0.5, 0.7, 0.7]), WEIGHTS[1]);
        assert_eq!(fitted([0.9, 0.8, 0.9], [0.5, 0.5, 0.6]), WEIGHTS[2]);
    }
}
