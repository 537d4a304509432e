//! The window on a virtual clock. Where stages get their times and results from is a [`Stages`]: a
//! trace that says how long each takes and what came of it, or a recording of real ones.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use spechop_types::{BranchId, Chance, Draft, LookupId, Observation, Step};
use spechop_window::{Effect, Effects, Event, Limits, WeighedGuess, Window};

use crate::{CallCounts, Outcome};

/// What the stages of one question take, and what comes of them. Asked for the time when a stage
/// begins and for the result when it ends, if it ends: what is aborted brings nothing.
pub trait Stages {
    /// Something is not there, and the question cannot be played.
    type Missing;

    /// The branch's next segment begins. How long will it take, in milliseconds?
    fn write(
        &mut self,
        window: &Window,
        branch: BranchId,
        must_answer: bool,
    ) -> Result<f64, Self::Missing>;

    /// It has ended. With what?
    fn wrote(&mut self, window: &Window, branch: BranchId) -> Step;

    /// What the branch may be about to ask, which begins to write. Nothing, where nothing drafts.
    fn draft(&mut self, _window: &Window, _branch: BranchId) -> Vec<Draft> {
        Vec::new()
    }

    /// The look-up's target call begins. How long will it take, in milliseconds?
    fn call(&mut self, window: &Window, lookup: LookupId) -> Result<f64, Self::Missing>;

    /// It has ended. With what? Not asked for a look-up that is gone; `None` is no news.
    fn observed(&mut self, window: &Window, lookup: LookupId) -> Option<Arc<Observation>>;

    /// The look-up's guess begins. How long will it take, in milliseconds?
    fn guess(&mut self, window: &Window, lookup: LookupId) -> Result<f64, Self::Missing>;

    /// It has ended, when the look-up's target call had begun so many milliseconds before. With what? Not
    /// asked for a look-up that is gone; `None` is no news.
    fn guessed(
        &mut self,
        window: &Window,
        lookup: LookupId,
        age_ms: f64,
    ) -> Option<Vec<WeighedGuess>>;

    /// Whether the guess says what the observation says.
    fn accepts(&mut self, guess: &str, observation: &Observation) -> bool;

    /// How long it takes to say so, in milliseconds. Rules take none.
    fn verdict_ms(&self) -> f64 {
        0.0
    }

    /// The hop that the branch was at is [`Window::committed`] at this place. Its look-up is gone.
    fn committed(&mut self, _window: &Window, _branch: BranchId, _lookup: LookupId, _at: usize) {}

    /// The branch's answer is the question's.
    fn answered(&mut self, _window: &Window, _branch: BranchId, _answer: &Arc<str>) {}
}

/// Looks on while a question is played. `()` looks away.
pub(crate) trait Watch {
    /// The window has told the driver to do this, so many milliseconds after the begin. What follows from
    /// it has not happened yet.
    fn told(&mut self, now_ms: f64, window: &Window, effect: &Effect);

    /// The window is about to hear this, so many milliseconds after the begin.
    fn hears(&mut self, now_ms: f64, window: &Window, event: &Event);
}

impl Watch for () {
    fn told(&mut self, _: f64, _: &Window, _: &Effect) {}

    fn hears(&mut self, _: f64, _: &Window, _: &Event) {}
}

/// A virtual clock; what it holds is kept from one question for the next.
#[derive(Debug, Default)]
pub struct Clock {
    due: BinaryHeap<Due>,
    lookups: Vec<Marks>,
    /// Answers that were written: by which branch, when, and how likely each was to stand.
    drafts: Vec<(BranchId, f64, Chance)>,
    /// When each branch had last written a step, by its id.
    written: Vec<f64>,
    /// Calls that were launched in this moment: nothing of them has run.
    fresh: Vec<What>,
}

/// Which of a look-up's stages count, by [`Due::launched`]: earlier ones were dropped.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// When its target call began first.
    begun: Option<f64>,
    /// When it was observed.
    observed: Option<f64>,
    guess: u32,
    /// That which ends its time as an orphan.
    expiry: u32,
}

/// A stage that ends at a given time. The heap gives the earliest, then the one launched first.
#[derive(Debug)]
struct Due {
    at: f64,
    launched: u32,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Segment(BranchId),
    Target(LookupId),
    Speculation(LookupId),
    Expiry(LookupId),
    /// On the guess that the branch stands on: whether it is accepted.
    Verdict(BranchId, bool),
}

