//! The questions that are open, and those that ended a short while ago, by their names.
//!
//! A question ends early if somebody cancels it, and if nobody follows it any more. What has happened to it
//! is in its [`Log`]. When it is over, the log is kept for a time, so that a client whose connection broke
//! can still fetch the end. Time, number and bytes of what is kept are bounded; the oldest leaves first. For
//! bytes it is the oldest that nobody reads, and then the oldest that is read by those alone who came after its
//! end. Whoever reads holds the bytes of its question, forgotten or not, until it is cut off.

mod log;

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap, RandomState};
use std::convert::Infallible;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use spechop_agent::Finish;
use spechop_config::SpeculatorKind;
use spechop_sim::{Past, Rules};
use spechop_types::{Owned, Tenant};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use self::log::Bounds;
pub(crate) use self::log::{Forsaken, Found, Log, OffTheLog, READERS_MAX};
use crate::status::AskError;

/// A client's name for a question, and whose client.
pub(crate) type QuestionId = Owned<Tenant>;

/// Events of one question that are kept.
const EVENTS_MAX: usize = 4096;
/// Questions that are over and kept.
const KEPT_MAX: usize = 4096;
/// A question may have this part of the bytes of all: one of so many.
const SHARE: usize = 8;
/// If there is no room, this part of the bytes of all is freed: one of so many.
const AHEAD: usize = 16;
/// How often it is looked at which have been kept for long enough.
const SWEEP: Duration = Duration::from_secs(1);

/// A question that has begun.
pub(crate) struct Question {
    pub(crate) id: QuestionId,
    pub(crate) finish: Finish,
    /// Ends it without an answer.
    pub(crate) cancel: CancellationToken,
    pub(crate) log: Log,
    /// What the simulator needs to play it again. Written with its answer.
    pub(crate) replay: OnceLock<Replay>,
}

/// How a question went, and by which rules.
pub(crate) struct Replay {
    pub(crate) past: Past,
    pub(crate) rules: Rules,
    pub(crate) speculator: SpeculatorKind,
}

/// All of them.
pub(crate) struct Questions {
    /// How long a question is kept that is over.
    kept_for: Duration,
    bounds: Bounds,
    registry: Mutex<Registry>,
    /// What makes the names that the server gives hard to guess.
    random: [RandomState; 2],
    named: AtomicU64,
    /// Owns the tasks that answer. Each ends by itself when nobody follows its question.
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Registry {
    known: HashMap<QuestionId, Arc<Question>>,
    /// Those that are over, the oldest first, and since when.
    over: VecDeque<(Instant, Arc<Question>)>,
    /// Those that are forgotten and still read, the oldest first.
    read: Vec<Weak<Question>>,
}

/// An open question. Dropping it forgets the question, [`Opened::keep`] keeps it for a while.
pub(crate) struct Opened {
    questions: Arc<Questions>,
    pub(crate) question: Arc<Question>,
    is_kept: bool,
}

impl Questions {
    /// Keeps questions for so long, and so many bytes of all.
    pub(crate) fn new(kept_for: Duration, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            kept_for,
            bounds: Bounds {
                events_max: EVENTS_MAX,
                bytes_max: bytes_max / SHARE,
                total_max: bytes_max,
                total: Arc::new(AtomicUsize::new(0)),
            },
            registry: Mutex::default(),
            random: [RandomState::new(), RandomState::new()],
            named: AtomicU64::new(0),
            tasks: Mutex::default(),
        })
    }

    /// A name for a question of a client that has given it none.
    pub(crate) fn make_name(&self, tenant: &Tenant) -> Result<QuestionId, AskError> {
        let number = self.named.fetch_add(1, Ordering::Relaxed);
        let [high, low] = self.random.each_ref().map(|random| random.hash_one(number));
        let name = Tenant::new(&format!("q-{high:016x}{low:016x}"));
        Ok(Owned::new(tenant, name.map_err(|_| AskError::Lost)?))
    }

    /// Whether a question can be opened by this name now: no other open one may have it.
    pub(crate) fn is_free(&self, id: &QuestionId) -> Result<(), AskError> {
        match self.registry.lock().known.get(id) {
            Some(other) if !other.log.is_over() => Err(taken()),
            _ => Ok(()),
        }
    }

    /// Opens a question, if the name is free. One of this name that is over is forgotten.
    pub(crate) fn open(self: &Arc<Self>, id: QuestionId) -> Result<Opened, AskError> {
        let question = Arc::new(Question {
            id: id.clone(),
            finish: Finish::default(),
            cancel: CancellationToken::new(),
            log: Log::new(self.bounds.clone()),
            replay: OnceLock::new(),
        });
        match self.registry.lock().known.entry(id) {
            Entry::Occupied(other) if !other.get().log.is_over() => return Err(taken()),
            Entry::Occupied(mut over) => {
                over.insert(Arc::clone(&question));
            }
            Entry::Vacant(free) => {
                free.insert(Arc::clone(&question));
            }
        }
        Ok(Opened {
            questions: Arc::clone(self),
            question,
            is_kept: false,
        })
    }

    /// The question of this name, open or over.
    pub(crate) fn find(&self, id: &QuestionId) -> Result<Arc<Question>, AskError> {
        let mut registry = self.registry.lock();
        registry.forget_old(self.kept_for);
        let found = registry.known.get(id).cloned();
        found.ok_or_else(|| AskError::NotOpen(id.item.clone()))
    }

    /// An event of so many bytes is about to come. If there is no room for it, what is kept of questions that are
    /// over leaves first: who follows an open one may have to hear its past again.
    pub(crate) fn make_room(&self, bytes: usize) {
        let over = self.over_by(bytes);
        if over > 0 {
            // Somewhat more, since others may be about to tell something, too.
            let more = self.bounds.total_max / AHEAD;
            self.registry.lock().free(over.saturating_add(more));
        }
    }

    /// By how many bytes all events would be too many with so many more.
    fn over_by(&self, more: usize) -> usize {
        let total = self.bounds.total.load(Ordering::Relaxed);
        total
            .saturating_add(more)
            .saturating_sub(self.bounds.total_max)
    }

    /// Begins to answer. The task ends with its question, and that when nobody follows it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Forgets what was kept for long enough, and cuts off those who read nothing of it, for as long as it is
    /// polled. Each of them is told to `cut_off`.
    pub(crate) async fn sweep(&self, cut_off: impl Fn()) -> Infallible {
        let mut ticks = interval(SWEEP);
        loop {
            ticks.tick().await;
            let late = self.registry.lock().sweep(self.kept_for);
            (0..late).for_each(|_| cut_off());
        }
    }

    /// Questions that are known, and the bytes of their events.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let known = self.registry.lock().known.len();
        (known, self.bounds.total.load(Ordering::Relaxed))
    }
}

