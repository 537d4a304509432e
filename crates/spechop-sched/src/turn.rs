//! One call's way through a backend, from its arrival until it has ended or was dropped.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use spechop_ports::{Call, Lane, Progress, Seat};
use spechop_types::{Activity, Refusal};
use tokio::time::{Sleep, sleep_until};

use crate::backend::Shared;
use crate::ticket::{Outcome, Phase, Rank, Ticket};

/// A call's turn. Dropping it gives back whatever it holds: a place in a queue, a place to run, or
/// one that it had just been given.
pub(crate) struct Turn<'a> {
    shared: &'a Shared,
    call: &'a Call,
    ticket: Ticket,
    /// The lanes know that it is authoritative, so nobody will ask for its place.
    is_safe: bool,
    has_started: bool,
    /// Nothing is left to give back.
    is_over: bool,
    /// What keeps the seat of a speculative call.
    _seat: Option<Arc<SpeculativeSeat>>,
    /// Only whoever keeps the time for all who wait has one.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// Where a speculative call sits while it waits or runs.
pub(crate) struct SpeculativeSeat {
    shared: Arc<Shared>,
    ticket: Ticket,
}

impl Seat for SpeculativeSeat {
    fn promoted(&self) {
        self.shared.promote(self.ticket);
    }

    fn pushed_back(&self) {
        self.shared.push_back();
    }

    fn lacks(&self) -> Refusal {
        self.shared.lacks()
    }
}

impl<'a> Turn<'a> {
    pub(crate) fn take(shared: &'a Arc<Shared>, call: &'a Call, utility: impl Fn() -> f32) -> Self {
        let is_needed = call.lane() == Lane::Authoritative;
        let rank = if is_needed {
            Rank::Authoritative
        } else {
            let utility = utility();
            Rank::Speculative { utility }
        };
        let (ticket, has_started) = shared.arrive(rank);
        call.advance(if has_started {
            Progress::Begun
        } else {
            Progress::Queued
        });
        // From here on dropping it leaves.
        let mut turn = Self {
            shared,
            call,
            ticket,
            is_safe: is_needed,
            has_started,
            is_over: false,
            _seat: None,
            alarm: None,
        };
        if is_needed {
            // Nothing is told of this call in particular, so that the backend itself will do.
            let seat: Weak<Shared> = Arc::downgrade(shared);
            call.sit(seat);
        } else {
            let seat = Arc::new(SpeculativeSeat {
                shared: Arc::clone(shared),
                ticket,
            });
            let weak: Weak<SpeculativeSeat> = Arc::downgrade(&seat);
            call.sit(weak);
            turn._seat = Some(seat);
            // A promotion before it sat was told to nobody.
            turn.promote_if_needed();
        }
        turn
    }

    /// Waits for the turn; `false` where it was given and taken back.
    pub(crate) async fn wait(&mut self) -> bool {
        if self.has_started {
            return true;
        }
        let _waiting = self.call.doing(Activity::Turn);
        let started = poll_fn(|cx| self.poll_start(cx)).await;
        self.has_started = started;
        self.alarm = None;
        if started {
            self.call.advance(Progress::Begun);
        }
        started
    }

    /// Whether the call has to make room. If not, `waker` hears of it.
    pub(crate) fn must_end(&mut self, waker: &Waker) -> bool {
        if self.is_safe || self.promote_if_needed() {
            return false;
        }
        self.shared.watch(self.ticket, waker) == Phase::Ending && !self.promote_if_needed()
    }

    /// Why it lost its turn.
    pub(crate) fn lost_to(&self) -> Refusal {
        self.shared.lost_to(self.ticket)
    }

    /// The call has ended by itself; says how long it ran.
    pub(crate) fn finish(mut self, outcome: Outcome) -> Duration {
        self.is_over = true;
        self.shared.finish(self.ticket, outcome)
    }

    /// What a guess became while nobody was told: a seat may have been taken by a call within this
    /// one.
    fn promote_if_needed(&mut self) -> bool {
        if self.call.lane() == Lane::Authoritative && !self.is_safe {
            self.shared.promote(self.ticket);
            self.is_safe = true;
        }
        self.is_safe
    }

    fn poll_start(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            match self.shared.watch(self.ticket, cx.waker()) {
                Phase::Running => return Poll::Ready(true),
                // A promotion takes a pre-emption back.
                Phase::Ending => return Poll::Ready(self.promote_if_needed()),
                Phase::Gone => return Poll::Ready(false),
                Phase::Waiting => {}
            }
            let Some(deadline) = self.shared.alarm(self.ticket) else {
                self.alarm = None;
                return Poll::Pending;
            };
            match &mut self.alarm {
                Some(alarm) if alarm.deadline() == deadline => {}
                Some(alarm) => alarm.as_mut().reset(deadline),
                None => self.alarm = Some(Box::pin(sleep_until(deadline))),
            }
            if let Some(alarm) = &mut self.alarm {
                ready!(alarm.as_mut().poll(cx));
            }
            self.shared.wake();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.leave(self.ticket);
        }
    }
}
