//! A backend and everybody who wants to call it.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;
use spechop_ports::{Call, PortError, Seat};
use spechop_types::{Refusal, Refusals};
use tokio::time::Instant;

use crate::lanes::{Decision, Decisions, Lanes, Limits, Outcome, Phase, Rank, Ticket};
use crate::turn::Turn;
use crate::worth::Kind;

/// The one way to call something: every call takes its turn here. Clones are handles to the same
/// places, for calls of the same [`Kind`].
#[derive(Clone)]
pub struct Backend {
    shared: Arc<Shared>,
    kind: Kind,
}

/// What a backend is doing, and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Authoritative calls that have their turn.
    pub running_authoritative: usize,
    /// Speculative calls that have their turn, those that are being dropped among them.
    pub running_speculative: usize,
    /// Authoritative calls that wait.
    pub waiting_authoritative: usize,
    /// Speculative calls that wait.
    pub waiting_speculative: usize,
    /// Calls that got their turn.
    pub started: u64,
    /// Calls that had their turn and were dropped, to make room or because the lane closed.
    pub preempted: u64,
    /// Calls that became authoritative while they waited or ran.
    pub promoted: u64,
    /// Calls that shared the run of an identical one.
    pub joined: u64,
    /// How often the backend asked for less, or slowed down.
    pub pushed_back: u64,
    /// Places that are open to speculation.
    pub speculative_places: usize,
    /// Speculative calls that did not run, or not to their end, by reason.
    pub refused: Refusals,
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
    /// A backend with nobody there. `name` says in errors what it is.
    pub fn new(name: impl Into<String>, limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                name: name.into(),
                capacity: limits.capacity.get(),
                origin: Instant::now(),
                desk: Mutex::new(Desk {
                    lanes: Lanes::new(limits),
                    wakers: Vec::new(),
                    timekeeper: None,
                    joined: 0,
                    denied: 0,
                }),
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

    /// Most calls at once.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.shared.name
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
        let desk = self.shared.lock();
        let counts = desk.lanes.counts();
        let (running_authoritative, running_speculative) = desk.lanes.running();
        let (waiting_authoritative, waiting_speculative) = desk.lanes.waiting();
        Gauges {
            running_authoritative,
            running_speculative,
            waiting_authoritative,
            waiting_speculative,
            started: counts.started,
            preempted: counts.preempted,
            promoted: counts.promoted,
            joined: desk.joined,
            pushed_back: counts.pushed_back,
            speculative_places: desk.lanes.speculative_places(),
            refused: desk.refused(),
        }
    }

    /// A call shares another one's run.
    pub(crate) fn joined(&self) {
        self.shared.lock().joined += 1;
    }

    /// The policy does not let a call be made ahead of need.
    pub(crate) fn deny(&self) -> PortError {
        self.shared.lock().denied += 1;
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
    /// The lanes' time zero.
    origin: Instant,
    desk: Mutex<Desk>,
}

struct Desk {
    lanes: Lanes,
    /// By slot: whom to wake when the call's turn comes or ends.
    wakers: Vec<Option<Waker>>,
    timekeeper: Option<Timekeeper>,
    joined: u64,
    /// Calls that never came here, since the policy forbids it.
    denied: u64,
}

/// Of all who wait only one has a timer, or a thousand would be woken for one token.
struct Timekeeper {
    ticket: Ticket,
    at: Duration,
}

/// Where authoritative calls sit: all there is to hear is that the backend asks for less.
impl Seat for Shared {
    fn promoted(&self) {}

    fn pushed_back(&self) {
        self.push_back();
    }
}

type Wakers = SmallVec<[Waker; 2]>;

impl Shared {
    /// Says also whether it is its turn already.
    pub(crate) fn arrive(&self, rank: Rank) -> (Ticket, bool) {
        self.step(|desk, now, out| {
            let ticket = desk.lanes.arrive(now, rank, out);
            (ticket, desk.lanes.phase(ticket) == Phase::Running)
        })
    }

