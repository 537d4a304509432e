//! The model's context, used so that every result is the same to the last bit, whatever else the
//! context holds or does.
//!
//! * Flash attention is off and every sequence has its own part of the KV cache: only then do a
//!   fork and a fresh run agree (measured).
//! * A sequence that is taken out of one context and put into another is the same bytes, in the same
//!   order.
//! * Every call of the model is for one sequence.
//!
//! If the model is **batch-invariant**, a token's bits do not depend on how many others are read in the same
//! call. Then nothing else is needed. It holds of the planner that is shipped, as llama.cpp is built here: its
//! kernels for many rows (llamafile's) sum in another order and are left out (`.cargo/config.toml`), and those for
//! repacked weights add block by block, whether they have one row or sixteen. Of other formats and
//! processors nobody promises it, so it is tried whenever a model is opened
//! ([`Compute::is_batch_invariant`]).
//!
//! If it is not, how a prompt is cut into calls never depends on the cache (`slots`). One call is then an exception:
//! [`Compute::judge`], which reads several guessed tokens. What it leaves in the KV of its sequence can differ in
//! the last bits, until the generation ends; prompts, which others reuse, are never read by it.
//! `engine/judge.rs` says how ties are met.

mod contexts;

use std::hash::{DefaultHasher, Hasher};
use std::num::NonZeroU32;
use std::ops::Range;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::kv_cache::KvCacheConversionError;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::context::session::{LlamaStateSeqFlags, SeqState};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::{BatchAddError, LlamaBatch};
use llama_cpp_2::model::{LlamaLoraAdapter, LlamaModel};
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::{DecodeError, StateSeqError};

use super::slots::{CHUNK_TOKENS, Placement};

pub(super) use self::contexts::{Contexts, Moved};

/// `LLAMA_FLASH_ATTN_TYPE_DISABLED`.
const FLASH_ATTENTION_OFF: i32 = 0;

/// How one sequence of tokens is cut into calls to see whether it matters: widths at which kernels take
/// other ways (rows by themselves, by four, by sixteen, and what is left over), and a chunk of a prompt.
const WAYS: [&[usize]; 2] = [&[3, 5, 7, 4, 17], &[32, 4]];
/// Tokens of that sequence.
const TRIED: usize = CHUNK_TOKENS + 4;

