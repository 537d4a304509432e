//! A question finds a place, or waits in line for one.
//!
//! The wait is part of the time that the question has: its deadline runs meanwhile, and its budget of time
//! pays for it. It is no part of what the question costs, since nothing is done for it.

use std::time::Duration;

use spechop_agent::{AgentError, Settings};
use tokio::time::{Instant, sleep_until};

use super::Admission;
use crate::metrics::Questions;
use crate::outcome::WaitEnd;
use crate::places::{Arrival, InVain, Place, Waiting};
use crate::status::AskError;

impl Admission {
    /// A place for a question with these settings.
    pub(super) async fn place(&self, settings: &mut Settings) -> Result<Place, AskError> {
        match self.state.places.arrive(&settings.tenant) {
            Arrival::Placed(place) => Ok(place),
            Arrival::Waits(waiting) => self.wait(waiting, settings).await,
            Arrival::Refused(why, wait) => {
                if wait != InVain::NoLine {
                    let questions = &self.state.metrics.questions;
                    questions.waited(WaitEnd::LineFull, Duration::ZERO);
                }
                Err(why.told(&settings.tenant, wait))
            }
        }
    }

    async fn wait(&self, mut waiting: Waiting, settings: &mut Settings) -> Result<Place, AskError> {
        let mut wait = Wait::begins(&self.state.metrics.questions);
        let longest = self.state.config().server.queue;
        // A question that has used its time up in line would have no answer worth the place.
        let its_time = settings.budget.time.filter(|time| *time < longest);
        let until = wait.began + its_time.unwrap_or(longest);
        let deadline = settings.deadline.filter(|deadline| *deadline <= until);
        tokio::select! {
            biased;
            () = self.state.phases.closing.cancelled() => {
                wait.end = WaitEnd::ShuttingDown;
                Err(AskError::ShuttingDown)
            }
            place = waiting.place() => match place {
                Some(place) => {
                    wait.end = WaitEnd::Placed;
                    let waited = wait.began.elapsed();
                    let time = &mut settings.budget.time;
                    *time = time.map(|time| time.saturating_sub(waited));
                    tracing::debug!(waited_ms = waited.as_millis(), "a question has waited for its place");
                    Ok(place)
                }
                None => {
                    wait.end = WaitEnd::PushedOut;
                    let pushed_out = InVain::PushedOut(wait.began.elapsed());
                    Err(waiting.why().told(&settings.tenant, pushed_out))
                }
            },
            () = sleep_until(deadline.unwrap_or(until)) => match deadline {
                Some(_) => {
                    wait.end = WaitEnd::Deadline;
                    Err(AskError::Agent(AgentError::Deadline { committed: 0 }))
                }
                None => {
                    wait.end = WaitEnd::TimedOut;
                    let waited = wait.began.elapsed();
                    let in_vain = match its_time {
                        Some(_) => InVain::OutOfTime(waited),
                        None => InVain::TooLong(waited),
                    };
                    Err(waiting.why().told(&settings.tenant, in_vain))
                }
            },
        }
    }
}

/// Counts a wait when it is over. If nobody says how it ended, the question was dropped: its client has gone
/// away.
struct Wait<'a> {
    questions: &'a Questions,
    began: Instant,
    end: WaitEnd,
}

impl<'a> Wait<'a> {
    fn begins(questions: &'a Questions) -> Self {
        Self {
            questions,
            began: Instant::now(),
            end: WaitEnd::GaveUp,
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.questions.waited(self.end, self.began.elapsed());
    }
}

#[cfg(test)]
mod tests;
