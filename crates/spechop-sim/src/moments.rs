//! What happens to a question while it is simulated, moment by moment, as the live service tells it of a
//! real one: for whoever wants to draw it.

use std::collections::HashMap;

use spechop_types::{BranchId, Chance, CommitKind, LookupId, Stage, Step, SubQuestion};
use spechop_window::{Effect, Event, Window};

use crate::drive::Watch;
use crate::texts::{fact, right};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// Since the begin, in milliseconds.
    pub at_ms: f64,
    /// The branch it happened to.
    pub branch: BranchId,
    /// The hop that the branch is at, counted from 1.
    pub hop: u32,
    /// An unverified guess lies before it.
    pub provisional: bool,
    /// What happened.
    pub what: What,
}

/// What happened. The simulator makes its texts up, so it says whether they are those of the recorded
/// hop (*right*) or others, and not what they are. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Work of the branch began.
    Launched(Stage),
    /// The sub-question was written.
    Planned {
        /// It is the one that was asked.
        right: bool,
        /// How long it took.
        took_ms: f64,
    },
    /// The final answer was written.
    Drafted {
        /// It stands on the recorded answers alone.
        right: bool,
        /// How likely it was to stand.
        chance: Chance,
        /// How long it took.
        took_ms: f64,
    },
    /// The speculator guessed, or had no idea.
    Guessed {
        /// Whether the best guess is what is found; `None` if there was none.
        right: Option<bool>,
        /// It was asked what was asked.
        asked_right: bool,
        /// How long it took.
        took_ms: f64,
    },
    /// The target tool answered.
    Observed {
        /// It was asked what was asked.
        right: bool,
        /// How long it took.
        took_ms: f64,
    },
    /// The guess of the branch's hop was compared with the observation.
    Verified {
        /// They say the same.
        accepted: bool,
    },
    /// The hop is final.
    Committed(CommitKind),
    /// The guess that the branch stood on was accepted.
    Promoted,
    /// The branch was aborted.
    RolledBack,
    /// The branch took over the look-up of an aborted one.
    Salvaged {
        /// How long it had run already.
        saved_ms: f64,
    },
    /// While the branch writes, a look-up begins of what it may be about to ask.
    AskedAhead {
        /// It is what was asked.
        right: bool,
        /// How likely it is to be asked.
        chance: Chance,
    },
    /// The branch asks what was looked up ahead.
    Foreseen {
        /// How long it had run already.
        saved_ms: f64,
    },
}

/// Writes down what happens.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    pub(crate) moments: Vec<Moment>,
    /// The hop of each branch, and when it began to write.
    branches: HashMap<BranchId, (u32, f64)>,
    lookups: HashMap<LookupId, Lookup>,
}

/// Of a look-up, when its calls began, whether its guess still counts, and what it found while nobody asked.
#[derive(Clone, Copy, Debug, Default)]
struct Lookup {
    called: f64,
    /// `None` if it is not guessed, or not any more.
    guessing: Option<f64>,
    done: Option<f64>,
    unseen: bool,
    /// What was guessed while nobody asked: whether it is right, and how long it took.
    unheard: Option<(Option<bool>, f64)>,
}

impl Watcher {
    fn tell(&mut self, at_ms: f64, window: &Window, branch: BranchId, what: What) {
        let hop = self.hop(branch);
        let provisional = match window.depth(branch) {
            Some(depth) => depth > 0,
            None => hop as usize > window.committed().len(),
        };
        self.tell_as(at_ms, branch, provisional, what);
    }

    fn tell_as(&mut self, at_ms: f64, branch: BranchId, provisional: bool, what: What) {
        self.moments.push(Moment {
            at_ms,
            branch,
            hop: self.hop(branch),
            provisional,
            what,
        });
    }

    fn hop(&self, branch: BranchId) -> u32 {
        self.branches.get(&branch).map_or(0, |(hop, _)| *hop)
    }

    fn lookup(&mut self, id: LookupId) -> &mut Lookup {
        self.lookups.entry(id).or_default()
    }

    /// Whether a branch asks what was asked at its hop.
    fn asks_right(&self, window: &Window, branch: BranchId) -> bool {
        self.is_right(branch, window.sub_question(branch))
    }

    fn is_right(&self, branch: BranchId, asked: Option<&SubQuestion>) -> bool {
        asked.is_some_and(|asked| asked.as_str() == right(self.hop(branch) as usize))
    }

    fn guessed(
        &self,
        window: &Window,
        branch: BranchId,
        right: Option<bool>,
        took_ms: f64,
    ) -> What {
        What::Guessed {
            right,
            asked_right: self.asks_right(window, branch),
            took_ms,
        }
    }

    /// The branch has that look-up now. How long it had run.
    fn taken_over(&mut self, now: f64, lookup: LookupId) -> f64 {
        let Lookup { called, done, .. } = *self.lookup(lookup);
        done.unwrap_or(now) - called
    }