/// Why a computation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ComputeError {
    #[error("the batch does not fit")]
    Batch(#[from] BatchAddError),
    #[error("llama.cpp could not decode")]
    Decode(#[from] DecodeError),
    #[error("the KV cache could not be changed")]
    Cache(#[from] KvCacheConversionError),
    #[error("the KV of a sequence could not be copied")]
    State(#[from] StateSeqError),
    #[error("a position or sequence number is too large")]
    Range(#[from] std::num::TryFromIntError),
    #[error("the KV of a sequence is lost")]
    Lost,
    #[error("its logits are no numbers: a weight is damaged")]
    NoNumbers,
}

/// A context and its batch.
pub(super) struct Compute<'model> {
    context: LlamaContext<'model>,
    batch: LlamaBatch<'static>,
    slot_tokens: usize,
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
        // A batch beyond this aborts the process.
        let batch_tokens = u32::try_from(CHUNK_TOKENS).unwrap_or(u32::MAX);
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
            batch: LlamaBatch::new(CHUNK_TOKENS, 1),
            slot_tokens: slot_tokens as usize,
        })
    }

    /// Puts an adapter on the model, for all that is computed from now on.
    pub(super) fn adapt(
        &mut self,
        adapter: &mut LlamaLoraAdapter,
    ) -> Result<(), llama_cpp_2::LlamaLoraAdapterSetError> {
        const SCALE: f32 = 1.0;
        self.context.lora_adapter_set(adapter, SCALE)
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

    /// Whether a slot has no KV.
    fn is_empty(&self, slot: usize) -> Result<bool, ComputeError> {
        Ok(self.context.kv_cache_seq_pos_max(i32::try_from(slot)?) < 0)
    }

    /// Removes a slot's KV from a position on.
    pub(super) fn cut(&mut self, slot: usize, keep: usize) -> Result<(), ComputeError> {
        let keep = u32::try_from(keep)?;
        self.context
            .kv_cache_seq_rm(i32::try_from(slot)?, Some(keep), None)?;
        Ok(())
    }

    /// A copy of a slot's KV, for any context of the same model and adapter.
    pub(super) fn save(&self, slot: usize) -> Result<SeqState, ComputeError> {
        let seq = i32::try_from(slot)?;
        Ok(self
            .context
            .state_seq_get(seq, LlamaStateSeqFlags::empty())?)
    }

    /// Puts a copy into a slot, and cuts it to `keep` tokens. What the slot held is gone.
    pub(super) fn restore(
        &mut self,
        slot: usize,
        state: &SeqState,
        keep: usize,
    ) -> Result<(), ComputeError> {
        self.context.state_seq_set(state, i32::try_from(slot)?)?;
        self.cut(slot, keep)
    }

    /// Processes tokens of one sequence, at most a chunk. Returns what is to follow, if it is `wanted`: what
    /// is likeliest, or what `sample` says ([`drawn`]).
    pub(super) fn step(
        &mut self,
        slot: usize,
        at: usize,
        tokens: &[LlamaToken],
        wanted: bool,
        sample: u32,
    ) -> Result<Option<Likeliest>, ComputeError> {
        self.batch.clear();
        let seq = i32::try_from(slot)?;
        for (offset, token) in tokens.iter().enumerate() {
            let last = offset + 1 == tokens.len();
            let at = i32::try_from(at + offset)?;
            self.batch.add(*token, at, &[seq], wanted && last)?;
        }
        self.context.decode(&mut self.batch)?;
        if !wanted {
            return Ok(None);
        }
        let logits = self.context.get_logits_ith(self.batch.n_tokens() - 1);
        let said = match sample {
            0 => likeliest(logits),
            sample => drawn(logits, sample, at + tokens.len()),
        };
        said.checked().map(Some)
    }

    /// Whether the logits of a token are the same to the last bit however many others are read in its call.
    /// Tried on a sequence of a few dozen tokens, which takes as long as to write them: a fifth of a second with
    /// the planner that is shipped. If it is not so, that shows at the first few.
    ///
    /// Nothing may be in the context yet, and nothing is in it afterwards.
    pub(super) fn is_batch_invariant(&mut self, model: &LlamaModel) -> Result<bool, ComputeError> {
        if self.slot_tokens < TRIED {
            return Ok(false);
        }
        let tokens = some_tokens(model, TRIED);
        let mut alone = Vec::new();
        let mut is_so = true;
        'tried: for way in WAYS {
            self.cut(0, 0)?;
            let mut at = 0;
            for width in way {
                let end = at + width;
                let together = self.digests(at, &tokens[at..end])?;
                if alone.len() < end {
                    self.cut(0, at)?;
                    for at in at..end {
                        alone.extend(self.digests(at, &tokens[at..=at])?);
                    }
                }
                is_so = together == alone[at..end];
                if !is_so {
                    break 'tried;
                }
                at = end;
            }
        }
        self.cut(0, 0)?;
        Ok(is_so)
    }

    /// Digests of what it says behind some tokens, which are read in calls of many widths. Nothing may be in the
    /// context yet, and nothing is in it afterwards.
    fn said(&mut self, model: &LlamaModel) -> Result<Vec<u64>, ComputeError> {
        let tokens = some_tokens(model, self.slot_tokens.min(TRIED));
        let (mut at, mut said) = (0, Vec::new());
        for width in [&1].into_iter().chain(WAYS[0]) {
            let end = tokens.len().min(at + width);
            if end == at {
                break;
            }
            said.extend(self.digests(at, &tokens[at..end])?);
            at = end;
        }
        self.cut(0, 0)?;
        Ok(said)
    }

    /// Processes tokens of the first slot, at most a chunk. Returns a digest of the logits after each.
    fn digests(&mut self, at: usize, tokens: &[LlamaToken]) -> Result<Vec<u64>, ComputeError> {
        self.judge(0, at, tokens, 0..tokens.len())?;
        let digest = |row| {
            let mut hasher = DefaultHasher::new();
            let logits = self.context.get_logits_ith(row);
            logits
                .iter()
                .for_each(|logit| hasher.write_u32(logit.to_bits()));
            hasher.finish()
        };
        let rows = 0..i32::try_from(tokens.len())?;
        Ok(rows.map(digest).collect())
    }

    /// Processes tokens of one sequence, at most a chunk. Returns what is likeliest after each of those that
    /// are `judged`.
    ///
    /// Unless the model is batch-invariant, it is not what [`Self::step`] says to the last bit.
    pub(super) fn judge(
        &mut self,
        slot: usize,
        at: usize,
        tokens: &[LlamaToken],
        judged: Range<usize>,
    ) -> Result<Vec<Likeliest>, ComputeError> {
        self.batch.clear();
        let seq = i32::try_from(slot)?;
        for (offset, token) in tokens.iter().enumerate() {
            let at = i32::try_from(at + offset)?;
            self.batch
                .add(*token, at, &[seq], judged.contains(&offset))?;
        }
        self.context.decode(&mut self.batch)?;
        let rows = i32::try_from(judged.start)?..i32::try_from(judged.end)?;
        rows.map(|row| likeliest(self.context.get_logits_ith(row)).checked())
            .collect()
    }
}