impl CallCounts {
    /// A call that was counted at its launch has never begun.
    fn withdraw(&mut self, what: What) {
        match what {
            What::Segment(_) => self.segments -= 1,
            What::Target(_) => self.targets -= 1,
            What::Speculation(_) => self.speculations -= 1,
            What::Expiry(_) | What::Verdict(..) => {}
        }
    }
}

impl Clock {
    /// A clock with nothing on it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plays one question to its end. Deterministic, as far as `stages` are. A look-up that nobody
    /// needs any more goes on for `orphan_ms`.
    ///
    /// # Errors
    ///
    /// The first stage that is missing.
    pub fn play<S: Stages>(
        &mut self,
        stages: &mut S,
        limits: Limits,
        orphan_ms: f64,
    ) -> Result<Outcome, S::Missing> {
        self.watched(stages, limits, orphan_ms, &mut ())
    }

    /// [`Clock::play`], with somebody who looks on.
    pub(crate) fn watched<S: Stages, W: Watch>(
        &mut self,
        stages: &mut S,
        limits: Limits,
        orphan_ms: f64,
        watch: &mut W,
    ) -> Result<Outcome, S::Missing> {
        self.due.clear();
        self.lookups.clear();
        self.drafts.clear();
        self.written.clear();
        self.fresh.clear();
        let (window, effects) = Window::open(limits);
        let play = Play {
            stages,
            watch,
            orphan_ms,
            clock: self,
            window,
            now: 0.0,
            committed_at: 0.0,
            stall_ms: 0.0,
            calls: CallCounts::default(),
            salvaged: 0,
            foreseen: 0,
            first_answer: None,
            launched: 0,
        };
        play.play_out(effects)
    }
}

struct Play<'a, S, W> {
    stages: &'a mut S,
    watch: &'a mut W,
    orphan_ms: f64,
    clock: &'a mut Clock,
    window: Window,
    now: f64,
    committed_at: f64,
    stall_ms: f64,
    calls: CallCounts,
    salvaged: u64,
    foreseen: u64,
    first_answer: Option<(f64, Chance)>,
    launched: u32,
}

