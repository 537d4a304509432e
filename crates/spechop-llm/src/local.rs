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
mod loaded;
mod output;
mod queue;
mod shares;
mod slots;
mod stakes;
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
use llama_cpp_2::model::{LlamaLoraAdapter, LlamaModel};
use spechop_ports::{Call, PortError, ToolOutputs, Vitals, physical_cores};
use spechop_types::{Activity, SubQuestion};
use tokio::sync::oneshot;

pub use self::error::OpenError;
pub use self::stats::LocalStats;

use self::engine::{Engine, Parts};
use self::job::Job;
use self::kept::Kept;
use self::loaded::{contexts, load, log_opened, supported_template, window};
use self::queue::Queue;
use self::shares::Shares;
use self::stats::Counters;
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
    /// Threads that compute for each worker. `None`: the physical cores divided among the workers, and up to four
    /// of them for a text that an answer needs while no other one is in motion. Threads wait
    /// for each other after every operation, spinning unless `OMP_WAIT_POLICY=passive` was set before the
    /// process started, as `spechop serve` sees to. Spinning while other work keeps the cores busy, two
    /// threads are several times slower than one.
    pub threads: Option<NonZeroU32>,
    /// Most tokens of one prompt and its continuation, thoughts among them, and no more than the model was
    /// trained for. Memory for the KV cache is taken at once, for every slot.
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
    /// Whom it asks, when a text ends, whether the question goes on at once. `None`: nobody.
    pub tools: Option<Tools>,
    /// Hears of it if a thread of the model ends for good.
    pub vitals: Vitals,
}

/// Outputs of tools that may be at hand, and how a text of the model asks for one.
///
/// If the output of a sub-question is at hand when the sub-question ends, its question goes on at once. Its
/// sequence then stays where it is for as long as there is another place for everybody else, and its next prompt
/// only adds what is new. No text changes by that.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Says what is at hand. It is asked on the model's threads.
    pub outputs: Arc<dyn ToolOutputs>,
    /// What will be looked up, if a text that ended with its stop text asks for something.
    pub asked: fn(&str) -> Option<SubQuestion>,
}

impl LocalModelOptions {
    /// Threads of each worker on this machine.
    pub fn threads_each(&self) -> u32 {
        Shares::of(self, cores()).threads
    }

    /// Threads for a text that an answer needs while it is alone; at least as many.
    pub fn threads_alone(&self) -> u32 {
        Shares::of(self, cores()).threads_alone
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
            tools: None,
            vitals: Vitals::default(),
        }
    }
}

/// The cores of this machine, in the number that llama.cpp takes.
fn cores() -> u32 {
    u32::try_from(physical_cores().get()).unwrap_or(u32::MAX)
}

/// A GGUF model, decoding greedily.
///
/// Dropping it ends its threads, which takes up to one chunk of a prompt.
#[derive(Debug)]
pub struct LocalModel {
    name: Arc<str>,
    counters: Arc<Counters>,
    queue: Arc<Queue>,
    opened: Opened,
    thread: Option<JoinHandle<()>>,
}

