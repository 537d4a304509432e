//! Backends that compute on the same cores. Pure, like the lanes that it is made of.
//!
//! A needed call starts as soon as its backend has a place, whatever the cores do, and adds what it
//! takes. A speculative call starts only if the cores that it takes are idle. If needed calls take
//! more than there is beside speculation, running guesses end, the least worth of all backends first,
//! until the rest fits. What becomes idle goes to the best guess that waits at any backend and fits.
//!
//! Nothing of this helps if needed calls want more than there is most of the time: a core is idle then
//! for a millisecond, between two of them, and a guess that starts there is in the way of the next. So
//! none starts while needed calls have wanted too much for more than [`CROWDED`] of the last second. One
//! question alone never does, however slow its calls are, since they come one after the other.
//!
//! ```text
//! needed calls  ███████████            start at once, over the edge if need be
//! speculation              ░░░░░       only in what is left, first to leave
//! cores         |──────────────────|
//! ```
//!
//! A call takes cores only while its engine computes for it: [`Demand`] says for how many calls it does
//! so at once, and those beyond stand ready in its queue. A needed call that is the only one of its engine may
//! take more than its share. A call that must end takes its cores until it has left.
//!
//! Some engines cannot stop in the middle of their work: whoever leaves gets no result, and the cores are
//! busy all the same. Their guesses stay ([`Demand::yields`]).
//!
//! No call takes more than there is: on half a core a guess still starts if nothing else computes.

use std::fmt;
use std::time::Duration;

use crate::lanes::Lanes;
use crate::laws;
use crate::load::Load;
use crate::slot::Speculating;
use crate::ticket::{Decisions, Limits, Outcome, Phase, Rank, Ticket};

/// The share of the last second beyond which idle cores are no slack. Two questions at once want more
/// than two cores about half of the time, eight nearly always.
pub const CROWDED: f64 = 0.7;

/// Thousandths of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millicores(pub u32);

impl Millicores {
    /// One core.
    pub const ONE: Self = Self(1000);

    /// So many whole cores.
    pub fn cores(count: usize) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Self(count.saturating_mul(Self::ONE.0))
    }

    /// In cores.
    pub fn as_cores(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for Millicores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_cores().fmt(f)
    }
}

/// What the calls of a backend take of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// A needed call, while the engine computes for it.
    pub each: Millicores,
    /// A needed call while it is the only one: at least as much.
    pub alone: Millicores,
    /// A guess, likewise: at most as much. An engine that computes for a needed call on several cores may
    /// compute for a guess on fewer, so that there is room for it beside other needed work.
    pub guess: Millicores,
    /// Needed calls for which the engine computes at once. For further calls it takes no more cores.
    pub at_once: u32,
    /// Whether a call that leaves gives its cores back at once. If not, no guess has to end for a core.
    pub yields: bool,
}

/// What of a group's cores is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreUse {
    /// By calls that an answer needs. It may be more than there is.
    pub needed: Millicores,
    /// By calls that an answer may need.
    pub speculative: Millicores,
    /// By calls that are told to end and have not left yet.
    pub ending: Millicores,
}

impl CoreUse {
    /// By calls that an answer may need, those that are ending among them.
    pub fn may_be_wasted(self) -> Millicores {
        Millicores(self.speculative.0.saturating_add(self.ending.0))
    }

    pub(crate) fn total(self) -> u32 {
        self.staying().saturating_add(self.ending.0)
    }

    pub(crate) fn staying(self) -> u32 {
        self.needed.0.saturating_add(self.speculative.0)
    }

    fn plus(self, other: Self) -> Self {
        let sum = |a: Millicores, b: Millicores| Millicores(a.0.saturating_add(b.0));
        Self {
            needed: sum(self.needed, other.needed),
            speculative: sum(self.speculative, other.speculative),
            ending: sum(self.ending, other.ending),
        }
    }
}

