//! From the wire to a row.

use spechop_proto as wire;
use spechop_proto::{AskResponse, CommitKind};
use spechop_types::K;

use super::LiveError;
use super::client::{Asking, options};
use crate::{Calls, Confidence, Drafted, HopKind, Injected, Row, RowHop};

/// The latency that the server adds on purpose.
pub(super) fn injected(answer: &AskResponse) -> Option<Injected> {
    answer.injected_latency.map(|latency| Injected {
        mean_ms: latency.mean_ms,
        sigma_ms: latency.sigma_ms,
        seed: latency.seed,
    })
}

/// The row of an answer; all times are multiplied by `speed`.
pub(super) fn of(asking: &Asking, answer: AskResponse, speed: f64) -> Result<Row, LiveError> {
    row(asking, answer, speed).map_err(|what| LiveError::Malformed {
        id: asking.question.id.clone(),
        what,
    })
}

fn row(asking: &Asking, answer: AskResponse, speed: f64) -> Result<Row, String> {
    let applied = answer.applied.as_ref().ok_or("does not say how")?;
    check_applied(asking, applied)?;
    if answer.stop_reason() == wire::StopReason::Budget {
        // It was cut short by what the server allows, and would look like any other.
        return Err("was ended by the server's own budget: run the server without one".to_owned());
    }
    let usage = answer.usage.ok_or("does not say what it cost")?;
    let (mut targets, mut speculations) = (calls(usage.targets), calls(usage.speculations));
    // Servers of earlier versions do not tell.
    let stall_ms: Option<f64> = answer.hops.iter().map(|hop| hop.stall_ms).sum();
    let hops = answer.hops.into_iter().map(|from| hop(from, speed));
    let mut hops: Vec<RowHop> = hops.collect::<Result<_, _>>()?;
    if asking.variant.target_off {
        // Its server's look-ups are guesses, which have no evidence.
        speculations = std::mem::take(&mut targets);
        hops.iter_mut().for_each(|hop| hop.titles.clear());
    }
    let confidence = answer.confidence.as_ref().map(confidence);
    let withheld = answer.confidence.and_then(|told| told.withheld);
    Ok(Row {
        id: asking.question.id.clone(),
        variant: asking.variant.clone(),
        concurrency: asking.concurrency,
        answer: withheld.unwrap_or(answer.answer),
        confidence,
        latency_ms: answer.elapsed_ms * speed,
        first_answer_ms: answer.first_answer.map(|first| first.at_ms * speed),
        first_answer_chance: answer.first_answer.map(|first| first.chance),
        stall_ms: stall_ms.map(|stall| stall * speed),
        hops,
        final_ms: answer.final_segment_ms * speed,
        segments: calls(usage.segments),
        targets,
        speculations,
        drafts: calls(usage.drafts),
        salvaged: usage.salvaged,
        drafted: Drafted {
            begun: usage.drafted,
            foreseen: usage.foreseen,
            hidden_ms: usage.hidden_ms * speed,
        },
        unrecorded: 0,
    })
}

fn confidence(told: &wire::Confidence) -> Confidence {
    Confidence {
        chance: told.chance,
        of_form: told.of_form,
        supported: told.supported,
        withheld: told.withheld.is_some(),
    }
}

/// A field that a server does not know it passes over in silence.
fn check_applied(asking: &Asking, applied: &wire::Applied) -> Result<(), String> {
    let mut asked = options(&asking.question, &asking.variant);
    let (given, _) = applied.options.clone().unwrap_or_default().read();
    let is_chosen = asked.k == Some(K::Auto);
    if is_chosen {
        asked.k = None;
    }
    let unlike = match asked.unlike(&given) {
        None if is_chosen && applied.tuned.is_none() => Some("k"),
        unlike => unlike,
    };
    unlike.map_or(Ok(()), |option| {
        Err(format!(
            "was given with another {option} than was asked for"
        ))
    })
}

fn hop(hop: wire::Hop, speed: f64) -> Result<RowHop, &'static str> {
    let kind = match hop.kind() {
        CommitKind::Observed => HopKind::Observed,
        CommitKind::Accepted => HopKind::Accepted,
        CommitKind::Rejected => HopKind::Rejected,
        CommitKind::Unspecified => return Err("has a hop that does not say how it came about"),
    };
    let seen = hop.observation.ok_or("has a hop without an observation")?;
    let times = hop.times.ok_or("has a hop without times")?;
    Ok(RowHop {
        sub_question: hop.sub_question,
        answer: hop.sub_answer,
        kind,
        guess: hop.guess,
        right_guess: hop.right_guess,
        observed: seen.answer,
        found: seen.found,
        titles: seen.evidence.into_iter().map(|read| read.title).collect(),
        segment_ms: times.segment_ms * speed,
        target_ms: times.target_ms * speed,
        speculation_ms: times.speculation_ms.map(|took| took * speed),
    })
}

/// Zeros where a stage was never called.
fn calls(of: Option<wire::Calls>) -> Calls {
    let of = of.unwrap_or_default();
    Calls {
        started: of.started,
        wasted: of.wasted,
        tokens: of.prompt_tokens.saturating_add(of.completion_tokens),
        wasted_tokens: of
            .wasted_prompt_tokens
            .saturating_add(of.wasted_completion_tokens),
        money_micros: of.money_micros,
        wasted_money_micros: of.wasted_money_micros,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, Question, Variant};

    #[test]
    fn a_row_has_what_was_withheld_and_what_the_answer_says_of_itself() {
        let question = Question {
            id: "q0".into(),
            dataset: Dataset::Wiki,
            kind: "bridge".into(),
            text: "Who?".into(),
            answers: vec!["Ana".into()],
            titles: Vec::new(),
            hops: Vec::new(),
            hop_budget: 5,
        };
        let variant = Variant::standard();
        let answer = AskResponse {
            answer: "not found in the sources".into(),
            confidence: Some(wire::Confidence {
                chance: Some(0.0004),
                of_form: Some(0.9),
                supported: true,
                withheld: Some("Ana".into()),
            }),
            applied: Some(wire::Applied {
                options: Some(options(&question, &variant).into()),
                ..wire::Applied::default()
            }),
            usage: Some(wire::Usage::default()),
            ..AskResponse::default()
        };
        let asking = Asking {
            question,
            variant,
            concurrency: 1,
        };
        let row = of(&asking, answer.clone(), 1.0).unwrap();
        let said = Confidence {
            chance: Some(0.0004),
            of_form: Some(0.9),
            supported: true,
            withheld: true,
        };
        assert_eq!((&*row.answer, row.confidence), ("Ana", Some(said)));
        // A server of another version says nothing of it, which is not 0.
        let silent = AskResponse {
            confidence: None,
            ..answer
        };
        assert_eq!(of(&asking, silent, 1.0).unwrap().confidence, None);
    }
}
