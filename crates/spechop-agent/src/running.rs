//! The stages of a question that are under way, the clocks of its orphans, and its time limits.
//!
//! A question has a handful of stages at once. Whenever the question is woken, they are polled in
//! the order of their launch, and one timer serves every limit. By the benchmark this is cheaper
//! than a set of tasks with a waker, a timer and an abort handle each. A stage is stopped by
//! dropping it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use spechop_ports::{Call, Guess, Lane, PortError, Progress};
use spechop_types::{Activities, LookupId, ProviderChange, Refusal};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::journal::{Begun, CallEnd};
use crate::ledger::{Open, Taken};
use crate::settings::Finish;
use crate::stages::{Early, Outcome, StageFuture, Work};

/// Everything that a question waits for. Dropping it drops every stage.
pub(crate) struct Running<'a> {
    /// In the order of their launch.
    stages: Vec<Launched<'a>>,
    /// How many of them have been polled since the question was last woken. Whoever else of them is
    /// ready by now has woken it again.
    polled: usize,
    /// Everything has been polled: the next to ask does so because it was woken.
    is_asleep: bool,
    /// Until when each is kept.
    orphans: Vec<(LookupId, Option<Instant>)>,
    deadline: Option<Instant>,
    budget_end: Option<Instant>,
    /// Ready when somebody wants the answer now.
    finish: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Rings at the earliest limit or before it: a limit that goes away leaves it alone.
    timer: Option<Pin<Box<Sleep>>>,
    now: Instant,
}

/// A stage under way.
struct Launched<'a> {
    work: Work,
    call: Call,
    at: Instant,
    limit: Duration,
    stage: StageFuture<'a>,
    /// Whether anything of it can have run.
    was_polled: bool,
    /// Guesses that it tells before its end.
    early: Option<Early>,
    /// What is to be noted of it at its end, if anything is.
    begun: Option<Begun>,
}

/// A stage that was dropped before its end.
pub(crate) struct Dropped {
    pub(crate) work: Work,
    /// By then.
    pub(crate) taken: Taken,
    pub(crate) changes: Vec<ProviderChange>,
    /// It waited for a turn to the end, and the answer did not need it: what it had none for.
    pub(crate) waited_in_vain: Option<Refusal>,
}

/// What a question has waited for.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and nearly always the large one"
)]
pub(crate) enum News {
    /// A stage has ended, or has passed its time limit.
    Finished {
        work: Work,
        outcome: Result<Outcome, PortError>,
        taken: Taken,
        changes: Vec<ProviderChange>,
    },
    /// A stage that still runs has guesses already.
    Early {
        work: Work,
        /// From launch to now.
        took: Duration,
        /// Never empty.
        guesses: Vec<Guess>,
    },
    /// An orphan's time is over.
    Expired(LookupId),
    /// The question's time budget is used up, or somebody wants the answer now. Said once each.
    BudgetEnd,
    /// The question's deadline has passed.
    Deadline,
    /// Nothing is running, so no news will ever come.
    Idle,
}

impl<'a> Running<'a> {
    /// Nothing yet. `budget` counts from now.
    pub(crate) fn new(
        deadline: Option<Instant>,
        budget: Option<Duration>,
        finish: Option<Finish>,
    ) -> Self {
        let now = Instant::now();
        Self {
            stages: Vec::new(),
            polled: 0,
            is_asleep: true,
            orphans: Vec::new(),
            deadline,
            budget_end: budget.and_then(|time| now.checked_add(time)),
            finish: finish.map(|finish| Box::pin(finish.asked()) as _),
            timer: None,
            now,
        }
    }

