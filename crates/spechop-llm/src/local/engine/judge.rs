//! Several tokens in one call: what was guessed without the model, judged by it.

use std::sync::atomic::Ordering::Relaxed;

use tokio::time::Instant;

use super::super::ahead::{Ahead, Drafted, Rows};
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
        let begun = Instant::now();
        let Some(judged) = self.run_rows(index, rows) else {
            return;
        };
        self.pays.took(rows, begun.elapsed(), judged.brought());
        self.write(index, rows, &judged);
    }

    /// Lets the model read the rest of a prompt and what may be written behind it, in one call.
    ///
    /// For models that are batch-invariant only: what else is in the call must not matter.
    pub(super) fn end_prompt(&mut self, index: usize, rows: &Rows) {
        let counted = &self.parts.counters.prefilled_tokens;
        counted.fetch_add(rows.read as u64, Relaxed);
        let Some(judged) = self.run_rows(index, rows) else {
            return;
        };
        self.has_read(index, rows.read);
        self.write(index, rows, &judged);
    }

    /// Makes the call, and keeps of it what holds; `None` if the job failed.
    fn run_rows(&mut self, index: usize, rows: &Rows) -> Option<Judged> {
        let Running { slot, progress, .. } = &self.running[index];
        let (slot, at) = (*slot, progress.at);
        let (compute, there) = self.parts.compute.of(slot);
        let likeliest = match compute.judge(there, at, &rows.tokens, rows.judged()) {
            Ok(likeliest) => likeliest,
            Err(error) => {
                self.fail(index, error);
                return None;
            }
        };
        let is_sure = |said: &Likeliest| self.parts.is_batch_invariant || said.lead > CLOSE;
        let guessed = &rows.tokens[rows.read..rows.read + rows.guesses];
        let held = guessed
            .iter()
            .zip(&likeliest)
            .take_while(|(guess, said)| said.token == **guess && is_sure(said))
            .count();
        let counters = &self.parts.counters;
        let guesses = rows.guesses as u64;
        counters.guessed_tokens.fetch_add(guesses, Relaxed);
        counters.held_tokens.fetch_add(held as u64, Relaxed);
        let is_sure = is_sure(&likeliest[held]);
        // If it is not, the token before is read once more, by itself.
        let kept = at + rows.read + held - usize::from(!is_sure);
        if let Err(error) = self.parts.compute.cut(slot, kept) {
            self.fail(index, error);
            return None;
        }
        Some(Judged {
            likeliest,
            held,
            is_sure,
            kept,
        })
    }

    /// Takes in what holds of the guesses, and what the model says behind it if it is sure.
    fn write(&mut self, index: usize, rows: &Rows, judged: &Judged) {
        let progress = &mut self.running[index].progress;
        progress.at = judged.kept;
        if rows.guesses > 0 {
            progress.ahead.judged(judged.held == rows.guesses);
        }
        let (held, said) = judged.likeliest.split_at(judged.held);
        for said in held {
            if self.append(index, *said) {
                return;
            }
        }
        if judged.is_sure {
            self.append(index, said[0]);
        } else {
            self.running[index].progress.ahead.alone();
        }
    }
}

/// What became of a call's guesses.
struct Judged {
    /// What the model says after each row that was judged.
    likeliest: Vec<Likeliest>,
    /// How many of the guesses hold.
    held: usize,
    /// Whether what it says behind them counts.
    is_sure: bool,
    /// Tokens that stay in the KV.
    kept: usize,
}

impl Judged {
    /// Tokens that came of the call.
    fn brought(&self) -> usize {
        self.held + usize::from(self.is_sure)
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
        let drafts = drafts.filter(|draft| draft.text.len() <= most);
        let drafts = drafts.map(|draft| Drafted {
            tokens: vocab.tokenize(draft.text.as_bytes(), false, false),
            chance: draft.chance,
        });
        Ahead::new(drafts.collect())
    }
}
