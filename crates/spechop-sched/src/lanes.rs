//! Who may call a backend now. Pure: no clock, no tasks, no randomness; callers say what happens
//! and when, and carry the decisions out.
//!
//! ```text
//!             ┌── promote ──▶ waiting, authoritative ──┐
//! arrive ─▶ waiting, speculative ── Start ──▶ running ─┴─▶ finish
//!                                               │ ▲
//!                                        Preempt│ │promote (before it was dropped)
//!                                               ▼ │
//!                                             ending ──▶ leave
//! ```
//!
//! A call that is told to end keeps its place until it has left: two calls never share one. Any
//! call may leave at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use spechop_types::Refusal;

use crate::bucket::TokenBucket;
use crate::counts::Counts;
use crate::laws;
use crate::load::Load;
use crate::pressure::Pressure;
use crate::slot::{Slot, Speculating, worth};
use crate::ticket::{Decision, Decisions, Limits, Outcome, Phase, Rank, Ticket};

/// The lanes of one backend.
#[derive(Debug)]
pub struct Lanes {
    pub(crate) limits: Limits,
    /// Its number in a [`crate::Group`], which gives the speculative calls their turns.
    member: Option<u32>,
    pub(crate) bucket: Option<TokenBucket>,
    pub(crate) pressure: Pressure,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    /// Authoritative calls that wait, by the moment they became so.
    pub(crate) needed: BTreeMap<u64, u32>,
    /// Authoritative calls that ever waited.
    queued: u64,
    /// Speculative calls that wait, best first.
    pub(crate) guessed: BTreeSet<Speculating>,
    /// Slots of the speculative calls that run, in no order: there are few.
    pub(crate) speculating: Vec<u32>,
    pub(crate) needed_running: usize,
    pub(crate) ending: usize,
    pub(crate) counts: Counts,
    /// In which needed calls waited.
    load: Load,
}

impl Lanes {
    /// Nobody there, every place free.
    pub fn new(limits: Limits) -> Self {
        Self::of(limits, None)
    }

    /// The same as a member of a group, where guesses wait for an idle core, too.
    pub(crate) fn in_group(limits: Limits, member: u32) -> Self {
        Self::of(limits, Some(member))
    }

    fn of(limits: Limits, member: Option<u32>) -> Self {
        let places = limits.speculative_max.min(limits.capacity.get());
        Self {
            limits,
            member,
            bucket: limits.rate.map(TokenBucket::new),
            pressure: Pressure::new(places),
            slots: Vec::new(),
            vacant: Vec::new(),
            needed: BTreeMap::new(),
            queued: 0,
            guessed: BTreeSet::new(),
            speculating: Vec::new(),
            needed_running: 0,
            ending: 0,
            counts: Counts::default(),
            load: Load::default(),
        }
    }

    /// A call comes. It has its turn where a decision says so, and waits where none does.
    pub fn arrive(&mut self, now: Duration, rank: Rank, out: &mut Decisions) -> Ticket {
        self.tick(now);
        let arrival = self.counts.arrived;
        self.counts.arrived += 1;
        let (authoritative, worth) = match rank {
            Rank::Authoritative => (true, 0),
            Rank::Speculative { utility } => (false, worth(utility)),
        };
        let slot = self.seat(Slot {
            arrival,
            phase: Phase::Waiting,
            authoritative,
            queued: 0,
            worth,
            at: 0,
            lost_to: Refusal::Preempted,
            started: now,
        });
        // Whoever comes when nobody waits and there is room never enters a queue. Where somebody
        // waits, the time that has passed may have given them a turn, too.
        let goes_on = self.needed.is_empty()
            && self.guessed.is_empty()
            && if authoritative {
                self.is_free() && self.has_token()
            } else {
                self.gives_slack()
            };
        if goes_on {
            self.start(now, slot, out);
        } else {
            self.queue(slot);
            self.settle(now, out);
        }
        self.check();
        self.ticket(slot)
    }

    /// A call has ended by itself; says how long it ran. One that was to be pre-empted meanwhile was
    /// faster. One that has no turn cannot end.
    pub fn finish(
        &mut self,
        now: Duration,
        ticket: Ticket,
        outcome: Outcome,
        out: &mut Decisions,
    ) -> Duration {
        let has_turn = |slot: &&Slot| slot.phase != Phase::Waiting;
        let Some(slot) = self.find(ticket).filter(has_turn) else {
            return Duration::ZERO;
        };
        let took = now.saturating_sub(slot.started);
        let tells = slot.authoritative && outcome == Outcome::Answered;
        self.tick(now);
        if tells && self.pressure.answered(now, took) {
            self.counts.pushed_back += 1;
        }
        self.vacate(ticket.slot);
        self.counts.finished += 1;
        self.settle(now, out);
        self.check();
        took
    }

