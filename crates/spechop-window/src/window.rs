//! The window: its state, what can be asked of it, and the fold over events.

use std::collections::VecDeque;
use std::sync::Arc;

use spechop_types::{BranchId, Hop, Observation, Stage, Step, SubQuestion};

use crate::branch::{Branch, Granted, Guessing, Launched, Segment, Target};
use crate::{Effect, Event, Stop, Width, laws};

/// What one question's window must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most branches alive at once.
    pub width: Width,
    /// Most hops; the step after them must be the final answer. 0 asks nothing at all.
    pub hops_max: u32,
    /// Most observations without relevant information in a trajectory; one more, and the next
    /// step must be the final answer.
    pub not_found_max: u32,
}

/// The window of one question.
#[derive(Clone, Debug)]
pub struct Window {
    limits: Limits,
    /// Head first. Empty once the question has ended.
    pub(crate) branches: VecDeque<Branch>,
    pub(crate) committed: Vec<Hop>,
    /// Why the answering branch had to answer; set with [`Effect::Answer`].
    pub(crate) stopped: Option<Stop>,
    next_id: u32,
}

impl Window {
    /// A window with its first branch, and the effect that sets it to work.
    pub fn open(limits: Limits) -> (Self, Vec<Effect>) {
        let mut window = Self {
            limits,
            branches: VecDeque::with_capacity(limits.width.get().map_or(8, |k| k.get().min(8))),
            committed: Vec::new(),
            stopped: None,
            next_id: 0,
        };
        let mut effects = Vec::with_capacity(1);
        window.push(&mut effects);
        (window, effects)
    }