impl<S: Stages, W: Watch> Play<'_, S, W> {
    fn play_out(mut self, mut effects: Effects) -> Result<Outcome, S::Missing> {
        loop {
            let mut i = 0;
            while i < effects.len() {
                let more = self.carry_out(&effects[i])?;
                effects.extend(more);
                i += 1;
            }
            // The window is over exactly when it has answered: nothing here ever fails.
            if self.window.is_over() {
                break;
            }
            effects.clear();
            let Some(due) = self.clock.due.pop() else {
                break;
            };
            if let Some(event) = self.event(&due) {
                if due.at > self.now {
                    self.clock.fresh.clear();
                }
                self.clock.fresh.retain(|what| *what != due.what);
                self.now = due.at;
                effects = self.apply(event);
            }
        }
        for what in self.clock.fresh.drain(..) {
            self.calls.withdraw(what);
        }
        let (first_answer_ms, first_answer_chance) =
            self.first_answer.unwrap_or((self.now, Chance::CERTAIN));
        Ok(Outcome {
            latency_ms: self.now,
            first_answer_ms,
            first_answer_chance,
            stall_ms: self.stall_ms,
            calls: self.calls,
            salvaged: self.salvaged,
            foreseen: self.foreseen,
        })
    }

    fn apply(&mut self, event: Event) -> Effects {
        self.watch.hears(self.now, &self.window, &event);
        self.window.apply(event)
    }

    fn carry_out(&mut self, effect: &Effect) -> Result<Effects, S::Missing> {
        self.watch.told(self.now, &self.window, effect);
        match effect {
            Effect::Write {
                branch,
                must_answer,
            } => {
                // It may have been rolled back while this effect waited in line.
                if self.window.depth(*branch).is_none() {
                    return Ok(Effects::new());
                }
                let took = self.stages.write(&self.window, *branch, *must_answer)?;
                self.calls.segments += 1;
                self.launch(What::Segment(*branch), took);
            }
            Effect::Call { lookup } => {
                let took = self.stages.call(&self.window, *lookup)?;
                self.calls.targets += 1;
                let now = self.now;
                self.marks(*lookup).begun.get_or_insert(now);
                self.launch(What::Target(*lookup), took);
            }
            Effect::Guess { lookup } => {
                let took = self.stages.guess(&self.window, *lookup)?;
                self.calls.speculations += 1;
                self.marks(*lookup).guess = self.launch(What::Speculation(*lookup), took);
            }
            Effect::Orphan { lookup } => {
                self.marks(*lookup).expiry = self.launch(What::Expiry(*lookup), self.orphan_ms);
            }
            Effect::Salvage { .. } => self.salvaged += 1,
            Effect::Confirm { .. } => self.foreseen += 1,
            Effect::Draft { branch } => {
                let branch = *branch;
                let drafts = self.stages.draft(&self.window, branch);
                return Ok(self.apply(Event::Drafted { branch, drafts }));
            }
            Effect::Verify { branch } => {
                let compared = self.window.comparison(*branch);
                let accepted =
                    compared.is_some_and(|(guess, found)| self.stages.accepts(guess, found));
                let took = self.stages.verdict_ms();
                if took > 0.0 {
                    self.launch(What::Verdict(*branch, accepted), took);
                    return Ok(Effects::new());
                }
                return Ok(self.apply(Event::Verified {
                    branch: *branch,
                    accepted,
                }));
            }
            Effect::Commit { branch, lookup, at } => {
                let written = self.clock.written.get(branch.0 as usize);
                let could_wait = written.map_or(self.now, |at| at.max(self.committed_at));
                let observed = self.marks(*lookup).observed.unwrap_or(self.now);
                self.stall_ms += (observed - could_wait).max(0.0);
                self.committed_at = self.now;
                self.stages.committed(&self.window, *branch, *lookup, *at);
            }
            Effect::Answer { branch, answer } => {
                let draft = self.clock.drafts.iter().find(|draft| draft.0 == *branch);
                self.first_answer = draft.map(|(_, at, chance)| (*at, *chance));
                self.stages.answered(&self.window, *branch, answer);
            }
            // The end of a call that was stopped is no news.
            Effect::Abort { branch } => self.stop(What::Segment(*branch)),
            Effect::DropGuess { lookup } => self.stop(What::Speculation(*lookup)),
            Effect::Drop { lookup } => {
                self.stop(What::Target(*lookup));
                self.stop(What::Speculation(*lookup));
            }
            Effect::Promote { .. } | Effect::Fail { .. } => {}
        }
        Ok(Effects::new())
    }

    /// A call is stopped, if it runs. One that was launched in the same moment has not begun.
    fn stop(&mut self, what: What) {
        let fresh = &mut self.clock.fresh;
        if let Some(at) = fresh.iter().position(|launched| *launched == what) {
            fresh.swap_remove(at);
            self.calls.withdraw(what);
        }
    }

    fn launch(&mut self, what: What, took: f64) -> u32 {
        self.launched += 1;
        self.clock.fresh.push(what);
        self.clock.due.push(Due {
            at: self.now + took,
            launched: self.launched,
            what,
        });
        self.launched
    }

    /// Ids are given out in order, without gaps.
    fn marks(&mut self, lookup: LookupId) -> &mut Marks {
        let at = lookup.0 as usize;
        if at >= self.clock.lookups.len() {
            self.clock.lookups.resize(at + 1, Marks::default());
        }
        &mut self.clock.lookups[at]
    }

    /// What the end of a stage tells the window. `None` where it was stopped before.
    fn event(&mut self, due: &Due) -> Option<Event> {
        Some(match due.what {
            What::Segment(branch) => {
                self.window.depth(branch)?;
                let step = self.stages.wrote(&self.window, branch);
                let at = branch.0 as usize;
                if at >= self.clock.written.len() {
                    self.clock.written.resize(at + 1, 0.0);
                }
                self.clock.written[at] = due.at;
                if matches!(step, Step::Answer(_)) {
                    let chance = self.window.answer_chance(branch);
                    self.clock.drafts.push((branch, due.at, chance));
                }
                Event::Wrote { branch, step }
            }
            What::Target(lookup) => {
                self.window.asked(lookup)?;
                let observation = self.stages.observed(&self.window, lookup)?;
                self.marks(lookup).observed = Some(due.at);
                Event::Observed {
                    lookup,
                    observation,
                }
            }
            What::Speculation(lookup) => {
                if self.marks(lookup).guess != due.launched {
                    return None;
                }
                self.window.asked(lookup)?;
                let age_ms = self.marks(lookup).begun.map_or(0.0, |begun| due.at - begun);
                let guesses = self.stages.guessed(&self.window, lookup, age_ms)?;
                Event::Guessed {
                    lookup,
                    guesses,
                    more: false,
                }
            }
            What::Expiry(lookup) => {
                // Taken and left again, it has a later one.
                if self.marks(lookup).expiry != due.launched {
                    return None;
                }
                Event::Expired { lookup }
            }
            What::Verdict(branch, accepted) => Event::Verified { branch, accepted },
        })
    }
}

impl Ord for Due {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .at
            .total_cmp(&self.at)
            .then(other.launched.cmp(&self.launched))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}
