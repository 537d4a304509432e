//! The window of one question: its state, its queries, and the fold over events. The crate's own
//! documentation explains the loop.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;
use spechop_types::{BranchId, Chance, Hop, LookupId, Observation, Stage, Step, SubQuestion};

use crate::branch::{Base, Branch, Granted, Launched, Segment};
use crate::extend::Offer;
use crate::lookup::Lookup;
use crate::{Effect, Effects, Event, Limits, Stop, WeighedGuess, Width, laws};

/// The window of one question.
#[derive(Clone, Debug)]
pub struct Window {
    limits: Limits,
    /// Head first, ids growing: a branch comes after the one that it stands on. Empty once the
    /// question has ended.
    pub(crate) branches: VecDeque<Branch>,
    /// Ids growing. Those of living branches, and orphans.
    pub(crate) lookups: VecDeque<Lookup>,
    /// What branches could be built upon, had the window room.
    pub(crate) offers: Vec<Offer>,
    pub(crate) committed: Vec<Hop>,
    /// The branch whose [`Effect::Verify`] has not been answered yet.
    pub(crate) verifying: Option<BranchId>,
    /// The head's best guess that was refuted.
    pub(crate) refuted: Option<Arc<str>>,
    /// Why the answering branch had to answer; set with [`Effect::Answer`].
    pub(crate) stopped: Option<Stop>,
    /// The hop at which the last round began: the window then held nothing but one branch that
    /// stands on committed hops.
    pub(crate) round_from: usize,
    next_branch: u32,
    pub(crate) next_lookup: u32,
    /// How many look-ups have become orphans.
    pub(crate) orphaned: u32,
}

impl Window {
    /// A window with its first branch, and the effect that sets it to work.
    pub fn open(limits: Limits) -> (Self, Effects) {
        // Allocated once for the whole question, unless the question is unusually wide or long.
        let wide = limits.width.get().map_or(8, |k| k.get().min(8));
        // The standard agent has a branch, and rolls nothing back that could leave a look-up behind.
        let orphans = match wide {
            1 => 0,
            _ => limits.policy.orphans_max.min(8),
        };
        let hops = (limits.hops_max as usize).min(8);
        let mut window = Self {
            limits,
            branches: VecDeque::with_capacity(wide),
            lookups: VecDeque::with_capacity(wide + orphans),
            offers: Vec::with_capacity(limits.policy.guesses_max.get().min(8)),
            committed: Vec::with_capacity(hops),
            verifying: None,
            refuted: None,
            stopped: None,
            round_from: 0,
            next_branch: 0,
            next_lookup: 0,
            orphaned: 0,
        };
        let mut effects = Effects::new();
        window.push_head(None, &mut effects);
        (window, effects)
    }

    /// Folds one event into the window and says what must now be done, in order.
    pub fn apply(&mut self, event: Event) -> Effects {
        let mut effects = Effects::new();
        match event {
            Event::Wrote { branch, step } => self.wrote(branch, step, &mut effects),
            Event::WriteFailed { branch } => self.write_failed(branch, &mut effects),
            Event::Observed {
                lookup,
                observation,
            } => self.observed(lookup, observation, &mut effects),
            Event::CallFailed { lookup } => self.call_failed(lookup, &mut effects),
            Event::Guessed {
                lookup,
                guesses,
                more,
            } => self.guessed(lookup, guesses, more, &mut effects),
            Event::Verified { branch, accepted } => self.verified(branch, accepted, &mut effects),
            Event::Drafted { branch, drafts } => self.drafted(branch, drafts, &mut effects),
            Event::Expired { lookup } => self.expired(lookup, &mut effects),
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

    /// Why the answer was written when it was. `None` if the planner knew enough.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// How many branches there have been. Their numbers are smaller.
    pub fn branches_opened(&self) -> u32 {
        self.next_branch
    }

    /// The living branches, head first; a branch comes after the one that it stands on.
    pub fn alive(&self) -> impl Iterator<Item = BranchId> + '_ {
        self.branches.iter().map(|b| b.id)
    }

    /// How many unverified branches lie before this one; 0 is the head. `None` for a dead branch.
    pub fn depth(&self, branch: BranchId) -> Option<usize> {
        Some(self.branch(branch)?.hop - self.committed.len())
    }

    /// The branch's prefix as its planner sees it: committed hops, then what was taken for
    /// granted. Empty for a dead branch.
    pub fn trajectory(
        &self,
        branch: BranchId,
    ) -> impl Iterator<Item = (&SubQuestion, &Arc<str>)> + '_ {
        let at = self.branch(branch);
        let committed = if at.is_some() {
            &self.committed[..]
        } else {
            &[]
        };
        // Tail first; most windows are no deeper than this.
        let granted: SmallVec<[_; 8]> = self.ancestry(at).collect();
        committed
            .iter()
            .map(|hop| (&hop.sub_question, &hop.answer))
            .chain(
                granted
                    .into_iter()
                    .rev()
                    .filter_map(|(parent, granted)| Some((parent.sub_question()?, granted.text()))),
            )
    }