    /// Folds one event into the window and says what must now be done, in order.
    pub fn apply(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Wrote { branch, step } => self.wrote(branch, step, &mut effects),
            Event::Observed {
                branch,
                observation,
            } => self.observed(branch, observation, &mut effects),
            Event::Guessed { branch, guess } => self.guessed(branch, guess, &mut effects),
            Event::Verified { branch, accepted } => self.verified(branch, accepted, &mut effects),
            Event::Failed { branch, stage } => self.failed(branch, stage, &mut effects),
            Event::FinishNow => self.finish_now(&mut effects),
        }
        debug_assert_eq!(laws::broken(self), None);
        effects
    }

    /// The limits it was opened with.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The committed hops, oldest first.
    pub fn committed(&self) -> &[Hop] {
        &self.committed
    }

    /// True once [`Effect::Answer`] or [`Effect::Fail`] has been given out.
    pub fn is_over(&self) -> bool {
        self.branches.is_empty()
    }

    /// Why the answer was written when it was; `None` where the planner knew enough.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// The living branches, head first.
    pub fn alive(&self) -> impl Iterator<Item = BranchId> + '_ {
        self.branches.iter().map(|b| b.id)
    }

    /// How many unverified branches lie before this one; 0 is the head. `None` for a dead branch.
    pub fn depth(&self, branch: BranchId) -> Option<usize> {
        // Ids grow along the chain.
        self.branches.binary_search_by_key(&branch, |b| b.id).ok()
    }

    /// The branch's prefix as its planner sees it: committed hops, then what was taken for
    /// granted. Empty for a dead branch.
    pub fn trajectory(
        &self,
        branch: BranchId,
    ) -> impl Iterator<Item = (&SubQuestion, &Arc<str>)> + '_ {
        let depth = self.depth(branch);
        let committed = if depth.is_some() {
            &self.committed[..]
        } else {
            &[]
        };
        let granted = self.branches.iter().take(depth.unwrap_or(0));
        committed
            .iter()
            .map(|hop| (&hop.sub_question, &hop.answer))
            .chain(granted.filter_map(|b| Some((b.sub_question()?, b.granted.as_ref()?.text()))))
    }

    /// The branch's own sub-question, once it is written.
    pub fn sub_question(&self, branch: BranchId) -> Option<&SubQuestion> {
        self.branches[self.depth(branch)?].sub_question()
    }

    /// What [`Effect::Verify`] asks to compare: the guess, and the observation.
    pub fn comparison(&self, branch: BranchId) -> Option<(&Arc<str>, &Arc<Observation>)> {
        let branch = &self.branches[self.depth(branch)?];
        match (&branch.granted, branch.observation()) {
            (Some(Granted::Guess(guess)), Some(observation)) => Some((guess, observation)),
            _ => None,
        }
    }

    fn wrote(&mut self, id: BranchId, step: Step, effects: &mut Vec<Effect>) {
        let Some(at) = self.depth(id) else { return };
        if !matches!(self.branches[at].segment, Segment::Writing(_)) {
            return;
        }
        match step {
            Step::Answer(answer) => {
                self.branches[at].segment = Segment::Answered(answer);
                self.settle(effects);
            }
            // It was told to answer. Taking the text for an answer would be a lie.
            Step::Ask(_) if self.branches[at].stop.is_some() => {
                self.failed(id, Stage::Segment, effects);
            }
            Step::Ask(again) if self.trajectory(id).any(|(asked, _)| *asked == again) => {
                let branch = &mut self.branches[at];
                branch.stop = Some(Stop::Repeated);
                branch.segment = Segment::Writing(launched_at(at));
                effects.push(Effect::Write {
                    branch: id,
                    must_answer: true,
                });
            }
            Step::Ask(sub_question) => {
                let branch = &mut self.branches[at];
                branch.segment = Segment::Asked(sub_question);
                branch.target = Target::Running(launched_at(at));
                effects.push(Effect::Call { branch: id });
                self.extend(effects);
            }
        }
    }

    fn observed(&mut self, id: BranchId, observation: Arc<Observation>, effects: &mut Vec<Effect>) {
        let Some(at) = self.depth(id) else { return };
        let branch = &mut self.branches[at];
        if !matches!(branch.target, Target::Running(_)) {
            return;
        }
        branch.target = Target::Observed(observation);
        // The guess, running or waiting for room, is not needed any more (law 5).
        if std::mem::replace(&mut branch.guessing, Guessing::Over) == Guessing::Running {
            effects.push(Effect::DropGuess { branch: id });
        }
        self.settle(effects);
    }

    fn guessed(&mut self, id: BranchId, guess: Option<Arc<str>>, effects: &mut Vec<Effect>) {
        let Some(at) = self.depth(id) else { return };
        let branch = &mut self.branches[at];
        if branch.guessing != Guessing::Running {
            return;
        }
        branch.guessing = guess.map_or(Guessing::Over, Guessing::Ready);
        self.extend(effects);
    }

    fn failed(&mut self, id: BranchId, stage: Stage, effects: &mut Vec<Effect>) {
        let Some(at) = self.depth(id) else { return };
        let branch = &mut self.branches[at];
        let launched = match (stage, &branch.segment, &branch.target) {
            (Stage::Segment, Segment::Writing(launched), _)
            | (Stage::Target, _, Target::Running(launched)) => *launched,
            (Stage::Speculation, _, _) => {
                // A failed guess is no guess (law 6).
                return self.guessed(id, None, effects);
            }
            _ => return,
        };
        if at == 0 && launched == Launched::Authoritative {
            return self.fail(id, stage, effects);
        }
        match stage {
            Stage::Segment => branch.segment = Segment::Failed,
            Stage::Target => branch.target = Target::Failed,
            Stage::Speculation => {}
        }
        self.settle(effects);
    }

    /// Adds a branch behind the tail, whose `granted` must be set by now.
    pub(crate) fn push(&mut self, effects: &mut Vec<Effect>) {
        let stop = self.stop_for_next();
        let id = BranchId(self.next_id);
        self.next_id += 1;
        let launched = launched_at(self.branches.len());
        self.branches.push_back(Branch::new(id, stop, launched));
        effects.push(Effect::Write {
            branch: id,
            must_answer: stop.is_some(),
        });
    }

    /// Why a branch that stands on the whole present chain would have to answer. Depends on its
    /// prefix alone, so it is the same for every k (law 8).
    fn stop_for_next(&self) -> Option<Stop> {
        let hops = self.committed.len() + self.branches.len();
        if hops >= self.limits.hops_max as usize {
            return Some(Stop::HopBudget);
        }
        // A guess stands for something found: where the observation found nothing, it is rejected.
        let granted = |b: &&Branch| matches!(b.granted, Some(Granted::Observation(_)));
        let observed = self
            .branches
            .iter()
            .filter(granted)
            .filter_map(Branch::observation);
        let committed = self.committed.iter().map(|hop| &hop.observation);
        let not_found = committed.chain(observed).filter(|o| !o.found).count();
        (not_found > self.limits.not_found_max as usize).then_some(Stop::NotFound)
    }
}

/// What a call launched now would be, `at` branches behind the head.
pub(crate) fn launched_at(at: usize) -> Launched {
    if at == 0 {
        Launched::Authoritative
    } else {
        Launched::Speculative
    }
}
