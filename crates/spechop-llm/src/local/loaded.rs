//! A model as it is loaded: its weights, its adapter, its template, and a context for each worker.

use std::path::Path;

use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::model::{LlamaLoraAdapter, LlamaModel};
use spechop_types::with_causes;

use super::compute::{Compute, Contexts};
use super::shares::Shares;
use super::template::ChatTemplate;
use super::{BACKEND, LocalModelOptions, OpenError, adapter, cores};

/// llama.cpp, the model, and its adapter if there is one.
type Loaded = (&'static LlamaBackend, LlamaModel, Option<LlamaLoraAdapter>);

pub(super) fn load(options: &LocalModelOptions) -> Result<Loaded, OpenError> {
    let backend = BACKEND.as_ref().ok_or(OpenError::Backend)?;
    if let Some(path) = &options.adapter {
        adapter::check(path)?;
    }
    let path = &options.model_path;
    // Read, not mapped: whoever cut a mapped file would end this process.
    let params = LlamaModelParams::default().with_use_mmap(false);
    let mut model = LlamaModel::load_from_file(backend, path, &params)
        .map_err(|_| OpenError::Damaged { path: path.clone() })?;
    let adapter = match &options.adapter {
        Some(adapter) => Some(adapter::load(&mut model, path, adapter)?),
        None => None,
    };
    Ok((backend, model, adapter))
}

/// The chat template of a model that can run here.
pub(super) fn supported_template(
    model: &LlamaModel,
    path: &Path,
) -> Result<ChatTemplate, OpenError> {
    let unsupported = |reason| OpenError::Unsupported {
        path: path.to_path_buf(),
        reason,
    };
    if model.is_recurrent() || model.is_hybrid() {
        return Err(unsupported("its state cannot be forked at any token"));
    }
    ChatTemplate::of(model, path).ok_or_else(|| unsupported("no chat template works with it"))
}

/// The contexts of each worker, with the adapter on them. If a text that is alone has more threads, the first
/// worker has them: under little load it always serves.
pub(super) fn contexts<'model>(
    options: &LocalModelOptions,
    backend: &LlamaBackend,
    model: &'model LlamaModel,
    mut adapter: Option<LlamaLoraAdapter>,
    shares: Shares,
    tokens: u32,
) -> Result<Vec<Contexts<'model>>, OpenError> {
    let path = &options.model_path;
    let (workers, slots) = (options.workers.get(), shares.slots);
    let too_little = |_| OpenError::Context {
        path: path.clone(),
        workers,
        slots,
        tokens,
    };
    let mut context = |threads: u32| {
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        let made = Compute::new(backend, model, slots, tokens, threads);
        let mut compute = made.map_err(too_little)?;
        if let (Some(adapter), Some(file)) = (&mut adapter, &options.adapter) {
            let adapted = compute.adapt(adapter);
            adapted.map_err(|_| adapter::misfit(path, file))?;
        }
        Ok(compute)
    };
    let mut contexts = |worker: u32| {
        let own = context(shares.threads)?;
        let is_wide = worker == 0 && shares.threads_alone > shares.threads;
        let wide = match is_wide.then(|| context(shares.threads_alone)) {
            Some(Err(error)) => {
                let reason = with_causes(&error);
                tracing::warn!(
                    reason,
                    "a text that is alone has no more threads than any other"
                );
                None
            }
            Some(Ok(wide)) => Some(wide),
            None => None,
        };
        Ok(Contexts::new(own, wide))
    };
    (0..workers).map(&mut contexts).collect()
}

/// The tokens that each layer looks back at, if some look back at less than all. Of such a model llama.cpp copies the
/// KV of a sequence without what lies before the window of its last token, so that a copy that is cut is of no use.
pub(super) fn window(model: &LlamaModel) -> Option<u32> {
    attention(model, "sliding_window")
}

/// A number that the model's file gives for its attention; `None` if it gives none.
fn attention(model: &LlamaModel, name: &str) -> Option<u32> {
    let architecture = model.meta_val_str("general.architecture").ok()?;
    let key = format!("{architecture}.attention.{name}");
    let number: u32 = model.meta_val_str(&key).ok()?.parse().ok()?;
    (number > 0).then_some(number)
}

/// Says what each worker has, and what that takes.
pub(super) fn log_opened(
    name: &str,
    model: &LlamaModel,
    options: &LocalModelOptions,
    shares: Shares,
    tokens: u32,
    is_batch_invariant: bool,
) {
    let (workers, cores) = (options.workers.get(), cores());
    let Shares {
        slots,
        threads,
        threads_alone,
        ..
    } = shares;
    if threads.saturating_mul(workers) > cores {
        tracing::warn!(
            model = name,
            workers,
            threads,
            cores,
            "the workers have more threads than there are cores: they slow each other down"
        );
    }
    let slot_bytes = kv_bytes(model) * u64::from(tokens);
    tracing::info!(
        model = name,
        workers,
        threads,
        threads_alone,
        slots,
        tokens,
        is_batch_invariant,
        context_mib = (slot_bytes * u64::from(slots)) >> 20,
        context_mib_alone = match threads_alone > threads {
            true => (slot_bytes * u64::from(slots)) >> 20,
            false => 0,
        },
        kept_mib_max = (slot_bytes * u64::from(shares.kept_prompts)) >> 20,
        "model opened"
    );
}

/// Bytes of KV for each token.
fn kv_bytes(model: &LlamaModel) -> u64 {
    let width = u64::try_from(model.n_embd()).unwrap_or(0);
    let share = width / u64::from(model.n_head()).max(1);
    let named = ["key_length", "value_length"].map(|name| attention(model, name));
    let heads = u64::from(model.n_layer()) * u64::from(model.n_head_kv());
    heads_bytes(heads, named, share)
}

/// Bytes of so many heads for each token. Each has a key and a value of 16-bit numbers: as many as are `named` for
/// them, or else its share of the model's width.
fn heads_bytes(heads: u64, [key, value]: [Option<u32>; 2], share: u64) -> u64 {
    const NUMBER_BYTES: u64 = 2;
    let numbers = |named: Option<u32>| named.map_or(share, u64::from);
    heads * (numbers(key) + numbers(value)) * NUMBER_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_as_wide_as_the_file_says() {
        for (heads, named, share, expected) in [
            // SmolLM2-135M: 30 layers of 3 heads.
            (30 * 3, [None, None], 576 / 9, 23_040),
            // Qwen3-0.6B: its 16 heads are wider together than the model.
            (28 * 8, [Some(128), Some(128)], 1024 / 16, 114_688),
            // Gemma-2-2b: narrower.
            (26 * 4, [Some(256), Some(256)], 2304 / 8, 106_496),
            (10, [Some(192), None], 128, 6400),
        ] {
            assert_eq!(heads_bytes(heads, named, share), expected, "{named:?}");
        }
    }
}
