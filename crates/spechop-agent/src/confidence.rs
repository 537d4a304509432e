//! How likely an answer is to be right, told from how sure planner and reader were on the way.
//!
//! Neither says it of the whole answer: a reader is sure of a sub-answer to a question that nobody should
//! have asked, and a planner is sure of its words. So both are weighed together, by weights that were fitted
//! on questions whose answers are known (`eval/train/fit_confidence.py`).
//!
//! Only the committed trajectory counts. It is the same at every k, and so is the confidence, but for its last
//! digits: a local planner may read several tokens in one call, and then the bits of its logits differ.

use spechop_types::{Chance, Question, canonical};

use crate::Report;

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confidence {
    /// How likely it is to be right. `None` if planner or reader cannot tell how sure they were, as language
    /// models behind an endpoint.
    pub chance: Option<Chance>,
    /// Whether it was found: a committed hop found something, and the answer stands in the evidence of such a
    /// hop, or chooses among what the question offers (a name in it, yes, no).
    pub supported: bool,
}

/// What is weighed, of one answer: logarithms of how sure the planner was of its first, its last and its least
/// certain step, of how likely the least likely reading was and the readings were on average, and the share of
/// hops that found nothing.
type Signs = [f64; 6];

/// Logistic regression over them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weights {
    intercept: f64,
    of: Signs,
}

/// Of the embedded planner and reader: 519 questions that neither was trained on and 143 that are none
/// (`eval/datasets/off_form`).
const EMBEDDED: Weights = Weights {
    intercept: 1.423,
    of: [0.825, 0.260, 1.154, 0.086, 1.440, 0.609],
};

/// Less than this is not told apart: the logarithm of nothing has no end.
const LEAST: f64 = 1e-3;

/// `segments`: how sure the planner was of each step, the answer last; `None` of one that it could not write,
/// so that the question itself was looked up. `readings`: how likely each hop's best reading was, and whether
/// it was taken.
fn signs(segments: &[Option<Chance>], readings: &[(Option<Chance>, bool)]) -> Option<Signs> {
    let ln = |chance: Option<Chance>| chance.map_or(LEAST, Chance::share).max(LEAST).ln();
    let lowest = |all: &mut dyn Iterator<Item = f64>| all.fold(0.0, f64::min);
    let tells = segments.iter().any(Option::is_some);
    let reads = readings.iter().any(|(sure, _)| sure.is_some());
    if !tells || readings.is_empty() || !reads {
        return None;
    }
    let hops = readings.len() as f64;
    let not_found = readings.iter().filter(|(_, found)| !found).count() as f64;
    Some([
        segments.first().map_or(0.0, |first| ln(*first)),
        segments.last().map_or(0.0, |last| ln(*last)),
        lowest(&mut segments.iter().map(|sure| ln(*sure))),
        lowest(&mut readings.iter().map(|(sure, _)| ln(*sure))),
        readings.iter().map(|(sure, _)| ln(*sure)).sum::<f64>() / hops,
        not_found / hops,
    ])
}

impl Weights {
    fn chance(self, signs: Signs) -> Chance {
        let products = self
            .of
            .iter()
            .zip(signs)
            .map(|(weight, sign)| weight * sign);
        let sum = self.intercept + products.sum::<f64>();
        Chance::of(1.0 / (1.0 + (-sum).exp()))
    }
}

impl Report {
    /// What the answer to `question` is worth.
    pub fn confidence(&self, question: &Question) -> Confidence {
        let segments = self.hops.iter().map(|hop| hop.certainty);
        let segments: Vec<_> = segments.chain([self.final_certainty]).collect();
        let observations = self.hops.iter().map(|hop| &hop.hop.observation);
        let readings = observations.map(|seen| (seen.confidence, seen.found));
        let readings: Vec<_> = readings.collect();
        let supported = self.is_supported(question);
        let chance = match readings.is_empty() {
            // It was not looked up, so nothing speaks for it.
            true => self.final_certainty.map(|_| Chance::NONE),
            false => signs(&segments, &readings).map(|signs| EMBEDDED.chance(signs)),
        };
        Confidence { chance, supported }
    }

    fn is_supported(&self, question: &Question) -> bool {
        // In blanks, so that words are compared as wholes.
        let words = |text: &str| format!(" {} ", canonical(text));
        let answer = words(&self.answer);
        if answer.trim().is_empty() {
            return false;
        }
        let mut found = (self.hops.iter().map(|hop| &hop.hop.observation))
            .filter(|seen| seen.found)
            .peekable();
        if found.peek().is_none() {
            return false;
        }
        let chooses =
            matches!(answer.trim(), "yes" | "no") || words(question.as_str()).contains(&answer);
        chooses
            || found.any(|seen| {
                words(&seen.answer).contains(&answer)
                    || (seen.evidence.iter()).any(|passage| words(&passage.text).contains(&answer))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: Weights = Weights {
        intercept: 1.0,
        of: [0.5, 0.25, 2.0, 1.0, 0.5, -3.0],
    };

    fn chance(segments: &[f64], readings: &[(f64, bool)]) -> f64 {
        let segments: Vec<_> = segments.iter().map(|s| Some(Chance::of(*s))).collect();
        let readings: Vec<_> = (readings.iter())
            .map(|(sure, found)| (Some(Chance::of(*sure)), *found))
            .collect();
        let signs = signs(&segments, &readings).expect("signs");
        WEIGHTS.chance(signs).share()
    }

    #[test]
    fn who_is_sure_of_everything_is_believed() {
        let sure = chance(&[1.0, 1.0], &[(1.0, true)]);
        assert!((sure - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-6);
    }

    #[test]
    fn every_doubt_counts() {
        let sure = chance(&[1.0, 1.0], &[(1.0, true)]);
        for doubt in [
            chance(&[0.8, 1.0], &[(1.0, true)]),
            chance(&[1.0, 0.8], &[(1.0, true)]),
            chance(&[1.0, 1.0], &[(0.5, true)]),
            chance(&[1.0, 1.0], &[(1.0, false)]),
            chance(&[1.0, 1.0, 1.0], &[(1.0, true), (0.5, true)]),
        ] {
            assert!(doubt < sure, "{doubt}");
        }
        assert!(
            chance(&[0.5], &[(0.0, false)]) > 0.0,
            "nothing is impossible"
        );
    }

    #[test]
    fn who_cannot_tell_is_not_asked() {
        let sure = Some(Chance::CERTAIN);
        assert_eq!(signs(&[None, None], &[(sure, true)]), None);
        assert_eq!(signs(&[sure, sure], &[(None, true)]), None);
        assert_eq!(signs(&[sure], &[]), None);
        // A step that the planner could not write is a doubt of its own.
        let doubted = signs(&[None, sure], &[(sure, true)]).expect("signs");
        assert!((doubted[2] - LEAST.ln()).abs() < 1e-12);
    }
}