    /// The time of the latest news.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn launch(
        &mut self,
        work: Work,
        call: Call,
        limit: Duration,
        stage: StageFuture<'a>,
    ) {
        self.stages.push(Launched {
            work,
            call,
            at: self.now,
            limit,
            stage,
            was_polled: false,
            early: None,
            begun: None,
        });
    }

    /// Has a note taken of the end of a stage.
    pub(crate) fn note(&mut self, work: Work, begun: Begun) {
        if let Some(launched) = self.stages.iter_mut().find(|l| l.work == work) {
            launched.begun = Some(begun);
        }
    }

    /// Listens for guesses that a stage tells before its end.
    pub(crate) fn listen(&mut self, work: Work, early: Early) {
        if let Some(launched) = self.stages.iter_mut().find(|l| l.work == work) {
            launched.early = Some(early);
        }
    }

    /// Keeps an orphan for so long.
    pub(crate) fn keep(&mut self, orphan: LookupId, time: Duration) {
        self.orphans.push((orphan, self.now.checked_add(time)));
    }

    /// The orphan is gone, or none any more.
    pub(crate) fn release(&mut self, orphan: LookupId) {
        self.orphans.retain(|(kept, _)| *kept != orphan);
    }

    pub(crate) fn promote(&self, work: Work) {
        if let Some(launched) = self.stages.iter().find(|launched| launched.work == work) {
            launched.call.promote();
        }
    }

    /// Drops the stage, if it is under way.
    pub(crate) fn stop(&mut self, work: Work) -> Option<Dropped> {
        let at = self.stages.iter().position(|l| l.work == work)?;
        let now = self.now;
        Some(self.remove(at).stop(now))
    }

    /// Drops every stage.
    pub(crate) fn stop_all(&mut self) -> Vec<Dropped> {
        self.polled = 0;
        let now = self.now;
        let stages = self.stages.drain(..);
        stages.map(|launched| launched.stop(now)).collect()
    }

    /// The calls under way of at least that lane.
    pub(crate) fn open(&self, lane: Lane) -> Open {
        let mut open = Open::default();
        for launched in self.stages.iter().filter(|l| l.call.lane() >= lane) {
            open.add(launched.work.stage());
        }
        open
    }

    /// The calls of which nothing has run: speculative ones that wait for their first turn, and any that was
    /// launched since the stages were last polled.
    pub(crate) fn in_line(&self) -> impl Iterator<Item = Work> {
        let stages = self.stages.iter();
        let waiting = stages.filter(|l| !l.was_polled || waits_for_first_turn(&l.call));
        waiting.map(|launched| launched.work)
    }

    /// Whether the stage is under way, and nothing of it has had a turn.
    pub(crate) fn is_queued(&self, work: Work) -> bool {
        let mut stages = self.stages.iter();
        stages.any(|l| l.work == work && l.call.progress() == Progress::Queued)
    }

    fn remove(&mut self, at: usize) -> Launched<'a> {
        if at < self.polled {
            self.polled -= 1;
        }
        self.stages.remove(at)
    }

    /// The next news. The question's own limits come first, what has ended before what is late.
    pub(crate) fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        if std::mem::take(&mut self.is_asleep) {
            self.polled = 0;
            self.now = Instant::now();
        }
        loop {
            if let Some(news) = self.ended() {
                return Poll::Ready(news);
            }
            if let Some(finish) = &mut self.finish
                && finish.as_mut().poll(cx).is_ready()
            {
                self.finish = None;
                return Poll::Ready(News::BudgetEnd);
            }
            while let Some(launched) = self.stages.get_mut(self.polled) {
                launched.was_polled = true;
                if let Poll::Ready(outcome) = launched.stage.as_mut().poll(cx) {
                    let launched = self.remove(self.polled);
                    // Before the clock is read: no call is longer busy than it takes.
                    let activities = launched.call.activities();
                    self.now = Instant::now();
                    return Poll::Ready(launched.finished(self.now, activities, outcome));
                }
                self.polled += 1;
                // It tells while it is polled, and at no other time.
                let guesses = launched.told();
                if !guesses.is_empty() {
                    let (work, at) = (launched.work, launched.at);
                    self.now = Instant::now();
                    let took = self.now - at;
                    return Poll::Ready(News::Early {
                        work,
                        took,
                        guesses,
                    });
                }
            }
            if self.stages.is_empty() && self.orphans.is_empty() {
                return Poll::Ready(News::Idle);
            }
            if let Some(news) = self.late() {
                return Poll::Ready(news);
            }
            if self.poll_timer(cx).is_pending() {
                self.is_asleep = true;
                return Poll::Pending;
            }
            self.now = Instant::now();
        }
    }

    /// A limit of the question itself that has passed.
    fn ended(&mut self) -> Option<News> {
        let now = self.now;
        let passed = |end: Option<Instant>| end.is_some_and(|end| end <= now);
        if passed(self.deadline) {
            return Some(News::Deadline);
        }
        if passed(self.budget_end) {
            self.budget_end = None;
            return Some(News::BudgetEnd);
        }
        None
    }

    /// A stage or an orphan whose time has passed.
    fn late(&mut self) -> Option<News> {
        let now = self.now;
        let passed = |end: Option<Instant>| end.is_some_and(|end| end <= now);
        if let Some(at) = self.stages.iter().position(|l| passed(l.end())) {
            let limit = self.stages[at].limit;
            let Dropped {
                work,
                taken,
                changes,
                waited_in_vain,
            } = self.remove(at).stop(now);
            let what = format!("the {} stage", work.stage());
            let outcome = Err(match waited_in_vain {
                Some(why) => PortError::NotSpeculated { what, why },
                None => PortError::timed_out(what, limit),
            });
            return Some(News::Finished {
                work,
                outcome,
                taken,
                changes,
            });
        }
        let at = self.orphans.iter().position(|(_, end)| passed(*end))?;
        let (orphan, _) = self.orphans.swap_remove(at);
        Some(News::Expired(orphan))
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let stages = self.stages.iter().filter_map(Launched::end);
        let orphans = self.orphans.iter().filter_map(|(_, end)| *end);
        let own = [self.deadline, self.budget_end].into_iter().flatten();
        let Some(earliest) = stages.chain(orphans).chain(own).min() else {
            return Poll::Pending;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(earliest)));
        if timer.is_elapsed() || earliest < timer.deadline() {
            timer.as_mut().reset(earliest);
        }
        timer.as_mut().poll(cx)
    }
}

