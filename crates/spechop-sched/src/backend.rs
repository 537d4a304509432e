//! A backend and everybody who wants to call it.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use spechop_ports::{Call, PortError, Seat};
use spechop_types::Refusal;
use tokio::time::Instant;

use crate::counts::Gauges;
use crate::group::{CoreUse, Demand, Group, Millicores};
use crate::lanes::Lanes;
use crate::ticket::{Decision, Decisions, Limits, Outcome, Phase, Rank, Ticket};
use crate::turn::Turn;
use crate::worth::Kind;

/// The one way to call something: every call takes its turn here. Clones are handles to the same
/// places, for calls of the same [`Kind`].
#[derive(Clone)]
pub struct Backend {
    shared: Arc<Shared>,
    kind: Kind,
}

/// The cores of this machine, for the backends that compute on them. Clones are handles to the same.
#[derive(Clone)]
pub struct Cores {
    turns: Arc<Turns>,
}

impl fmt::Debug for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cores")
            .field("cores", &self.count())
            .field("taken", &self.taken())
            .finish()
    }
}

impl Cores {
    /// So many, all idle.
    pub fn new(cores: Millicores) -> Self {
        Self {
            turns: Arc::new(Turns::of(Group::new(cores))),
        }
    }

    /// How many there are.
    pub fn count(&self) -> Millicores {
        self.turns.desk.lock().group.cores().unwrap_or_default()
    }

    /// Cores came or went.
    pub fn set(&self, cores: Millicores) {
        self.turns
            .step(|desk, now, out| desk.group.set_cores(now, cores, out));
    }

    /// What is taken of them.
    pub fn taken(&self) -> CoreUse {
        self.turns.desk.lock().group.core_use()
    }

    /// What nobody takes of them.
    pub fn idle(&self) -> Millicores {
        let desk = self.turns.desk.lock();
        let cores = desk.group.cores().unwrap_or_default().0;
        Millicores(cores.saturating_sub(desk.group.core_use().total()))
    }

    /// The share of the last seconds, from 0 to 1, in which needed calls took all of them.
    pub fn load(&self) -> f64 {
        let now = self.turns.now();
        self.turns.desk.lock().group.load(now)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend")
            .field("name", &self.shared.name)
            .field("gauges", &self.gauges())
            .finish_non_exhaustive()
    }
}

impl Backend {
    /// A backend with nobody there, which takes none of our cores. `name` says in errors what it is.
    pub fn new(name: impl Into<String>, limits: Limits) -> Self {
        let turns = Arc::new(Turns::of(Group::elsewhere(limits)));
        Self::at(name.into(), limits, turns, 0)
    }

    /// A backend with nobody there, whose calls compute on these cores.
    pub fn on(cores: &Cores, demand: Demand, name: impl Into<String>, limits: Limits) -> Self {
        let turns = Arc::clone(&cores.turns);
        let member = turns.join(limits, demand);
        Self::at(name.into(), limits, turns, member)
    }

    fn at(name: String, limits: Limits, turns: Arc<Turns>, member: u32) -> Self {
        Self {
            shared: Arc::new(Shared {
                name,
                capacity: limits.capacity.get(),
                turns,
                member,
            }),
            kind: Kind::default(),
        }
    }

