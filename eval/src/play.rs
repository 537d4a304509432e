//! A recorded question, played by any variant: the window on the virtual clock, over a bundle.

mod beyond;
mod tally;

use std::collections::HashMap;
use std::sync::Arc;

use spechop_sim::{Clock, Rules, Stages};
use spechop_types::{
    BranchId, Chance, CommitKind, LookupId, Observation, Passage, Step, SubQuestion,
};
use spechop_window::{Limits, Policy, WeighedGuess, Width, Window};

use crate::asked::{as_asked, number};
use crate::brought::Brought;
use crate::bundle::Bundle;
use crate::stage::{HopTexts, Input, Output, RecordedGuess, Stage};
use crate::{Calls, Drafted, HopKind, Injected, Question, Row, RowHop, Variant};
use beyond::{Beyond, place};
use tally::Tallies;

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
    play_with(clock, bundle, question, variant, injected, None)
}

/// The same with guesses and verdicts that somebody brought, if the variant names them. What they lead to
/// and nobody recorded is stood in for by the sequential agent's stages; [`Row::unrecorded`] says if the
/// answer depends on that. So it is if the target is off: a hop without a guess leads where nobody was.
///
/// # Errors
///
/// The first stage of the sequential agent that is missing.
pub fn play_brought(
    clock: &mut Clock,
    bundle: &Bundle,
    question: &Question,
    variant: &Variant,
    injected: Option<Injected>,
    brought: &Brought,
) -> Result<Row, MissingStage> {
    if !brought.plays(variant) && !variant.target_off {
        return play(clock, bundle, question, variant, injected);
    }
    let standard = play(clock, bundle, question, &Variant::standard(), injected)?;
    let beyond = Beyond::new(brought, &question.id, variant, standard);
    play_with(clock, bundle, question, variant, injected, Some(beyond))
}

fn play_with(
    clock: &mut Clock,
    bundle: &Bundle,
    question: &Question,
    variant: &Variant,
    injected: Option<Injected>,
    beyond: Option<Beyond<'_>>,
) -> Result<Row, MissingStage> {
    let mut stages = Recorded {
        bundle,
        question: as_asked(question),
        variant,
        injected,
        beyond,
        guess_chance: Rules::paper(Width::STANDARD).guess_chance,
        branches: HashMap::new(),
        lookups: HashMap::new(),
        seen: Tallies::default(),
        used: Tallies::default(),
        hops: Vec::new(),
        answer: "".into(),
        final_ms: 0.0,
        unrecorded: 0,
        unasked: 0,
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
        confidence: None,
        latency_ms: outcome.latency_ms,
        first_answer_ms: Some(outcome.first_answer_ms),
        first_answer_chance: Some(outcome.first_answer_chance.share()),
        stall_ms: Some(outcome.stall_ms),
        hops: stages.hops,
        final_ms: stages.final_ms,
        segments: seen.segments.less(used.segments),
        targets: seen.targets.less(used.targets),
        speculations: seen.speculations.less(used.speculations),
        drafts: Calls::default(),
        salvaged: u32::try_from(outcome.salvaged).unwrap_or(u32::MAX),
        drafted: Drafted::default(),
        unrecorded: stages.unrecorded,
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
        guess_at_once: variant.guess_at_once,
        build_on_observations: variant.on_observations,
        // What a drafter would have said is not recorded.
        drafts_max: 0,
        ..Policy::default().with(&variant.options)
    }
}

/// A segment under way, or done.
struct Segment {
    step: Step,
    ms: f64,
    tokens: u64,
    /// How often the way to it left the recording.
    unrecorded: u32,
}

/// A look-up under way, or done.
#[derive(Default)]
struct Lookup {
    observation: Option<Arc<Observation>>,
    target_ms: f64,
    target_tokens: u64,
    /// Whether a guess took the target's place.
    is_guess: bool,
    guesses: Vec<WeighedGuess>,
    /// Whether a speculator is at it. Of a hop that nobody brought a guess for, none is.
    guess_begun: bool,
    speculation_ms: f64,
    speculation_tokens: u64,
    guess_ended: bool,
}

/// What a speculator says of a look-up.
struct Spoken<'a> {
    guesses: &'a [RecordedGuess],
    ms: f64,
    tokens: u64,
}

struct Recorded<'a> {
    bundle: &'a Bundle,
    question: Arc<str>,
    variant: &'a Variant,
    injected: Option<Injected>,
    /// What was brought, if this variant plays it.
    beyond: Option<Beyond<'a>>,
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
    unrecorded: u32,
    /// Hops at which our speculator was not recorded though nothing else was asked.
    unasked: u32,
}

