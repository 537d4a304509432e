//! The model's context, used so that every result is the same to the last bit, whatever else the
//! context holds or does.
//!
//! * Flash attention is off and every sequence has its own part of the KV cache: only then do a
//!   fork and a fresh run agree (measured).
//! * A prompt's chunk is a call of its own. How a prompt is cut never depends on the cache
//!   (`slots`).
//! * Tokens of several sequences share a call only in numbers that were seen to change nothing:
//!   matrix kernels may sum in another order when there are more rows, and which do so depends on
//!   the weights' formats and the processor. [`Compute::measure_company`] finds out.

use std::num::NonZeroU32;

use llama_cpp_2::DecodeError;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::kv_cache::KvCacheConversionError;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::{BatchAddError, LlamaBatch};
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use super::slots::{CHUNK_TOKENS, Placement};

/// `LLAMA_FLASH_ATTN_TYPE_DISABLED`.
const FLASH_ATTENTION_OFF: i32 = 0;

/// Why a computation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ComputeError {
    #[error("the batch does not fit")]
    Batch(#[from] BatchAddError),
    #[error("llama.cpp could not decode")]
    Decode(#[from] DecodeError),
    #[error("the KV cache could not be changed")]
    Cache(#[from] KvCacheConversionError),
    #[error("a position or sequence number is too large")]
    Range(#[from] std::num::TryFromIntError),
}

/// A context, its batch, and how many sequences may share a call.
pub(super) struct Compute<'model> {
    context: LlamaContext<'model>,
    batch: LlamaBatch<'static>,
    company_max: usize,
}

/// One more token of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) slot: usize,
    pub(super) at: usize,
    pub(super) token: LlamaToken,
}

impl<'model> Compute<'model> {
    /// A context with room for `slots` sequences of `slot_tokens` each.
    pub(super) fn new(
        backend: &LlamaBackend,
        model: &'model LlamaModel,
        slots: u32,
        slot_tokens: u32,
        threads: i32,
    ) -> Result<Self, llama_cpp_2::LlamaContextLoadError> {
        // At least this large, or the process aborts.
        let batch = (slots as usize).max(CHUNK_TOKENS);
        let batch_tokens = u32::try_from(batch).unwrap_or(u32::MAX);
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(slot_tokens.saturating_mul(slots)))
            .with_n_seq_max(slots)
            .with_n_batch(batch_tokens)
            .with_n_ubatch(batch_tokens)
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_flash_attention_policy(FLASH_ATTENTION_OFF)
            .with_kv_unified(false)
            // Windowed attention would forget what a fork needs.
            .with_swa_full(true)
            .with_no_perf(true);
        Ok(Self {
            context: model.new_context(backend, params)?,
            batch: LlamaBatch::new(batch, 1),
            company_max: 1,
        })
    }

    /// How many sequences may share a call without changing each other's results.
    pub(super) fn company_max(&self) -> usize {
        self.company_max
    }

    /// Puts what a placement reuses into its slot.
    ///
    /// Only whole sequences are copied: a partial copy aborts the process.
    pub(super) fn place(&mut self, placement: Placement) -> Result<(), ComputeError> {
        let Placement { slot, from, keep } = placement;
        if from != slot {
            self.context.copy_kv_cache_seq(
                i32::try_from(from)?,
                i32::try_from(slot)?,
                None,
                None,
            )?;
        }
        self.cut(slot, keep)
    }

    /// Removes a slot's KV from a position on.
    pub(super) fn cut(&mut self, slot: usize, keep: usize) -> Result<(), ComputeError> {
        let keep = u32::try_from(keep)?;
        self.context
            .kv_cache_seq_rm(i32::try_from(slot)?, Some(keep), None)?;
        Ok(())
    }

    /// Processes a chunk of a prompt. Returns the token that follows if the chunk is the `last`.
    pub(super) fn prefill(
        &mut self,
        slot: usize,
        at: usize,
        tokens: &[LlamaToken],
        last: bool,
    ) -> Result<Option<LlamaToken>, ComputeError> {
        self.batch.clear();
        let seq = i32::try_from(slot)?;
        for (offset, token) in tokens.iter().enumerate() {
            let wanted = last && offset + 1 == tokens.len();
            let at = i32::try_from(at + offset)?;
            self.batch.add(*token, at, &[seq], wanted)?;
        }
        self.context.decode(&mut self.batch)?;
        let row = i32::try_from(tokens.len())? - 1;
        Ok(last.then(|| argmax(self.context.get_logits_ith(row))))
    }

    /// Continues several sequences by a token each. Returns the tokens that follow.
    pub(super) fn decode(&mut self, next: &[Next]) -> Result<Vec<LlamaToken>, ComputeError> {
        self.submit(next)?;
        (0..next.len())
            .map(|row| Ok(argmax(self.context.get_logits_ith(i32::try_from(row)?))))
            .collect()
    }

    /// Finds the largest company, up to `sequences`, in which every sequence's logits are bit for
    /// bit what they are alone. Costs about `sequences²` tokens; the context must be empty, and
    /// is so afterwards.
    pub(super) fn measure_company(&mut self, sequences: usize) -> Result<(), ComputeError> {
        // Any tokens will do: which kernels run depends on shapes, not on values.
        let token = |slot: usize, at: usize| LlamaToken::new((slot * 31 + at * 7 + 11) as i32);
        let next = |at: usize| {
            move |slot: usize| Next {
                slot,
                at,
                token: token(slot, at),
            }
        };
        let mut alone = Vec::new();
        for slot in 0..sequences {
            self.submit(&[next(0)(slot)])?;
            self.submit(&[next(1)(slot)])?;
            alone.push(self.context.get_logits_ith(0).to_vec());
        }
        for count in 2..=sequences {
            for slot in 0..count {
                self.cut(slot, 1)?;
            }
            self.submit(&(0..count).map(next(1)).collect::<Vec<_>>())?;
            let same = alone[..count].iter().enumerate().all(|(slot, alone)| {
                let together = self.context.get_logits_ith(slot as i32);
                let bits = |logits: &[f32]| logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                bits(together) == bits(alone)
            });
            if !same {
                break;
            }
            self.company_max = count;
        }
        for slot in 0..sequences {
            self.cut(slot, 0)?;
        }
        Ok(())
    }

    fn submit(&mut self, next: &[Next]) -> Result<(), ComputeError> {
        self.batch.clear();
        for Next { slot, at, token } in next {
            let (seq, at) = (i32::try_from(*slot)?, i32::try_from(*at)?);
            self.batch.add(*token, at, &[seq], true)?;
        }
        self.context.decode(&mut self.batch)?;
        Ok(())
    }
}

/// The likeliest token; the lowest one of several.
fn argmax(logits: &[f32]) -> LlamaToken {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, logit) in (0..).zip(logits) {
        if *logit > best.1 {
            best = (id, *logit);
        }
    }
    LlamaToken::new(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_of_the_likeliest_wins() {
        for (logits, id) in [
            (vec![1.0, 3.0, 2.0, 3.0], 1),
            (vec![f32::NAN, -1.0, -1.0], 1),
            (vec![f32::NEG_INFINITY; 3], 0),
        ] {
            assert_eq!(argmax(&logits), LlamaToken::new(id));
        }
    }
}
