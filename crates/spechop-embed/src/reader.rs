//! The reader as the rest of the program sees it.

mod boundary;
mod model;
mod pairs;
mod reading;
mod recipe;
mod spans;
mod work;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use spechop_ports::{
    Call, Guess, PortError, Ranked, ReadRequest, Reader, Reading, Vitals, physical_cores,
};
use spechop_types::{Activity, Chance, Tokens};
use tokio::sync::oneshot;

use self::boundary::Asked;
use self::model::Model;
use self::pairs::PairCutter;
pub use self::reading::ReaderCounts;
use self::reading::Readings;
pub use self::recipe::{PlattScaling, READER_RECIPE_FILE, ReaderRecipe};
use self::work::{Wanted, Work};
use crate::OpenError;
use crate::text::off_the_runtime;
use crate::waiting::Job;
use crate::worker::Workers;

/// How a reader uses the machine, and how much of it a request may cost.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// The ONNX Runtime library, 1.24 or later. A process runs on one: the first that is opened.
    pub runtime_library: PathBuf,
    /// Threads that compute. Up to four of them read a passage each, on a copy of the model of their
    /// own; beyond that, several compute each passage together.
    pub threads: NonZeroUsize,
    /// What there is beside one of these for the further passages of a request; without it, all of them read.
    pub room: Option<Room>,
    /// Most passages read for one request, best first; the others are not looked at. Of long ones, eight
    /// further parts are read in all if nothing before is sure enough.
    pub passages_max: NonZeroUsize,
    /// Most requests of each lane in the queue; further callers wait outside.
    pub queue_max: NonZeroUsize,
    /// Hears of it if a thread of the model ends for good.
    pub vitals: Vitals,
}

impl ReaderOptions {
    /// All cores work on one request, so that an answer is there soonest.
    pub fn new(runtime_library: impl Into<PathBuf>) -> Self {
        Self {
            runtime_library: runtime_library.into(),
            threads: physical_cores(),
            room: None,
            passages_max: PASSAGES_MAX,
            queue_max: QUEUE_MAX,
            vitals: Vitals::default(),
        }
    }
}

/// Four times what the paper's agent reads.
const PASSAGES_MAX: NonZeroUsize = NonZeroUsize::new(20).unwrap();

/// Passages that are read side by side. A thread that computes alone waits for no other, and a request
/// has about five passages; but each copy of the shipped model is 34 MB.
const SESSIONS_MAX: usize = 4;

/// How a reader uses so many threads: the passages that are read side by side, and the threads that compute
/// each of them together. Few threads can be left over.
pub fn reader_threads(threads: usize) -> (usize, usize) {
    let threads = threads.max(1);
    let most = threads.min(SESSIONS_MAX);
    let many = (most, threads / most);
    let together = threads.div_ceil(SESSIONS_MAX);
    let few = (threads / together, together);
    let used = |(sessions, together): (usize, usize)| sessions * together;
    if used(few) > used(many) { few } else { many }
}

/// What the cores are doing, as somebody knows who is asked before each further passage of a request.
#[derive(Clone)]
pub struct Room {
    now: Arc<dyn Fn() -> Space + Send + Sync>,
    /// Threads that compute a passage together.
    each: usize,
}

/// What the cores are doing now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Whole cores that nobody takes: a guess may be read on these.
    pub idle: usize,
    /// Needed calls, readings among them, take more than there is: a needed request is read by one thread
    /// then, since what is read ahead of need would be in the way of somebody.
    pub is_crowded: bool,
}

impl Room {
    /// Of whoever tells what the cores are doing.
    pub fn new(now: impl Fn() -> Space + Send + Sync + 'static) -> Self {
        Self {
            now: Arc::new(now),
            each: 1,
        }
    }

    fn each_of(self, threads: usize) -> Self {
        Self {
            each: threads.max(1),
            ..self
        }
    }

    /// Passages of guesses for which there is a core.
    fn passages(&self) -> usize {
        (self.now)().idle / self.each
    }

    fn is_crowded(&self) -> bool {
        (self.now)().is_crowded
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room")
            .field("each", &self.each)
            .finish_non_exhaustive()
    }
}