    /// A call goes away: its caller does not want it any more, or it was told to end. One that has
    /// gone already is no mistake.
    pub fn leave(&mut self, now: Duration, ticket: Ticket, out: &mut Decisions) {
        let Some(slot) = self.find(ticket) else {
            return;
        };
        let (phase, authoritative, lost_to) = (slot.phase, slot.authoritative, slot.lost_to);
        if phase == Phase::Ending {
            self.counts.preempted += 1;
            self.counts.shut_out += u64::from(lost_to == Refusal::PushedBack);
        } else {
            self.counts.left += 1;
            let unserved = phase == Phase::Waiting && !authoritative;
            self.counts.unserved += u64::from(unserved);
            self.counts.coreless += u64::from(unserved && self.lacks() == Refusal::NoCore);
        }
        self.tick(now);
        self.vacate(ticket.slot);
        self.settle(now, out);
        self.check();
    }

    /// The answer needs the call now. It keeps its place, or queues behind those that were needed
    /// before it: to have been guessed early must not let it overtake them.
    pub fn promote(&mut self, now: Duration, ticket: Ticket, out: &mut Decisions) {
        let Some(slot) = self.find(ticket).filter(|slot| !slot.authoritative) else {
            return;
        };
        let phase = slot.phase;
        self.tick(now);
        self.take_out(ticket.slot);
        let slot = &mut self.slots[ticket.slot as usize];
        slot.authoritative = true;
        if phase == Phase::Waiting {
            self.queue(ticket.slot);
        } else {
            // Where it was to make room, another one must.
            slot.phase = Phase::Running;
            self.needed_running += 1;
        }
        self.counts.promoted += 1;
        self.settle(now, out);
        self.check();
    }

    /// The backend asked for less: the speculative lane closes, and what runs there ends.
    pub fn push_back(&mut self, now: Duration, out: &mut Decisions) {
        self.tick(now);
        self.pressure.push_back(now);
        self.counts.pushed_back += 1;
        self.settle(now, out);
        self.check();
    }

    /// Time has passed.
    pub fn wake(&mut self, now: Duration, out: &mut Decisions) {
        self.tick(now);
        self.settle(now, out);
        self.check();
    }

    /// When to [`Lanes::wake`] them; `None` where no time that passes can give anyone a turn.
    pub fn next_wake(&self) -> Option<Duration> {
        let bucket = self.bucket.as_ref();
        if !self.needed.is_empty() {
            return bucket.and_then(TokenBucket::next_token);
        }
        if self.guessed.is_empty() {
            return None;
        }
        let spare = bucket.and_then(TokenBucket::next_spare);
        let opens = self.pressure.next_wake();
        [spare, opens].into_iter().flatten().min()
    }

    /// Where a call stands.
    pub fn phase(&self, ticket: Ticket) -> Phase {
        self.find(ticket).map_or(Phase::Gone, |slot| slot.phase)
    }

    /// Why a call that has to end does; for one that does not, why it would.
    pub fn lost_to(&self, ticket: Ticket) -> Refusal {
        let slot = self.find(ticket);
        slot.map_or(Refusal::Preempted, |slot| slot.lost_to)
    }

    /// What a speculative call that waits here lacks: a place, or a core of the group.
    pub fn lacks(&self) -> Refusal {
        if self.member.is_some() && self.has_slack() {
            Refusal::NoCore
        } else {
            Refusal::NoPlace
        }
    }

    /// Who waits and would be next, if there were room.
    pub fn next(&self) -> Option<Ticket> {
        let needed = self.needed.first_key_value().map(|(_, slot)| *slot);
        let guessed = || self.guessed.first().map(|guess| guess.slot);
        needed.or_else(guessed).map(|slot| self.ticket(slot))
    }

    /// What has happened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Calls that wait: authoritative, speculative.
    pub fn waiting(&self) -> (usize, usize) {
        (self.needed.len(), self.guessed.len())
    }

    /// Calls that hold a place: authoritative, speculative (those that are ending among them).
    pub fn running(&self) -> (usize, usize) {
        (self.needed_running, self.speculating.len() + self.ending)
    }

    /// The share of the last seconds, from 0 to 1, in which a needed call waited for its turn.
    pub fn load(&self, now: Duration) -> f64 {
        self.load.at(now, !self.needed.is_empty())
    }

    /// Places that are open to speculation.
    pub fn speculative_places(&self) -> usize {
        self.pressure.places()
    }

    pub(crate) fn is_free(&self) -> bool {
        let (needed, guessed) = self.running();
        needed + guessed < self.limits.capacity.get()
    }

    pub(crate) fn has_token(&self) -> bool {
        self.bucket.as_ref().is_none_or(|b| b.tokens() > 0)
    }

    /// Whether a speculative call may start now.
    pub(crate) fn has_slack(&self) -> bool {
        self.needed.is_empty()
            && self.is_free()
            && self.speculating.len() + self.ending < self.pressure.places()
            && self.bucket.as_ref().is_none_or(TokenBucket::has_spare)
    }

    /// Whether a speculative call that comes may start without asking anybody else.
    pub(crate) fn gives_slack(&self) -> bool {
        self.member.is_none() && self.has_slack()
    }

    /// The guess that waits and would start next, if there is a place for it.
    pub(crate) fn best_waiting(&self) -> Option<Speculating> {
        self.guessed.first().filter(|_| self.has_slack()).copied()
    }