/// The lanes of backends that share cores.
#[derive(Debug)]
pub struct Group {
    /// `None`: a single backend that computes elsewhere.
    cores: Option<Millicores>,
    members: Vec<Member>,
    /// What all members take and want, as the last step has left them.
    share: Share,
    /// In which needed calls took all cores.
    load: Load,
    /// In which they wanted more than all cores.
    crowd: Load,
}

#[derive(Debug)]
struct Member {
    lanes: Lanes,
    demand: Demand,
    /// What it takes and wants, as the last step has left it.
    share: Share,
}

/// What is taken of the cores, and how much of them needed calls want, those that wait for a place among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    taken: CoreUse,
    wanted: u32,
}

impl Share {
    fn plus(self, other: Self) -> Self {
        Self {
            taken: self.taken.plus(other.taken),
            wanted: self.wanted.saturating_add(other.wanted),
        }
    }
}

impl Member {
    fn share(&self, cores: Millicores) -> Share {
        Share {
            taken: self.core_use(cores),
            wanted: self.wanted(cores),
        }
    }

    fn wanted(&self, cores: Millicores) -> u32 {
        let calls = self.lanes.needed_running + self.lanes.needed.len();
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let Demand { each, alone, .. } = self.demand;
        match calls {
            1 => each.max(alone).min(cores).0,
            _ => each.min(cores).0.saturating_mul(calls),
        }
    }

    /// Needed calls come first at the engine, so that speculation takes what they leave of it. What one of them
    /// takes beyond its share while it is alone is no slack: a guess would take it away.
    fn core_use(&self, cores: Millicores) -> CoreUse {
        let Demand {
            each,
            alone,
            guess,
            at_once,
            ..
        } = self.demand;
        let most = each.min(cores).0.saturating_mul(at_once);
        let taken = |calls: usize, by_each: Millicores| {
            let calls = u32::try_from(calls).unwrap_or(u32::MAX);
            by_each.min(cores).0.saturating_mul(calls)
        };
        let lanes = &self.lanes;
        let needed = taken(lanes.needed_running, each).min(most);
        let speculative = taken(lanes.speculating.len(), guess).min(most - needed);
        let ending = taken(lanes.ending, guess).min(most - needed - speculative);
        let needed = match lanes.needed_running {
            1 => needed.max(alone.min(cores).0),
            _ => needed,
        };
        CoreUse {
            needed: Millicores(needed),
            speculative: Millicores(speculative),
            ending: Millicores(ending),
        }
    }
}

impl Group {
    /// Nobody computes yet. See [`Group::join`]. A machine has a thousandth of a core at least.
    pub fn new(cores: Millicores) -> Self {
        Self {
            cores: Some(cores.max(Millicores(1))),
            members: Vec::new(),
            share: Share::default(),
            load: Load::default(),
            crowd: Load::default(),
        }
    }

    /// A single backend that takes none of our cores: member 0.
    pub fn elsewhere(limits: Limits) -> Self {
        let member = Member {
            lanes: Lanes::new(limits),
            demand: Demand {
                each: Millicores(0),
                alone: Millicores(0),
                guess: Millicores(0),
                at_once: 0,
                yields: true,
            },
            share: Share::default(),
        };
        Self {
            cores: None,
            members: vec![member],
            share: Share::default(),
            load: Load::default(),
            crowd: Load::default(),
        }
    }

    /// Another backend computes here, too; says which member it is.
    pub fn join(&mut self, limits: Limits, demand: Demand) -> u32 {
        let number = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        self.members.push(Member {
            lanes: Lanes::in_group(limits, number),
            demand,
            share: Share::default(),
        });
        number
    }

    /// A call comes; see [`Lanes::arrive`]. No such member is a mistake of the caller.
    pub fn arrive(
        &mut self,
        now: Duration,
        member: u32,
        rank: Rank,
        out: &mut Decisions,
    ) -> Ticket {
        self.step(now, member, out, |lanes, out| lanes.arrive(now, rank, out))
    }

