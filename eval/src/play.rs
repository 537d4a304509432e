//! A recorded question, played by any variant: the window on the virtual clock, over a bundle.

use std::collections::HashMap;
use std::sync::Arc;

use spechop_sim::{Clock, Rules, Stages};
use spechop_types::{
    BranchId, Chance, CommitKind, LookupId, Observation, Passage, Step, SubQuestion,
};
use spechop_verifier::verify;
use spechop_window::{Guess, Limits, Policy, Width, Window};

use crate::bundle::Bundle;
use crate::stage::{Input, KnownHop, Output, Stage};
use crate::{Calls, HopKind, Injected, Question, Row, RowHop, Variant};

/// A stage that the variant needs and the bundle does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not in the bundle: record it with `spechop eval record` and the same variant",
    .0.describe()
)]
pub struct MissingStage(pub Box<Input>);

/// Plays a question of the bundle. Deterministic.
///
/// # Errors
///
/// The first stage that is missing.
pub fn play(
    clock: &mut Clock,
    bundle: &Bundle,
    question: &Question,
    variant: &Variant,
    injected: Option<Injected>,
) -> Result<Row, MissingStage> {
    let mut stages = Recorded {
        bundle,
        question: spechop_types::Question::new(&question.text)
            .map_or_else(|_| question.text.as_str().into(), |q| q.as_str().into()),
        variant,
        injected,
        guess_chance: Rules::paper(Width::STANDARD).guess_chance,
        branches: HashMap::new(),
        lookups: HashMap::new(),
        seen: Tallies::default(),
        used: Tallies::default(),
        hops: Vec::new(),
        answer: "".into(),
        final_ms: 0.0,
    };
    let limits = Limits {
        width: width(variant),
        hops_max: question.hop_budget,
        not_found_max: question.dataset.not_found_max(),
        policy: policy(variant),
    };
    let orphan_ms = Rules::paper(Width::STANDARD).orphan_ms;
    let outcome = clock.play(&mut stages, limits, orphan_ms)?;
    let (seen, used) = (stages.seen, stages.used);
    Ok(Row {
        id: question.id.clone(),
        variant: variant.clone(),
        concurrency: 1,
        answer: stages.answer.to_string(),
        latency_ms: outcome.latency_ms,
        first_answer_ms: Some(outcome.first_answer_ms),
        first_answer_chance: Some(outcome.first_answer_chance.share()),
        hops: stages.hops,
        final_ms: stages.final_ms,
        segments: seen.segments.less(used.segments),
        targets: seen.targets.less(used.targets),
        speculations: seen.speculations.less(used.speculations),
        salvaged: u32::try_from(outcome.salvaged).unwrap_or(u32::MAX),
    })
}

fn width(variant: &Variant) -> Width {
    // Without verification there is nothing to run ahead of.
    if variant.unverified {
        return Width::STANDARD;
    }
    // Who plays has no server to choose; `k=auto` is refused before.
    Width::asked(variant.k()).unwrap_or(Width::UNBOUNDED)
}

fn policy(variant: &Variant) -> Policy {
    Policy {
        continuous: !variant.rounds,
        // What a drafter would have said is not recorded.
        drafts_max: 0,
        ..Policy::default().with(&variant.options)
    }
}

/// Calls and tokens of a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u32,
    tokens: u64,
}

impl Tally {
    fn add(&mut self, tokens: u64) {
        self.calls += 1;
        self.tokens += tokens;
    }

