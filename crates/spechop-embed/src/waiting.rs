//! Calls that wait for a turn. Pure: no threads, no clock.

use std::cmp::Reverse;
use std::collections::VecDeque;

use spechop_ports::{Call, PortError, Urgency};
use tokio::sync::oneshot;

/// Where the result of a job goes.
pub(crate) type Reply<A> = oneshot::Sender<Result<A, PortError>>;

/// Names a job while it waits; larger ones came later.
pub(crate) type JobId = u64;

/// Work `W` that waits for its turn, and who waits for its result `A`.
pub(crate) struct Job<W, A> {
    pub(crate) call: Call,
    pub(crate) work: W,
    pub(crate) reply: Reply<A>,
}

/// One that waits, as the next turn is given.
pub(crate) struct Turn<'a, W> {
    pub(crate) urgency: Urgency,
    pub(crate) id: JobId,
    pub(crate) work: &'a W,
}

/// Jobs in order of arrival. They leave by urgency, which is asked anew for each turn.
pub(crate) struct Waiting<W, A>(VecDeque<(JobId, Job<W, A>)>);

impl<W, A> Default for Waiting<W, A> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<W, A> Waiting<W, A> {
    /// Adds a job, or gives it back where `lane_max` of its lane wait already. Lanes do not share
    /// room: guesses never keep a needed call out.
    pub(crate) fn push(
        &mut self,
        id: JobId,
        job: Job<W, A>,
        lane_max: usize,
    ) -> Result<(), Job<W, A>> {
        let lane = job.call.lane();
        let waiting = self.0.iter().filter(|(_, job)| job.call.lane() == lane);
        if waiting.count() >= lane_max {
            return Err(job);
        }
        self.0.push_back((id, job));
        Ok(())
    }

    /// Everyone.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job<W, A>> {
        self.0.iter().map(|(_, job)| job)
    }

    /// A job, if it still waits.
    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut Job<W, A>> {
        let (_, job) = self.0.iter_mut().find(|(held, _)| *held == id)?;
        Some(job)
    }

    /// Takes a job out, wherever it stands; one that is not there any more is no mistake.
    pub(crate) fn take(&mut self, id: JobId) -> Option<Job<W, A>> {
        let at = self.0.iter().position(|(held, _)| *held == id)?;
        self.0.remove(at).map(|(_, job)| job)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everyone, most urgent first.
    pub(crate) fn by_urgency(&self) -> Vec<Turn<'_, W>> {
        // Lanes change at any moment; each is looked at once, so that the order is one.
        let mut turns: Vec<_> = self
            .0
            .iter()
            .map(|(id, job)| Turn {
                urgency: job.call.urgency(*id),
                id: *id,
                work: &job.work,
            })
            .collect();
        turns.sort_unstable_by_key(|turn| Reverse(turn.urgency));
        turns
    }
}