/// Whether a call that may be wasted is still in line for its first turn.
fn waits_for_first_turn(call: &Call) -> bool {
    call.lane() == Lane::Speculative && call.progress() == Progress::Queued
}

impl Launched<'_> {
    /// What it has told since the last time.
    fn told(&self) -> Vec<Guess> {
        self.early.as_ref().map_or_else(Vec::new, Early::take)
    }

    fn stop(self, now: Instant) -> Dropped {
        let is_late = self.end().is_some_and(|end| end <= now);
        let Self {
            work,
            call,
            at,
            stage,
            was_polled,
            begun,
            ..
        } = self;
        // Asked while it still waits.
        let (lacks, was_in_line) = (call.lacks(), call.is_back_in_line());
        // Whoever gives the turns may note on the call how far it came, and what it tells in its last
        // moment counts, too.
        drop(stage);
        let taken = Taken {
            tokens: call.spent(),
            lost: call.lost(),
            time: now - at,
            activities: call.activities(),
            never_began: !was_polled || call.progress() == Progress::Queued,
            was_in_line,
        };
        let waited_in_vain = if waits_for_first_turn(&call) {
            Some(lacks)
        } else {
            let is_ahead = call.lane() == Lane::Speculative;
            (is_ahead && was_in_line).then_some(Refusal::Preempted)
        };
        if let Some(begun) = begun {
            let end = match waited_in_vain {
                Some(why) => CallEnd::Refused(why),
                None if is_late => CallEnd::TimedOut,
                None => CallEnd::Dropped,
            };
            begun.end(work, &call, at, taken, end);
        }
        Dropped {
            work,
            taken,
            changes: call.provider_changes(),
            waited_in_vain,
        }
    }

    /// When its time is over. `None`: never.
    fn end(&self) -> Option<Instant> {
        self.at.checked_add(self.limit)
    }

    fn finished(
        self,
        now: Instant,
        activities: Activities,
        outcome: Result<Outcome, PortError>,
    ) -> News {
        // A turn that was given may be lost before the call hears of it.
        let is_refused = matches!(outcome, Err(PortError::NotSpeculated { .. }));
        let taken = Taken {
            tokens: self.call.spent(),
            lost: self.call.lost(),
            time: now - self.at,
            activities,
            never_began: is_refused && self.call.progress() == Progress::Queued,
            was_in_line: false,
        };
        if let Some(begun) = self.begun {
            let (end, tokens) = match &outcome {
                Ok(done) => (CallEnd::Done, done.tokens),
                Err(PortError::NotSpeculated { why, .. }) => (CallEnd::Refused(*why), taken.tokens),
                Err(_) => (CallEnd::Failed, taken.tokens),
            };
            let tokens = tokens.max(taken.tokens);
            begun.end(
                self.work,
                &self.call,
                self.at,
                Taken { tokens, ..taken },
                end,
            );
        }
        News::Finished {
            work: self.work,
            outcome,
            taken,
            changes: self.call.provider_changes(),
        }
    }
}

#[cfg(test)]
mod tests;