    /// What is not used is wasted.
    fn less(self, used: Self) -> Calls {
        Calls {
            started: self.calls,
            wasted: self.calls.saturating_sub(used.calls),
            tokens: self.tokens,
            wasted_tokens: self.tokens.saturating_sub(used.tokens),
            ..Calls::default()
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Tallies {
    segments: Tally,
    targets: Tally,
    speculations: Tally,
}

/// A segment under way, or done.
struct Segment {
    step: Step,
    ms: f64,
    tokens: u64,
}

/// A look-up under way, or done.
#[derive(Default)]
struct Lookup {
    observation: Option<Arc<Observation>>,
    target_ms: f64,
    target_tokens: u64,
    /// Whether a guess took the target's place.
    is_guess: bool,
    guesses: Vec<Guess>,
    speculation_ms: f64,
    speculation_tokens: u64,
    guess_ended: bool,
}

struct Recorded<'a> {
    bundle: &'a Bundle,
    question: Arc<str>,
    variant: &'a Variant,
    injected: Option<Injected>,
    guess_chance: Chance,
    branches: HashMap<BranchId, Segment>,
    lookups: HashMap<LookupId, Lookup>,
    /// Calls that began, and tokens of those that came to an end.
    seen: Tallies,
    /// What the committed hops hold.
    used: Tallies,
    hops: Vec<RowHop>,
    answer: Arc<str>,
    final_ms: f64,
}

impl<'a> Recorded<'a> {
    fn find(&self, input: Input) -> Result<&'a Stage, MissingStage> {
        match self.bundle.get(&input) {
            Some(stage) => Ok(stage),
            None => Err(MissingStage(Box::new(input))),
        }
    }

    fn prefix(window: &Window, branch: BranchId) -> Vec<KnownHop> {
        let known = |(asked, answer): (&SubQuestion, &Arc<str>)| {
            (Arc::clone(asked.text()), Arc::clone(answer))
        };
        window.trajectory(branch).map(known).collect()
    }

    fn speculation(
        &self,
        window: &Window,
        lookup: LookupId,
    ) -> Result<Option<&'a Stage>, MissingStage> {
        let (Some(asked), Some(branch)) = (window.asked(lookup), window.asker(lookup)) else {
            return Ok(None);
        };
        let stage = self.find(Input::Speculation {
            speculator: self.variant.speculator().into(),
            question: Arc::clone(&self.question),
            hops: Self::prefix(window, branch),
            sub_question: Arc::clone(asked.text()),
            limit: self.variant.guesses(),
        })?;
        Ok(Some(stage))
    }

    /// Looks up and reads: what is found, in how many milliseconds, for how many tokens.
    fn target(&self, asked: &SubQuestion) -> Result<(Arc<Observation>, f64, u64), MissingStage> {
        let retrieval = self.find(Input::Retrieval {
            query: Arc::clone(asked.text()),
            limit: self.bundle.info().passages,
        })?;
        let names = match &retrieval.output {
            Output::Passages(names) => names.as_slice(),
            _ => &[],
        };
        let reading = self.find(Input::Reading {
            sub_question: Arc::clone(asked.text()),
            passages: names.iter().map(|name| Arc::clone(&name.id)).collect(),
        })?;
        let answer = match &reading.output {
            Output::Read(answer) => answer.clone(),
            _ => None,
        };
        let evidence = names.iter().map(|name| Passage {
            id: Arc::clone(&name.id),
            title: Arc::clone(&name.title),
            text: "".into(),
            url: None,
            score: 0.0,
        });
        let observation = Observation::read(answer, evidence.collect())
            .read_with(reading.sure.map(|share| Chance::of(f64::from(share))));
        let waits = self
            .injected
            .map_or(0.0, |injected| injected.of(asked.as_str()));
        Ok((
            Arc::new(observation),
            waits + retrieval.ms + reading.ms,
            retrieval.tokens + reading.tokens,
        ))
    }
}

/// The guesses of a stage.
fn guesses(stage: &Stage, usual: Chance) -> Vec<Guess> {
    let Output::Guesses(guesses) = &stage.output else {
        return Vec::new();
    };
    let guess = |guess: &crate::stage::Guessed| Guess {
        text: Arc::clone(&guess.text),
        chance: guess
            .confidence
            .map_or(usual, |share| Chance::of(f64::from(share))),
        least: Chance::NONE,
    };
    guesses.iter().map(guess).collect()
}