    /// A call has ended by itself; see [`Lanes::finish`].
    pub fn finish(
        &mut self,
        now: Duration,
        ticket: Ticket,
        outcome: Outcome,
        out: &mut Decisions,
    ) -> Duration {
        self.step(now, ticket.member, out, |lanes, out| {
            lanes.finish(now, ticket, outcome, out)
        })
    }

    /// A call goes away; see [`Lanes::leave`].
    pub fn leave(&mut self, now: Duration, ticket: Ticket, out: &mut Decisions) {
        self.step(now, ticket.member, out, |lanes, out| {
            lanes.leave(now, ticket, out);
        });
    }

    /// The answer needs the call now; see [`Lanes::promote`].
    pub fn promote(&mut self, now: Duration, ticket: Ticket, out: &mut Decisions) {
        self.step(now, ticket.member, out, |lanes, out| {
            lanes.promote(now, ticket, out);
        });
    }

    /// A backend asked for less; see [`Lanes::push_back`].
    pub fn push_back(&mut self, now: Duration, member: u32, out: &mut Decisions) {
        self.step(now, member, out, |lanes, out| lanes.push_back(now, out));
    }

    /// Time has passed; see [`Lanes::wake`].
    pub fn wake(&mut self, now: Duration, member: u32, out: &mut Decisions) {
        self.step(now, member, out, |lanes, out| lanes.wake(now, out));
    }

    /// Cores came or went. A backend elsewhere takes none.
    pub fn set_cores(&mut self, now: Duration, cores: Millicores, out: &mut Decisions) {
        self.pass(now);
        if let Some(known) = &mut self.cores {
            *known = cores.max(Millicores(1));
            (0..self.members.len()).for_each(|at| self.count(at));
            self.settle(now, None, out);
        }
    }

    /// The cores that there are; `None` for a backend elsewhere.
    pub fn cores(&self) -> Option<Millicores> {
        self.cores
    }

    /// What is taken of them.
    pub fn core_use(&self) -> CoreUse {
        self.share.taken
    }

    /// The share of the last seconds, from 0 to 1, in which needed calls took all cores.
    pub fn load(&self, now: Duration) -> f64 {
        self.load.at(now, self.is_full())
    }

    /// When to [`Group::wake`] a member; `None` if no time that passes can give one of its calls a turn.
    pub fn next_wake(&self, number: u32) -> Option<Duration> {
        let lanes = self.member(number);
        let emptier = (self.was_crowded() && !self.is_crowded() && lanes.best_waiting().is_some())
            .then(|| self.crowd.falls_to(CROWDED));
        [lanes.next_wake(), emptier].into_iter().flatten().min()
    }

    /// Whether every call that is here has its turn.
    pub(crate) fn nobody_waits(&self) -> bool {
        self.lanes().all(|lanes| lanes.waiting() == (0, 0))
    }

    fn pass(&mut self, now: Duration) {
        self.load.pass(now, self.is_full());
        self.crowd.pass(now, self.is_crowded());
    }

    /// Whether needed calls want more than there is.
    fn is_crowded(&self) -> bool {
        self.cores.is_some_and(|cores| self.share.wanted > cores.0)
    }

    /// Whether they did for most of the last second.
    fn was_crowded(&self) -> bool {
        self.crowd.share() > CROWDED
    }

    fn is_full(&self) -> bool {
        self.cores
            .is_some_and(|cores| self.share.taken.needed >= cores)
    }

    /// The lanes of a member.
    pub fn member(&self, number: u32) -> &Lanes {
        &self.members[number as usize].lanes
    }

    /// The lanes of all members, by number.
    pub fn lanes(&self) -> impl Iterator<Item = &Lanes> {
        self.members.iter().map(|member| &member.lanes)
    }

    /// Where a call stands.
    pub fn phase(&self, ticket: Ticket) -> Phase {
        self.member(ticket.member).phase(ticket)
    }

