//! A GGUF model in this process: llama.cpp on a thread of its own.
//!
//! One thread owns the model and its KV cache and serves all calls, always the most urgent one
//! ([`engine`]). The same generation gives the same text, alone or in company, from a cold cache
//! or a warm one ([`compute`]), and what earlier prompts share with a new one is not computed
//! again ([`slots`]).

mod adapter;
mod compute;
mod engine;
mod error;
mod output;
mod slots;
mod stats;
mod template;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiny;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use llama_cpp_2::LogOptions;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::model::{LlamaLoraAdapter, LlamaModel};
use spechop_ports::{Call, PortError, Vitals};
use tokio::sync::oneshot;

pub use self::error::OpenError;
pub use self::stats::LocalStats;

use self::compute::Compute;
use self::engine::{Engine, Job, Parts};
use self::stats::Counters;
use self::template::ChatTemplate;
use crate::{Generated, Generation, TextModel};

/// llama.cpp keeps one state for the whole process; it is never given back.
static BACKEND: LazyLock<Option<LlamaBackend>> = LazyLock::new(|| {
    // Its chatter goes to `tracing` under the target `llama-cpp-2`, instead of to stderr.
    llama_cpp_2::send_logs_to_tracing(LogOptions::default());
    LlamaBackend::init().ok()
});

/// Which model to run, and how much of the machine to give to it.
#[derive(Clone, Debug)]
pub struct LocalModelOptions {
    /// The GGUF file.
    pub model_path: PathBuf,
    /// A LoRA adapter for it, a GGUF file too, put on at full strength for every generation. One of
    /// rank 32 on all matrices makes a small model about an eighth slower.
    pub adapter: Option<PathBuf>,
    /// Threads that compute. `None`: one for each physical core. They wait for each other after
    /// every operation, spinning unless `OMP_WAIT_POLICY=passive` was set before the process
    /// started, as `spechop serve` sees to. Spinning while other work keeps the cores busy, two
    /// threads are several times slower than one.
    pub threads: Option<NonZeroU32>,
    /// Most tokens of one prompt and its continuation, and no more than the model was trained
    /// for. Memory for the KV cache is taken at once, for every slot.
    pub context_tokens_per_sequence: u32,
    /// Generations that may have begun at once, one moving and the others paused; further ones
    /// wait.
    pub sequences: u32,
    /// Further slots of the KV cache, for the prompts of generations that have ended. Each kind
    /// of prompt (instructions and examples of a planner, a reader, …) keeps one busy.
    pub kept_prompts: u32,
    /// Generations that may wait; the least urgent one beyond is turned away.
    pub waiting_max: usize,
    /// Hears of it if the model's thread ends for good.
    pub vitals: Vitals,
}

impl LocalModelOptions {
    /// The defaults for a model file: 4096 tokens, which hold a reader's prompt at its default
    /// limits, 3 sequences, 3 kept prompts (planner, reader, speculator), 256 waiting.
    pub fn new(model_path: impl Into<PathBuf>) -> Self {
        Self {
            model_path: model_path.into(),
            adapter: None,
            threads: None,
            context_tokens_per_sequence: 4096,
            sequences: 3,
            kept_prompts: 3,
            waiting_max: 256,
            vitals: Vitals::default(),
        }
    }
}

/// A GGUF model, decoding greedily.
///
/// Dropping it ends its thread, which takes up to one chunk of a prompt.
#[derive(Debug)]
pub struct LocalModel {
    name: Arc<str>,
    counters: Arc<Counters>,
    /// `None` only while it is dropped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl LocalModel {
    /// Loads a model and starts its thread. **Blocks** for as long as that takes: seconds for a
    /// large file.
    pub fn open(options: LocalModelOptions) -> Result<Self, OpenError> {
        check_magic(&options.model_path)?;
        if let Some(adapter) = &options.adapter {
            check_magic(adapter)?;
        }
        let name: Arc<str> = name(&options).into();
        let counters = Arc::new(Counters::default());
        let (jobs, received) = mpsc::channel();
        let (opened, open) = mpsc::channel();
        let thread = {
            let (name, counters) = (Arc::clone(&name), Arc::clone(&counters));
            thread::Builder::new()
                .name("local-model".to_owned())
                .spawn(move || own(&options, &name, &counters, &received, &opened))
                .map_err(OpenError::Thread)?
        };
        open.recv().unwrap_or(Err(OpenError::Backend))?;
        Ok(Self {
            name,
            counters,
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// What it has done and is doing.
    pub fn stats(&self) -> LocalStats {
        self.counters.stats()
    }

    fn is_gone(&self) -> PortError {
        PortError::unavailable(&*self.name, ENDED)
    }
}

impl Drop for LocalModel {
    fn drop(&mut self) {
        // Without a sender the thread ends.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there has been told to every caller and by the vital signs.
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl TextModel for LocalModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn generate(&self, call: &Call, generation: Generation) -> Result<Generated, PortError> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            call: call.clone(),
            generation,
            reply,
        };
        let jobs = self.jobs.as_ref().ok_or_else(|| self.is_gone())?;
        jobs.send(job).map_err(|_| self.is_gone())?;
        answer.await.map_err(|_| self.is_gone())?
    }

    /// The prompt is processed and kept for whoever begins with it.
    async fn warm(&self, call: &Call, generation: Generation) -> Result<(), PortError> {
        let prompt_alone = Generation {
            tokens_max: 1,
            ..generation
        };
        self.generate(call, prompt_alone).await.map(drop)
    }
}

/// The thread: loads the model, says how that went, works until nobody sends any more.
fn own(
    options: &LocalModelOptions,
    name: &Arc<str>,
    counters: &Arc<Counters>,
    jobs: &Receiver<Job>,
    opened: &Sender<Result<(), OpenError>>,
) {
    let _last_words = LastWords {
        vitals: &options.vitals,
        name,
    };
    let (backend, model, adapter) = match load(options) {
        Ok(loaded) => loaded,
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    match prepare(options, backend, &model, adapter, name, counters) {
        Ok(parts) => {
            let _ = opened.send(Ok(()));
            Engine::new(parts).run(jobs);
        }
        Err(error) => {
            let _ = opened.send(Err(error));
        }
    }
}

/// Why a call gets nothing once the thread has ended.
const ENDED: &str = "its thread has ended";

/// Tells if the thread ends by a panic: no later call will find it mended.
struct LastWords<'a> {
    vitals: &'a Vitals,
    name: &'a str,
}

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.vitals.fail(self.name, ENDED);
        }
    }
}

