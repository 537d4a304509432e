//! One question on the virtual clock.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use spechop_types::{BranchId, LookupId, Step};
use spechop_window::{Chance, Effect, Event, Limits, Policy, Width, Window};

use crate::texts::{Asked, Texts};
use crate::{Hop, Trace};

/// What a question is simulated with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The paper's k.
    pub width: Width,
    /// How far speculation goes.
    pub policy: Policy,
    /// How long a look-up goes on that nobody needs any more, in milliseconds.
    pub orphan_ms: f64,
    /// How likely a guess is to be right that does not say so itself.
    pub guess_chance: Chance,
}

impl Rules {
    /// The paper's algorithm.
    pub fn paper(width: Width) -> Self {
        Self::new(width, Policy::PAPER)
    }

    /// Orphans go on for as long as the live service's do, and guesses are worth what it takes them
    /// for as long as it knows nothing of them.
    pub fn new(width: Width, policy: Policy) -> Self {
        Self {
            width,
            policy,
            orphan_ms: 10_000.0,
            guess_chance: Chance::of(0.5),
        }
    }
}

/// What a simulated question took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// From the first segment to the answer, in milliseconds.
    pub latency_ms: f64,
    /// Calls started, aborted ones included.
    pub calls: CallCounts,
    /// Look-ups taken over from aborted branches.
    pub salvaged: u64,
}

/// Calls started, by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Segments, the final one included.
    pub segments: u64,
    /// Target calls.
    pub targets: u64,
    /// Guesses.
    pub speculations: u64,
}

/// Plays traces. Holds what they share.
#[derive(Debug, Default)]
pub struct Simulator {
    texts: Texts,
    clock: BinaryHeap<Due>,
    lookups: Vec<Lookup>,
}

/// What a look-up is about, by its id.
#[derive(Clone, Copy, Debug, Default)]
struct Lookup {
    hop: usize,
    /// The [`Due`] of its latest guess: an earlier one was dropped.
    guess: u32,
    /// The [`Due`] that ends its time as an orphan.
    expiry: u32,
}

/// A stage that ends at a given time. The heap gives the earliest, then the one launched first.
#[derive(Debug)]
struct Due {
    at: f64,
    launched: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Segment { branch: BranchId, hop: usize },
    Target(LookupId),
    Speculation(LookupId),
    Expiry(LookupId),
}

impl Simulator {
    /// A simulator with nothing prepared yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plays a trace by these rules. Deterministic.
    pub fn run(&mut self, trace: &Trace, rules: Rules) -> Outcome {
        self.texts.prepare(trace);
        self.clock.clear();
        self.lookups.clear();
        let (window, effects) = Window::open(Limits {
            width: rules.width,
            hops_max: u32::MAX,
            not_found_max: u32::MAX,
            policy: rules.policy,
        });
        let mut play = Play {
            trace,
            rules,
            shared: self,
            window,
            now: 0.0,
            calls: CallCounts::default(),
            salvaged: 0,
            launched: 0,
        };
        play.play_out(effects)
    }
}

struct Play<'a> {
    trace: &'a Trace,
    rules: Rules,
    shared: &'a mut Simulator,
    window: Window,
    now: f64,
    calls: CallCounts,
    salvaged: u64,
    launched: u32,
}

