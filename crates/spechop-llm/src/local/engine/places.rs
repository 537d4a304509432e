//! Who has a slot: what begins, what makes room for it, and what goes on at another worker.

use std::sync::atomic::Ordering::Relaxed;

use spechop_types::Activity;

use super::super::compute::{ComputeError, Moved};
use super::super::job::{Begun, Progress, Waiting, best};
use super::super::kept::Found;
use super::super::output::Output;
use super::{Engine, Running};

impl Engine<'_> {
    /// If as many have begun here as may, the worst speculative one gives up its place.
    pub(super) fn make_room(&mut self) {
        if self.running.len() < self.parts.sequences {
            return;
        }
        let begun = self.running.iter().map(|running| &running.waiting);
        let worst = begun
            .enumerate()
            .filter(|(_, begun)| begun.is_speculative())
            .min_by_key(|(_, begun)| begun.urgency())
            .map(|(index, _)| index);
        if let Some(worst) = worst {
            self.give_up(worst);
        }
    }

    /// The best job but the one that moves.
    pub(super) fn best_that_stands_still(&self) -> Option<usize> {
        let begun = || self.running.iter().map(|running| &running.waiting);
        let moves = best(begun())?;
        begun()
            .enumerate()
            .filter(|(at, _)| *at != moves)
            .max_by_key(|(_, begun)| begun.urgency())
            .map(|(at, _)| at)
    }

    /// Puts a job back into the queue, for whichever worker is free first. If there are several, it
    /// takes its KV along. Else it begins anew; what it has read of its prompt stays cached.
    pub(super) fn give_up(&mut self, at: usize) {
        let running = &self.running[at];
        let moves = self.parts.moves_kv && self.parts.queue.is_shared();
        let may_go_on = moves && self.parts.queue.has_room_for_begun();
        let state = if may_go_on {
            self.parts.compute.save(running.slot).ok()
        } else {
            None
        };
        let counters = &self.parts.counters;
        let count = match &state {
            Some(_) => &counters.handed_over,
            None => &counters.evicted,
        };
        count.fetch_add(1, Relaxed);
        let stakes = self.slots.stakes(running.slot).clone();
        let (mut waiting, progress) = self.leave(at);
        waiting.begun = state.map(|state| Begun {
            progress,
            state,
            stakes,
        });
        self.parts.queue.put_back(waiting);
    }

    /// A job that an answer needs has more threads for as long as no other one is needed. An error if another
    /// slot's KV was lost over it.
    pub(super) fn widen(&mut self, at: usize) -> Result<(), ComputeError> {
        if !self.parts.compute.can_widen() {
            return Ok(());
        }
        let running = &self.running[at];
        let is_needed = !running.waiting.is_speculative();
        let is_alone = is_needed && self.parts.queue.is_alone(self.parts.worker);
        let (slot, at) = (running.slot, running.progress.at);
        match self.parts.compute.widen(slot, at, is_alone) {
            Moved::None => {}
            Moved::Widened => {
                self.parts.counters.widened.fetch_add(1, Relaxed);
            }
            Moved::Lost(other) => {
                self.lose(other);
                return Err(ComputeError::Lost);
            }
        }
        Ok(())
    }

    /// A slot's KV is gone: whoever runs there fails.
    fn lose(&mut self, slot: usize) {
        self.slots.forget(slot);
        if let Some(at) = self.running.iter().position(|running| running.slot == slot) {
            self.fail(at, ComputeError::Lost);
        }
    }

    /// Puts a job into a slot.
    pub(super) fn start(&mut self, mut waiting: Waiting) {
        let _placing = waiting.job.call.doing(Activity::Prefill);
        let fate = waiting.job.call.fate();
        let Some(placement) = self.slots.take(&waiting.prompt, fate) else {
            // There is room, so a slot is idle.
            self.parts.queue.put_back(waiting);
            return;
        };
        let slot = placement.slot;
        let compute = &mut self.parts.compute;
        let counters = &self.parts.counters;
        let (progress, stakes, placed) = match waiting.begun.take() {
            Some(Begun {
                progress,
                state,
                stakes,
            }) => {
                let placed = compute.restore(slot, &state, progress.at);
                (progress, stakes, placed)
            }
            None => {
                let found = self.parts.kept.find(&waiting.prompt, placement.keep, fate);
                let (at, stakes, placed) = match found {
                    Some(Found {
                        state,
                        keep,
                        stakes,
                    }) => {
                        let placed = compute.restore(slot, &state, keep);
                        (keep, stakes, placed)
                    }
                    None => {
                        let stakes = self.slots.stakes(slot).clone();
                        (placement.keep, stakes, compute.place(placement))
                    }
                };
                counters.reused_tokens.fetch_add(at as u64, Relaxed);
                let generation = &waiting.job.generation;
                let read = waiting.prompt.item.tokens.len();
                let room = match waiting.job.may_think {
                    true => self.parts.context_tokens.saturating_sub(read),
                    false => 0,
                };
                let output = Output::new(generation, room);
                // Of other models, only what was computed token by token can be computed again.
                let is_kept = self.parts.is_batch_invariant || !self.parts.drafts;
                let progress = Progress::new(at, output, self.parts.ahead(generation), is_kept);
                (progress, stakes, placed)
            }
        };
        let prompt = &waiting.prompt.item;
        self.slots.filled(slot, prompt, progress.at, stakes);
        counters.running.fetch_add(1, Relaxed);
        self.running.push(Running {
            slot,
            progress,
            waiting,
        });
        if let Err(error) = placed {
            self.fail(self.running.len() - 1, error);
        }
    }
}