impl Stages for Recorded<'_> {
    type Missing = MissingStage;

    fn write(
        &mut self,
        window: &Window,
        branch: BranchId,
        must_answer: bool,
    ) -> Result<f64, MissingStage> {
        let stage = self.find(Input::Segment {
            question: Arc::clone(&self.question),
            hops: Self::prefix(window, branch),
            must_answer,
        })?;
        let step = match &stage.output {
            Output::Ask(text) => Step::Ask(SubQuestion::new(text)),
            Output::Answer(text) => Step::Answer(Arc::clone(text)),
            _ => Step::Answer("".into()),
        };
        self.seen.segments.calls += 1;
        let segment = Segment {
            step,
            ms: stage.ms,
            tokens: stage.tokens,
        };
        self.branches.insert(branch, segment);
        Ok(stage.ms)
    }

    fn wrote(&mut self, _: &Window, branch: BranchId) -> Step {
        match self.branches.get(&branch) {
            Some(segment) => {
                self.seen.segments.tokens += segment.tokens;
                segment.step.clone()
            }
            None => Step::Answer("".into()),
        }
    }

    fn call(&mut self, window: &Window, lookup: LookupId) -> Result<f64, MissingStage> {
        let Some(asked) = window.asked(lookup) else {
            return Ok(0.0);
        };
        let mut waited = 0.0;
        if self.variant.unverified
            && let Some(stage) = self.speculation(window, lookup)?
        {
            self.seen.speculations.add(stage.tokens);
            waited = stage.ms;
            if let Some(guess) = guesses(stage, self.guess_chance).into_iter().next() {
                let observation = Observation::read(Some(guess.text), Vec::new());
                let at = self.lookups.entry(lookup).or_default();
                at.observation = Some(Arc::new(observation));
                (at.target_ms, at.target_tokens) = (waited, stage.tokens);
                at.is_guess = true;
                return Ok(waited);
            }
        }
        let (observation, took, tokens) = self.target(asked)?;
        self.seen.targets.calls += 1;
        let at = self.lookups.entry(lookup).or_default();
        at.observation = Some(observation);
        (at.target_ms, at.target_tokens) = (waited + took, tokens);
        Ok(waited + took)
    }

    fn observed(&mut self, _: &Window, lookup: LookupId) -> Option<Arc<Observation>> {
        let at = self.lookups.get(&lookup)?;
        if !at.is_guess {
            self.seen.targets.tokens += at.target_tokens;
        }
        at.observation.clone()
    }

    fn guess(&mut self, window: &Window, lookup: LookupId) -> Result<f64, MissingStage> {
        let Some(stage) = self.speculation(window, lookup)? else {
            return Ok(0.0);
        };
        self.seen.speculations.calls += 1;
        let guesses = guesses(stage, self.guess_chance);
        let at = self.lookups.entry(lookup).or_default();
        at.guesses = guesses;
        (at.speculation_ms, at.speculation_tokens) = (stage.ms, stage.tokens);
        Ok(stage.ms)
    }

    fn guessed(&mut self, window: &Window, lookup: LookupId, _: f64) -> Option<Vec<Guess>> {
        let at = self.lookups.get_mut(&lookup)?;
        // Whoever was faster, or nobody needing it, has stopped it.
        if window.observation(lookup).is_none() && window.asker(lookup).is_some() {
            at.guess_ended = true;
            self.seen.speculations.tokens += at.speculation_tokens;
        }
        Some(at.guesses.clone())
    }

    fn accepts(&mut self, guess: &str, observation: &Observation) -> bool {
        let mode = self.variant.options.verifier.unwrap_or_default();
        verify(mode, &observation.answer, guess).accepted
    }

    fn committed(&mut self, window: &Window, branch: BranchId, lookup: LookupId, at: usize) {
        let Some(hop) = window.committed().get(at) else {
            return;
        };
        let looked_up = self.lookups.remove(&lookup).unwrap_or_default();
        let segment = self.branches.remove(&branch);
        let kind = match hop.kind {
            CommitKind::Observed => HopKind::Observed,
            CommitKind::Accepted => HopKind::Accepted,
            CommitKind::Rejected => HopKind::Rejected,
        };
        let (segment_ms, segment_tokens) = segment.map_or((0.0, 0), |s| (s.ms, s.tokens));
        self.used.segments.add(segment_tokens);
        if looked_up.is_guess {
            self.used.speculations.add(looked_up.target_tokens);
        } else {
            self.used.targets.add(looked_up.target_tokens);
        }
        if kind == HopKind::Accepted {
            self.used.speculations.add(looked_up.speculation_tokens);
        }
        let evidence = hop.observation.evidence.iter();
        self.hops.push(RowHop {
            sub_question: hop.sub_question.as_str().to_owned(),
            answer: hop.answer.to_string(),
            kind,
            guess: hop.guess.as_ref().map(ToString::to_string),
            observed: hop.observation.answer.to_string(),
            found: hop.observation.found,
            titles: evidence.map(|passage| passage.title.to_string()).collect(),
            segment_ms,
            target_ms: looked_up.target_ms,
            speculation_ms: looked_up.guess_ended.then_some(looked_up.speculation_ms),
        });
    }

    fn answered(&mut self, _: &Window, branch: BranchId, answer: &Arc<str>) {
        self.answer = Arc::clone(answer);
        if let Some(segment) = self.branches.remove(&branch) {
            self.used.segments.add(segment.tokens);
            self.final_ms = segment.ms;
        }
    }
}