    /// The same places, for calls of this kind.
    #[must_use]
    pub fn of_kind(&self, kind: Kind) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            kind,
        }
    }

    /// Whether its calls compute on cores that are shared.
    pub(crate) fn is_on_cores(&self) -> bool {
        self.shared.turns.desk.lock().group.cores().is_some()
    }

    /// Most calls at once.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The share of the last seconds, from 0 to 1, in which a needed call waited for its turn here.
    pub fn load(&self) -> f64 {
        let Shared { turns, member, .. } = &*self.shared;
        let now = turns.now();
        turns.desk.lock().group.member(*member).load(now)
    }

    /// Runs `work` when it is the call's turn. Dropping the future leaves, wherever it stands.
    ///
    /// # Errors
    ///
    /// Those of `work`, and [`PortError::NotSpeculated`] if a speculative call lost its turn: then
    /// `work` has been dropped, or never begun.
    pub async fn run<T>(
        &self,
        call: &Call,
        cost: f32,
        work: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        self.run_any(call, cost, work).await
    }

    /// [`Backend::run`], for a port with errors of its own.
    pub(crate) async fn run_any<T, E: From<PortError>>(
        &self,
        call: &Call,
        cost: f32,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut turn = Turn::take(&self.shared, call, || self.kind.utility(call, cost));
        // Declared behind the turn, so dropped before it: the place is free when the call is gone.
        let mut work = pin!(work);
        if !turn.wait().await {
            return Err(self.refusal(turn.lost_to()).into());
        }
        let outcome = poll_fn(|cx| match work.as_mut().poll(cx) {
            // A result that is there is worth more than the place.
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if turn.must_end(cx.waker()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        let Some(outcome) = outcome else {
            return Err(self.refusal(turn.lost_to()).into());
        };
        match &outcome {
            Ok(_) => self.kind.took(turn.finish(Outcome::Answered)),
            Err(_) => {
                turn.finish(Outcome::Failed);
            }
        }
        outcome
    }

    /// What it is doing.
    pub fn gauges(&self) -> Gauges {
        let Shared { turns, member, .. } = &*self.shared;
        let desk = turns.desk.lock();
        let (lanes, seats) = (desk.group.member(*member), &desk.seats[*member as usize]);
        let counts = lanes.counts();
        let (running_authoritative, running_speculative) = lanes.running();
        let (waiting_authoritative, waiting_speculative) = lanes.waiting();
        Gauges {
            running_authoritative,
            running_speculative,
            waiting_authoritative,
            waiting_speculative,
            started: counts.started,
            started_speculative: counts.started_speculative,
            preempted: counts.preempted,
            promoted: counts.promoted,
            joined: seats.joined,
            pushed_back: counts.pushed_back,
            speculative_places: lanes.speculative_places(),
            refused: counts.refused(seats.denied),
        }
    }

    /// A call shares another one's run.
    pub(crate) fn joined(&self) {
        self.shared.count(|seats| seats.joined += 1);
    }

    /// The policy does not let a call be made ahead of need.
    pub(crate) fn deny(&self) -> PortError {
        self.shared.count(|seats| seats.denied += 1);
        self.refusal(Refusal::Denied)
    }

    /// The error of a speculative call that did not run here, or not to its end.
    pub(crate) fn refusal(&self, why: Refusal) -> PortError {
        PortError::NotSpeculated {
            what: self.shared.name.clone(),
            why,
        }
    }
}

/// What all handles and all calls of a backend share.
pub(crate) struct Shared {
    name: String,
    capacity: usize,
    turns: Arc<Turns>,
    /// Which member of the group it is.
    member: u32,
}

/// Where authoritative calls sit: all there is to hear is that the backend asks for less.
impl Seat for Shared {
    fn promoted(&self) {}

    fn pushed_back(&self) {
        self.push_back();
    }
}

impl Shared {
    /// Says also whether it is its turn already.
    pub(crate) fn arrive(&self, rank: Rank) -> (Ticket, bool) {
        self.turns.step(|desk, now, out| {
            let ticket = desk.group.arrive(now, self.member, rank, out);
            (ticket, desk.group.phase(ticket) == Phase::Running)
        })
    }

    /// Says how long it ran.
    pub(crate) fn finish(&self, ticket: Ticket, outcome: Outcome) -> Duration {
        let (took, _waker) = self.turns.step(|desk, now, out| {
            let took = desk.group.finish(now, ticket, outcome, out);
            (took, desk.take_waker(ticket))
        });
        took
    }

    pub(crate) fn leave(&self, ticket: Ticket) {
        let _waker = self.turns.step(|desk, now, out| {
            desk.group.leave(now, ticket, out);
            desk.take_waker(ticket)
        });
    }

    pub(crate) fn promote(&self, ticket: Ticket) {
        self.turns
            .step(|desk, now, out| desk.group.promote(now, ticket, out));
    }

    pub(crate) fn push_back(&self) {
        self.turns
            .step(|desk, now, out| desk.group.push_back(now, self.member, out));
    }

    pub(crate) fn wake(&self) {
        self.turns
            .step(|desk, now, out| desk.group.wake(now, self.member, out));
    }

    /// Why a call that has to end does.
    pub(crate) fn lost_to(&self, ticket: Ticket) -> Refusal {
        self.turns
            .desk
            .lock()
            .group
            .member(self.member)
            .lost_to(ticket)
    }

    /// What a speculative call that waits lacks.
    pub(crate) fn lacks(&self) -> Refusal {
        self.turns.desk.lock().group.member(self.member).lacks()
    }

    /// Where the call stands; `waker` hears when that changes.
    pub(crate) fn watch(&self, ticket: Ticket, waker: &Waker) -> Phase {
        let mut desk = self.turns.desk.lock();
        let phase = desk.group.phase(ticket);
        let _known = if matches!(phase, Phase::Waiting | Phase::Running) {
            desk.seats[self.member as usize].register(ticket, waker)
        } else {
            None
        };
        drop(desk);
        phase
    }

    /// Until when the call has to sleep for all who wait, if it is the one who does.
    pub(crate) fn alarm(&self, ticket: Ticket) -> Option<Instant> {
        let desk = self.turns.desk.lock();
        let keeper = desk.seats[self.member as usize].timekeeper.as_ref()?;
        (keeper.ticket == ticket).then(|| self.turns.origin + keeper.at)
    }

    fn count(&self, count: impl FnOnce(&mut Seats)) {
        count(&mut self.turns.desk.lock().seats[self.member as usize]);
    }
}

/// Where the turns of a backend, or of all that share cores, are given.
struct Turns {
    /// The lanes' time zero.
    origin: Instant,
    desk: Mutex<Desk>,
}

struct Desk {
    group: Group,
    /// By member of the group.
    seats: Vec<Seats>,
}

/// Who waits and runs at a backend.
#[derive(Default)]
struct Seats {
    /// By slot: whom to wake when the call's turn comes or ends.
    wakers: Vec<Option<Waker>>,
    timekeeper: Option<Timekeeper>,
    joined: u64,
    /// Calls that never came here, since the policy forbids it.
    denied: u64,
}

/// Of all who wait at a backend only one has a timer, or a thousand would be woken for one token.
struct Timekeeper {
    ticket: Ticket,
    at: Duration,
}

type Wakers = SmallVec<[Waker; 2]>;

impl Turns {
    fn of(group: Group) -> Self {
        let seats = group.lanes().map(|_| Seats::default()).collect();
        Self {
            origin: Instant::now(),
            desk: Mutex::new(Desk { group, seats }),
        }
    }

    fn join(&self, limits: Limits, demand: Demand) -> u32 {
        let mut desk = self.desk.lock();
        desk.seats.push(Seats::default());
        desk.group.join(limits, demand)
    }

    /// What `act` returns is dropped outside the lock, as wakers must be: the last one of a task may
    /// drop the task, and a call of this backend with it.
    fn step<R>(&self, act: impl FnOnce(&mut Desk, Duration, &mut Decisions) -> R) -> R {
        let mut decisions = Decisions::new();
        let mut wakers = Wakers::new();
        let now = self.now();
        let mut desk = self.desk.lock();
        let result = act(&mut desk, now, &mut decisions);
        desk.announce(&decisions, &mut wakers);
        drop(desk);
        // Outside the lock: whoever wakes may come right back.
        for waker in wakers {
            waker.wake();
        }
        result
    }

    fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.origin)
    }
}