    /// The branch's own sub-question, once it is written.
    pub fn sub_question(&self, branch: BranchId) -> Option<&SubQuestion> {
        self.branch(branch)?.sub_question()
    }

    /// The branch's look-up, once it has one.
    pub fn lookup(&self, branch: BranchId) -> Option<LookupId> {
        self.branch(branch)?.lookup()
    }

    /// The sub-question of a look-up. `None` once the look-up is gone.
    pub fn asked(&self, lookup: LookupId) -> Option<&SubQuestion> {
        Some(&self.find(lookup)?.asked)
    }

    /// The branch that needs a look-up, the one nearest to the head. `None` for an orphan and for a draft.
    pub fn asker(&self, lookup: LookupId) -> Option<BranchId> {
        let users = &self.find(lookup)?.users;
        users.iter().copied().min_by_key(|user| self.depth(*user))
    }

    /// Whether a speculator is at a look-up.
    pub fn is_guessing(&self, lookup: LookupId) -> bool {
        self.find(lookup).is_some_and(|l| l.guessing.is_running())
    }

    /// What a look-up has found. `None` until it has answered, and once it is gone.
    pub fn observation(&self, lookup: LookupId) -> Option<&Arc<Observation>> {
        self.find(lookup)?.observation()
    }

    /// The two texts that [`Effect::Verify`] asks to compare: the guess that the branch stands on,
    /// and the head's observation.
    pub fn comparison(&self, branch: BranchId) -> Option<(&Arc<str>, &Arc<Observation>)> {
        let Base { parent, granted } = self.branch(branch)?.base.as_ref()?;
        match (granted, self.lookup(*parent)) {
            (Granted::Guess(guess), Some(lookup)) => Some((&guess.text, self.observation(lookup)?)),
            _ => None,
        }
    }

    /// The chance that the branch becomes head: every guess that it stands on must be right.
    /// `CERTAIN` for the head, `NONE` for a dead branch.
    pub fn chance(&self, branch: BranchId) -> Chance {
        match self.branch(branch) {
            Some(branch) => branch
                .base
                .as_ref()
                .map_or(Chance::CERTAIN, |base| self.chance_of(base)),
            None => Chance::NONE,
        }
    }

    /// The chance that an answer which the branch has written is the question's. None if the branch stands
    /// on an answer that is left open: it is never promoted.
    pub fn answer_chance(&self, branch: BranchId) -> Chance {
        match self.position(branch) {
            Some(at) if !self.is_open(at) => self.chance(branch),
            _ => Chance::NONE,
        }
    }

    /// The chance that a branch which stands on `base` would become head.
    pub(crate) fn chance_of(&self, base: &Base) -> Chance {
        self.chance_upon(base.parent, base.granted.chance())
    }

