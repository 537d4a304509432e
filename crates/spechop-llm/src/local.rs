//! A GGUF model in this process: llama.cpp on threads of its own.
//!
//! One or more workers serve all calls, always the most urgent ones ([`queue`]). Each is a thread with
//! a context of its own ([`engine`]); the weights are shared. The same generation gives the same
//! text, alone or in company, from a cold cache or a warm one, whichever worker moves it
//! ([`compute`]). What earlier prompts share with a new one is not computed again, whether the same
//! worker has read it ([`slots`]) or another one ([`kept`]).

mod adapter;
mod ahead;
mod compute;
mod engine;
mod error;
mod job;
mod kept;
mod output;
mod queue;
mod shares;
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
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use llama_cpp_2::LogOptions;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::model::{LlamaLoraAdapter, LlamaModel};
use spechop_ports::{Call, PortError, Vitals};
use spechop_types::Activity;
use tokio::sync::oneshot;

pub use self::error::OpenError;
pub use self::stats::LocalStats;

use self::compute::Compute;
use self::engine::{Engine, Parts};
use self::job::Job;
use self::kept::Kept;
use self::queue::Queue;
use self::shares::Shares;
use self::stats::Counters;
use self::template::ChatTemplate;
use crate::cores::physical_cores;
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
    /// Workers: how many generations move at once, each with [`threads`](Self::threads) of its own. More
    /// workers than cores gain nothing. They share the weights; each has a context of its own, and
    /// with it the memory of its slots.
    pub workers: NonZeroU32,
    /// Threads that compute for each worker. `None`: the physical cores divided among the workers. They wait for each other after
    /// every operation, spinning unless `OMP_WAIT_POLICY=passive` was set before the process
    /// started, as `spechop serve` sees to. Spinning while other work keeps the cores busy, two
    /// threads are several times slower than one.
    pub threads: Option<NonZeroU32>,
    /// Most tokens of one prompt and its continuation, and no more than the model was trained
    /// for. Memory for the KV cache is taken at once, for every slot.
    pub context_tokens_per_sequence: u32,
    /// Generations that may have begun at once, as many moving as there are workers and the others
    /// paused; further ones wait. With several workers, as many again may wait with their KV.
    pub sequences: u32,
    /// Further room for KV, in prompts of full length, for the prompts of generations that have ended. Each
    /// kind of prompt (instructions and examples of a planner, a reader, …) keeps one busy.
    pub kept_prompts: u32,
    /// Whether tokens are guessed without the model, from a generation's draft or from its prompt, and read by
    /// the model several at once, as long as that pays. `None`: if the model is
    /// [batch-invariant](LocalModel::is_batch_invariant), for then it changes no text. Of another model such a
    /// call can choose the other of two tokens that are nearly as likely.
    pub drafts: Option<bool>,
    /// Generations that may wait; the least urgent one beyond is turned away.
    pub waiting_max: usize,
    /// Hears of it if a thread of the model ends for good.
    pub vitals: Vitals,
}

impl LocalModelOptions {
    /// Threads of each worker on this machine.
    pub fn threads_each(&self) -> u32 {
        Shares::of(self, physical_cores()).threads
    }

    /// The defaults for a model file: one worker, 4096 tokens, which hold a reader's prompt at its default
    /// limits, 3 sequences, 3 kept prompts (planner, reader, speculator), 256 waiting.
    pub fn new(model_path: impl Into<PathBuf>) -> Self {
        Self {
            model_path: model_path.into(),
            adapter: None,
            workers: NonZeroU32::MIN,
            threads: None,
            context_tokens_per_sequence: 4096,
            sequences: 3,
            kept_prompts: 3,
            drafts: None,
            waiting_max: 256,
            vitals: Vitals::default(),
        }
    }
}

/// A GGUF model, decoding greedily.
///
/// Dropping it ends its threads, which takes up to one chunk of a prompt.
#[derive(Debug)]
pub struct LocalModel {
    name: Arc<str>,
    counters: Arc<Counters>,
    queue: Arc<Queue>,
    is_batch_invariant: bool,
    thread: Option<JoinHandle<()>>,
}

impl LocalModel {
    /// Loads a model and starts its threads. **Blocks** for as long as that takes: seconds for a
    /// large file.
    pub fn open(options: LocalModelOptions) -> Result<Self, OpenError> {
        check_magic(&options.model_path)?;
        if let Some(adapter) = &options.adapter {
            check_magic(adapter)?;
        }
        let name: Arc<str> = name(&options).into();
        let counters = Arc::new(Counters::default());
        let queue = Arc::new(Queue::new(
            options.workers.get() as usize,
            options.waiting_max,
            options.sequences as usize,
            Arc::clone(&counters),
        ));
        let (opened, open) = mpsc::channel();
        let thread = {
            let shared = Shared {
                name: Arc::clone(&name),
                counters: Arc::clone(&counters),
                queue: Arc::clone(&queue),
            };
            thread::Builder::new()
                .name("local-model".to_owned())
                .spawn(move || own(&options, &shared, &opened))
                .map_err(OpenError::Thread)?
        };
        let is_batch_invariant = open.recv().unwrap_or(Err(OpenError::Backend))?;
        Ok(Self {
            name,
            counters,
            queue,
            is_batch_invariant,
            thread: Some(thread),
        })
    }

    /// What it has done and is doing.
    pub fn stats(&self) -> LocalStats {
        self.counters.stats()
    }

    /// Whether a token is computed to the same bits however many others are read in the same call, as tried
    /// when the model was opened. If so, all that two prompts share is computed once, and drafts change no text.
    /// It hangs on the format of the weights and on the processor.
    pub fn is_batch_invariant(&self) -> bool {
        self.is_batch_invariant
    }