    fn step<R>(
        &mut self,
        now: Duration,
        member: u32,
        out: &mut Decisions,
        act: impl FnOnce(&mut Lanes, &mut Decisions) -> R,
    ) -> R {
        self.pass(now);
        let acted = act(&mut self.members[member as usize].lanes, out);
        if self.cores.is_some() {
            self.count(member as usize);
            self.settle(now, Some(member), out);
        }
        acted
    }

    /// The lanes of a member have changed, and with them what it takes and wants.
    fn count(&mut self, at: usize) {
        let cores = self.cores.unwrap_or_default();
        let member = &mut self.members[at];
        member.share = member.share(cores);
        let shares = self.members.iter().map(|member| member.share);
        self.share = shares.fold(Share::default(), Share::plus);
    }

    /// Frees the cores that are needed, and gives away what is idle. One of the lanes has settled its
    /// own places just now.
    fn settle(&mut self, now: Duration, settled: Option<u32>, out: &mut Decisions) {
        for at in 0..self.members.len() {
            let lanes = &mut self.members[at].lanes;
            // Time gives a turn only to those who wait.
            if settled.is_none_or(|member| member as usize != at) && lanes.waiting() != (0, 0) {
                lanes.catch_up(now, out);
                self.count(at);
            }
        }
        while let Some(at) = self.worst_to_end() {
            self.members[at].lanes.preempt_worst(out);
            self.count(at);
        }
        while let Some(at) = self.best_to_start() {
            self.members[at].lanes.start_best(now, out);
            self.count(at);
        }
        debug_assert!(self.counts_right());
        debug_assert_eq!(laws::broken_in_group(self), None);
    }

    /// Whether what is kept of every member's share is what its lanes say.
    fn counts_right(&self) -> bool {
        let cores = self.cores.unwrap_or_default();
        let all = self.members.iter();
        let sum = all.clone().map(|member| member.share(cores));
        all.clone()
            .all(|member| member.share == member.share(cores))
            && self.share == sum.fold(Share::default(), Share::plus)
    }

    /// What guesses take that would give it back at once.
    pub(crate) fn yielding(&self) -> Millicores {
        let members = self.members.iter().filter(|member| member.demand.yields);
        let uses = members.map(|member| member.share.taken.speculative.0);
        Millicores(uses.fold(0, u32::saturating_add))
    }

    /// The member whose guess has to end: what stays takes more than there is, and this guess is worth
    /// least among those of engines that compute for guesses and can stop.
    fn worst_to_end(&self) -> Option<usize> {
        let cores = self.cores?;
        let mut lanes = self.lanes();
        let nobody = lanes.all(|lanes| lanes.speculating.is_empty());
        if nobody || self.core_use().staying() <= cores.0 {
            return None;
        }
        let gives = |member: &Member| {
            member.demand.yields && member.share.taken.speculative > Millicores(0)
        };
        let running = self.members.iter().enumerate();
        let running = running.filter(|(_, member)| gives(member));
        let worst = |(at, member): (usize, &Member)| {
            let Speculating { worth, .. } = member.lanes.worst_running()?;
            Some((worth, at))
        };
        running.filter_map(worst).max().map(|(_, at)| at)
    }

    /// The member whose guess starts next: the best of those that have a place and whose cores are idle,
    /// unless they seldom are.
    pub(crate) fn best_to_start(&self) -> Option<usize> {
        let cores = self.cores?;
        if self.lanes().all(|lanes| lanes.guessed.is_empty()) || self.was_crowded() {
            return None;
        }
        let idle = cores.0.saturating_sub(self.core_use().total());
        let fits = |member: &Member| member.demand.guess.min(cores).0 <= idle;
        let waiting = self.members.iter().enumerate();
        let waiting = waiting.filter(|(_, member)| fits(member));
        let best = |(at, member): (usize, &Member)| {
            let Speculating { worth, .. } = member.lanes.best_waiting()?;
            Some((worth, at))
        };
        waiting.filter_map(best).min().map(|(_, at)| at)
    }
}
