//! The encoder as the rest of the program sees it.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use spechop_ports::{Call, Encoded, Encoder, PortError, TextKind, Vitals, physical_cores};
use spechop_types::Activity;
use tokio::sync::oneshot;

use crate::encoding::{Counts, Encoding};
use crate::model::Model;
use crate::queue::PassageJob;
use crate::text::{TextCutter, off_the_runtime};
use crate::waiting::Job;
use crate::worker::Workers;
use crate::{OpenError, Recipe};

/// How an encoder uses the machine. Nothing here changes a vector.
#[derive(Clone, Debug)]
pub struct EncoderOptions {
    /// The ONNX Runtime library, 1.24 or later. A process runs on one: the first that is opened.
    pub runtime_library: PathBuf,
    /// Threads that compute one run together.
    pub threads: NonZeroUsize,
    /// Copies of the model side by side, each with a thread of its own and `threads` for its runs.
    pub sessions: NonZeroUsize,
    /// Most tokens in one run, padding included; a longer text runs alone. A query that arrives
    /// while passages are computed waits for one run at most, so this bounds its wait.
    pub run_tokens_max: NonZeroUsize,
    /// Most queries of each lane in the queue; further callers wait outside.
    pub queue_max: NonZeroUsize,
    /// SHA-256 of files of the folder, in hexadecimal, by name: of those that somebody has proven just
    /// now. The others are hashed, which takes seconds where the processor has no instructions for it.
    pub proven_sha256: BTreeMap<String, String>,
    /// Hears of it if a thread of the model ends for good.
    pub vitals: Vitals,
}

impl EncoderOptions {
    /// For answering: all cores work on one run, so that a query is back soonest.
    pub fn new(runtime_library: impl Into<PathBuf>) -> Self {
        Self {
            runtime_library: runtime_library.into(),
            threads: physical_cores(),
            sessions: NonZeroUsize::MIN,
            run_tokens_max: RUN_TOKENS_MAX,
            queue_max: QUEUE_MAX,
            proven_sha256: BTreeMap::new(),
            vitals: Vitals::default(),
        }
    }

    /// For building indexes: a copy of the model for each thread, and no thread waits for another
    /// in the middle of a run. Saves about 8 % of the processor time, costs the memory of the copies.
    #[must_use]
    pub fn side_by_side(self) -> Self {
        Self {
            threads: NonZeroUsize::MIN,
            sessions: self.threads.saturating_mul(self.sessions),
            ..self
        }
    }
}

/// Larger runs are no faster on a CPU, only longer: see `benches/passages.rs`.
const RUN_TOKENS_MAX: NonZeroUsize = NonZeroUsize::new(512).unwrap();

/// A few seconds of work on two cores.
const QUEUE_MAX: NonZeroUsize = NonZeroUsize::new(512).unwrap();

/// A text encoder on ONNX Runtime: [`Encoder`] over a model folder.
///
/// Clones nothing and blocks nobody: share it by [`Arc`]. Dropping it stops its threads, after
/// runs that may have begun.
pub struct OnnxEncoder {
    fingerprint: String,
    recipe: Recipe,
    texts: Arc<TextCutter>,
    queue_max: usize,
    workers: Workers<Encoding>,
}

impl OnnxEncoder {
    /// Opens the model folder `dir` and tries the model out on a short and a long text. Takes about
    /// a second and blocks: call it before serving, or on a blocking thread.
    ///
    /// # Errors
    ///
    /// Whatever is missing, damaged, or does not fit together: see [`OpenError`].
    pub fn open(dir: &Path, options: &EncoderOptions) -> Result<Self, OpenError> {
        let recipe = Recipe::read(dir)?;
        let model_path = dir.join(&recipe.model);
        let tokenizer_path = dir.join(&recipe.tokenizer);
        let texts = TextCutter::open(&tokenizer_path, &recipe)?;
        let digests = digests(dir, &recipe, &options.proven_sha256)?;
        let fingerprint = fingerprint(&recipe, &digests);
        let mut models = Vec::with_capacity(options.sessions.get());
        for _ in 0..options.sessions.get() {
            models.push(Model::open(
                &options.runtime_library,
                &model_path,
                &recipe,
                options.threads.get(),
            )?);
        }
        if let Some(model) = models.first_mut() {
            model.try_out(
                &model_path,
                &tokenizer_path,
                texts.largest_token(),
                recipe.query_tokens_max.max(recipe.passage_tokens_max),
            )?;
        }
        let workers = Workers::spawn(
            models,
            &recipe.name,
            Encoding::new(run_tokens_max(&recipe, options)),
            &options.vitals,
        )?;
        tracing::debug!(
            fingerprint,
            threads = options.threads,
            sessions = options.sessions,
            "encoder opened"
        );
        Ok(Self {
            fingerprint,
            recipe,
            texts: Arc::new(texts),
            queue_max: options.queue_max.get(),
            workers,
        })
    }

