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

use std::hash::{DefaultHasher, Hasher};
use std::num::NonZeroU32;

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

    /// Processes tokens of one sequence, at most a chunk. Returns what is likeliest to follow, if it
    /// is `wanted`.
    pub(super) fn step(
        &mut self,
        slot: usize,
        at: usize,
        tokens: &[LlamaToken],
        wanted: bool,
    ) -> Result<Option<Likeliest>, ComputeError> {
        self.batch.clear();
        let seq = i32::try_from(slot)?;
        for (offset, token) in tokens.iter().enumerate() {
            let last = offset + 1 == tokens.len();
            let at = i32::try_from(at + offset)?;
            self.batch.add(*token, at, &[seq], wanted && last)?;
        }
        self.context.decode(&mut self.batch)?;
        let row = self.batch.n_tokens() - 1;
        Ok(wanted.then(|| likeliest(self.context.get_logits_ith(row))))
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
        // Any tokens will do, as long as they differ.
        let some = (1..=TRIED as i32).map(|n| n * 7919 % model.n_vocab().max(1));
        let tokens: Vec<_> = some.map(LlamaToken::new).collect();
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

    /// Processes tokens of the first slot, at most a chunk. Returns a digest of the logits after each.
    fn digests(&mut self, at: usize, tokens: &[LlamaToken]) -> Result<Vec<u64>, ComputeError> {
        self.judge(0, at, tokens, tokens.len())?;
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

    /// Processes tokens of one sequence, at most a chunk. Returns what is likeliest after each of the first
    /// `judged` of them.
    ///
    /// Unless the model is batch-invariant, it is not what [`Self::step`] says to the last bit.
    pub(super) fn judge(
        &mut self,
        slot: usize,
        at: usize,
        tokens: &[LlamaToken],
        judged: usize,
    ) -> Result<Vec<Likeliest>, ComputeError> {
        self.batch.clear();
        let seq = i32::try_from(slot)?;
        for (offset, token) in tokens.iter().enumerate() {
            let at = i32::try_from(at + offset)?;
            self.batch.add(*token, at, &[seq], offset < judged)?;
        }
        self.context.decode(&mut self.batch)?;
        let rows = 0..i32::try_from(judged)?;
        Ok(rows
            .map(|row| likeliest(self.context.get_logits_ith(row)))
            .collect())
    }
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

#[cfg(test)]
mod tests {
    use super::super::slots::{Cuts, PromptTokens};
    use super::super::{LocalModelOptions, load, tiny};
    use super::*;

    impl Compute<'_> {
        /// Processes what is missing of a prompt and then some tokens one by one; the bits of the
        /// logits after each.
        fn continued(&mut self, slot: usize, keep: usize, prompt: &PromptTokens) -> Vec<Vec<u32>> {
            let mut at = keep;
            let mut next = None;
            while at < prompt.tokens.len() {
                let end = prompt.chunk_end(at);
                let last = end == prompt.tokens.len();
                next = self.step(slot, at, &prompt.tokens[at..end], last).unwrap();
                at = end;
            }
            let mut all = vec![self.logits()];
            for at in at..at + 3 {
                let token = next.unwrap().token;
                next = self.step(slot, at, &[token], true).unwrap();
                all.push(self.logits());
            }
            all
        }

        /// The bits of the latest ones.
        fn logits(&self) -> Vec<u32> {
            let row = self.batch.n_tokens() - 1;
            let logits = self.context.get_logits_ith(row);
            logits.iter().map(|logit| logit.to_bits()).collect()
        }
    }

    /// To the last bit, not only to the same text.
    #[test]
    fn a_fork_a_cut_and_company_change_no_bit() {
        let folder = tempfile::tempdir().unwrap();
        let options = LocalModelOptions::new(tiny::model(folder.path()));
        let plain = same_bits(&options);
        let adapted = same_bits(&LocalModelOptions {
            adapter: Some(tiny::adapter(folder.path())),
            ..options
        });
        assert!(adapted != plain, "the adapter changes nothing");
    }

    fn same_bits(options: &LocalModelOptions) -> Vec<Vec<u32>> {
        let (backend, model, adapter) = load(options).unwrap();
        let tokens =
            |count: i32, step: i32| (0..count).map(move |n| LlamaToken::new(100 + n * step));
        let prompt = |tokens: Vec<LlamaToken>| PromptTokens {
            tokens,
            fixed: 40,
            cuts: Cuts::At(vec![40]),
        };
        let first = prompt(tokens(150, 3).collect());
        // Shares 110 tokens with the first: chunks end at 32, 40, 72, 104.
        let second = prompt(tokens(110, 3).chain(tokens(27, 5)).collect());
        let other = prompt(tokens(400, 7).collect());
        assert!(
            other
                .tokens
                .iter()
                .all(|token| (token.0 as usize) < tiny::TOKENS)
        );
        let adapter = std::cell::RefCell::new(adapter);
        let open = || {
            let mut compute = Compute::new(backend, &model, 4, 512, 1).unwrap();
            if let Some(adapter) = &mut *adapter.borrow_mut() {
                compute.adapt(adapter).unwrap();
            }
            compute
        };
        let fresh = open().continued(0, 0, &second);

        let mut compute = open();
        compute.continued(0, 0, &first);
        compute.continued(1, 0, &other);
        let fork = Placement {
            slot: 2,
            from: 0,
            keep: 104,
        };
        compute.place(fork).unwrap();
        assert!(
            compute.continued(2, 104, &second) == fresh,
            "a fork, in company"
        );
        // Over what the other left behind.
        compute.place(Placement { slot: 1, ..fork }).unwrap();
        assert!(
            compute.continued(1, 104, &second) == fresh,
            "over another's remains"
        );
        compute.cut(0, 104).unwrap();
        assert!(compute.continued(0, 104, &second) == fresh, "a cut");
        compute.cut(0, 0).unwrap();
        assert!(
            compute.continued(0, 0, &second) == fresh,
            "from the start again"
        );
        // While another generates in between.
        compute.cut(3, 0).unwrap();
        let mut at = 0;
        while at < 72 {
            let end = second.chunk_end(at);
            compute.step(3, at, &second.tokens[at..end], false).unwrap();
            compute.cut(1, 0).unwrap();
            compute.continued(1, 0, &first);
            at = end;
        }
        assert!(compute.continued(3, 72, &second) == fresh, "interrupted");
        // In another context, over what is there, which is in use.
        let mut elsewhere = open();
        elsewhere.continued(0, 0, &other);
        elsewhere.continued(2, 0, &first);
        compute.cut(0, 0).unwrap();
        compute.continued(0, 0, &first);
        let state = compute.save(0).unwrap();
        for slot in [1, 0, 0] {
            elsewhere.restore(slot, &state, 104).unwrap();
            assert!(
                elsewhere.continued(slot, 104, &second) == fresh,
                "in another context"
            );
        }
        // And in mid-sentence.
        compute.cut(0, 0).unwrap();
        let at = second.tokens.len() + compute.continued(0, 0, &second).len() - 1;
        let state = compute.save(0).unwrap();
        let next = LlamaToken::new(7);
        compute.step(0, at, &[next], true).unwrap();
        elsewhere.restore(3, &state, at).unwrap();
        elsewhere.step(3, at, &[next], true).unwrap();
        assert!(
            elsewhere.logits() == compute.logits(),
            "handed over in mid-sentence"
        );
        // Written token by token, and then part of a prompt that says so.
        let mut longer = PromptTokens {
            cuts: Cuts::At(vec![40, second.tokens.len()]),
            ..second
        };
        let written = [7, 11, 13].map(LlamaToken::new);
        compute.cut(0, 0).unwrap();
        compute.continued(0, 0, &longer);
        compute.cut(0, longer.tokens.len()).unwrap();
        for (at, token) in (longer.tokens.len()..).zip(written) {
            compute.step(0, at, &[token], true).unwrap();
        }
        longer.wrote(&written);
        let kept = longer.tokens.len();
        longer.tokens.extend(tokens(25, 5));
        assert!(
            compute.continued(0, kept, &longer) == open().continued(0, 0, &longer),
            "behind what it has written"
        );
        fresh
    }

    /// Whatever is reused, and wherever it ends, the rest says the same to the last bit.
    #[test]
    fn of_a_batch_invariant_model_every_token_may_be_reused() {
        let folder = tempfile::tempdir().unwrap();
        let plain = LocalModelOptions::new(tiny::model(folder.path()));
        let adapted = LocalModelOptions {
            adapter: Some(tiny::adapter(folder.path())),
            ..plain.clone()
        };
        for options in [plain, adapted] {
            let (backend, model, mut adapter) = load(&options).unwrap();
            let mut compute = Compute::new(backend, &model, 2, 512, 1).unwrap();
            if let Some(adapter) = &mut adapter {
                compute.adapt(adapter).unwrap();
            }
            assert!(compute.is_batch_invariant(&model).unwrap());
            let prompt = PromptTokens {
                tokens: (0..150).map(|n| LlamaToken::new(100 + n * 3)).collect(),
                fixed: 0,
                cuts: Cuts::Anywhere,
            };
            let fresh = compute.continued(0, 0, &prompt);
            for keep in [1, 31, 33, 76, 149] {
                compute.cut(0, keep).unwrap();
                assert!(
                    compute.continued(0, keep, &prompt) == fresh,
                    "behind {keep} tokens"
                );
            }
        }
    }

    #[test]
    fn what_has_no_room_to_be_tried_is_not_called_batch_invariant() {
        let folder = tempfile::tempdir().unwrap();
        let options = LocalModelOptions::new(tiny::model(folder.path()));
        let (backend, model, _) = load(&options).unwrap();
        let mut compute = Compute::new(backend, &model, 1, 35, 1).unwrap();
        assert!(!compute.is_batch_invariant(&model).unwrap());
    }

    #[test]
    fn the_lead_is_over_the_second_best() {
        for (logits, id, lead) in [
            (vec![1.0, 3.0, 2.5], 1, 0.5),
            (vec![3.0, 1.0, 3.0], 0, 0.0),
            (vec![1.0, 2.0, 4.0], 2, 2.0),
        ] {
            let token = LlamaToken::new(id);
            assert_eq!(likeliest(&logits), Likeliest { token, lead });
        }
        assert!(likeliest(&[f32::NAN; 2]).lead.is_nan(), "nothing leads");
        let chance = |lead| {
            let token = LlamaToken::new(0);
            Likeliest { token, lead }.ln_chance().exp()
        };
        assert!((chance(0.0) - 0.5).abs() < 1e-9);
        assert!((chance(2.0) - 0.880_797).abs() < 1e-6);
        assert!(chance(1e9) <= 1.0);
    }

    #[test]
    fn the_lowest_of_the_likeliest_wins() {
        for (logits, id) in [
            (vec![1.0, 3.0, 2.0, 3.0], 1),
            (vec![f32::NAN, -1.0, -1.0], 1),
            (vec![f32::NEG_INFINITY; 3], 0),
        ] {
            assert_eq!(likeliest(&logits).token, LlamaToken::new(id));
        }
    }
}
