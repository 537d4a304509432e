//! How many requests an endpoint gets at once, and who goes next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spechop_ports::{Call, Lane};
use tokio::sync::oneshot;

/// A semaphore that looks at lanes when it gives a permit away, not when one is asked for:
/// authoritative calls first, then the shallower, then the older.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// In order of arrival.
    waiting: Vec<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    call: Call,
    turn: oneshot::Sender<Permit>,
}

/// The right to one request; dropping it passes the right on.
#[derive(Debug)]
pub(super) struct Permit(Arc<Gate>);

impl Gate {
    pub(super) fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                free: permits,
                waiting: Vec::new(),
            }),
        })
    }

    /// Waits for a permit. Dropping the future leaves the queue, or passes on a permit that had
    /// just been given.
    pub(super) async fn enter(self: &Arc<Self>, call: &Call) -> Permit {
        loop {
            let receiver = {
                let mut state = self.lock();
                if state.free > 0 {
                    state.free -= 1;
                    return Permit(self.clone());
                }
                let (turn, receiver) = oneshot::channel();
                state.waiting.push(Waiter {
                    call: call.clone(),
                    turn,
                });
                receiver
            };
            // The sender leaves the queue only by sending, so this does not fail; asking again
            // would be right if it did.
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding the lock, and the state is consistent at every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next waiter, or else counts the permit as free.
    fn next(&self) -> Option<Waiter> {
        let mut state = self.lock();
        state.waiting.retain(|waiter| !waiter.turn.is_closed());
        let next = state
            .waiting
            .iter()
            .enumerate()
            .min_by_key(|(at, waiter)| {
                let speculative = waiter.call.lane() == Lane::Speculative;
                (speculative, waiter.call.depth(), *at)
            })
            .map(|(at, _)| at);
        match next {
            Some(at) => Some(state.waiting.remove(at)),
            None => {
                state.free += 1;
                None
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(waiter) = self.0.next() {
            // One that has just gone away drops the permit again, outside the lock.
            drop(waiter.turn.send(Self(self.0.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    fn call(lane: Lane, depth: u32) -> Call {
        Call::new(lane, depth)
    }

    #[tokio::test]
    async fn lanes_are_looked_at_when_a_permit_is_given_away() {
        let gate = Gate::new(1);
        let first = gate.enter(&Call::authoritative()).await;
        let (deep, shallow, late) = (
            call(Lane::Speculative, 3),
            call(Lane::Speculative, 1),
            call(Lane::Speculative, 4),
        );
        let mut deep_turn = pin!(gate.enter(&deep));
        let mut shallow_turn = pin!(gate.enter(&shallow));
        let mut late_turn = pin!(gate.enter(&late));
        assert!(deep_turn.as_mut().now_or_never().is_none());
        assert!(shallow_turn.as_mut().now_or_never().is_none());
        assert!(late_turn.as_mut().now_or_never().is_none());

        late.promote();
        drop(first);
        assert!(shallow_turn.as_mut().now_or_never().is_none());
        let promoted = late_turn.as_mut().now_or_never().expect("promoted");
        drop(promoted);
        assert!(deep_turn.as_mut().now_or_never().is_none());
        let second = shallow_turn.as_mut().now_or_never().expect("shallower");
        drop(second);
        assert!(deep_turn.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn permits_survive_waiters_that_go_away() {
        let gate = Gate::new(2);
        for round in 0..1000 {
            let held = (
                gate.enter(&Call::authoritative()).await,
                gate.enter(&Call::authoritative()).await,
            );
            let waiting = call(Lane::Speculative, round);
            let mut gone = Box::pin(gate.enter(&waiting));
            let mut given = Box::pin(gate.enter(&waiting));
            assert!(gone.as_mut().now_or_never().is_none());
            assert!(given.as_mut().now_or_never().is_none());
            drop(gone);
            drop(held);
            // It has been given a permit that it never looked at.
            drop(given);
        }
        let state = gate.lock();
        assert_eq!((state.free, state.waiting.len()), (2, 0));
    }
}
