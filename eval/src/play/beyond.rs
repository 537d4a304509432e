//! Beyond the recording. Guesses and verdicts that somebody brings lead to branches that nobody recorded.
//!
//! So does a question whose target is off.
//!
//! A branch is followed as far as the recording goes. If the recording has nothing behind an answer that
//! is accepted though its words are others, the branch continues as after the observation: by assumption
//! 2 of the paper an accepted guess leads to the same next step. Such an answer is counted, and the
//! question's answer is then not known. A branch behind a guess that will be rejected takes the times of
//! the sequential agent at the same hop; all that it does is rolled back, so only its cost depends on it.

use std::sync::Arc;

use spechop_sim::mentioned;
use spechop_types::{BranchId, LookupId, Observation, Step, SubQuestion};
use spechop_verifier::verify;
use spechop_window::Window;

use super::{Recorded, Segment};
use crate::brought::{Brought, BroughtGuess, BroughtVerdict};
use crate::play::MissingStage;
use crate::stage::{HopTexts, Input};
use crate::{Row, RowHop, Variant};

/// What was brought for a question, and the sequential agent's way through it.
pub(super) struct Beyond<'a> {
    brought: &'a Brought,
    id: &'a str,
    variant: &'a Variant,
    standard: Row,
}

/// A prefix as the recording knows it.
struct Followed {
    hops: Vec<HopTexts>,
    /// Answers in whose place the observation stands.
    replaced: u32,
}

impl<'a> Beyond<'a> {
    pub(super) fn new(
        brought: &'a Brought,
        id: &'a str,
        variant: &'a Variant,
        standard: Row,
    ) -> Self {
        Self {
            brought,
            id,
            variant,
            standard,
        }
    }

    /// Whether the guesses are those that were brought: then there are no others.
    pub(super) fn has_guesses(&self) -> bool {
        self.brought.guesses_for(self.variant)
    }

    /// The guess that was brought for the hop at this place.
    pub(super) fn guess(&self, at: usize) -> Option<&'a BroughtGuess> {
        self.brought.guess(self.variant.speculator(), self.id, at)
    }

    /// The verdict on the guess at this place, if somebody else's verdicts count. A guess without one is
    /// rejected: nobody has accepted it.
    pub(super) fn verdict(&self, at: usize) -> Option<BroughtVerdict> {
        const SILENT: BroughtVerdict = BroughtVerdict {
            accepted: false,
            ms: 0.0,
        };
        let counts = self.brought.verdicts_for(self.variant);
        counts.then(|| self.brought.verdict(self.id, at).copied().unwrap_or(SILENT))
    }

    /// What a branch writes that nobody recorded.
    fn segment(&self, prefix: &[HopTexts], right: &[bool], must_answer: bool) -> Segment {
        let at = prefix.len();
        let hop = self.standard.hops.get(at).filter(|_| !must_answer);
        let (step, ms) = match hop {
            Some(hop) => (Step::Ask(self.ask(hop, prefix, right)), hop.segment_ms),
            None => (Step::Answer("".into()), self.standard.final_ms),
        };
        Segment {
            step,
            ms,
            tokens: 0,
            unrecorded: 1,
        }
    }

    /// What it asks: the same as the sequential agent, unless that was made of an answer that the branch
    /// has wrong. Then it asks what nobody else does.
    fn ask(&self, hop: &RowHop, prefix: &[HopTexts], right: &[bool]) -> SubQuestion {
        let answers = self.standard.hops.iter().map(|hop| hop.answer.as_str());
        let answers: Vec<&str> = answers.take(prefix.len()).collect();
        let needed = mentioned(&hop.sub_question, &answers);
        let needed = needed.iter().map(|number| *number as usize - 1);
        let wrong = needed.filter(|at| !right.get(*at).copied().unwrap_or(false));
        let wrong = wrong.map(|at| match self.asks(at, &prefix[at].0) {
            true => prefix[at].1.to_string(),
            // The same words are another answer there.
            false => format!("{} to “{}”", prefix[at].1, prefix[at].0),
        });
        let wrong: Vec<String> = wrong.collect();
        match wrong.is_empty() {
            true => SubQuestion::new(&hop.sub_question),
            false => SubQuestion::new(&format!("{} (by {})", hop.sub_question, wrong.join(", "))),
        }
    }

    /// Whether the sequential agent asks this at this place.
    fn asks(&self, at: usize, asked: &str) -> bool {
        let there = self.standard.hops.get(at);
        there.is_some_and(|hop| hop.sub_question == asked)
    }

    /// What a look-up finds that nobody recorded, and in how many milliseconds.
    fn target(&self, at: usize) -> Option<(Arc<Observation>, f64)> {
        let hops = &self.standard.hops;
        let hop = hops.get(at).or(hops.last())?;
        let answer = hop.found.then(|| hop.observed.as_str().into());
        Some((
            Arc::new(Observation::read(answer, Vec::new())),
            hop.target_ms,
        ))
    }
}