    /// Says how long it ran.
    pub(crate) fn finish(&self, ticket: Ticket, outcome: Outcome) -> Duration {
        let (took, _waker) = self.step(|desk, now, out| {
            let took = desk.lanes.finish(now, ticket, outcome, out);
            (took, desk.take_waker(ticket))
        });
        took
    }

    pub(crate) fn leave(&self, ticket: Ticket) {
        let _waker = self.step(|desk, now, out| {
            desk.lanes.leave(now, ticket, out);
            desk.take_waker(ticket)
        });
    }

    pub(crate) fn promote(&self, ticket: Ticket) {
        self.step(|desk, now, out| desk.lanes.promote(now, ticket, out));
    }

    pub(crate) fn push_back(&self) {
        self.step(|desk, now, out| desk.lanes.push_back(now, out));
    }

    /// Why a call that has to end does.
    pub(crate) fn lost_to(&self, ticket: Ticket) -> Refusal {
        self.lock().lanes.lost_to(ticket)
    }

    pub(crate) fn wake(&self) {
        self.step(|desk, now, out| desk.lanes.wake(now, out));
    }

    /// Where the call stands; `waker` hears when that changes.
    pub(crate) fn watch(&self, ticket: Ticket, waker: &Waker) -> Phase {
        let mut desk = self.lock();
        let phase = desk.lanes.phase(ticket);
        let _known = if matches!(phase, Phase::Waiting | Phase::Running) {
            desk.register(ticket, waker)
        } else {
            None
        };
        drop(desk);
        phase
    }

    /// Until when the call has to sleep for all who wait, if it is the one who does.
    pub(crate) fn alarm(&self, ticket: Ticket) -> Option<Instant> {
        let desk = self.lock();
        let keeper = desk.timekeeper.as_ref()?;
        (keeper.ticket == ticket).then(|| self.origin + keeper.at)
    }

    /// What `act` returns is dropped outside the lock, as wakers must be: the last one of a task may
    /// drop the task, and a call of this backend with it.
    fn step<R>(&self, act: impl FnOnce(&mut Desk, Duration, &mut Decisions) -> R) -> R {
        let mut decisions = Decisions::new();
        let mut wakers = Wakers::new();
        let now = Instant::now().saturating_duration_since(self.origin);
        let mut desk = self.lock();
        let result = act(&mut desk, now, &mut decisions);
        desk.announce(&decisions, &mut wakers);
        drop(desk);
        // Outside the lock: whoever wakes may come right back.
        for waker in wakers {
            waker.wake();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        // Nothing panics while it is held.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
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

    fn announce(&mut self, decisions: &Decisions, wakers: &mut Wakers) {
        for decision in decisions {
            let (Decision::Start(ticket) | Decision::Preempt(ticket)) = *decision;
            wakers.extend(self.take_waker(ticket));
        }
        // Somebody who waits must sleep until time alone gives a turn, if it will.
        let Some(at) = self.lanes.next_wake() else {
            self.timekeeper = None;
            return;
        };
        let kept = self.timekeeper.as_ref();
        let keeper = kept
            .map(|keeper| keeper.ticket)
            .filter(|ticket| self.lanes.phase(*ticket) == Phase::Waiting)
            .or_else(|| self.lanes.next());
        let Some(ticket) = keeper else {
            return;
        };
        let is_set = kept.is_some_and(|keeper| keeper.ticket == ticket && keeper.at == at);
        if !is_set {
            self.timekeeper = Some(Timekeeper { ticket, at });
            wakers.extend(self.take_waker(ticket));
        }
    }

    fn refused(&self) -> Refusals {
        let counts = self.lanes.counts();
        let mut refused = Refusals::default();
        refused[Refusal::Denied] = self.denied;
        refused[Refusal::NoPlace] = counts.unserved;
        refused[Refusal::Preempted] = counts.preempted - counts.shut_out;
        refused[Refusal::PushedBack] = counts.shut_out;
        refused
    }

    fn take_waker(&mut self, ticket: Ticket) -> Option<Waker> {
        self.wakers.get_mut(ticket.slot())?.take()
    }
}
