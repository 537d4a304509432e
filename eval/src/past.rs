//! A recorded question as the server remembers questions: times, and what came of its guesses.

use spechop_sim::{Clock, Past, PastGuess, PastHop, mentioned};
use spechop_verifier::{Mode, verify};

use crate::asked::guessed;
use crate::stage::Output;
use crate::{Bundle, Injected, MissingStage, Question, RowHop, Variant, play};

/// A question of the bundle, as the sequential agent answers it. The guesses are those of one speculator,
/// by the rules; a hop that it was not asked about is left untried.
///
/// # Errors
///
/// The first stage of the sequential agent that is missing.
pub fn past(
    clock: &mut Clock,
    bundle: &Bundle,
    question: &Question,
    speculator: &str,
    injected: Option<Injected>,
) -> Result<Past, MissingStage> {
    let row = play(clock, bundle, question, &Variant::standard(), injected)?;
    let answers: Vec<&str> = row.hops.iter().map(|hop| hop.answer.as_str()).collect();
    let hop = |(at, hop): (usize, &RowHop)| {
        let guess = guessed(bundle, question, &row, at, speculator);
        let guess = guess.map(|stage| (&stage.output, stage.ms));
        PastHop {
            segment_ms: hop.segment_ms,
            target_ms: hop.target_ms,
            guess: match guess {
                Some((Output::Guesses(guesses), ms)) => match guesses.first() {
                    Some(best) => PastGuess::Compared {
                        ms,
                        accepted: verify(Mode::Rule, &hop.observed, &best.text).accepted,
                        confidence: best.confidence.map(f64::from),
                    },
                    None => PastGuess::NoIdea { ms },
                },
                _ => PastGuess::Untried,
            },
            draft_held: None,
            depends_on: Some(mentioned(&hop.sub_question, &answers[..at])),
        }
    };
    Ok(Past {
        hops: row.hops.iter().enumerate().map(hop).collect(),
        final_ms: row.final_ms,
    })
}
