//! What the head's news leads to: verify, commit, roll back, extend, end.

use std::sync::Arc;

use spechop_types::{BranchId, CommitKind, Hop, Observation, Stage};

use crate::branch::{Branch, Granted, Guessing, Launched, Segment, Target};
use crate::window::Window;
use crate::{Effect, Stop, Width};

/// What the head's state asks for.
enum Turn {
    /// Nothing: it waits for work that is running.
    Wait,
    /// Its answer is final.
    Answer(Arc<str>),
    /// A call failed while speculative: try it again (law 6).
    Retry(Stage),
    /// A guess and an observation are to be compared (law 2).
    Verify,
    /// The observation stands, and nothing was built on anything else.
    Commit(Arc<Observation>),
    /// Nothing found can agree with no guess: rejected without asking.
    Reject(Arc<Observation>),
}

impl Window {
    /// Follows the head as far as it goes, then extends the tail.
    pub(crate) fn settle(&mut self, effects: &mut Vec<Effect>) {
        while let Some(head) = self.branches.front_mut() {
            let id = head.id;
            match turn(head) {
                Turn::Wait => break,
                Turn::Answer(answer) => return self.answer(id, answer, effects),
                Turn::Retry(stage) => {
                    retry(head, stage, effects);
                    break;
                }
                Turn::Verify => {
                    head.verifying = true;
                    effects.push(Effect::Verify { branch: id });
                    break;
                }
                Turn::Commit(observation) => {
                    let answer = observation.answer.clone();
                    self.commit(CommitKind::Observed, answer, observation, effects);
                }
                Turn::Reject(observation) => {
                    self.reject(observation, effects);
                }
            }
        }
        self.extend(effects);
    }

    pub(crate) fn verified(&mut self, id: BranchId, accepted: bool, effects: &mut Vec<Effect>) {
        let Some(head) = self
            .branches
            .front_mut()
            .filter(|b| b.id == id && b.verifying)
        else {
            return;
        };
        head.verifying = false;
        let (Some(observation), Some(granted)) = (head.observation().cloned(), &head.granted)
        else {
            return;
        };
        if accepted {
            let guess = granted.text().clone();
            self.commit(CommitKind::Accepted, guess, observation, effects);
        } else {
            self.reject(observation, effects);
        }
        self.settle(effects);
    }

    /// Has the tail's answer guessed, and extends the tail where there is room (law 3).
    ///
    /// The guess does not wait for room: a branch that starts the moment a place is free needs it
    /// by then. That is what the paper's bound on k counts with, (1 + β) / (α + β).
    pub(crate) fn extend(&mut self, effects: &mut Vec<Effect>) {
        // The verdict comes at once, and may take the tail with it.
        let verdict_is_due = self.branches.front().is_some_and(|head| head.verifying);
        if verdict_is_due || self.limits().width == Width::STANDARD {
            return;
        }
        let has_room = self.limits().width.has_room(self.branches.len());
        let Some(tail) = self.branches.back_mut() else {
            return;
        };
        if tail.sub_question().is_none() {
            return;
        }
        if let Some(observation) = tail.observation() {
            if has_room {
                // Faster than any guess could be (law 5), and as sure as its prefix.
                tail.granted = Some(Granted::Observation(observation.answer.clone()));
                self.push(effects);
            }
            return;
        }
        match &tail.guessing {
            Guessing::Idle => {
                tail.guessing = Guessing::Running;
                effects.push(Effect::Guess { branch: tail.id });
            }
            Guessing::Ready(guess) if has_room => {
                tail.granted = Some(Granted::Guess(guess.clone()));
                tail.guessing = Guessing::Over;
                self.push(effects);
            }
            Guessing::Ready(_) | Guessing::Running | Guessing::Over => {}
        }
    }

    /// Everything but the committed hops goes; a new head writes the answer.
    pub(crate) fn finish_now(&mut self, effects: &mut Vec<Effect>) {
        let answering =
            |head: &Branch| head.stop.is_some() && matches!(head.segment, Segment::Writing(_));
        if self.branches.front().is_none_or(answering) {
            return;
        }
        self.abort_from(0, effects);
        self.push(effects);
        if let (Some(head), Some(Effect::Write { must_answer, .. })) =
            (self.branches.front_mut(), effects.last_mut())
        {
            head.stop = Some(Stop::Budget);
            *must_answer = true;
        }
    }

    pub(crate) fn fail(&mut self, id: BranchId, stage: Stage, effects: &mut Vec<Effect>) {
        self.abort_from(0, effects);
        effects.push(Effect::Fail { branch: id, stage });
    }

    fn answer(&mut self, id: BranchId, answer: Arc<str>, effects: &mut Vec<Effect>) {
        self.stopped = self.branches.front().and_then(|head| head.stop);
        self.branches.clear();
        effects.push(Effect::Answer { branch: id, answer });
    }

    /// Makes the head's hop final. The next branch becomes head, or a new one does.
    fn commit(
        &mut self,
        kind: CommitKind,
        answer: Arc<str>,
        observation: Arc<Observation>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(head) = self.branches.pop_front() else {
            return;
        };
        let guess = match head.granted {
            Some(Granted::Guess(guess)) => Some(guess),
            Some(Granted::Observation(_)) | None => None,
        };
        if let Segment::Asked(sub_question) = head.segment {
            self.committed.push(Hop {
                sub_question,
                answer,
                kind,
                guess,
                observation,
            });
        }
        effects.push(Effect::Commit {
            branch: head.id,
            at: self.committed.len().saturating_sub(1),
        });
        match self.branches.front() {
            Some(next) => effects.push(Effect::Promote { branch: next.id }),
            None => self.push(effects),
        }
    }

    /// Commits the observed answer and rolls back everything built on another one (law 4).
    fn reject(&mut self, observation: Arc<Observation>, effects: &mut Vec<Effect>) {
        self.abort_from(1, effects);
        let answer = observation.answer.clone();
        self.commit(CommitKind::Rejected, answer, observation, effects);
    }

    fn abort_from(&mut self, depth: usize, effects: &mut Vec<Effect>) {
        let gone = self.branches.drain(depth.min(self.branches.len())..);
        effects.extend(gone.map(|b| Effect::Abort { branch: b.id }));
    }
}

fn turn(head: &Branch) -> Turn {
    match (&head.segment, &head.target, &head.granted) {
        (Segment::Answered(answer), _, _) => Turn::Answer(answer.clone()),
        (Segment::Failed, _, _) => Turn::Retry(Stage::Segment),
        (Segment::Asked(_), Target::Failed, _) => Turn::Retry(Stage::Target),
        (Segment::Asked(_), Target::Observed(observation), granted) => match granted {
            _ if head.verifying => Turn::Wait,
            Some(Granted::Guess(_)) if !observation.found => Turn::Reject(observation.clone()),
            Some(Granted::Guess(_)) => Turn::Verify,
            Some(Granted::Observation(_)) | None => Turn::Commit(observation.clone()),
        },
        (Segment::Writing(_), _, _) | (Segment::Asked(_), _, _) => Turn::Wait,
    }
}

fn retry(head: &mut Branch, stage: Stage, effects: &mut Vec<Effect>) {
    let branch = head.id;
    match stage {
        Stage::Segment => {
            head.segment = Segment::Writing(Launched::Authoritative);
            let must_answer = head.stop.is_some();
            effects.push(Effect::Write {
                branch,
                must_answer,
            });
        }
        Stage::Target => {
            head.target = Target::Running(Launched::Authoritative);
            effects.push(Effect::Call { branch });
        }
        // A guess is never tried again.
        Stage::Speculation => {}
    }
}
