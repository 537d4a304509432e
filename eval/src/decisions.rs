//! The decisions of verifiers: the guesses that runs compared with observations, each once, and what every
//! verifier says of them. A person can label a drawn sample of them (SpecHop, appendix C.3).

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spechop_verifier::{Mode, Verdict, verify};

use crate::score::holds;
use crate::{HopKind, Run};

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
    /// Whether the two lead to the same next step. For a person to fill in.
    pub same: Option<bool>,
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
                let golds = question.hops.iter().map(|gold| gold.answer.as_str());
                let known: Vec<&str> = golds.filter(|gold| holds(&hop.observed, gold)).collect();
                let is_right = known.iter().any(|gold| holds(guess, gold));
                let verdict = |mode| verify(mode, &hop.observed, guess);
                found.push(Decision {
                    question: question.text.clone(),
                    sub_question: hop.sub_question.clone(),
                    observed: hop.observed.clone(),
                    guess: guess.clone(),
                    gold: (!known.is_empty()).then_some(is_right),
                    exact: verdict(Mode::Exact),
                    rule: verdict(Mode::Rule),
                    paper: verdict(Mode::Paper),
                    same: None,
                });
            }
        }
    }
    found
}

/// Draws `count` decisions for a person to label: as many that this verifier accepts as it rejects, if there
/// are enough of both. The order follows from the seed and the texts alone.
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
    accepted.truncate((count - half).max(count.saturating_sub(rejected.len())));
    rejected.truncate(count - accepted.len().min(count));
    accepted.append(&mut rejected);
    // So that nobody can tell from the place what the verifier said.
    accepted.sort_by_cached_key(place);
    accepted
}

/// How well a verifier did on decisions whose truth is known.
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
            quality.decisions += 1;
            quality.accepted += usize::from(accepted);
            if let Some(right) = truth(one) {
                quality.known += 1;
                quality.known_accepted += usize::from(accepted);
                quality.right += usize::from(right);
                quality.right_accepted += usize::from(right && accepted);
            }
        }
        quality
    }

    /// The share of accepted guesses (p).
    pub fn p(&self) -> Option<f64> {
        share(self.accepted, self.decisions)
    }

    /// The share of accepted guesses that are right, of those whose truth is known.
    pub fn precision(&self) -> Option<f64> {
        share(self.right_accepted, self.known_accepted)
    }

    /// The share of right guesses that are accepted.
    pub fn recall(&self) -> Option<f64> {
        share(self.right_accepted, self.right)
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
