//! One question on the virtual clock.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use spechop_types::{BranchId, Observation, Stage, Step, SubQuestion};
use spechop_window::{Effect, Event, Limits, Width, Window};

use crate::{Hop, Trace};

/// What a simulated question took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// From the first segment to the answer, in milliseconds.
    pub latency_ms: f64,
    /// Calls started, aborted ones included.
    pub calls: CallCounts,
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

/// Plays traces. Holds what all of them share: a trace has no texts, so any will do.
#[derive(Debug, Default)]
pub struct Simulator {
    asked: Vec<SubQuestion>,
    clock: BinaryHeap<Due>,
}

/// A stage that ends at a given time. The heap gives the earliest, then the one launched first.
#[derive(Debug)]
struct Due {
    at: f64,
    launched: u32,
    branch: BranchId,
    hop: usize,
    stage: Stage,
}

impl Simulator {
    /// A simulator with nothing prepared yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plays a trace in a window of this width. Deterministic.
    pub fn run(&mut self, trace: &Trace, width: Width) -> Outcome {
        while self.asked.len() < trace.hops.len() {
            self.asked
                .push(SubQuestion::new(&format!("hop {}", self.asked.len())));
        }
        self.clock.clear();
        let (window, effects) = Window::open(Limits {
            width,
            hops_max: u32::MAX,
            not_found_max: u32::MAX,
        });
        let mut play = Play {
            trace,
            asked: &self.asked,
            clock: &mut self.clock,
            window,
            now: 0.0,
            calls: CallCounts::default(),
            launched: 0,
            observation: shared_observation(),
        };
        play.play_out(effects)
    }
}

struct Play<'a> {
    trace: &'a Trace,
    asked: &'a [SubQuestion],
    clock: &'a mut BinaryHeap<Due>,
    window: Window,
    now: f64,
    calls: CallCounts,
    launched: u32,
    observation: Arc<Observation>,
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
            let Some(due) = self.clock.pop() else { break };
            // An aborted call's end is no news; a dead branch has no depth.
            if self.window.depth(due.branch).is_none() {
                effects = Vec::new();
                continue;
            }
            self.now = due.at;
            let event = self.event(&due);
            effects = self.window.apply(event);
        }
        Outcome {
            latency_ms: self.now,
            calls: self.calls,
        }
    }

    fn carry_out(&mut self, effect: &Effect) -> Vec<Effect> {
        match *effect {
            Effect::Write { branch, .. } => self.launch(branch, Stage::Segment),
            Effect::Call { branch } => self.launch(branch, Stage::Target),
            Effect::Guess { branch } => self.launch(branch, Stage::Speculation),
            Effect::Verify { branch } => {
                let accepted = self.hop(branch).is_some_and(|hop| hop.accepted);
                return self.window.apply(Event::Verified { branch, accepted });
            }
            Effect::DropGuess { .. }
            | Effect::Commit { .. }
            | Effect::Promote { .. }
            | Effect::Abort { .. }
            | Effect::Answer { .. }
            | Effect::Fail { .. } => {}
        }
        Vec::new()
    }

    fn launch(&mut self, branch: BranchId, stage: Stage) {
        let Some(depth) = self.window.depth(branch) else {
            return;
        };
        let hop = self.window.committed().len() + depth;
        let times = self.trace.hops.get(hop);
        let took = match (stage, times) {
            (Stage::Segment, None) => self.trace.final_ms,
            (Stage::Segment, Some(hop)) => hop.segment_ms,
            (Stage::Target, Some(hop)) => hop.target_ms,
            (Stage::Speculation, Some(hop)) => hop.speculation_ms,
            (Stage::Target | Stage::Speculation, None) => return,
        };
        match stage {
            Stage::Segment => self.calls.segments += 1,
            Stage::Target => self.calls.targets += 1,
            Stage::Speculation => self.calls.speculations += 1,
        }
        self.launched += 1;
        self.clock.push(Due {
            at: self.now + took,
            launched: self.launched,
            branch,
            hop,
            stage,
        });
    }

    fn event(&self, due: &Due) -> Event {
        let branch = due.branch;
        match due.stage {
            Stage::Segment => Event::Wrote {
                branch,
                step: match self.asked.get(due.hop) {
                    Some(asked) if due.hop < self.trace.hops.len() => Step::Ask(asked.clone()),
                    _ => Step::Answer(self.observation.answer.clone()),
                },
            },
            Stage::Target => Event::Observed {
                branch,
                observation: self.observation.clone(),
            },
            Stage::Speculation => Event::Guessed {
                branch,
                guess: Some(self.observation.answer.clone()),
            },
        }
    }

    fn hop(&self, branch: BranchId) -> Option<&Hop> {
        let at = self.window.committed().len() + self.window.depth(branch)?;
        self.trace.hops.get(at)
    }
}

/// What every look-up finds: a trace says whether a guess is right, not what it says.
fn shared_observation() -> Arc<Observation> {
    Arc::new(Observation {
        answer: "observed".into(),
        found: true,
        evidence: Vec::new(),
    })
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