    /// Whether the gate lets a branch be built upon this guess of what `parent` asks.
    pub fn is_likely_enough(&self, parent: BranchId, guess: &WeighedGuess) -> bool {
        let least = self.least(guess);
        least == Chance::NONE || self.chance_upon(parent, guess.chance) >= least
    }

    /// The least chance at which a branch is built on a guess.
    pub(crate) fn least(&self, guess: &WeighedGuess) -> Chance {
        guess.least.max(self.limits().policy.chance_min)
    }

    fn chance_upon(&self, parent: BranchId, answer: Chance) -> Chance {
        let before = self.ancestry(self.branch(parent));
        before.fold(answer, |chance, (_, granted)| chance.and(granted.chance()))
    }

    pub(crate) fn branch(&self, id: BranchId) -> Option<&Branch> {
        self.branches.get(self.position(id)?)
    }

    pub(crate) fn position(&self, id: BranchId) -> Option<usize> {
        place(&self.branches, id.0, |branch| branch.id.0)
    }

    /// What a branch stands on, tail first: each parent, and what its answer is taken to be.
    pub(crate) fn ancestry<'a>(
        &'a self,
        branch: Option<&'a Branch>,
    ) -> impl Iterator<Item = (&'a Branch, &'a Granted)> {
        let mut at = branch;
        std::iter::from_fn(move || {
            let Base { parent, granted } = at?.base.as_ref()?;
            at = self.branch(*parent);
            Some((at?, granted))
        })
    }

    fn wrote(&mut self, id: BranchId, step: Step, effects: &mut Effects) {
        let Some(at) = self.position(id) else { return };
        let branch = &self.branches[at];
        if !matches!(branch.segment, Segment::Writing(_)) {
            return;
        }
        match step {
            Step::Answer(answer) => {
                self.drop_drafts(id, effects);
                self.branches[at].segment = Segment::Answered(answer);
                self.settle(effects);
            }
            // It was told to answer. Taking the text for an answer would be a lie.
            Step::Ask(_) if branch.stop.is_some() => self.write_failed(id, effects),
            Step::Ask(again) if self.trajectory(id).any(|(asked, _)| *asked == again) => {
                self.drop_drafts(id, effects);
                if self.is_open(at) {
                    // No answer will come of it, and no look-up either.
                    self.branches[at].segment = Segment::Answered(again.text().clone());
                    return;
                }
                let branch = &mut self.branches[at];
                branch.stop = Some(Stop::Repeated);
                branch.segment = Segment::Writing(launched(at));
                effects.push(Effect::Write {
                    branch: id,
                    must_answer: true,
                });
            }
            Step::Ask(sub_question) => {
                let is_open = self.names_what_is_open(at, &sub_question);
                // A draft of just these words is taken over. All others are dropped first: their end must not look
                // like the end of what is asked.
                let mut begun = Effects::new();
                let lookup = (!is_open).then(|| self.look_up(at, &sub_question, &mut begun));
                self.drop_drafts(id, effects);
                effects.extend(begun);
                self.branches[at].segment = Segment::Asked {
                    sub_question,
                    lookup,
                };
                match lookup {
                    Some(lookup) => self.offer_what_is_known(id, lookup, effects),
                    None => self.offer_open(at),
                }
                self.settle(effects);
            }
        }
    }

    fn write_failed(&mut self, id: BranchId, effects: &mut Effects) {
        let Some(at) = self.position(id) else { return };
        match self.branches[at].segment {
            Segment::Writing(Launched::Authoritative) if at == 0 => {
                self.fail(id, Stage::Segment, effects);
            }
            Segment::Writing(_) => {
                self.drop_drafts(id, effects);
                self.branches[at].segment = Segment::Failed;
                self.settle(effects);
            }
            Segment::Failed | Segment::Asked { .. } | Segment::Answered(_) => {}
        }
    }

    /// Adds the first branch of an empty window, which stands on the committed hops. Without a reason
    /// why it must answer, its prefix may give one.
    pub(crate) fn push_head(&mut self, stop: Option<Stop>, effects: &mut Effects) {
        let stop = stop.or_else(|| self.stop_after(None));
        self.round_from = self.committed.len();
        self.push(None, self.round_from, stop, effects);
    }

    /// Adds a branch that stands on another one.
    pub(crate) fn push_child(&mut self, base: Base, effects: &mut Effects) {
        let Some(parent) = self.branch(base.parent) else {
            return;
        };
        let hop = parent.hop + 1;
        let stop = self.stop_after(Some(&base));
        if stop.is_some() && base.granted.is_open() {
            // There is nothing left to look up ahead of time.
            return;
        }
        self.push(Some(base), hop, stop, effects);
    }

    fn push(&mut self, base: Option<Base>, hop: usize, stop: Option<Stop>, effects: &mut Effects) {
        let id = BranchId(self.next_branch);
        self.next_branch += 1;
        self.branches.push_back(Branch {
            id,
            base,
            hop,
            stop,
            segment: Segment::Writing(launched(self.branches.len())),
        });
        effects.push(Effect::Write {
            branch: id,
            must_answer: stop.is_some(),
        });
        if self.asks_for_drafts(self.branches.len() - 1) {
            effects.push(Effect::Draft { branch: id });
        }
    }

    /// Why a branch that stands on this would have to answer. Depends on its prefix alone, so it is
    /// the same for every k (law 8).
    fn stop_after(&self, base: Option<&Base>) -> Option<Stop> {
        let parent = base.and_then(|base| self.branch(base.parent));
        let hops = parent.map_or(self.committed.len(), |parent| parent.hop + 1);
        if hops >= self.limits.hops_max as usize {
            return Some(Stop::HopBudget);
        }
        let missed = |granted: &&Granted| match granted {
            Granted::Observation(observation) => !observation.found,
            // It is rejected unless the observation finds nothing, either.
            Granted::Guess(guess) => Observation::is_nothing(&guess.text),
            Granted::Open(_) => false,
        };
        let before = self.ancestry(parent).map(|(_, granted)| granted);
        let granted = base.map(|base| &base.granted).into_iter().chain(before);
        let committed = self.committed.iter().filter(|hop| !hop.observation.found);
        let not_found = committed.count() + granted.filter(missed).count();
        (not_found > self.limits.not_found_max as usize).then_some(Stop::NotFound)
    }

    /// Whether the answer of what a branch asks is guessed the moment it asks.
    pub(crate) fn guesses_at_once(&self) -> bool {
        self.limits.policy.guess_at_once && !self.is_standard()
    }

    /// Whether the window is the standard agent, which never guesses.
    pub(crate) fn is_standard(&self) -> bool {
        self.limits.width == Width::STANDARD
    }
}

/// What a call launched now would be, for the branch that stands at this place.
pub(crate) fn launched(at: usize) -> Launched {
    if at == 0 {
        Launched::Authoritative
    } else {
        Launched::Speculative
    }
}

/// Where the one of this id stands, if it does. Ids grow along the line, and hardly one is missing between the
/// first of it and any other.
pub(crate) fn place<T>(line: &VecDeque<T>, id: u32, id_of: impl Fn(&T) -> u32) -> Option<usize> {
    let first = id_of(line.front()?);
    let at = usize::try_from(id.checked_sub(first)?).ok()?;
    match line.get(at) {
        Some(one) if id_of(one) == id => Some(at),
        _ => line.binary_search_by_key(&id, id_of).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_is_found_where_it_stands_and_no_other() {
        for line in [
            vec![],
            vec![7],
            vec![0, 1, 2],
            vec![3, 4, 6, 7, 11],
            vec![5, 9],
        ] {
            let line = VecDeque::from(line);
            for id in 0..16 {
                let expected = line.iter().position(|one| *one == id);
                assert_eq!(place(&line, id, |one| *one), expected, "{id} in {line:?}");
            }
        }
    }
}