    /// What the look-up was guessed to find, and found, before somebody asked.
    fn tell_unseen(&mut self, now: f64, window: &Window, branch: BranchId, lookup: LookupId) {
        if let Some((right, took_ms)) = self.lookup(lookup).unheard.take() {
            let what = self.guessed(window, branch, right, took_ms);
            self.tell(now, window, branch, what);
        }
        if std::mem::take(&mut self.lookup(lookup).unseen) {
            let took_ms = self.taken_over(now, lookup);
            let right = self.asks_right(window, branch);
            self.tell(now, window, branch, What::Observed { right, took_ms });
        }
    }
}

/// Whether every answer before the branch is the recorded one.
fn stands_on_facts(window: &Window, branch: BranchId) -> bool {
    let mut answers = window.trajectory(branch).zip(1..);
    answers.all(|((_, answer), hop)| **answer == fact(&right(hop)))
}

impl Watch for Watcher {
    fn told(&mut self, now: f64, window: &Window, effect: &Effect) {
        match *effect {
            Effect::Write { branch, .. } => {
                let Some(depth) = window.depth(branch) else {
                    return;
                };
                let hop = u32::try_from(window.committed().len() + depth + 1).unwrap_or(u32::MAX);
                self.branches.insert(branch, (hop, now));
                self.tell(now, window, branch, What::Launched(Stage::Segment));
            }
            Effect::Call { lookup } => {
                self.lookup(lookup).called = now;
                if let Some(branch) = window.asker(lookup) {
                    self.tell(now, window, branch, What::Launched(Stage::Target));
                } else if let Some((branch, chance)) = window.drafted_for(lookup) {
                    let right = self.is_right(branch, window.asked(lookup));
                    self.tell(now, window, branch, What::AskedAhead { right, chance });
                }
            }
            Effect::Guess { lookup } => {
                self.lookup(lookup).guessing = Some(now);
                if let Some(branch) = window.asker(lookup) {
                    self.tell(now, window, branch, What::Launched(Stage::Speculation));
                }
            }
            Effect::Commit { branch, at, .. } => {
                if let Some(hop) = window.committed().get(at) {
                    self.tell_as(now, branch, false, What::Committed(hop.kind));
                }
            }
            Effect::Promote { branch } => self.tell_as(now, branch, false, What::Promoted),
            // One that never began has told nothing.
            Effect::Abort { branch } if self.branches.contains_key(&branch) => {
                self.tell_as(now, branch, true, What::RolledBack);
            }
            Effect::Salvage { branch, lookup } => {
                let saved_ms = self.taken_over(now, lookup);
                self.tell(now, window, branch, What::Salvaged { saved_ms });
                self.tell_unseen(now, window, branch, lookup);
            }
            Effect::Confirm { branch, lookup } => {
                let saved_ms = self.taken_over(now, lookup);
                self.tell(now, window, branch, What::Foreseen { saved_ms });
                self.tell_unseen(now, window, branch, lookup);
            }
            Effect::DropGuess { lookup } => self.lookup(lookup).guessing = None,
            // What comes of them is told, or nothing does. The answer is the outcome.
            Effect::Abort { .. }
            | Effect::Answer { .. }
            | Effect::Draft { .. }
            | Effect::Verify { .. }
            | Effect::Orphan { .. }
            | Effect::Drop { .. }
            | Effect::Fail { .. } => {}
        }
    }

    fn hears(&mut self, now: f64, window: &Window, event: &Event) {
        match event {
            Event::Wrote { branch, step } => {
                let (hop, began) = self.branches.get(branch).copied().unwrap_or((0, now));
                let took_ms = now - began;
                let what = match step {
                    Step::Ask(asked) => What::Planned {
                        right: asked.as_str() == right(hop as usize),
                        took_ms,
                    },
                    Step::Answer(_) => What::Drafted {
                        right: stands_on_facts(window, *branch),
                        chance: window.answer_chance(*branch),
                        took_ms,
                    },
                };
                self.tell(now, window, *branch, what);
            }
            Event::Observed { lookup, .. } => {
                self.lookup(*lookup).done = Some(now);
                self.lookup(*lookup).unseen = true;
                if let Some(branch) = window.asker(*lookup) {
                    self.tell_unseen(now, window, branch, *lookup);
                }
            }
            Event::Guessed {
                lookup, guesses, ..
            } => {
                let Some(began) = self.lookup(*lookup).guessing else {
                    return;
                };
                let asked = window.asked(*lookup);
                let is_found = |text: &str| asked.is_some_and(|asked| text == fact(asked.as_str()));
                let right = guesses.first().map(|guess| is_found(&guess.text));
                let took_ms = now - began;
                match window.asker(*lookup) {
                    Some(branch) => {
                        let what = self.guessed(window, branch, right, took_ms);
                        self.tell(now, window, branch, what);
                    }
                    None => self.lookup(*lookup).unheard = Some((right, took_ms)),
                }
            }
            Event::Verified { accepted, .. } => {
                if let Some(head) = window.alive().next() {
                    let accepted = *accepted;
                    self.tell(now, window, head, What::Verified { accepted });
                }
            }
            // Drafted look-ups are told when they begin. Nothing here ever fails or is finished early.
            Event::Drafted { .. }
            | Event::Expired { .. }
            | Event::WriteFailed { .. }
            | Event::CallFailed { .. }
            | Event::FinishNow => {}
        }
    }
}