impl Recorded<'_> {
    /// What the branch writes next.
    pub(super) fn segment(
        &self,
        window: &Window,
        branch: BranchId,
        must_answer: bool,
    ) -> Result<Segment, MissingStage> {
        let prefix = Self::prefix(window, branch);
        let Some(beyond) = &self.beyond else {
            return self.recorded_segment(prefix, must_answer);
        };
        if let Some(Followed { hops, replaced }) = self.follow(&prefix)
            && let Ok(segment) = self.recorded_segment(hops, must_answer)
        {
            return Ok(Segment {
                unrecorded: replaced,
                ..segment
            });
        }
        let right: Vec<bool> = (0..)
            .zip(&prefix)
            .map(|(at, hop)| self.is_right(at, hop))
            .collect();
        Ok(beyond.segment(&prefix, &right, must_answer))
    }

    /// What is found, in how many milliseconds, for how many tokens.
    pub(super) fn found(
        &self,
        window: &Window,
        lookup: LookupId,
        asked: &SubQuestion,
    ) -> Result<(Arc<Observation>, f64, u64), MissingStage> {
        let found = self.target(asked);
        let stand_in = || {
            let (observation, ms) = self.beyond.as_ref()?.target(place(window, lookup))?;
            Some((observation, ms, 0))
        };
        match found {
            Ok(found) => Ok(found),
            Err(missing) => stand_in().ok_or(missing),
        }
    }

    /// Whether a guess at this place is taken for what was observed.
    pub(super) fn is_accepted(&self, at: usize, guess: &str, observed: &str) -> bool {
        match self.beyond.as_ref().and_then(|beyond| beyond.verdict(at)) {
            Some(verdict) => verdict.accepted,
            None => {
                let mode = self.variant.options.verifier.unwrap_or_default();
                verify(mode, observed, guess).accepted
            }
        }
    }

    /// The prefix in words that the recording knows; `None` if it knows none.
    fn follow(&self, prefix: &[HopTexts]) -> Option<Followed> {
        let (mut hops, mut replaced) = (Vec::with_capacity(prefix.len()), 0);
        for (at, (asked, answer)) in prefix.iter().enumerate() {
            if self.is_beside_the_file(at, asked) {
                return None;
            }
            hops.push((Arc::clone(asked), Arc::clone(answer)));
            if self.continues(&hops) {
                continue;
            }
            let observed = self.observed_as(at, asked, answer)?;
            hops.pop();
            hops.push((Arc::clone(asked), observed));
            replaced += 1;
            if !self.continues(&hops) {
                return None;
            }
        }
        Some(Followed { hops, replaced })
    }

    /// The prefix in words that the recording knows, if it knows any.
    pub(super) fn known_prefix(&self, prefix: Vec<HopTexts>) -> Vec<HopTexts> {
        let beyond = self.beyond.as_ref();
        match beyond.and_then(|_| self.follow(&prefix)) {
            Some(followed) => followed.hops,
            None => prefix,
        }
    }

    /// Whether a guess was brought for another sub-question than the one that is asked here. If guesses
    /// are verified, an accepted one leads to the same next step, so the file's guess is of that step.
    /// If they are not, a wrong guess leads elsewhere, and nobody knows what would have been guessed.
    fn is_beside_the_file(&self, at: usize, asked: &str) -> bool {
        let beyond = self.beyond.as_ref().filter(|beyond| beyond.has_guesses());
        let there = beyond.and_then(|beyond| beyond.standard.hops.get(at));
        let brought = beyond.is_some() && self.variant.unverified;
        brought && there.is_none_or(|hop| hop.sub_question != asked)
    }

    /// Whether it is not known what our speculator would have said, for it was not asked.
    pub(super) fn is_unasked(&self) -> bool {
        let beyond = self.beyond.as_ref();
        self.variant.target_off && beyond.is_some_and(|beyond| !beyond.has_guesses())
    }

    /// Whether anything was recorded behind this prefix.
    fn continues(&self, hops: &[HopTexts]) -> bool {
        [false, true].into_iter().any(|must_answer| {
            let input = Input::Segment {
                question: Arc::clone(&self.question),
                hops: hops.to_vec(),
                must_answer,
            };
            self.bundle.get(&input).is_some()
        })
    }

    /// The observation that this answer is taken for.
    fn observed_as(&self, at: usize, asked: &Arc<str>, answer: &str) -> Option<Arc<str>> {
        let (observation, ..) = self.target(&SubQuestion::new(asked)).ok()?;
        let stands = self.variant.unverified
            || observation.is_like(answer) && self.is_accepted(at, answer, &observation.answer);
        stands.then(|| Arc::clone(&observation.answer))
    }

    /// Whether the answer at this place leads where the sequential agent's leads. Of a sub-question that it
    /// does not ask, nobody knows what is guessed or found.
    fn is_right(&self, at: usize, (asked, answer): &HopTexts) -> bool {
        let beyond = self.beyond.as_ref().filter(|of| of.asks(at, asked));
        let there = beyond.and_then(|of| of.standard.hops.get(at));
        there.is_some_and(|hop| *hop.answer == **answer)
            || self.observed_as(at, asked, answer).is_some()
    }
}

/// How many hops lie before the one that a look-up is for.
pub(super) fn place(window: &Window, lookup: LookupId) -> usize {
    let depth = window.asker(lookup).and_then(|asker| window.depth(asker));
    window.committed().len() + depth.unwrap_or(0)
}