/// Parts of long passages that are read behind the beginnings of all of them, if none was sure enough: some two
/// thousand tokens of one passage, or a second part of each of eight.
const FURTHER_MAX: usize = 8;

/// Some ten seconds of work on two cores.
const QUEUE_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// An extractive reader on ONNX Runtime: [`Reader`] over a model folder.
///
/// It points at the words of a passage that answer a sub-question, or says yes, no, or nothing.
/// It is no language model: it reads in one pass, writes nothing, and spends no tokens of a
/// question's budget.
///
/// Blocks nobody: share it by [`Arc`]. Dropping it stops its threads, after runs that may have
/// begun.
pub struct SpanReader {
    recipe: ReaderRecipe,
    texts: Arc<PairCutter>,
    passages_max: usize,
    queue_max: usize,
    workers: Workers<Readings>,
}

/// What a [`SpanReader`] made of some passages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// Best first. No two say the same; sure or not, none is left out.
    pub ranked: Vec<ScoredAnswer>,
    /// Whether the first of them is sure enough to be the answer.
    pub found: bool,
}

/// An answer, and how sure the reader is of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredAnswer {
    /// The passage's own words, or `yes` or `no`; never empty.
    pub answer: Arc<str>,
    /// Probability that it is right, as calibrated on the best answer of a request.
    pub confidence: f64,
    /// Index of the passage, among those of the request, that says so.
    pub passage: usize,
}

impl Scored {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&ScoredAnswer> {
        self.ranked.first().filter(|_| self.found)
    }
}

impl SpanReader {
    /// Opens the model folder `dir` and tries the model out on short and long pairs. Takes about
    /// a second and blocks: call it before serving, or on a blocking thread.
    ///
    /// # Errors
    ///
    /// Whatever is missing, damaged, or does not fit together: see [`OpenError`].
    pub fn open(dir: &Path, options: &ReaderOptions) -> Result<Self, OpenError> {
        let recipe = ReaderRecipe::read(dir)?;
        let model_path = dir.join(&recipe.model);
        let tokenizer_path = dir.join(&recipe.tokenizer);
        let texts = PairCutter::open(&tokenizer_path, &recipe)?;
        // What ONNX Runtime says of a missing file does not name it.
        std::fs::File::open(&model_path).map_err(|source| OpenError::Read {
            path: model_path.clone(),
            source,
        })?;
        let (sessions, threads) = reader_threads(options.threads.get());
        let mut models = Vec::with_capacity(sessions);
        for _ in 0..sessions {
            models.push(Model::open(&options.runtime_library, &model_path, threads)?);
        }
        if let Some(model) = models.first_mut() {
            let largest = texts.largest_token();
            model.try_out(&model_path, &tokenizer_path, largest, &recipe)?;
        }
        let room = options.room.clone();
        let readings = Readings::within(room.map(|room| room.each_of(threads)));
        let workers = Workers::spawn(models, &recipe.name, readings, &options.vitals)?;
        tracing::debug!(name = recipe.name, threads, sessions, "reader opened");
        Ok(Self {
            recipe,
            texts: Arc::new(texts),
            passages_max: options.passages_max.get(),
            queue_max: options.queue_max.get(),
            workers,
        })
    }

    /// How the model is asked, and what its scores are worth.
    pub fn recipe(&self) -> &ReaderRecipe {
        &self.recipe
    }

    /// What has been done so far.
    pub fn counts(&self) -> ReaderCounts {
        self.workers.look(Readings::counts)
    }

    /// Number of requests in the queue.
    pub fn waiting(&self) -> usize {
        self.workers.waiting()
    }