    /// How the model treats texts.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// What has been done so far.
    pub fn counts(&self) -> Counts {
        self.workers.look(Encoding::counts)
    }

    /// Number of jobs in the queue: queries that wait, and passage jobs until their last run.
    pub fn waiting(&self) -> usize {
        self.workers.waiting()
    }
}

#[async_trait]
impl Encoder for OnnxEncoder {
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn width(&self) -> usize {
        self.recipe.width
    }

    async fn encode_query(&self, call: &Call, text: &str) -> Result<Vec<f32>, PortError> {
        let _waiting = call.doing(Activity::Queue);
        let text = text.to_owned();
        let cut = move |texts: &TextCutter, _: &Weak<()>| texts.query(&text);
        let cutting = call.doing(Activity::Encode);
        let work = off_the_runtime(&self.texts, self.workers.what(), cut).await?;
        drop(cutting);
        let (reply, answer) = oneshot::channel();
        let call = call.clone();
        let job = Job { call, work, reply };
        let push = |waiting: &mut Encoding, id, job| waiting.push_query(id, job, self.queue_max);
        let _ticket = self.workers.enter(job, push).await?;
        answer.await.unwrap_or_else(|_| Err(self.workers.gone()))
    }

    /// `texts` are whole passages as the caller wants them read, such as title and text together;
    /// only the recipe's prefix is put before them. A few hundred at a time are best: they are
    /// sorted by length among themselves, and texts of like length run together.
    ///
    /// They wait as passages do, even if they are queries: the query of a question goes before them. Among
    /// passages they go by the urgency of the call.
    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let _encoding = call.doing(Activity::Encode);
        if texts.is_empty() {
            return Ok(Encoded {
                vectors: Vec::new(),
                tokens: Some(0),
            });
        }
        let cut = move |cutter: &TextCutter, wanted: &Weak<()>| cut(cutter, kind, &texts, wanted);
        let tokens = off_the_runtime(&self.texts, self.workers.what(), cut).await?;
        let count = tokens.iter().map(|tokens| tokens.len() as u64).sum();
        let (reply, answer) = oneshot::channel();
        let job = PassageJob::new(call.clone(), tokens, reply);
        let _ticket = self.workers.enter(job, Encoding::push_passages).await?;
        let vectors = answer.await.unwrap_or_else(|_| Err(self.workers.gone()))?;
        Ok(Encoded {
            vectors,
            tokens: Some(count),
        })
    }
}

/// No two texts fit in a run of one token, and a longer text runs alone.
fn run_tokens_max(recipe: &Recipe, options: &EncoderOptions) -> usize {
    if recipe.alone {
        return 1;
    }
    options.run_tokens_max.get()
}

fn cut(
    cutter: &TextCutter,
    kind: TextKind,
    texts: &[String],
    wanted: &Weak<()>,
) -> Result<Vec<Vec<u32>>, String> {
    let mut tokens = Vec::with_capacity(texts.len());
    for text in texts {
        if wanted.strong_count() == 0 {
            return Err("cancelled".to_owned());
        }
        tokens.push(match kind {
            TextKind::Query => cutter.query(text)?,
            TextKind::Passage => cutter.passage(text)?,
        });
    }
    Ok(tokens)
}

/// The model's name and 16 hexadecimal digits over everything that a vector depends on.
fn fingerprint(recipe: &Recipe, files: &[Digested]) -> String {
    let mut all = Sha256::new();
    for digest in files {
        all.update(digest);
    }
    let Recipe {
        query_prefix,
        passage_prefix,
        pooling,
        width,
        query_tokens_max,
        passage_tokens_max,
        alone,
        ..
    } = recipe;
    all.update(format!(
        "{query_prefix:?} {passage_prefix:?} {pooling} {width} {query_tokens_max} {passage_tokens_max}"
    ));
    // Only if it is set, so that indexes of older programs keep their encoder.
    if *alone {
        all.update(" alone");
    }
    let digest = all.finalize();
    let digits: String = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}-{digits}", recipe.name)
}