impl Desk {
    fn announce(&mut self, decisions: &Decisions, wakers: &mut Wakers) {
        for decision in decisions {
            let (Decision::Start(ticket) | Decision::Preempt(ticket)) = *decision;
            wakers.extend(self.take_waker(ticket));
        }
        if self.group.nobody_waits() {
            // There is no turn that time could give.
            self.seats
                .iter_mut()
                .for_each(|seats| seats.timekeeper = None);
            return;
        }
        // What happens at one backend may give and take turns at all that share its cores.
        for (number, seats) in (0..).zip(&mut self.seats) {
            let wake = self.group.next_wake(number);
            wakers.extend(seats.keep_time(self.group.member(number), wake));
        }
    }

    fn take_waker(&mut self, ticket: Ticket) -> Option<Waker> {
        self.seats[ticket.member as usize].take_waker(ticket)
    }
}

impl Seats {
    /// Gives back the one that was there.
    fn register(&mut self, ticket: Ticket, waker: &Waker) -> Option<Waker> {
        let slot = ticket.slot();
        if self.wakers.len() <= slot {
            self.wakers.resize(slot + 1, None);
        }
        match &mut self.wakers[slot] {
            Some(known) if known.will_wake(waker) => None,
            place => place.replace(waker.clone()),
        }
    }

    /// Somebody who waits must sleep until time alone gives a turn, if it will: says whom to wake for
    /// that.
    fn keep_time(&mut self, lanes: &Lanes, wake: Option<Duration>) -> Option<Waker> {
        let Some(at) = wake else {
            self.timekeeper = None;
            return None;
        };
        let kept = self.timekeeper.as_ref();
        let keeper = kept
            .map(|keeper| keeper.ticket)
            .filter(|ticket| lanes.phase(*ticket) == Phase::Waiting)
            .or_else(|| lanes.next());
        let ticket = keeper?;
        let is_set = kept.is_some_and(|keeper| keeper.ticket == ticket && keeper.at == at);
        if is_set {
            return None;
        }
        self.timekeeper = Some(Timekeeper { ticket, at });
        self.take_waker(ticket)
    }

    fn take_waker(&mut self, ticket: Ticket) -> Option<Waker> {
        self.wakers.get_mut(ticket.slot())?.take()
    }
}