impl Play<'_> {
    fn play_out(&mut self, mut effects: Vec<Effect>) -> Outcome {
        loop {
            let mut i = 0;
            while i < effects.len() {
                let more = self.carry_out(&effects[i]);
                effects.extend(more);
                i += 1;
            }
            // The window is over exactly when it has answered: nothing here ever fails.
            if self.window.is_over() {
                break;
            }
            effects.clear();
            let Some(due) = self.shared.clock.pop() else {
                break;
            };
            if let Some(event) = self.event(&due) {
                self.now = due.at;
                effects = self.window.apply(event);
            }
        }
        Outcome {
            latency_ms: self.now,
            calls: self.calls,
            salvaged: self.salvaged,
        }
    }

    fn carry_out(&mut self, effect: &Effect) -> Vec<Effect> {
        match *effect {
            Effect::Write { branch, .. } => self.write(branch),
            Effect::Call { lookup } => self.call(lookup),
            Effect::Guess { lookup } => self.guess(lookup),
            Effect::Orphan { lookup } => {
                let ends = self.launch(What::Expiry(lookup), self.rules.orphan_ms);
                self.shared.lookups[lookup.0 as usize].expiry = ends;
            }
            Effect::Salvage { .. } => self.salvaged += 1,
            Effect::Verify { branch } => {
                // Exact: the texts are the same only where the guess is right.
                let compared = self.window.comparison(branch);
                let accepted = compared.is_some_and(|(guess, found)| *guess == found.answer);
                return self.window.apply(Event::Verified { branch, accepted });
            }
            // The end of a call that was stopped is no news.
            Effect::DropGuess { .. }
            | Effect::Commit { .. }
            | Effect::Promote { .. }
            | Effect::Abort { .. }
            | Effect::Drop { .. }
            | Effect::Answer { .. }
            | Effect::Fail { .. } => {}
        }
        Vec::new()
    }

    fn write(&mut self, branch: BranchId) {
        let Some(depth) = self.window.depth(branch) else {
            return;
        };
        let hop = self.window.committed().len() + depth;
        let took = match self.trace.hops.get(hop) {
            Some(hop) => hop.segment_ms,
            None => self.trace.final_ms,
        };
        self.calls.segments += 1;
        self.launch(What::Segment { branch, hop }, took);
    }

    fn call(&mut self, lookup: LookupId) {
        let depth = self
            .window
            .asker(lookup)
            .and_then(|branch| self.window.depth(branch));
        let hop = self.window.committed().len() + depth.unwrap_or(0);
        // Ids are given out in order, without gaps.
        self.shared
            .lookups
            .resize(lookup.0 as usize + 1, Lookup::default());
        self.shared.lookups[lookup.0 as usize].hop = hop;
        self.calls.targets += 1;
        self.launch(What::Target(lookup), self.trace.hops[hop].target_ms);
    }

    fn guess(&mut self, lookup: LookupId) {
        self.calls.speculations += 1;
        let (_, hop) = self.hop(lookup);
        let ends = self.launch(What::Speculation(lookup), hop.speculation_ms);
        self.shared.lookups[lookup.0 as usize].guess = ends;
    }

    fn launch(&mut self, what: What, took: f64) -> u32 {
        self.launched += 1;
        self.shared.clock.push(Due {
            at: self.now + took,
            launched: self.launched,
            what,
        });
        self.launched
    }

    /// What the end of a stage tells the window. `None` where it was stopped before.
    fn event(&mut self, due: &Due) -> Option<Event> {
        Some(match due.what {
            What::Segment { branch, hop } => {
                self.window.depth(branch)?;
                let step = if hop < self.trace.hops.len() {
                    Step::Ask(self.shared.texts.ask(self.trace, hop, &self.window, branch))
                } else {
                    Step::Answer("answer".into())
                };
                Event::Wrote { branch, step }
            }
            What::Target(lookup) => {
                let (asked, _) = self.asked(lookup)?;
                let observation = asked.found.clone();
                Event::Observed {
                    lookup,
                    observation,
                }
            }
            What::Speculation(lookup) => {
                let (at, _) = self.hop(lookup);
                if at.guess != due.launched {
                    return None;
                }
                let Rules {
                    policy,
                    guess_chance,
                    ..
                } = self.rules;
                let (asked, hop) = self.asked(lookup)?;
                let guesses = asked.guesses(hop, policy.guesses_max.get(), guess_chance);
                Event::Guessed { lookup, guesses }
            }
            What::Expiry(lookup) => {
                // Taken and left again, it has a later one.
                let (at, _) = self.hop(lookup);
                if at.expiry != due.launched {
                    return None;
                }
                Event::Expired { lookup }
            }
        })
    }

    fn hop(&self, lookup: LookupId) -> (Lookup, &Hop) {
        let at = self.shared.lookups[lookup.0 as usize];
        (at, &self.trace.hops[at.hop])
    }

    /// What a look-up that is still wanted asks, and the hop it belongs to.
    fn asked(&mut self, lookup: LookupId) -> Option<(&mut Asked, &Hop)> {
        let sub_question = self.window.asked(lookup)?;
        let at = self.shared.lookups[lookup.0 as usize];
        let asked = self.shared.texts.asked(at.hop, sub_question)?;
        Some((asked, &self.trace.hops[at.hop]))
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