/// A file's SHA-256.
type Digested = [u8; 32];

/// The SHA-256s of the model, of its tokenizer, and of the files in which the model keeps weights
/// beside itself. The proven ones are not computed.
fn digests(
    dir: &Path,
    recipe: &Recipe,
    proven_sha256: &BTreeMap<String, String>,
) -> Result<Vec<Digested>, OpenError> {
    let mut names = vec![recipe.model.clone(), recipe.tokenizer.clone()];
    let beside = weights_beside(dir, &recipe.model).map_err(|source| OpenError::Read {
        path: dir.to_owned(),
        source,
    })?;
    names.extend(beside.into_iter().filter(|name| *name != recipe.tokenizer));
    let digest = |name: &String| {
        let proven = proven_sha256.get(name).and_then(|hex| bytes_of(hex));
        let path = dir.join(name);
        proven
            .map_or_else(|| hash(&path), Ok)
            .map_err(|source| OpenError::Read { path, source })
    };
    names.iter().map(digest).collect()
}

/// The files in `dir` that hold the weights of an ONNX file which are too large for it, sorted by name.
/// Exporters name them after it (`model.onnx_data`, `model.onnx.data`), so every file of such a name counts.
///
/// # Errors
///
/// The folder cannot be read.
pub fn weights_beside(dir: &Path, model: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // An ONNX file names others in UTF-8.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with(model) && name != model && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Reads 64 hexadecimal digits.
fn bytes_of(hex: &str) -> Option<Digested> {
    let mut bytes = Digested::default();
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(bytes)
}

/// The SHA-256 of a file, read piece by piece.
fn hash(path: &Path) -> std::io::Result<Digested> {
    let mut file = std::fs::File::open(path)?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut file, &mut Pieces(&mut hasher))?;
    Ok(hasher.finalize().into())
}

struct Pieces<'a>(&'a mut Sha256);

impl std::io::Write for Pieces<'_> {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        self.0.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::GOOD;

    #[test]
    fn by_default_there_is_one_thread_for_each_core() {
        assert_eq!(EncoderOptions::new("library").threads, physical_cores());
        let reader = crate::ReaderOptions::new("library");
        assert_eq!(reader.threads, physical_cores());
    }

    #[test]
    fn weights_beside_a_model_are_a_part_of_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("room");
        };
        write("encoder.toml", GOOD);
        write("model.onnx", "a graph");
        write("tokenizer.json", "words");
        let alone = fingerprint_of(dir.path());
        let files = ["model.onnx", "tokenizer.json"];
        let files = files.map(|name| hash(&dir.path().join(name)).expect("readable"));
        let recipe = Recipe::read(dir.path()).expect("a recipe");
        assert_eq!(alone, fingerprint(&recipe, &files), "as it was before");
        // Nothing of these is a file of weights.
        write("other.onnx_data", "of another model");
        std::fs::create_dir(dir.path().join("model.onnx.d")).expect("room");
        assert_eq!(fingerprint_of(dir.path()), alone);
        let mut seen = vec![alone];
        for (name, weights) in [
            ("model.onnx_data", "1"),
            ("model.onnx_data", "2"),
            ("model.onnx.data", "3"),
            ("model.onnx.data", "4"),
        ] {
            write(name, weights);
            let changed = fingerprint_of(dir.path());
            assert!(!seen.contains(&changed), "{name}: {weights}");
            seen.push(changed);
        }
    }

    fn fingerprint_of(dir: &Path) -> String {
        let recipe = Recipe::read(dir).expect("a recipe");
        let digests = digests(dir, &recipe, &BTreeMap::new()).expect("readable");
        fingerprint(&recipe, &digests)
    }

    #[test]
    fn a_proven_digest_is_the_one_that_would_be_computed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "abc").expect("room");
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let computed = hash(file.path()).expect("readable");
        assert_eq!(bytes_of(known), Some(computed));
        for wrong in [
            "",
            &known[1..],
            &format!("{known}00"),
            &known.replace('b', "g"),
        ] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }
}
