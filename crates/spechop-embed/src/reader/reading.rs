//! The work of a reader: passages of requests, each by itself.

use std::collections::HashMap;
use std::sync::Arc;

use spechop_ports::{Call, Lane};
use spechop_types::Activity;

use super::Room;
use super::model::Model;
use super::pairs::Pair;
use super::spans::Logits;
use super::work::{Read, Wanted, Work};
use crate::session::RunError;
use crate::waiting::{Job, JobId, Turn, Waiting};
use crate::worker::Backlog;

/// What a reader has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Requests read to their end.
    pub requests: u64,
    /// Passages read: each is a run of the model.
    pub passages: u64,
    /// Tokens of these.
    pub tokens: u64,
    /// Requests whose callers left before they were read to their end.
    pub cancelled: u64,
    /// Runs that failed.
    pub failed_runs: u64,
}

/// A request, waiting for the logits of its first passages.
pub(crate) type ReadJob = Job<Work, Vec<Logits>>;

/// A passage that is being read.
pub(crate) struct Passage {
    of: JobId,
    at: usize,
    pair: Pair,
    wanted: Arc<Wanted>,
    call: Call,
}

/// What waits for a reader, and what it has done.
///
/// Each passage has a run of its own. Passages are of unlike length, so of a run of five nearly half
/// would be padding. Int8 models scale the activations of a run together, so company would change
/// the logits, and with them, now and then, an answer. And between two passages the turn goes to
/// whoever is most urgent: a needed request waits for one passage of a guess's, not for all.
///
/// The further passages of a request may turn out to be of no use. So a needed request of which nothing is
/// being read goes before those of another one, and if the cores are crowded they are read one by one.
///
/// Of a guess's request one passage is read at a time, and further ones only on idle cores: so it has
/// room beside other needed work, and slows none.
#[derive(Default)]
pub(crate) struct Readings {
    /// What there is for the further passages of a request, now.
    room: Option<Room>,
    /// Of which passages are left to begin.
    waiting: Waiting<Work, Vec<Logits>>,
    /// All of whose passages have been begun.
    begun: HashMap<JobId, ReadJob>,
    counts: ReaderCounts,
}

impl Readings {
    pub(crate) fn within(room: Option<Room>) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    /// Whether a passage of the request may be read now.
    fn may_read(&self, turn: &Turn<'_, Work>) -> bool {
        if turn.work.reading() == 0 {
            return true;
        }
        let Some(room) = &self.room else {
            return true;
        };
        if turn.urgency.lane() == Lane::Authoritative {
            return !room.is_crowded();
        }
        let jobs = self.waiting.jobs().chain(self.begun.values());
        let guesses = jobs.filter(|job| job.call.lane() == Lane::Speculative);
        let beside = guesses.map(|job| job.work.reading().saturating_sub(1));
        beside.sum::<usize>() < room.passages()
    }

    pub(crate) fn push(&mut self, id: JobId, job: ReadJob, lane_max: usize) -> Result<(), ReadJob> {
        self.waiting.push(id, job, lane_max)
    }

    pub(crate) fn counts(&self) -> ReaderCounts {
        self.counts
    }

    /// Whose passage is read next.
    fn next(&self) -> Option<JobId> {
        let turns = self.waiting.by_urgency();
        let is_untouched = |turn: &&Turn<'_, Work>| {
            turn.urgency.lane() == Lane::Authoritative && turn.work.reading() == 0
        };
        let untouched = turns.iter().find(is_untouched);
        let next = untouched.or_else(|| turns.iter().find(|turn| self.may_read(turn)));
        next.map(|turn| turn.id)
    }

    /// Puts a request aside, all of whose passages have been begun that will be.
    fn put_aside(&mut self, id: JobId) {
        if let Some(job) = self.waiting.take(id) {
            self.begun.insert(id, job);
        }
    }

    fn leave(&mut self, id: JobId) -> Option<ReadJob> {
        self.begun.remove(&id).or_else(|| self.waiting.take(id))
    }
}

impl Backlog for Readings {
    const KIND: &'static str = "reader";

    type Model = Model;
    type Run = Passage;
    type Done = Read;

    fn next_run(&mut self) -> Option<Passage> {
        let of = self.next()?;
        let job = self.waiting.get_mut(of)?;
        let call = job.call.clone();
        let wanted = Arc::clone(job.work.wanted());
        let next = job.work.begin();
        if job.work.is_begun() {
            self.put_aside(of);
        }
        let (at, pair) = next?;
        Some(Passage {
            of,
            at,
            pair,
            wanted,
            call,
        })
    }

    fn is_held_back(&self) -> bool {
        // What waits here has passages that nobody has begun.
        !self.waiting.is_empty()
    }

    fn compute(model: &mut Model, passage: &Passage) -> Result<Read, RunError> {
        let _reading = passage.call.doing(Activity::Read);
        let logits = model.run(&passage.pair)?;
        Ok(passage.wanted.read(passage.at, logits))
    }

    fn finish(&mut self, passage: Passage, done: Result<Read, RunError>, what: &str) {
        match &done {
            Ok(_) => {
                self.counts.passages += 1;
                self.counts.tokens += passage.pair.ids.len() as u64;
            }
            Err(_) => self.counts.failed_runs += 1,
        }
        let of = passage.of;
        let job = match self.begun.get_mut(&of) {
            Some(job) => Some(job),
            None => self.waiting.get_mut(of),
        };
        // It was cancelled, or what came of it is known.
        let Some(job) = job else {
            return;
        };
        let Some(read) = job.work.end(passage.at, done) else {
            if job.work.is_begun() {
                self.put_aside(of);
            }
            return;
        };
        let Some(job) = self.leave(of) else {
            return;
        };
        self.counts.requests += u64::from(read.is_ok());
        // A closed reply is a call that is being cancelled.
        let _ = job.reply.send(read.map_err(|error| error.of(what)));
    }

    fn cancel(&mut self, id: JobId) -> bool {
        let was_there = self.leave(id).is_some();
        self.counts.cancelled += u64::from(was_there);
        was_there
    }

    fn clear(&mut self) {
        self.waiting = Waiting::default();
        self.begun.clear();
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests;
