//! What the head's news leads to: verify, commit, roll back, extend, end.

use std::sync::Arc;

use spechop_types::{BranchId, CommitKind, Hop, Observation, Stage};

use crate::branch::{Branch, Granted, Launched, Segment};
use crate::lookup::Target;
use crate::window::Window;
use crate::{Effect, Effects, Stop};

/// What the head's state asks for.
enum Turn {
    /// Nothing: it waits for work that is running.
    Wait,
    /// Its answer is final.
    Answer(Arc<str>),
    /// A call failed while speculative: try it again (law 6).
    Retry(Stage),
    /// The guess that this child stands on is to be compared with the observation (law 2).
    Verify(BranchId),
    /// The observation stands, and nothing is built on anything else.
    Commit(Arc<Observation>),
    /// This guess can agree with no such observation, whatever it says: nothing was found, and it names
    /// something, or the other way round. It and all like it are refuted without asking.
    Refute(Arc<str>, Arc<Observation>),
}

impl Window {
    /// Follows the head as far as it goes, then extends the window.
    pub(crate) fn settle(&mut self, effects: &mut Effects) {
        while let Some(head) = self.branches.front().map(|head| head.id) {
            match self.turn() {
                Turn::Wait => break,
                Turn::Answer(answer) => return self.answer(head, answer, effects),
                Turn::Retry(stage) => {
                    self.retry(stage, effects);
                    break;
                }
                Turn::Verify(branch) => {
                    self.verifying = Some(branch);
                    effects.push(Effect::Verify { branch });
                    break;
                }
                Turn::Commit(observation) => {
                    let kind = match self.refuted {
                        Some(_) => CommitKind::Rejected,
                        None => CommitKind::Observed,
                    };
                    let answer = observation.answer.clone();
                    let guess = self.refuted.take();
                    self.commit(kind, answer, guess, observation, effects);
                }
                Turn::Refute(guess, observation) => {
                    // The best guess is the one that is remembered.
                    self.refuted.get_or_insert(guess);
                    let is_unlike = |b: &Branch| match b.base.as_ref().map(|base| &base.granted) {
                        Some(Granted::Guess(guess)) => !observation.is_like(&guess.text),
                        Some(Granted::Observation(_) | Granted::Open(_)) | None => false,
                    };
                    self.abort_where(|b| b.is_child_of(head) && is_unlike(b), effects);
                }
            }
        }
        self.extend(effects);
    }

    fn turn(&self) -> Turn {
        let Some(head) = self.branches.front() else {
            return Turn::Wait;
        };
        let lookup = match &head.segment {
            Segment::Answered(answer) => return Turn::Answer(answer.clone()),
            Segment::Failed => return Turn::Retry(Stage::Segment),
            Segment::Writing(_) => return Turn::Wait,
            Segment::Asked { lookup, .. } => lookup.and_then(|id| self.find(id)),
        };
        let observation = match lookup.map(|lookup| &lookup.target) {
            Some(Target::Failed) => return Turn::Retry(Stage::Target),
            Some(Target::Running(_)) | None => return Turn::Wait,
            Some(Target::Observed(observation)) => observation,
        };
        if self.verifying.is_some() {
            return Turn::Wait;
        }
        let child = self.children(head.id).next();
        match child.and_then(|child| Some((child.id, &child.base.as_ref()?.granted))) {
            Some((_, Granted::Guess(guess))) if !observation.is_like(&guess.text) => {
                Turn::Refute(guess.text.clone(), observation.clone())
            }
            Some((child, Granted::Guess(_))) => Turn::Verify(child),
            // Branches that stand open have been aborted when the observation came.
            Some((_, Granted::Observation(_) | Granted::Open(_))) | None => {
                Turn::Commit(observation.clone())
            }
        }
    }

    pub(crate) fn verified(&mut self, id: BranchId, accepted: bool, effects: &mut Effects) {
        if self.verifying != Some(id) {
            return;
        }
        self.verifying = None;
        let Some((guess, observation)) = self.comparison(id) else {
            return;
        };
        let (guess, observation) = (guess.clone(), observation.clone());
        if accepted {
            self.refuted = None;
            if self.limits().policy.guesses_max.get() > 1
                && let Some(head) = self.branches.front().map(|head| head.id)
            {
                self.abort_where(|b| b.is_child_of(head) && b.id != id, effects);
            }
            let answer = guess.clone();
            self.commit(
                CommitKind::Accepted,
                answer,
                Some(guess),
                observation,
                effects,
            );
        } else {
            // The best guess is the one that is remembered.
            self.refuted.get_or_insert(guess);
            self.abort_where(|b| b.id == id, effects);
        }
        self.settle(effects);
    }

    /// Everything but the committed hops goes; a new head writes the answer.
    pub(crate) fn finish_now(&mut self, effects: &mut Effects) {
        let Some(head) = self.branches.front() else {
            return;
        };
        if head.stop.is_some() && matches!(head.segment, Segment::Writing(_)) {
            return self.drop_all(effects);
        }
        self.abort_all(effects);
        self.push_head(Some(Stop::Budget), effects);
    }

    pub(crate) fn fail(&mut self, id: BranchId, stage: Stage, effects: &mut Effects) {
        self.abort_all(effects);
        effects.push(Effect::Fail { branch: id, stage });
    }

    fn answer(&mut self, id: BranchId, answer: Arc<str>, effects: &mut Effects) {
        self.stopped = self.branches.front().and_then(|head| head.stop);
        // An answer is a leaf: only orphans are left beside it.
        self.branches.clear();
        self.drop_all(effects);
        effects.push(Effect::Answer { branch: id, answer });
    }

    /// Makes the head's hop final. The next branch becomes head, or a new one does.
    fn commit(
        &mut self,
        kind: CommitKind,
        answer: Arc<str>,
        guess: Option<Arc<str>>,
        observation: Arc<Observation>,
        effects: &mut Effects,
    ) {
        let Some(head) = self.branches.pop_front() else {
            return;
        };
        let branch = head.id;
        self.offers.retain(|offer| offer.base.parent != branch);
        if let Segment::Asked {
            sub_question,
            lookup: Some(lookup),
        } = head.segment
        {
            // Nobody else asks it: every living branch stands on this one, and asks nothing twice.
            self.forget(lookup);
            effects.push(Effect::Commit {
                branch,
                lookup,
                at: self.committed.len(),
            });
            self.committed.push(Hop {
                sub_question,
                answer,
                kind,
                guess,
                observation,
            });
        }
        match self.branches.front_mut() {
            Some(next) => {
                next.base = None;
                effects.push(Effect::Promote { branch: next.id });
                if let Some(lookup) = next.lookup() {
                    self.drop_needless_guess(lookup, effects);
                }
            }
            None => self.push_head(None, effects),
        }
    }

    fn retry(&mut self, stage: Stage, effects: &mut Effects) {
        let Some(head) = self.branches.front_mut() else {
            return;
        };
        match (stage, head.lookup()) {
            (Stage::Segment, _) => {
                head.segment = Segment::Writing(Launched::Authoritative);
                effects.push(Effect::Write {
                    branch: head.id,
                    must_answer: head.stop.is_some(),
                });
            }
            (Stage::Target, Some(id)) => {
                if let Some(lookup) = self.find_mut(id) {
                    lookup.target = Target::Running(Launched::Authoritative);
                    effects.push(Effect::Call { lookup: id });
                }
            }
            // Neither a guess nor a draft is tried again.
            (Stage::Target, None) | (Stage::Speculation | Stage::Draft, _) => {}
        }
    }
}
