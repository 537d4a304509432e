//! Several tokens in one call: what was guessed without the model, judged by it.

use std::sync::atomic::Ordering::Relaxed;

use tokio::time::Instant;

use super::super::ahead::{Ahead, Rows};
use super::super::compute::Likeliest;
use super::{Engine, Parts, Running, TOKEN_BYTES_MAX};
use crate::Generation;

/// Unless the model is batch-invariant, logits that are no further apart may change places if they are summed
/// in another order: the activations are rounded to eight bits between the layers, so a last bit can become a
/// step of that size.
const CLOSE: f32 = 0.25;

impl Engine<'_> {
    /// Lets the model read the latest token of a job and what may follow it, in one call. What it would have
    /// written itself counts as written, and then the token that it writes instead of the first other one.
    ///
    /// With a model that is not batch-invariant, the call sums in another order than one for a single token. If
    /// two tokens are so close that this could decide, the call decides nothing: the token is written by itself.
    pub(super) fn judge(&mut self, index: usize, rows: &Rows) {
        let Running { slot, progress, .. } = &self.running[index];
        let (slot, at, guesses) = (*slot, progress.at, rows.guesses);
        let judged = guesses + 1;
        let begun = Instant::now();
        let likeliest = match self.parts.compute.judge(slot, at, &rows.tokens, judged) {
            Ok(likeliest) => likeliest,
            Err(error) => return self.fail(index, error),
        };
        let is_sure = |said: &Likeliest| self.parts.is_batch_invariant || said.lead > CLOSE;
        let guessed = &rows.tokens[1..judged];
        let held = guessed
            .iter()
            .zip(&likeliest)
            .take_while(|(guess, said)| said.token == **guess && is_sure(said))
            .count();
        let counters = &self.parts.counters;
        counters.guessed_tokens.fetch_add(guesses as u64, Relaxed);
        counters.held_tokens.fetch_add(held as u64, Relaxed);
        // The model has its say about what follows, too, if it is sure.
        let said = likeliest[held];
        let is_sure = is_sure(&said);
        self.pays
            .took(rows, begun.elapsed(), held + usize::from(is_sure));
        let kept = at + held + usize::from(is_sure);
        if let Err(error) = self.parts.compute.cut(slot, kept) {
            return self.fail(index, error);
        }
        let running = &mut self.running[index];
        running.progress.at = kept;
        running.progress.ahead.judged(held == guesses);
        for said in &likeliest[..held] {
            if self.append(index, *said) {
                return;
            }
        }
        if is_sure {
            self.append(index, said);
        } else {
            self.running[index].progress.ahead.alone();
        }
    }
}

impl Parts<'_> {
    /// What may be written, as far as that is known.
    pub(super) fn ahead(&self, generation: &Generation) -> Ahead {
        if !self.drafts {
            return Ahead::new(Vec::new());
        }
        let vocab = self.model.vocab();
        let most = generation.tokens_max as usize * TOKEN_BYTES_MAX;
        let drafts = generation.drafts.iter();
        let drafts = drafts.filter(|draft| draft.len() <= most);
        let tokens = drafts.map(|draft| vocab.tokenize(draft.as_bytes(), false, false));
        Ahead::new(tokens.collect())
    }
}
