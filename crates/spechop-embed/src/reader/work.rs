//! One request of a reader: its passages, and when they are enough. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use super::PlattScaling;
use super::boundary::Asked;
use super::pairs::{Pair, Shown};
use super::spans::{self, Logits};
use crate::session::RunError;

/// What the passages of a request are read for.
pub(crate) struct Wanted {
    pub(crate) asked: Asked,
    /// The passages, best first, and behind them the further parts of long ones.
    pub(crate) shown: Vec<Shown>,
    pub(crate) answer_tokens_max: usize,
    pub(crate) calibration: PlattScaling,
    /// A reading of this confidence ends the request.
    pub(crate) enough: Option<f64>,
}

impl Wanted {
    /// What these logits say of the passage `at`.
    pub(crate) fn read(&self, at: usize, logits: Logits) -> Read {
        let is_enough = self.is_enough(at, &logits);
        Read { logits, is_enough }
    }

    /// Whether a reading of these logits ends the request.
    pub(crate) fn is_enough(&self, at: usize, logits: &Logits) -> bool {
        self.enough.is_some_and(|enough| {
            let (shown, most) = (&self.shown[at], self.answer_tokens_max);
            spans::best_score(shown, logits, &self.asked, most)
                .is_some_and(|score| self.calibration.confidence(score) >= enough)
        })
    }
}

/// What was read of a passage.
pub(crate) struct Read {
    pub(crate) logits: Logits,
    /// Whether it ends the request.
    pub(crate) is_enough: bool,
}

/// A request, passage by passage.
///
/// The passages are read in their order, and a reading that is sure enough ends it: the answer is the
/// best of the passages up to that one. Threads that have no other needed work read on meanwhile, so what
/// they read may be of no use; the answer does not hang on how many they are.
pub(crate) struct Work {
    wanted: Arc<Wanted>,
    /// Those that nobody has begun to read, and their places in the request.
    left: VecDeque<(usize, Pair)>,
    /// Those that are being read.
    reading: usize,
    /// What came of those that were read, in the places of the request.
    read: Vec<Option<Result<Read, RunError>>>,
}

impl Work {
    /// Of pairs, at least one, in the order of `wanted.shown`.
    pub(crate) fn new(pairs: Vec<Pair>, wanted: Arc<Wanted>) -> Self {
        Self {
            wanted,
            read: pairs.iter().map(|_| None).collect(),
            left: pairs.into_iter().enumerate().collect(),
            reading: 0,
        }
    }

    pub(crate) fn wanted(&self) -> &Arc<Wanted> {
        &self.wanted
    }

    /// How many passages are being read.
    pub(crate) fn reading(&self) -> usize {
        self.reading
    }

    /// Whether no passage will be begun any more.
    pub(crate) fn is_begun(&self) -> bool {
        self.left.is_empty()
    }

    /// The next passage to read, and its place.
    pub(crate) fn begin(&mut self) -> Option<(usize, Pair)> {
        let next = self.left.pop_front()?;
        self.reading += 1;
        Some(next)
    }

    /// What came of the passage `at`; none behind it is begun any more if that ends the request. What came of
    /// the request, once that is known: the logits of its first passages, up to the one that is enough. A
    /// failed run counts if its passage does.
    pub(crate) fn end(
        &mut self,
        at: usize,
        done: Result<Read, RunError>,
    ) -> Option<Result<Vec<Logits>, RunError>> {
        self.reading -= 1;
        let ends =
            |done: &Result<Read, RunError>| done.as_ref().map_or(true, |read| read.is_enough);
        if ends(&done) {
            self.left.clear();
        }
        self.read[at] = Some(done);
        let mut last = 0;
        for (at, read) in self.read.iter().enumerate() {
            last = at;
            if ends(read.as_ref()?) {
                break;
            }
        }
        let counts = self.read.drain(..=last).flatten();
        Some(counts.map(|read| read.map(|read| read.logits)).collect())
    }
}