fn taken() -> AskError {
    let problem = "is the name of another question that is still open";
    AskError::wrong("question_id", problem)
}

impl Opened {
    /// The question is over: it is kept for a while.
    pub(crate) fn keep(mut self) {
        let questions = Arc::clone(&self.questions);
        if questions.kept_for.is_zero() {
            return;
        }
        self.is_kept = true;
        let mut registry = questions.registry.lock();
        let now = Instant::now();
        registry.over.push_back((now, Arc::clone(&self.question)));
        while registry.over.len() > KEPT_MAX {
            registry.forget_oldest();
        }
        registry.free(questions.over_by(0));
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.is_kept {
            // Whoever follows it hears of its end, if it came to none by itself.
            let end = match std::thread::panicking() {
                true => AskError::Lost,
                false => AskError::Cancelled,
            };
            self.question.log.failed(Arc::new(end));
            self.questions.registry.lock().forget(&self.question);
        }
    }
}

impl Registry {
    /// How many readers were cut off.
    fn sweep(&mut self, kept_for: Duration) -> usize {
        self.forget_old(kept_for);
        let over = self.over.iter();
        let mut late: usize = over.map(|(_, over)| over.log.cut_late_guests()).sum();
        self.read.retain(|question| {
            question.upgrade().is_some_and(|question| {
                late += question.log.cut_late_guests();
                question.log.clear().is_none()
            })
        });
        late
    }

    fn forget_old(&mut self, kept_for: Duration) {
        let now = Instant::now();
        while self
            .over
            .front()
            .is_some_and(|(since, _)| *since + kept_for <= now)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, question)) = self.over.pop_front() {
            self.forget(&question);
        }
    }

    /// Forgets the oldest until so many bytes are free: those that nobody reads, and if that is not enough,
    /// those that guests alone read.
    fn free(&mut self, bytes: usize) {
        let lacking = self.free_by(Log::clear, bytes);
        self.free_by(Log::clear_of_guests, lacking);
    }

    /// Forgets the oldest questions whose log `clear` empties, until so many bytes are free. Returns how many are
    /// still lacking.
    fn free_by(&mut self, clear: fn(&Log) -> Option<usize>, mut bytes: usize) -> usize {
        self.read.retain(|question| {
            let Some(question) = question.upgrade().filter(|_| bytes > 0) else {
                return question.strong_count() > 0;
            };
            let freed = clear(&question.log);
            bytes = bytes.saturating_sub(freed.unwrap_or(0));
            freed.is_none()
        });
        let mut at = 0;
        while bytes > 0
            && let Some((_, question)) = self.over.get(at)
        {
            let Some(freed) = clear(&question.log).filter(|freed| *freed > 0) else {
                at += 1;
                continue;
            };
            bytes = bytes.saturating_sub(freed);
            if let Some((_, question)) = self.over.remove(at) {
                self.forget(&question);
            }
        }
        bytes
    }

    /// Frees the name, unless another question has it by now. What somebody reads of it stays until it is read.
    fn forget(&mut self, question: &Arc<Question>) {
        if let Entry::Occupied(entry) = self.known.entry(question.id.clone())
            && Arc::ptr_eq(entry.get(), question)
        {
            entry.remove();
        }
        if question.log.clear().is_none() {
            self.read.push(Arc::downgrade(question));
        }
    }
}

#[cfg(test)]
mod tests;