/// What showed when the model was opened.
#[derive(Clone, Copy, Debug)]
struct Opened {
    is_batch_invariant: bool,
    threads_alone: u32,
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
        let (tell, told) = mpsc::channel();
        let thread = {
            let shared = Shared {
                name: Arc::clone(&name),
                counters: Arc::clone(&counters),
                queue: Arc::clone(&queue),
            };
            thread::Builder::new()
                .name("local-model".to_owned())
                .spawn(move || own(&options, &shared, &tell))
                .map_err(OpenError::Thread)?
        };
        let opened = told.recv().unwrap_or(Err(OpenError::Backend))?;
        Ok(Self {
            name,
            counters,
            queue,
            opened,
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
        self.opened.is_batch_invariant
    }

    /// Threads that a needed text has while it is alone. They are fewer than its options would give it
    /// ([`LocalModelOptions::threads_alone`]) if there is no second context for it, or none that is of use.
    pub fn threads_alone(&self) -> u32 {
        self.opened.threads_alone
    }

    /// What the workers make of a call. Before its text the model may think only if it `may_think`.
    async fn ask(
        &self,
        call: &Call,
        generation: Generation,
        may_think: bool,
    ) -> Result<Generated, PortError> {
        // Whenever no worker is at it.
        let _waiting = call.doing(Activity::Queue);
        let (reply, answer) = oneshot::channel();
        let job = Job {
            call: call.clone(),
            generation,
            may_think,
            reply,
        };
        if !self.queue.submit(job) {
            return Err(self.is_gone());
        }
        answer.await.map_err(|_| self.is_gone())?
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
        self.ask(call, generation, true).await
    }

    /// The prompt is processed and kept for whoever begins with it.
    async fn warm(&self, call: &Call, generation: Generation) -> Result<(), PortError> {
        let prompt_alone = Generation {
            tokens_max: 1,
            ..generation
        };
        self.ask(call, prompt_alone, false).await.map(drop)
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
fn own(options: &LocalModelOptions, shared: &Shared, tell: &Sender<Result<Opened, OpenError>>) {
    let (backend, model, adapter) = match load(options) {
        Ok(loaded) => loaded,
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let (parts, opened) = match prepare(options, backend, &model, adapter, shared) {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
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
                let _ = tell.send(Err(OpenError::Thread(error)));
                return;
            }
        }
        let _ = tell.send(Ok(opened));
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

/// What each worker is made of, and what showed.
fn prepare<'model>(
    options: &LocalModelOptions,
    backend: &LlamaBackend,
    model: &'model LlamaModel,
    adapter: Option<LlamaLoraAdapter>,
    shared: &Shared,
) -> Result<(Vec<Parts<'model>>, Opened), OpenError> {
    let template = Arc::new(supported_template(model, &options.model_path)?);
    let shares = Shares::of(options, cores());
    let tokens = options
        .context_tokens_per_sequence
        .clamp(1, model.n_ctx_train().max(1));
    let moves_kv = window(model).is_none_or(|window| window >= tokens);
    let shares = match moves_kv {
        true => shares,
        false => shares.without_moves(options.workers.get()),
    };
    let mut contexts = contexts(options, backend, model, adapter, shares, tokens)?;
    let first = contexts.first_mut();
    // A model that cannot compute this much says so at the first call.
    let tried = first.map_or(Ok(false), |first| {
        if !first.try_alike(model) {
            let model = &*shared.name;
            tracing::warn!(
                model,
                "a text that is alone has no more threads than any other: the bits would not be the same"
            );
        }
        first.own().is_batch_invariant(model)
    });
    let is_batch_invariant = tried.unwrap_or(false);
    let shares = match contexts.first().is_some_and(|first| first.can_widen()) {
        true => shares,
        // There is no second context, or none that is of use.
        false => Shares {
            threads_alone: shares.threads,
            ..shares
        },
    };
    log_opened(
        &shared.name,
        model,
        options,
        shares,
        tokens,
        is_batch_invariant,
    );
    let kept = Arc::new(Kept::new(shares.kept_prompts as usize * tokens as usize));
    let warnings = Arc::default();
    let parts = |(worker, compute)| Parts {
        name: Arc::clone(&shared.name),
        worker,
        model,
        compute,
        template: Arc::clone(&template),
        context_tokens: tokens as usize,
        sequences: shares.sequences as usize,
        slots: shares.slots as usize,
        moves_kv,
        drafts: options.drafts.unwrap_or(is_batch_invariant),
        is_batch_invariant,
        queue: Arc::clone(&shared.queue),
        kept: Arc::clone(&kept),
        tools: options.tools.clone(),
        counters: Arc::clone(&shared.counters),
        warnings: Arc::clone(&warnings),
    };
    let opened = Opened {
        is_batch_invariant,
        threads_alone: shares.threads_alone,
    };
    Ok((
        contexts.into_iter().enumerate().map(parts).collect(),
        opened,
    ))
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
