//! The decisions of verifiers: the guesses that runs compared with observations, each once, and what every
//! verifier says of them. A person can label a drawn sample of them (SpecHop, appendix C.3).

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spechop_verifier::{Mode, Verdict, verify};

use crate::score::holds;
use crate::{GoldHop, HopKind, Run};

/// The verifiers, the strictest first.
pub const VERIFIERS: [(&str, Mode); 3] = [
    ("exact", Mode::Exact),
    ("rule", Mode::Rule),
    ("paper", Mode::Paper),
];

/// A guess that was compared with an observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The question that it served.
    pub question: String,
    /// What was looked up.
    pub sub_question: String,
    /// What the target tool found.
    pub observed: String,
    /// What the speculator had guessed.
    pub guess: String,
    /// Whether the guess holds the answer of a gold hop that the observation holds, too. `None` if the
    /// observation holds none: then the data set cannot tell.
    pub gold: Option<bool>,
    /// The verdict of `exact`.
    pub exact: Verdict,
    /// The verdict of `rule`.
    pub rule: Verdict,
    /// The verdict of `paper`.
    pub paper: Verdict,
    /// How many decisions it stands for: more than one if it was drawn from many of its kind.
    #[serde(default = "itself")]
    pub stands_for: f64,
    /// Whether the two lead to the same next step. For a person to fill in.
    pub same: Option<bool>,
}

fn itself() -> f64 {
    1.0
}

impl Decision {
    /// What this verifier says.
    pub fn verdict(&self, mode: Mode) -> &Verdict {
        match mode {
            Mode::Exact => &self.exact,
            Mode::Rule => &self.rule,
            Mode::Paper => &self.paper,
        }
    }
}

/// All decisions of these runs. Variants and runs that compared the same texts for the same sub-question
/// count once.
pub fn decisions(runs: &[Run]) -> Vec<Decision> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for run in runs {
        for row in &run.rows {
            let Some(question) = run.questions.iter().find(|one| one.id == row.id) else {
                continue;
            };
            for hop in row.hops.iter().filter(|hop| hop.kind != HopKind::Observed) {
                let Some(guess) = &hop.guess else { continue };
                if !seen.insert((&hop.sub_question, &hop.observed, guess)) {
                    continue;
                }
                let verdict = |mode| verify(mode, &hop.observed, guess);
                found.push(Decision {
                    question: question.text.clone(),
                    sub_question: hop.sub_question.clone(),
                    observed: hop.observed.clone(),
                    guess: guess.clone(),
                    gold: is_right(&question.hops, &hop.observed, guess),
                    exact: verdict(Mode::Exact),
                    rule: verdict(Mode::Rule),
                    paper: verdict(Mode::Paper),
                    stands_for: itself(),
                    same: None,
                });
            }
        }
    }
    found
}

/// Whether a guess holds the answer of a gold hop that the observation holds, too. `None` if the observation
/// holds none: then the data set cannot tell.
pub(crate) fn is_right(golds: &[GoldHop], observed: &str, guess: &str) -> Option<bool> {
    let golds = golds.iter().map(|gold| gold.answer.as_str());
    let known: Vec<&str> = golds.filter(|gold| holds(observed, gold)).collect();
    (!known.is_empty()).then(|| known.iter().any(|gold| holds(guess, gold)))
}

/// Draws `count` decisions for a person to label: as many that this verifier accepts as it rejects, if there
/// are enough of both. Each stands for its share of those of its kind. The order follows from the seed and the
/// texts alone.
pub fn draw(decisions: Vec<Decision>, mode: Mode, count: usize, seed: u64) -> Vec<Decision> {
    let mut drawn = decisions;
    let place = |one: &Decision| {
        let text = format!("{seed}:{}:{}:{}", one.sub_question, one.observed, one.guess);
        Sha256::digest(text).to_vec()
    };
    drawn.sort_by_cached_key(place);
    let (mut accepted, mut rejected): (Vec<_>, Vec<_>) = drawn
        .into_iter()
        .partition(|one| one.verdict(mode).accepted);
    let half = count / 2;
    let there = [accepted.len(), rejected.len()];
    accepted.truncate((count - half).max(count.saturating_sub(rejected.len())));
    rejected.truncate(count - accepted.len().min(count));
    for (kind, there) in [&mut accepted, &mut rejected].into_iter().zip(there) {
        let stands_for = there as f64 / kind.len().max(1) as f64;
        for one in kind {
            one.stands_for *= stands_for;
        }
    }
    accepted.append(&mut rejected);
    // So that nobody can tell from the place what the verifier said.
    accepted.sort_by_cached_key(place);
    accepted
}

/// How well a verifier did on decisions whose truth is known. Counts are of the decisions themselves, shares of
/// those that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quality {
    /// Decisions.
    pub decisions: usize,
    /// Accepted ones.
    pub accepted: usize,
    /// Decisions whose truth is known.
    pub known: usize,
    /// Accepted ones of them.
    pub known_accepted: usize,
    /// Guesses that are right.
    pub right: usize,
    /// Accepted guesses that are right.
    pub right_accepted: usize,
    #[serde(skip)]
    weighed: Weighed,
}

/// The counts of [`Quality`] that its shares are made of, each decision as often as it stands for others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Weighed {
    decisions: f64,
    accepted: f64,
    known_accepted: f64,
    right: f64,
    right_accepted: f64,
}

impl Quality {
    /// Of one verifier; `truth` says whether a guess is right, if that is known.
    pub fn of(
        decisions: &[Decision],
        mode: Mode,
        truth: impl Fn(&Decision) -> Option<bool>,
    ) -> Self {
        let mut quality = Self::default();
        for one in decisions {
            let accepted = one.verdict(mode).accepted;
            let truth = truth(one);
            let (known, right) = (truth.is_some(), truth == Some(true));
            quality.decisions += 1;
            quality.accepted += usize::from(accepted);
            quality.known += usize::from(known);
            quality.known_accepted += usize::from(known && accepted);
            quality.right += usize::from(right);
            quality.right_accepted += usize::from(right && accepted);
            let weighed = &mut quality.weighed;
            for (sum, counts) in [
                (&mut weighed.decisions, true),
                (&mut weighed.accepted, accepted),
                (&mut weighed.known_accepted, known && accepted),
                (&mut weighed.right, right),
                (&mut weighed.right_accepted, right && accepted),
            ] {
                *sum += if counts { one.stands_for } else { 0.0 };
            }
        }
        quality
    }

    /// The share of accepted guesses (p).
    pub fn p(&self) -> Option<f64> {
        share(self.weighed.accepted, self.weighed.decisions)
    }

    /// The share of accepted guesses that are right, of those whose truth is known.
    pub fn precision(&self) -> Option<f64> {
        share(self.weighed.right_accepted, self.weighed.known_accepted)
    }

    /// The share of right guesses that are accepted.
    pub fn recall(&self) -> Option<f64> {
        share(self.weighed.right_accepted, self.weighed.right)
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