/// llama.cpp, the model, and its adapter if there is one.
type Loaded = (&'static LlamaBackend, LlamaModel, Option<LlamaLoraAdapter>);

fn load(options: &LocalModelOptions) -> Result<Loaded, OpenError> {
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

fn prepare<'model>(
    options: &LocalModelOptions,
    backend: &LlamaBackend,
    model: &'model LlamaModel,
    adapter: Option<LlamaLoraAdapter>,
    name: &Arc<str>,
    counters: &Arc<Counters>,
) -> Result<Parts<'model>, OpenError> {
    let path = || options.model_path.clone();
    let unsupported = |reason| OpenError::Unsupported {
        path: path(),
        reason,
    };
    if model.is_recurrent() || model.is_hybrid() {
        return Err(unsupported("its state cannot be forked at any token"));
    }
    let template =
        ChatTemplate::of(model).ok_or_else(|| unsupported("no chat template works with it"))?;
    let sequences = options.sequences.max(1);
    let slots = sequences
        .saturating_add(options.kept_prompts)
        .min(SLOTS_MAX);
    let sequences = sequences.min(slots);
    let tokens = options
        .context_tokens_per_sequence
        .clamp(1, model.n_ctx_train().max(1));
    let threads = options.threads.map_or_else(physical_cores, NonZeroU32::get);
    let threads = i32::try_from(threads).unwrap_or(i32::MAX);
    let context = |_| OpenError::Context {
        path: path(),
        slots,
        tokens,
    };
    let mut compute = Compute::new(backend, model, slots, tokens, threads).map_err(context)?;
    if let (Some(mut adapter), Some(path)) = (adapter, &options.adapter) {
        compute
            .adapt(&mut adapter)
            .map_err(|_| adapter::misfit(&options.model_path, path))?;
    }
    tracing::info!(model = &**name, threads, slots, tokens, "model opened");
    Ok(Parts {
        name: Arc::clone(name),
        model,
        compute,
        template,
        context_tokens: tokens as usize,
        sequences: sequences as usize,
        slots: slots as usize,
        waiting_max: options.waiting_max,
        counters: Arc::clone(counters),
    })
}

/// What the model is called: its file, and its adapter's.
fn name(options: &LocalModelOptions) -> String {
    let of = |path: &Path| {
        let stem = path.file_stem().unwrap_or_default();
        // Models are often kept as NAME/model.gguf.
        let folder = path.parent().and_then(Path::file_name);
        let generic = stem == "model" || stem == "adapter";
        let name = if generic { folder } else { None }.unwrap_or(stem);
        name.to_string_lossy().into_owned()
    };
    let model = of(&options.model_path);
    match &options.adapter {
        Some(adapter) => format!("{model} + {} (in process)", of(adapter)),
        None => format!("{model} (in process)"),
    }
}

/// llama.cpp's own limit.
const SLOTS_MAX: u32 = 256;

/// The first bytes of every GGUF file.
const MAGIC: &[u8; 4] = b"GGUF";

/// Tells a file that is missing or something else from one that is damaged.
fn check_magic(path: &Path) -> Result<(), OpenError> {
    let mut magic = [0; MAGIC.len()];
    match File::open(path).and_then(|mut file| file.read_exact(&mut magic)) {
        Ok(()) if &magic == MAGIC => Ok(()),
        Err(source) if source.kind() != ErrorKind::UnexpectedEof => Err(OpenError::Read {
            path: path.to_path_buf(),
            source,
        }),
        _ => Err(OpenError::NotGguf {
            path: path.to_path_buf(),
        }),
    }
}

/// Hyper-threads share the units that multiply: more threads than cores are slower.
fn physical_cores() -> u32 {
    let threads = thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let two_a_core = std::fs::read_to_string("/sys/devices/system/cpu/smt/active")
        .is_ok_and(|active| active.trim() == "1");
    if two_a_core {
        threads.div_ceil(2)
    } else {
        threads
    }
}