    /// Reads passages until one is sure enough ([`ReaderRecipe::enough`]), and ranks at most `limit`
    /// answers of them. Further ones cost nothing worth counting, so a speculator gets several guesses
    /// for the price of one.
    ///
    /// # Errors
    ///
    /// [`PortError::Refused`] where the sub-question alone is as long as the model can read;
    /// [`PortError::Unavailable`] where the model fails.
    pub async fn read_scored(
        &self,
        call: &Call,
        request: ReadRequest,
        limit: NonZeroUsize,
    ) -> Result<Scored, PortError> {
        if request.passages.is_empty() {
            return Ok(Scored::default());
        }
        let _waiting = call.doing(Activity::Queue);
        let asked = Asked::new(request.sub_question.as_str());
        let beginnings = request.passages.len().min(self.passages_max);
        // Without a confidence that ends the request, none of them would count.
        let further = self.recipe.enough.map_or(0, |_| FURTHER_MAX);
        let cut = move |texts: &PairCutter, _: &Weak<()>| {
            let question = request.sub_question.as_str();
            texts.pairs(question, &request.passages[..beginnings], further)
        };
        let cutting = call.doing(Activity::Read);
        let parts = off_the_runtime(&self.texts, self.workers.what(), cut).await?;
        drop(cutting);
        let passages: Vec<usize> = parts.iter().map(|part| part.passage).collect();
        let parts = parts.into_iter().map(|part| (part.pair, part.shown));
        let (pairs, shown): (Vec<_>, Vec<_>) = parts.unzip();
        let wanted = Arc::new(Wanted {
            asked,
            shown,
            answer_tokens_max: self.recipe.answer_tokens_max,
            calibration: self.recipe.calibration,
            enough: self.recipe.enough,
        });
        let (reply, answer) = oneshot::channel();
        let job = Job {
            call: call.clone(),
            work: Work::new(pairs, Arc::clone(&wanted)),
            reply,
        };
        let push = |readings: &mut Readings, id, job| readings.push(id, job, self.queue_max);
        let _ticket = self.workers.enter(job, push).await?;
        let logits = answer.await.unwrap_or_else(|_| Err(self.workers.gone()))?;
        let _ranking = call.doing(Activity::Read);
        // What stands far behind in a passage is seldom what it is about: only a sure reading of it counts.
        let counts = |&at: &usize| at < beginnings || wanted.is_enough(at, &logits[at]);
        let counting: Vec<usize> = (0..logits.len()).filter(counts).collect();
        // Some tens of microseconds: a thread's turn would cost as much. A span that is passed over costs
        // another look at its passage: 1.2 for each passage of the validation hops, and 32 at most.
        let ranked = spans::rank(
            counting.iter().map(|&at| (&wanted.shown[at], &logits[at])),
            &wanted.asked,
            wanted.answer_tokens_max,
            limit.get(),
        );
        let of_passage = |found: spans::Found| spans::Found {
            passage: passages[counting[found.passage]],
            ..found
        };
        let ranked = ranked.into_iter().map(of_passage);
        let ranked: Vec<_> = ranked.map(|found| self.score(found)).collect();
        let best = ranked.first();
        Ok(Scored {
            found: best.is_some_and(|best| best.confidence >= self.recipe.threshold),
            ranked,
        })
    }

    fn score(&self, found: spans::Found) -> ScoredAnswer {
        ScoredAnswer {
            answer: found.answer.into(),
            confidence: self.recipe.calibration.confidence(found.score),
            passage: found.passage,
        }
    }
}

#[async_trait]
impl Reader for SpanReader {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let scored = self.read_scored(call, request, NonZeroUsize::MIN).await?;
        let best = scored.ranked.first();
        Ok(Reading {
            answer: scored.answer().map(|best| Arc::clone(&best.answer)),
            // It can always tell: where there is nothing to point at, nothing can be right. `None` would be
            // somebody who cannot tell, and would keep the answer from being withheld.
            confidence: Some(best.map_or(Chance::NONE, |best| Chance::of(best.confidence))),
            // A budget counts what language models read and write.
            tokens: Tokens::default(),
        })
    }

    /// An alternative must be as sure as an answer.
    async fn read_ranked(
        &self,
        call: &Call,
        request: ReadRequest,
        limit: NonZeroUsize,
    ) -> Result<Ranked, PortError> {
        let scored = self.read_scored(call, request, limit).await?;
        let sure = |answer: &ScoredAnswer| answer.confidence >= self.recipe.threshold;
        let answers = scored.ranked.into_iter().take_while(sure);
        Ok(Ranked {
            answers: answers
                .map(|answer| Guess {
                    text: answer.answer,
                    confidence: Some(Chance::of(answer.confidence)),
                    by: None,
                })
                .collect(),
            tokens: Tokens::default(),
        })
    }
}
