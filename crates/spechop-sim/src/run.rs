//! Traces, played on the virtual clock.

use std::convert::Infallible;
use std::sync::Arc;

use spechop_types::{BranchId, Chance, Draft, LookupId, Observation, Step};
use spechop_window::{Limits, Policy, WeighedGuess, Width, Window};

use crate::drive::{Clock, Stages, Watch};
use crate::moments::{Moment, Watcher};
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
    /// How likely a draft is to be right. What each drafter said of each of its drafts is not recorded: all
    /// of them count as likely as they were on average ([`crate::draft_chance`]).
    pub draft_chance: Chance,
}

impl Rules {
    /// The paper's algorithm.
    pub fn paper(width: Width) -> Self {
        Self::new(width, Policy::PAPER)
    }

    /// Orphans go on for as long as the live service's do, and guesses and drafts are worth what it takes
    /// them for as long as it knows nothing of them.
    pub fn new(width: Width, policy: Policy) -> Self {
        Self {
            width,
            policy,
            orphan_ms: 10_000.0,
            guess_chance: Chance::EVEN,
            draft_chance: Chance::EVEN,
        }
    }
}

/// What a simulated question took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// From the first segment to the answer, in milliseconds.
    pub latency_ms: f64,
    /// When the branch that answered had written its answer, perhaps long before it was the head, in
    /// milliseconds.
    pub first_answer_ms: f64,
    /// How likely that answer was to stand, as it was estimated then.
    pub first_answer_chance: Chance,
    /// How long the question waited for observations, with the next sub-question written and the hop before
    /// committed, in milliseconds.
    pub stall_ms: f64,
    /// Calls started, aborted ones included.
    pub calls: CallCounts,
    /// Look-ups taken over from aborted branches.
    pub salvaged: u64,
    /// Look-ups that were drafted and then asked for; those that were drafted in vain are among the calls.
    pub foreseen: u64,
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
    clock: Clock,
    /// The hop that each look-up is about, by its id.
    lookups: Vec<usize>,
}

impl Simulator {
    /// A simulator with nothing prepared yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plays a trace by these rules. Deterministic.
    pub fn run(&mut self, trace: &Trace, rules: Rules) -> Outcome {
        self.watched(trace, rules, &mut ())
    }

    /// [`Simulator::run`], and everything that happens meanwhile, in its order.
    pub fn told(&mut self, trace: &Trace, rules: Rules) -> (Outcome, Vec<Moment>) {
        let mut watcher = Watcher::default();
        let outcome = self.watched(trace, rules, &mut watcher);
        (outcome, watcher.moments)
    }

    fn watched(&mut self, trace: &Trace, rules: Rules, watch: &mut impl Watch) -> Outcome {
        self.texts.prepare(trace);
        self.lookups.clear();
        let limits = Limits {
            width: rules.width,
            hops_max: u32::MAX,
            not_found_max: u32::MAX,
            policy: rules.policy,
        };
        let mut stages = Traced {
            trace,
            rules,
            texts: &mut self.texts,
            lookups: &mut self.lookups,
        };
        let orphan_ms = rules.orphan_ms;
        match self.clock.watched(&mut stages, limits, orphan_ms, watch) {
            Ok(outcome) => outcome,
            Err(never) => match never {},
        }
    }
}

/// The stages of a trace. Exact: the texts are the same only where the guess is right.
struct Traced<'a> {
    trace: &'a Trace,
    rules: Rules,
    texts: &'a mut Texts,
    lookups: &'a mut Vec<usize>,
}

impl Traced<'_> {
    fn hop(&self, lookup: LookupId) -> &Hop {
        &self.trace.hops[self.lookups[lookup.0 as usize]]
    }

    /// What a look-up asks, and the hop it belongs to.
    fn asked(&mut self, window: &Window, lookup: LookupId) -> Option<(&mut Asked, &Hop)> {
        let at = self.lookups[lookup.0 as usize];
        let asked = self.texts.asked(at, window.asked(lookup)?)?;
        Some((asked, &self.trace.hops[at]))
    }
}

fn position(window: &Window, branch: BranchId) -> usize {
    window.committed().len() + window.depth(branch).unwrap_or(0)
}

impl Stages for Traced<'_> {
    type Missing = Infallible;

    fn write(&mut self, window: &Window, branch: BranchId, _: bool) -> Result<f64, Infallible> {
        Ok(match self.trace.hops.get(position(window, branch)) {
            Some(hop) => hop.segment_ms,
            None => self.trace.final_ms,
        })
    }

    fn wrote(&mut self, window: &Window, branch: BranchId) -> Step {
        let hop = position(window, branch);
        if hop < self.trace.hops.len() {
            Step::Ask(self.texts.ask(self.trace, hop, window, branch))
        } else {
            Step::Answer("answer".into())
        }
    }

    fn draft(&mut self, window: &Window, branch: BranchId) -> Vec<Draft> {
        let at = position(window, branch);
        let Some(held) = self.trace.hops.get(at).and_then(|hop| hop.draft_held) else {
            return Vec::new();
        };
        let sub_question = match held {
            true => self.texts.ask(self.trace, at, window, branch),
            false => self.texts.elsewhere(at),
        };
        let chance = self.rules.draft_chance;
        vec![Draft {
            sub_question,
            chance,
        }]
    }

    fn call(&mut self, window: &Window, lookup: LookupId) -> Result<f64, Infallible> {
        let writer = || window.drafted_for(lookup).map(|(writer, _)| writer);
        let asker = window.asker(lookup).or_else(writer);
        let hop = asker.map_or(window.committed().len(), |branch| position(window, branch));
        // Ids are given out in order, without gaps.
        self.lookups.resize(lookup.0 as usize + 1, 0);
        self.lookups[lookup.0 as usize] = hop;
        Ok(self.trace.hops[hop].target_ms)
    }

    fn observed(&mut self, window: &Window, lookup: LookupId) -> Option<Arc<Observation>> {
        let (asked, _) = self.asked(window, lookup)?;
        Some(asked.found.clone())
    }

    fn guess(&mut self, _: &Window, lookup: LookupId) -> Result<f64, Infallible> {
        Ok(self.hop(lookup).speculation_ms)
    }

    fn guessed(
        &mut self,
        window: &Window,
        lookup: LookupId,
        age_ms: f64,
    ) -> Option<Vec<WeighedGuess>> {
        let Rules {
            policy,
            guess_chance,
            ..
        } = self.rules;
        let (asked, hop) = self.asked(window, lookup)?;
        Some(asked.guesses(hop, &policy, guess_chance, age_ms))
    }

    fn accepts(&mut self, guess: &str, observation: &Observation) -> bool {
        *guess == *observation.answer
    }
}