impl<'a> Recorded<'a> {
    fn find(&self, input: Input) -> Result<&'a Stage, MissingStage> {
        match self.bundle.get(&input) {
            Some(stage) => Ok(stage),
            None => Err(MissingStage(Box::new(input))),
        }
    }

    fn prefix(window: &Window, branch: BranchId) -> Vec<HopTexts> {
        let known = |(asked, answer): (&SubQuestion, &Arc<str>)| {
            (Arc::clone(asked.text()), Arc::clone(answer))
        };
        window.trajectory(branch).map(known).collect()
    }

    fn speculation(
        &self,
        window: &Window,
        lookup: LookupId,
    ) -> Result<Option<Spoken<'a>>, MissingStage> {
        let (Some(asked), Some(branch)) = (window.asked(lookup), window.asker(lookup)) else {
            return Ok(None);
        };
        if let Some(beyond) = self.beyond.as_ref().filter(|beyond| beyond.has_guesses()) {
            let brought = beyond.guess(place(window, lookup));
            return Ok(brought.map(|brought| Spoken {
                guesses: std::slice::from_ref(&brought.guess),
                ms: brought.ms,
                tokens: 0,
            }));
        }
        let stage = self.find(Input::Speculation {
            speculator: self.variant.speculator().into(),
            question: Arc::clone(&self.question),
            hops: self.known_prefix(Self::prefix(window, branch)),
            sub_question: Arc::clone(asked.text()),
            limit: self.variant.guesses(),
        });
        match stage {
            Ok(stage) => Ok(Some(Spoken::of(stage))),
            // Behind a guess that our own verifier rejects, our speculator was perhaps never asked.
            Err(_) if self.beyond.is_some() => Ok(None),
            Err(missing) => Err(missing),
        }
    }

    fn recorded_segment(
        &self,
        hops: Vec<HopTexts>,
        must_answer: bool,
    ) -> Result<Segment, MissingStage> {
        let stage = self.find(Input::Segment {
            question: Arc::clone(&self.question),
            hops,
            must_answer,
        })?;
        let step = match &stage.output {
            Output::Ask(text) => Step::Ask(SubQuestion::new(text)),
            Output::Answer(text) => Step::Answer(Arc::clone(text)),
            _ => Step::Answer("".into()),
        };
        Ok(Segment {
            step,
            ms: stage.ms,
            tokens: stage.tokens,
            unrecorded: 0,
        })
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
        let observation = Observation::read(answer, evidence.collect::<Arc<[_]>>())
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

impl<'a> Spoken<'a> {
    fn of(stage: &'a Stage) -> Self {
        let guesses = match &stage.output {
            Output::Guesses(guesses) => guesses.as_slice(),
            _ => &[],
        };
        Self {
            guesses,
            ms: stage.ms,
            tokens: stage.tokens,
        }
    }

    /// As the window takes them.
    fn guesses(&self, usual: Chance) -> Vec<WeighedGuess> {
        let guess = |guess: &RecordedGuess| WeighedGuess {
            text: Arc::clone(&guess.text),
            chance: guess
                .confidence
                .map_or(usual, |share| Chance::of(f64::from(share))),
            least: Chance::NONE,
        };
        self.guesses.iter().map(guess).collect()
    }
}

impl Stages for Recorded<'_> {
    type Missing = MissingStage;

    fn write(
        &mut self,
        window: &Window,
        branch: BranchId,
        must_answer: bool,
    ) -> Result<f64, MissingStage> {
        let segment = self.segment(window, branch, must_answer)?;
        let ms = segment.ms;
        self.seen.segments.calls += 1;
        self.branches.insert(branch, segment);
        Ok(ms)
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
        if self.variant.unverified {
            let spoken = self.speculation(window, lookup)?;
            let (tokens, mut guess) = (spoken.as_ref().map_or(0, |spoken| spoken.tokens), None);
            match &spoken {
                Some(spoken) => {
                    self.seen.speculations.add(tokens);
                    (waited, guess) = (spoken.ms, spoken.guesses.first());
                }
                None => self.unasked += u32::from(self.is_unasked()),
            }
            if guess.is_some() || self.variant.target_off {
                let guess = guess.map(|guess| Arc::clone(&guess.text));
                let at = self.lookups.entry(lookup).or_default();
                // Nobody looks up what is not guessed: it is as if nothing had been found.
                at.observation = Some(Arc::new(Observation::read(guess, Vec::new())));
                (at.target_ms, at.target_tokens) = (waited, tokens);
                at.is_guess = true;
                return Ok(waited);
            }
        }
        let (observation, took, tokens) = self.found(window, lookup, asked)?;
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
        let Some(spoken) = self.speculation(window, lookup)? else {
            return Ok(0.0);
        };
        self.seen.speculations.calls += 1;
        let guesses = spoken.guesses(self.guess_chance);
        let at = self.lookups.entry(lookup).or_default();
        (at.guesses, at.guess_begun) = (guesses, true);
        (at.speculation_ms, at.speculation_tokens) = (spoken.ms, spoken.tokens);
        Ok(spoken.ms)
    }

    fn guessed(&mut self, window: &Window, lookup: LookupId, _: f64) -> Option<Vec<WeighedGuess>> {
        let at = self.lookups.get_mut(&lookup)?;
        // Whoever was faster, or nobody needing it, has stopped it.
        if at.guess_begun && window.is_guessing(lookup) {
            at.guess_ended = true;
            self.seen.speculations.tokens += at.speculation_tokens;
        }
        Some(at.guesses.clone())
    }

    fn accepts(&mut self, guess: &str, observation: &Observation) -> bool {
        // Only guesses of the head are compared, and the hops before it are committed.
        self.is_accepted(self.hops.len(), guess, &observation.answer)
    }

    fn verdict_ms(&self) -> f64 {
        let verdict = self
            .beyond
            .as_ref()
            .and_then(|beyond| beyond.verdict(self.hops.len()));
        verdict.map_or(0.0, |verdict| verdict.ms)
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
        let says = |guess: &WeighedGuess| {
            let observed = &hop.observation;
            observed.is_like(&guess.text) && self.is_accepted(at, &guess.text, &observed.answer)
        };
        let right_guess = match looked_up.guess_ended {
            true => looked_up.guesses.iter().position(says).map(number),
            false => None,
        };
        let evidence = hop.observation.evidence.iter();
        self.hops.push(RowHop {
            sub_question: hop.sub_question.as_str().to_owned(),
            answer: hop.answer.to_string(),
            kind,
            guess: hop.guess.as_ref().map(ToString::to_string),
            right_guess,
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
            self.unrecorded = segment.unrecorded + self.unasked;
        }
        if self.unrecorded > 0 {
            // It belongs to another trajectory.
            self.answer = "".into();
        }
    }
}
