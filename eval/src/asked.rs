//! What was asked at each hop of a recorded question, for whoever wants to answer it another way: a
//! speculator that is not ours, or a verifier.

use std::sync::Arc;

use serde::Serialize;
use spechop_sim::Clock;

use crate::stage::{Input, Output, Stage};
use crate::{Bundle, Dataset, Injected, MissingStage, Question, Row, RowHop, Variant, play};

/// A hop of a recorded question, as the sequential agent came through it. A line of
/// `spechop eval questions`: its fields are a promise to scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AskedHop {
    /// The question's id.
    pub question: String,
    /// Whose question.
    pub dataset: Dataset,
    /// What kind of question.
    pub kind: String,
    /// The question itself.
    pub text: String,
    /// Which hop, from 1.
    pub hop: u32,
    /// What is asked.
    pub sub_question: String,
    /// What the target found: a verifier holds guesses against it.
    pub observed: String,
    /// False if the target found nothing. Then only a guess that says so, in the words of `observed`, is
    /// accepted.
    pub found: bool,
    /// How long the target took, added latency included, in milliseconds.
    pub target_ms: f64,
    /// Our guess. `None` if our speculator had none, or was not asked.
    pub ours: Option<OurGuess>,
}

/// A guess of the speculator that was recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OurGuess {
    /// The text.
    pub guess: String,
    /// How long it took, in milliseconds.
    pub ms: f64,
    /// How likely the speculator said it was to be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f32>,
}

/// What was asked at each hop of this question.
///
/// # Errors
///
/// The first stage of the sequential agent that is missing.
pub fn asked(
    clock: &mut Clock,
    bundle: &Bundle,
    question: &Question,
    speculator: &str,
    injected: Option<Injected>,
) -> Result<Vec<AskedHop>, MissingStage> {
    let row = play(clock, bundle, question, &Variant::standard(), injected)?;
    let hop = |(at, hop): (usize, &RowHop)| AskedHop {
        question: question.id.clone(),
        dataset: question.dataset,
        kind: question.kind.clone(),
        text: question.text.clone(),
        hop: number(at),
        sub_question: hop.sub_question.clone(),
        observed: hop.observed.clone(),
        found: hop.found,
        target_ms: (hop.target_ms * 1e3).round() / 1e3,
        ours: guessed(bundle, question, &row, at, speculator).and_then(our_guess),
    };
    Ok(row.hops.iter().enumerate().map(hop).collect())
}

/// The number of the hop at this place.
pub(crate) fn number(at: usize) -> u32 {
    u32::try_from(at).map_or(u32::MAX, |at| at.saturating_add(1))
}

/// What a speculator was recorded to say at this hop of the sequential agent's row.
pub(crate) fn guessed<'a>(
    bundle: &'a Bundle,
    question: &Question,
    row: &Row,
    at: usize,
    speculator: &str,
) -> Option<&'a Stage> {
    let before = row.hops.get(..at)?.iter();
    let before = before.map(|hop| (hop.sub_question.as_str().into(), hop.answer.as_str().into()));
    bundle.get(&Input::Speculation {
        speculator: speculator.into(),
        question: as_asked(question),
        hops: before.collect(),
        sub_question: row.hops.get(at)?.sub_question.as_str().into(),
        limit: 1,
    })
}

/// The question's words as the stages have them.
pub(crate) fn as_asked(question: &Question) -> Arc<str> {
    spechop_types::Question::new(&question.text)
        .map_or_else(|_| question.text.as_str().into(), |q| q.as_str().into())
}

fn our_guess(stage: &Stage) -> Option<OurGuess> {
    let Output::Guesses(guesses) = &stage.output else {
        return None;
    };
    let best = guesses.first()?;
    Some(OurGuess {
        guess: best.text.to_string(),
        ms: stage.ms,
        confidence: best.confidence,
    })
}
