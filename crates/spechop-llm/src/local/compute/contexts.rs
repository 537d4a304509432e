//! The contexts of a worker: its own, and perhaps one on more threads for a text that is alone.
//!
//! Two texts on a thread each take less time than one after the other on two threads, since threads wait for each
//! other after every operation. A text that is alone leaves the second core idle, and on both it is done sooner.
//! The threads are fixed with the context (llama-cpp-2 0.1.160). So the KV of the slot that moves is taken to the context with
//! more threads, and back when another text moves, too: a copy of bytes, a few milliseconds of a large model's
//! forty a token. How many threads compute should change no bit, since each of them computes rows of its own. That is
//! tried when the model is opened, and where it is not so, nothing is widened.

use llama_cpp_2::context::session::SeqState;
use llama_cpp_2::model::LlamaModel;

use super::{Compute, ComputeError, Placement};

/// The contexts of a worker. To whoever uses them they are one.
pub(in super::super) struct Contexts<'model> {
    own: Compute<'model>,
    wide: Option<Wide<'model>>,
}

/// A context on more threads. It has as many slots as the worker's own, since KV goes to contexts of the same form
/// only, and one of them is used.
struct Wide<'model> {
    compute: Compute<'model>,
    /// The slot whose KV is here, and not in the worker's own context.
    slot: Option<usize>,
}

/// What became of a wish for more threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Moved {
    None,
    /// The slot is on more threads now.
    Widened,
    /// What this other slot had on more threads could not be taken back, and is not to be trusted.
    Lost(usize),
}

/// The slot of the wide context that is used.
const ALONE: usize = 0;

impl<'model> Contexts<'model> {
    /// A worker's own context, and perhaps one on more threads, with as many slots of the same size.
    pub(in super::super) fn new(own: Compute<'model>, wide: Option<Compute<'model>>) -> Self {
        let wide = wide.map(|compute| Wide {
            compute,
            slot: None,
        });
        Self { own, wide }
    }

    /// The worker's own.
    pub(in super::super) fn own(&mut self) -> &mut Compute<'model> {
        &mut self.own
    }

    /// Whether a text that is alone can have more threads.
    pub(in super::super) fn can_widen(&self) -> bool {
        self.wide.is_some()
    }

    /// Tries whether both contexts say the same to the last bit, and does without the second one if they do not.
    /// Nothing may be in them yet, and nothing is in them afterwards. False if there was one that is of no use.
    pub(in super::super) fn try_alike(&mut self, model: &LlamaModel) -> bool {
        let Some(wide) = &mut self.wide else {
            return true;
        };
        let is_alike = match (self.own.said(model), wide.compute.said(model)) {
            (Ok(own), Ok(wide)) => own == wide,
            (Err(_), _) | (_, Err(_)) => false,
        };
        if !is_alike {
            self.wide = None;
        }
        is_alike
    }

    /// From now on the slot, of which so many tokens are in the KV, is computed on all threads if it is alone,
    /// else on the worker's own. If its KV cannot be moved, it is computed where it is.
    pub(in super::super) fn widen(&mut self, slot: usize, at: usize, is_alone: bool) -> Moved {
        let Some(wide) = &mut self.wide else {
            return Moved::None;
        };
        let there = wide.slot;
        if is_alone == (there == Some(slot)) {
            return Moved::None;
        }
        if let (Err(_), Some(there)) = (self.bring_back(), there) {
            if there == slot {
                return Moved::None;
            }
            self.leave_wide();
            return Moved::Lost(there);
        }
        let Some(wide) = self.wide.as_mut().filter(|_| is_alone) else {
            return Moved::None;
        };
        let taken = take((&self.own, slot), (&mut wide.compute, ALONE), at);
        wide.slot = taken.is_ok().then_some(slot);
        match wide.slot {
            Some(_) => Moved::Widened,
            None => Moved::None,
        }
    }

    /// See [`Compute::place`].
    pub(in super::super) fn place(&mut self, placement: Placement) -> Result<(), ComputeError> {
        let Placement { slot, from, keep } = placement;
        if slot == from {
            return self.cut(slot, keep);
        }
        if self.wide.is_none() {
            return self.own.place(placement);
        }
        // llama.cpp copies within a context at the next call of the model, and the slot may be taken elsewhere
        // before that.
        let state = self.save(from)?;
        self.restore(slot, &state, keep)
    }

    /// See [`Compute::cut`].
    pub(in super::super) fn cut(&mut self, slot: usize, keep: usize) -> Result<(), ComputeError> {
        let (compute, slot) = self.of(slot);
        compute.cut(slot, keep)
    }

    /// See [`Compute::save`].
    pub(in super::super) fn save(&self, slot: usize) -> Result<SeqState, ComputeError> {
        match &self.wide {
            Some(wide) if wide.slot == Some(slot) => wide.compute.save(ALONE),
            _ => self.own.save(slot),
        }
    }

    /// See [`Compute::restore`].
    pub(in super::super) fn restore(
        &mut self,
        slot: usize,
        state: &SeqState,
        keep: usize,
    ) -> Result<(), ComputeError> {
        self.overwrite(slot);
        self.own.restore(slot, state, keep)
    }

    /// What is in the wide context is of no slot any more.
    pub(in super::super) fn leave_wide(&mut self) {
        if let Some(wide) = &mut self.wide {
            wide.slot = None;
        }
    }

    /// Where the slot's KV is, and so where it is computed: a context, and the slot's number there.
    pub(in super::super) fn of(&mut self, slot: usize) -> (&mut Compute<'model>, usize) {
        match &mut self.wide {
            Some(wide) if wide.slot == Some(slot) => (&mut wide.compute, ALONE),
            _ => (&mut self.own, slot),
        }
    }

    fn wide_slot(&self) -> Option<usize> {
        self.wide.as_ref()?.slot
    }

    /// What the slot holds is replaced in the worker's own context.
    fn overwrite(&mut self, slot: usize) {
        if self.wide_slot() == Some(slot) {
            self.leave_wide();
        }
    }

    /// The KV that is in the wide context goes back to its slot.
    fn bring_back(&mut self) -> Result<(), ComputeError> {
        let Some(wide) = &mut self.wide else {
            return Ok(());
        };
        let Some(slot) = wide.slot else {
            return Ok(());
        };
        let all = self.own.slot_tokens;
        take((&wide.compute, ALONE), (&mut self.own, slot), all)?;
        wide.slot = None;
        Ok(())
    }
}

/// Copies the KV of at most so many tokens.
fn take(
    (from, of): (&Compute<'_>, usize),
    (to, slot): (&mut Compute<'_>, usize),
    keep: usize,
) -> Result<(), ComputeError> {
    // Of nothing there is no copy.
    if keep == 0 || from.is_empty(of)? {
        return to.cut(slot, 0);
    }
    to.restore(slot, &from.save(of)?, keep)
}