    /// The running guess of the least worth; among equals the youngest, which has the least to lose.
    pub(crate) fn worst_running(&self) -> Option<Speculating> {
        let guess = |slot: &u32| self.slots[*slot as usize].guess(*slot);
        self.speculating.iter().map(guess).max()
    }

    /// How many speculative calls have to make room beside those that do already.
    pub(crate) fn victims_wanted(&self) -> usize {
        let tokens = self.bucket.as_ref().map_or(usize::MAX, TokenBucket::tokens);
        let (needed, guessed) = self.running();
        let free = self.limits.capacity.get() - (needed + guessed);
        let lacking = self.needed.len().min(tokens);
        let for_needed = lacking.saturating_sub(free + self.ending);
        let over = self
            .speculating
            .len()
            .saturating_sub(self.pressure.places());
        for_needed.max(over).min(self.speculating.len())
    }

    /// Lets time pass before anything else happens.
    fn tick(&mut self, now: Duration) {
        if let Some(bucket) = &mut self.bucket {
            bucket.refill(now);
        }
        self.pressure.wake(now);
        self.load.pass(now, !self.needed.is_empty());
    }

    /// Time has passed, and a core may have become idle or needed: all that follows from this
    /// backend's own places.
    pub(crate) fn catch_up(&mut self, now: Duration, out: &mut Decisions) {
        self.tick(now);
        self.settle(now, out);
    }

    /// Gives away what is free, and frees what is needed.
    fn settle(&mut self, now: Duration, out: &mut Decisions) {
        while self.is_free() && self.has_token() {
            let Some((_, slot)) = self.needed.pop_first() else {
                break;
            };
            self.start(now, slot, out);
        }
        for _ in 0..self.victims_wanted() {
            self.preempt_worst(out);
        }
        while self.gives_slack() && self.start_best(now, out) {}
    }

    /// The best guess has its turn; false if none waits.
    pub(crate) fn start_best(&mut self, now: Duration, out: &mut Decisions) -> bool {
        let best = self.guessed.pop_first();
        if let Some(guess) = best {
            self.start(now, guess.slot, out);
        }
        best.is_some()
    }

    fn start(&mut self, now: Duration, at: u32, out: &mut Decisions) {
        if let Some(bucket) = &mut self.bucket {
            bucket.take();
        }
        let slot = &mut self.slots[at as usize];
        slot.phase = Phase::Running;
        slot.started = now;
        if slot.authoritative {
            self.needed_running += 1;
        } else {
            slot.at = self.speculating.len() as u32;
            self.speculating.push(at);
            self.counts.started_speculative += 1;
        }
        self.counts.started += 1;
        out.push(Decision::Start(self.ticket(at)));
    }

    /// Tells the running guess of the least worth to end.
    pub(crate) fn preempt_worst(&mut self, out: &mut Decisions) {
        let Some(Speculating { slot: at, .. }) = self.worst_running() else {
            return;
        };
        let is_over = self.speculating.len() > self.pressure.places();
        self.take_out(at);
        self.ending += 1;
        let slot = &mut self.slots[at as usize];
        slot.phase = Phase::Ending;
        slot.lost_to = if is_over {
            Refusal::PushedBack
        } else {
            Refusal::Preempted
        };
        out.push(Decision::Preempt(self.ticket(at)));
    }

    fn ticket(&self, at: u32) -> Ticket {
        Ticket {
            arrival: self.slots[at as usize].arrival,
            slot: at,
            member: self.member.unwrap_or(0),
        }
    }

    fn find(&self, ticket: Ticket) -> Option<&Slot> {
        let slot = self.slots.get(ticket.slot())?;
        (slot.arrival == ticket.arrival && slot.phase != Phase::Gone).then_some(slot)
    }

    fn seat(&mut self, slot: Slot) -> u32 {
        if let Some(at) = self.vacant.pop() {
            self.slots[at as usize] = slot;
            return at;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }

    fn vacate(&mut self, at: u32) {
        self.take_out(at);
        self.slots[at as usize].phase = Phase::Gone;
        self.vacant.push(at);
    }

    fn queue(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        if slot.authoritative {
            slot.queued = self.queued;
            self.needed.insert(self.queued, at);
            self.queued += 1;
        } else {
            self.guessed.insert(slot.guess(at));
        }
    }

    /// Out of whatever list the call is in.
    fn take_out(&mut self, at: u32) {
        let slot = &self.slots[at as usize];
        match (slot.phase, slot.authoritative) {
            (Phase::Waiting, true) => {
                self.needed.remove(&slot.queued);
            }
            (Phase::Waiting, false) => {
                self.guessed.remove(&slot.guess(at));
            }
            (Phase::Running, true) => self.needed_running -= 1,
            (Phase::Running, false) => {
                let place = slot.at;
                self.speculating.swap_remove(place as usize);
                if let Some(&moved) = self.speculating.get(place as usize) {
                    self.slots[moved as usize].at = place;
                }
            }
            (Phase::Ending, _) => self.ending -= 1,
            (Phase::Gone, _) => {}
        }
    }

    fn check(&self) {
        debug_assert_eq!(laws::broken(self), None);
    }
}
