//! Offers: the guesses and observations that a branch could be built upon, and which of them gets a
//! free place of the window.

use smallvec::SmallVec;
use spechop_types::{BranchId, LookupId, SubQuestion};

use crate::branch::{Base, Branch, Granted};
use crate::lookup::{Guessing, Lookup};
use crate::window::Window;
use crate::{Effect, Effects, WeighedGuess, laws};

/// Something that a branch could be built upon.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) base: Base,
    /// The hop that it would be at, plus the guess's rank: the likelier it is to be needed, the
    /// smaller. A second guess counts as much as a hop further out.
    reach: usize,
    rank: usize,
}

impl Offer {
    /// The smallest goes first.
    fn turn(&self) -> (usize, usize, BranchId, bool) {
        let is_open = self.base.granted.is_open();
        (self.reach, self.rank, self.base.parent, is_open)
    }
}

impl Window {
    /// Gives free places to the nearest offers that are likely enough (law 3), and asks for the guesses
    /// that waited for room, if the policy has them wait.
    ///
    /// Those that do not wait are there when a place becomes free. That is what the paper's bound on k
    /// counts with, (1 + β) / (α + β).
    pub(crate) fn extend(&mut self, effects: &mut Effects) {
        // A verdict comes at once, and may abort the very branch that would be built upon.
        if self.verifying.is_some() {
            return;
        }
        while let Some(nearest) = self.nearest_offer() {
            let Base { parent, granted } = self.offers.swap_remove(nearest).base;
            if matches!(granted, Granted::Guess(_)) {
                self.leave_open_no_more(parent, effects);
            }
            self.push_child(Base { parent, granted }, effects);
        }
        while let Some(lookup) = self.lacks_guess() {
            if let Some(lookup) = self.find_mut(lookup) {
                lookup.guessing = Guessing::Running(SmallVec::new());
            }
            effects.push(Effect::Guess { lookup });
        }
    }

    /// The look-up nearest to the head whose guess nobody was asked for, although it is of use and there is
    /// room for a branch upon it.
    pub(crate) fn lacks_guess(&self) -> Option<LookupId> {
        if !self.limits().width.has_room(self.branches.len()) {
            return None;
        }
        let of_use = |l: &&Lookup| l.guessing == Guessing::Idle && !self.is_beyond_guesses(l);
        let in_round = self.branches.iter().filter(|b| self.is_in_round(b.id));
        let asked = in_round.filter_map(|b| self.find(b.lookup()?));
        asked.filter(of_use).map(|lookup| lookup.id).next()
    }

    /// Whether an observation has made guesses of a look-up needless: it is the head's, and committed, or
    /// branches are built on it.
    pub(crate) fn is_beyond_guesses(&self, lookup: &Lookup) -> bool {
        let is_heads = || self.branches.front().and_then(Branch::lookup) == Some(lookup.id);
        let on_observations = self.limits().policy.build_on_observations;
        lookup.observation().is_some() && (on_observations || is_heads())
    }

    fn nearest_offer(&self) -> Option<usize> {
        let offers = self.offers.iter().enumerate();
        let due = offers.filter(|(_, offer)| self.has_place(offer));
        due.min_by_key(|(_, offer)| offer.turn()).map(|(at, _)| at)
    }

    /// Whether an offer can be built now: it may be, and there is room, or it takes the place of its
    /// parent's open answer.
    pub(crate) fn has_place(&self, offer: &Offer) -> bool {
        let Base { parent, granted } = &offer.base;
        let has_room = self.limits().width.has_room(self.branches.len());
        let is_guess = matches!(granted, Granted::Guess(_));
        let replaces = || is_guess && self.children(*parent).any(Branch::stands_open);
        (has_room || replaces()) && self.is_due(offer)
    }

    /// Whether an offer may be built now: it passes the gate, and it lies within the round. An offer
    /// that may not is considered again when a hop is committed, because one guess less can then
    /// turn out wrong.
    fn is_due(&self, offer: &Offer) -> bool {
        let Base { parent, granted } = &offer.base;
        let is_worth_it = match granted {
            Granted::Guess(guess) => self.is_likely_enough(*parent, guess),
            // As likely as its parent, which is alive.
            Granted::Observation(_) | Granted::Open(_) => true,
        };
        is_worth_it && self.is_in_round(*parent)
    }

    /// A guess has become likely enough to be built upon: what was planned without it goes. Its look-ups
    /// are salvaged if they are asked again.
    fn leave_open_no_more(&mut self, parent: BranchId, effects: &mut Effects) {
        self.offers
            .retain(|offer| offer.base.parent != parent || !offer.base.granted.is_open());
        self.abort_where(|b| b.is_child_of(parent) && b.stands_open(), effects);
    }