/// Any tokens will do, as long as they differ.
fn some_tokens(model: &LlamaModel, count: usize) -> Vec<LlamaToken> {
    let some = (1..=count as i32).map(|n| n * 7919 % model.n_vocab().max(1));
    some.map(LlamaToken::new).collect()
}

/// What is likeliest after a row of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Likeliest {
    /// The token; the lowest one of several.
    pub(super) token: LlamaToken,
    /// How much likelier than the next one it is, as a difference of logits.
    pub(super) lead: f32,
}

impl Likeliest {
    /// Itself, unless nothing leads: of logits that are no numbers, none is the largest. Written all the same, the
    /// first token of the vocabulary would be an answer.
    fn checked(self) -> Result<Self, ComputeError> {
        match self.lead.is_nan() {
            true => Err(ComputeError::NoNumbers),
            false => Ok(self),
        }
    }

    /// The logarithm of its chance if there were no tokens but it and the next one. A sum over the whole
    /// vocabulary would cost fifty thousand exponentials a token.
    pub(super) fn ln_chance(self) -> f64 {
        -(-f64::from(self.lead)).exp().ln_1p()
    }
}

fn likeliest(logits: &[f32]) -> Likeliest {
    let (mut best, mut second) = ((0, f32::NEG_INFINITY), f32::NEG_INFINITY);
    for (id, logit) in (0..).zip(logits) {
        if *logit > best.1 {
            second = best.1;
            best = (id, *logit);
        } else if *logit > second {
            second = *logit;
        }
    }
    Likeliest {
        token: LlamaToken::new(best.0),
        lead: best.1 - second,
    }
}

/// How much a sample strays from what is likeliest.
const TEMPERATURE: f64 = 0.8;
/// A token whose logit lies so far behind the best one is never drawn: its chance is below one in 100,000.
const TOO_FAR: f32 = 10.0;

/// A token drawn by its chance, by the Gumbel-max trick: the likeliest one after a noise is added that hangs on
/// the sample, the position and the token alone. So a sample is the same text whenever it is written, and
/// wherever: no state has to move with a sequence.
fn drawn(logits: &[f32], sample: u32, position: usize) -> Likeliest {
    let best = likeliest(logits);
    let top = usize::try_from(best.token.0).map_or(f32::NEG_INFINITY, |best| logits[best]);
    let gumbel = |id: i32| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u32(sample);
        hasher.write_usize(position);
        hasher.write_i32(id);
        // Strictly between 0 and 1.
        let uniform = ((hasher.finish() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
        -(-uniform.ln()).ln()
    };
    let near = (0..)
        .zip(logits)
        .filter(|(_, logit)| top - **logit < TOO_FAR);
    let noisy = near.map(|(id, logit)| (f64::from(*logit) / TEMPERATURE + gumbel(id), id, *logit));
    let Some((_, id, logit)) = noisy.max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return best;
    };
    match id == best.token.0 {
        true => best,
        false => Likeliest {
            token: LlamaToken::new(id),
            lead: logit - top,
        },
    }
}

#[cfg(test)]
mod tests;