    fn is_gone(&self) -> PortError {
        PortError::unavailable(&*self.name, ENDED)
    }
}

impl Drop for LocalModel {
    fn drop(&mut self) {
        self.queue.close();
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

    fn draws_samples(&self) -> bool {
        true
    }

    async fn generate(&self, call: &Call, generation: Generation) -> Result<Generated, PortError> {
        // Whenever no worker is at it.
        let _waiting = call.doing(Activity::Queue);
        let (reply, answer) = oneshot::channel();
        let job = Job {
            call: call.clone(),
            generation,
            reply,
        };
        if !self.queue.submit(job) {
            return Err(self.is_gone());
        }
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

/// What the workers share with the model's handle.
struct Shared {
    name: Arc<str>,
    counters: Arc<Counters>,
    queue: Arc<Queue>,
}

/// The first thread: loads the model, says how that went, and works beside the others until the queue
/// is closed. It owns the weights.
fn own(options: &LocalModelOptions, shared: &Shared, opened: &Sender<Result<bool, OpenError>>) {
    let (backend, model, adapter) = match load(options) {
        Ok(loaded) => loaded,
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    let parts = match prepare(options, backend, &model, adapter, shared) {
        Ok(parts) => parts,
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    let is_batch_invariant = parts.iter().all(|parts| parts.is_batch_invariant);
    let mut engines = parts.into_iter().map(Engine::new);
    let vitals = &options.vitals;
    thread::scope(|scope| {
        let first = engines.next();
        for (number, engine) in (1..).zip(engines) {
            let spawned = thread::Builder::new()
                .name(format!("local-model-{number}"))
                .spawn_scoped(scope, move || shared.work(number, engine, vitals));
            if let Err(error) = spawned {
                // Those that have started end, too.
                shared.queue.close();
                let _ = opened.send(Err(OpenError::Thread(error)));
                return;
            }
        }
        let _ = opened.send(Ok(is_batch_invariant));
        if let Some(engine) = first {
            shared.work(0, engine, vitals);
        }
    });
}

impl Shared {
    fn work(&self, worker: usize, engine: Engine<'_>, vitals: &Vitals) {
        let _last_words = LastWords {
            vitals,
            name: &self.name,
            queue: &self.queue,
            worker,
        };
        engine.run();
    }
}

/// Why a call gets nothing once the thread has ended.
const ENDED: &str = "its thread has ended";

/// Tells that a worker's thread ends, and if it ends by a panic: no later call will find it mended.
struct LastWords<'a> {
    vitals: &'a Vitals,
    name: &'a str,
    queue: &'a Queue,
    worker: usize,
}

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        self.queue.leave(self.worker);
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

/// What each worker is made of.
fn prepare<'model>(
    options: &LocalModelOptions,
    backend: &LlamaBackend,
    model: &'model LlamaModel,
    mut adapter: Option<LlamaLoraAdapter>,
    shared: &Shared,
) -> Result<Vec<Parts<'model>>, OpenError> {
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
    let template = Arc::new(template);
    let cores = physical_cores();
    let workers = options.workers.get();
    let Shares {
        sequences,
        slots,
        kept_prompts,
        threads,
    } = Shares::of(options, cores);
    let tokens = options
        .context_tokens_per_sequence
        .clamp(1, model.n_ctx_train().max(1));
    let kept = Arc::new(Kept::new(kept_prompts as usize * tokens as usize));
    let context = |_| OpenError::Context {
        path: path(),
        workers,
        slots,
        tokens,
    };
    let all = (0..workers as usize).map(|worker| {
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        let mut compute = Compute::new(backend, model, slots, tokens, threads).map_err(context)?;
        if let (Some(adapter), Some(path)) = (&mut adapter, &options.adapter) {
            compute
                .adapt(adapter)
                .map_err(|_| adapter::misfit(&options.model_path, path))?;
        }
        Ok(Parts {
            name: Arc::clone(&shared.name),
            worker,
            model,
            compute,
            template: Arc::clone(&template),
            context_tokens: tokens as usize,
            sequences: sequences as usize,
            slots: slots as usize,
            drafts: false,
            is_batch_invariant: false,
            queue: Arc::clone(&shared.queue),
            kept: Arc::clone(&kept),
            counters: Arc::clone(&shared.counters),
        })
    });
    let mut all = all.collect::<Result<Vec<_>, OpenError>>()?;
    let first = all.first_mut();
    // A model that cannot compute this much says so at the first call.
    let tried = first.map_or(Ok(false), |parts| parts.compute.is_batch_invariant(model));
    let is_batch_invariant = tried.unwrap_or(false);
    for parts in &mut all {
        parts.is_batch_invariant = is_batch_invariant;
        parts.drafts = options.drafts.unwrap_or(is_batch_invariant);
    }
    let name = &*shared.name;
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
        slots,
        tokens,
        is_batch_invariant,
        context_mib = (slot_bytes * u64::from(slots)) >> 20,
        kept_mib_max = (slot_bytes * u64::from(kept_prompts)) >> 20,
        "model opened"
    );
    Ok(all)
}

/// Bytes of KV for each token: a key and a value of 16-bit numbers for every layer.
fn kv_bytes(model: &LlamaModel) -> u64 {
    const KEY_AND_VALUE: u64 = 2;
    const NUMBER_BYTES: u64 = 2;
    let width = u64::try_from(model.n_embd()).unwrap_or(0);
    let head = width / u64::from(model.n_head()).max(1);
    let layer = head * u64::from(model.n_head_kv()) * KEY_AND_VALUE * NUMBER_BYTES;
    layer * u64::from(model.n_layer())
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