    /// Whether a child of this branch lies within the current round.
    pub(crate) fn is_in_round(&self, parent: BranchId) -> bool {
        if self.limits().policy.continuous {
            return true;
        }
        let parent = self.branch(parent);
        let width = self.limits().width.get();
        parent.is_some_and(|b| width.is_none_or(|k| b.hop + 1 < self.round_from + k.get()))
    }

    pub(crate) fn guessed(
        &mut self,
        id: LookupId,
        guesses: Vec<WeighedGuess>,
        more: bool,
        effects: &mut Effects,
    ) {
        let most = self.limits().policy.guesses_max.get();
        let Some(lookup) = self.find_mut(id) else {
            return;
        };
        let Guessing::Running(told) = &mut lookup.guessing else {
            return;
        };
        let mut all = std::mem::take(told);
        let known = all.len();
        for guess in guesses {
            let is_new = all.iter().all(|other| other.text != guess.text);
            if all.len() < most && is_new && !guess.text.trim().is_empty() {
                all.push(guess);
            }
        }
        lookup.guessing = if more {
            Guessing::Running(all)
        } else {
            Guessing::Over(all)
        };
        for user in lookup.users.clone() {
            self.offer_guesses(user, known);
        }
        self.extend(effects);
    }

    /// Offers what a look-up already holds to a branch that has just asked it.
    pub(crate) fn offer_what_is_known(
        &mut self,
        user: BranchId,
        lookup: LookupId,
        effects: &mut Effects,
    ) {
        if self.observation(lookup).is_some() {
            self.drop_needless_guess(lookup, effects);
            self.offer_observation(user, effects);
        }
        self.offer_guesses(user, 0);
    }

    /// Offers the guesses of the branch's look-up, the first ones aside, which it has been offered. If none
    /// is worth building upon, no other will come, and nothing is observed yet, it offers to leave the answer
    /// open, provided that the policy plans ahead.
    pub(crate) fn offer_guesses(&mut self, user: BranchId, known: usize) {
        let Some(at) = self.position(user) else {
            return;
        };
        let Some(lookup) = self.branches[at].lookup().and_then(|id| self.find(id)) else {
            return;
        };
        let guessing = &lookup.guessing;
        let is_over = !guessing.is_running() && lookup.observation().is_none();
        let Some(guesses) = guessing.known().cloned() else {
            return;
        };
        let none_will_do = !guesses
            .iter()
            .any(|guess| self.is_likely_enough(user, guess));
        if is_over && none_will_do && self.limits().policy.plans_ahead() {
            self.offer_open(at);
        }
        for (rank, guess) in guesses.into_iter().enumerate().skip(known) {
            self.offer(at, Granted::Guess(guess), rank);
        }
    }

    /// Offers to continue with the branch's answer left open.
    pub(crate) fn offer_open(&mut self, at: usize) {
        let text = open_answer(self.branches[at].hop);
        self.offer(at, Granted::Open(text.into()), 0);
    }

    pub(crate) fn offer(&mut self, at: usize, granted: Granted, rank: usize) {
        let branch = &self.branches[at];
        self.offers.push(Offer {
            base: Base {
                parent: branch.id,
                granted,
            },
            reach: branch.hop + rank,
            rank,
        });
        debug_assert!(laws::offers_are_alive(self));
    }

    /// Whether any answer that the branch stands on is left open.
    pub(crate) fn is_open(&self, at: usize) -> bool {
        self.ancestry(self.branches.get(at))
            .any(|(_, granted)| granted.is_open())
    }

    /// Whether the sub-question names an answer that is left open.
    pub(crate) fn names_what_is_open(&self, at: usize, asked: &SubQuestion) -> bool {
        self.ancestry(self.branches.get(at))
            .filter(|(_, granted)| granted.is_open())
            .any(|(parent, _)| names(asked, parent.hop))
    }
}

/// The text in place of an answer that is left open. The number of its sub-question follows, from 1.
pub const OPEN_ANSWER: &str = "the answer of sub-question ";

fn open_answer(hop: usize) -> String {
    format!("{OPEN_ANSWER}{}", hop + 1)
}

fn names(asked: &SubQuestion, hop: usize) -> bool {
    let name = format!("sub question {}", hop + 1);
    asked.key().match_indices(&name).any(|(at, _)| {
        let rest = &asked.key()[at + name.len()..];
        !rest.starts_with(|c: char| c.is_ascii_digit())
    })
}
