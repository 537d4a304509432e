//! `POST /v1/questions/{id}/what-if`: what an answered question would have taken by another k, over its own
//! stage times.
//!
//! ```text
//! {"k": 3, "plan_ahead": false}   or   {"unbounded": {}}
//! {"k": 3, "plan_ahead": false, "latency_ms": …, "sequential_ms": …, "filled_in": 0.0, "events": […]}
//! ```
//!
//! The events have the form of a question's own, so whatever draws those draws these. A branch that stands
//! on a wrong guess asks something that was never recorded: its texts say that.

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};
use spechop_agent::Width;
use spechop_proto as wire;
use spechop_proto::ask_event::Event;
use spechop_proto::json::{JsonError, WrongField};
use spechop_sim::{Moment, Outcome, Rules, Simulator, What};
use spechop_types::{CommitKind, K, Owned};

use super::{House, json_text};
use crate::admission::Admission;
use crate::caller::caller;
use crate::questions::Question;
use crate::reply;
use crate::request::others;
use crate::status::{AskError, HttpError};
use crate::transport::Door;

const PATH: &str = "/v1/questions/{id}/what-if";

/// The most hops of a question that is simulated. If all guesses are wrong, a window without bounds begins
/// as many branches as the square of this.
const HOPS_MAX: usize = 64;

/// The largest k that may be tried.
const K_MAX: usize = 1024;

/// What stands for texts that were never recorded.
const ASTRAY: &str = "(a sub-question that was never recorded)";
const WRONG: &str = "(a wrong guess)";
const GUESSED_ASTRAY: &str = "(a guess that was never recorded)";
const ANSWERED_ASTRAY: &str = "(an answer that was never recorded)";
const NEVER: &str = "(never looked up)";

/// Builds the door.
pub(super) fn add_to(house: &mut House, admission: &Admission) {
    let admission = admission.clone();
    let play = post(
        async move |Path(id): Path<String>, head: Parts, body: Bytes| {
            play(&admission, &id, &head, &body).await
        },
    );
    house.add(Door::post(PATH), play);
}

/// Another k, and whether planning goes ahead; as the question was answered, if nothing is said.
fn read(body: &[u8]) -> Result<(Width, Option<bool>), AskError> {
    let (said, mut wrong) = wire::json::read::<wire::Options>(body)?.read();
    let width = match said.k {
        Some(K::Bounded(k)) if k.get() <= K_MAX => Some(Width::bounded(k)),
        Some(K::Unbounded) => Some(Width::UNBOUNDED),
        Some(K::Bounded(_) | K::Auto) | None => None,
    };
    if width.is_none() && wrong.iter().all(|wrong| wrong.field != "k") {
        wrong.push(WrongField {
            field: "k".to_owned(),
            problem: format!("must be from 1 to {K_MAX}, or unbounded"),
        });
    }
    wrong.extend(others(&said, &["k", "plan_ahead"]));
    match width.filter(|_| wrong.is_empty()) {
        Some(width) => Ok((width, said.plan_ahead)),
        None => Err(JsonError::Wrong(wrong).into()),
    }
}

async fn play(
    admission: &Admission,
    id: &str,
    head: &Parts,
    body: &[u8],
) -> Result<Response, HttpError> {
    let caller = caller(&head.headers, &head.extensions)?;
    let question = admission.known(id, &caller)?;
    let (width, plan_ahead) = read(body)?;
    let state = admission.state();
    let (rules, answered) = ready(&question, width, plan_ahead)?;
    let tunings = state.tunings.clone();
    // Its answer may have thousands of events: they are written within its turn, too.
    let written = state.simulations.run(move |is_wanted| {
        let replay = question.replay.get()?;
        // Guesses that this question does not know are those of the last ones.
        let mut history = tunings.history(&Owned::new(&question.id.tenant, replay.speculator));
        history.push(replay.past.clone());
        let known = replay.past.hops.iter().filter(|hop| hop.knows_guess());
        let unknown = replay.past.hops.len() - known.count();
        let trace = history.recorded().traces.pop()?;
        let rules = Rules {
            draft_chance: history.draft_chance(),
            ..rules
        };
        let mut simulator = Simulator::new();
        let sequential = simulator.run(&trace, Rules::paper(Width::STANDARD));
        let (outcome, moments) = simulator.told(&trace, rules);
        let filled_in = unknown as f64 / trace.hops.len().max(1) as f64;
        if !is_wanted() {
            return None;
        }
        let body = |events| {
            json!({
                "k": rules.width.get(),
                "plan_ahead": rules.policy.plans_ahead(),
                "latency_ms": outcome.latency_ms,
                "sequential_ms": sequential.latency_ms,
                "filled_in": filled_in,
                "segments": outcome.calls.segments,
                "targets": outcome.calls.targets,
                "speculations": outcome.calls.speculations,
                "events": events,
            })
            .to_string()
        };
        Some(events(&answered, &moments, &outcome, rules).map(body))
    });
    Ok(json_text(StatusCode::OK, written.await??))
}

/// The rules of the simulation, and the answer of the question, if it has one.
fn ready(
    question: &Question,
    width: Width,
    plan_ahead: Option<bool>,
) -> Result<(Rules, wire::AskResponse), AskError> {
    let nothing = AskError::NotNow("the question has no answer, so there is nothing to simulate");
    let answer = question.log.answer().and_then(|last| last.event.clone());
    let (Some(replay), Some(Event::Answer(answer))) = (question.replay.get(), answer) else {
        return Err(nothing);
    };
    if replay.past.hops.len() > HOPS_MAX {
        return Err(AskError::NotNow(
            "the question has too many hops to be simulated here",
        ));
    }
    let mut rules = Rules {
        width,
        ..replay.rules
    };
    rules.policy.plan_ahead = plan_ahead.unwrap_or(rules.policy.plan_ahead);
    Ok((rules, answer))
}

/// The moments as the events of a question, and the answer behind them.
fn events(
    answered: &wire::AskResponse,
    moments: &[Moment],
    outcome: &Outcome,
    rules: Rules,
) -> Result<Vec<Value>, AskError> {
    let kinds = moments.iter().filter_map(|moment| match moment.what {
        What::Committed(kind) => Some(kind),
        _ => None,
    });
    let answer = answer(answered, kinds, outcome, rules);
    let told = moments
        .iter()
        .zip(1..)
        .map(|(moment, sequence)| wire::AskEvent {
            sequence,
            at_ms: moment.at_ms,
            branch: moment.branch.0,
            hop: moment.hop,
            provisional: moment.provisional,
            event: Some(event(answered, &moment.what, moment.hop)),
        });
    let last = reply::answer_event(moments.len() as u64 + 1, answer);
    let written = told.chain([last]).map(|event| {
        let (_, line) = wire::json::write_event(&event)?;
        serde_json::from_str(&line).map_err(|_| AskError::Lost)
    });
    written.collect()
}

fn event(answered: &wire::AskResponse, what: &What, hop: u32) -> Event {
    let recorded = answered.hops.get((hop as usize).wrapping_sub(1));
    let found = || recorded.and_then(|hop| hop.observation.as_ref());
    let sub_question = |right| match recorded.filter(|_| right) {
        Some(hop) => hop.sub_question.clone(),
        None => ASTRAY.to_owned(),
    };
    match *what {
        What::Launched(stage) => Event::Launched(wire::Launched {
            stage: reply::stage(stage).into(),
        }),
        What::Planned { right, took_ms } => Event::Planned(wire::Planned {
            sub_question: sub_question(right),
            took_ms,
        }),
        What::Drafted {
            right,
            chance,
            took_ms,
        } => Event::Drafted(wire::Drafted {
            answer: match right {
                true => answered.answer.clone(),
                false => ANSWERED_ASTRAY.to_owned(),
            },
            took_ms,
            chance: chance.share(),
        }),
        What::Guessed {
            right,
            asked_right,
            took_ms,
        } => {
            let guess = |right| match right {
                _ if !asked_right => Some(GUESSED_ASTRAY.to_owned()),
                true => found().map(|found| found.answer.clone()),
                false => recorded.and_then(|hop| hop.guess.clone()),
            };
            Event::Guessed(wire::Guessed {
                guess: right.map(|right| guess(right).unwrap_or_else(|| WRONG.to_owned())),
                took_ms,
                others: Vec::new(),
                confidence: None,
                by: None,
            })
        }
        What::Observed { right, took_ms } => Event::Observed(wire::Observed {
            observation: Some(match found().filter(|_| right) {
                Some(found) => without_evidence(found),
                None => wire::Observation {
                    answer: NEVER.to_owned(),
                    found: true,
                    evidence: Vec::new(),
                },
            }),
            took_ms,
        }),
        What::Verified { accepted } => Event::Verified(wire::Verified {
            verdict: Some(wire::Verdict {
                accepted,
                rule: "simulated".to_owned(),
                coverage: f64::from(u8::from(accepted)),
                jaccard: f64::from(u8::from(accepted)),
            }),
        }),
        What::Committed(kind) => Event::Committed(wire::Committed {
            hop: recorded.map(|hop| committed(hop, kind)),
            usage: None,
        }),
        What::Promoted => Event::Promoted(wire::Promoted {}),
        What::RolledBack => Event::RolledBack(wire::RolledBack {}),
        What::Salvaged { saved_ms } => Event::Salvaged(wire::Salvaged { saved_ms }),
        What::AskedAhead { right, chance } => Event::AskedAhead(wire::AskedAhead {
            sub_question: sub_question(right),
            chance: chance.share(),
        }),
        What::Foreseen { saved_ms } => Event::Foreseen(wire::Foreseen { saved_ms }),
    }
}

/// The answer as it was, with the times of the simulation.
fn answer(
    answered: &wire::AskResponse,
    kinds: impl Iterator<Item = CommitKind>,
    outcome: &Outcome,
    rules: Rules,
) -> wire::AskResponse {
    let hops = answered.hops.iter().zip(kinds);
    wire::AskResponse {
        answer: answered.answer.clone(),
        hops: hops.map(|(hop, kind)| committed(hop, kind)).collect(),
        stop_reason: answered.stop_reason,
        elapsed_ms: outcome.latency_ms,
        final_segment_ms: answered.final_segment_ms,
        applied: answered.applied.clone().map(|applied| wire::Applied {
            options: applied.options.map(|options| wire::Options {
                width: Some(K::from(rules.width).into()),
                plan_ahead: Some(rules.policy.plans_ahead()),
                ..options
            }),
            tuned: None,
        }),
        ..wire::AskResponse::default()
    }
}

/// A hop as it is committed in the simulation.
fn committed(hop: &wire::Hop, kind: CommitKind) -> wire::Hop {
    wire::Hop {
        sub_question: hop.sub_question.clone(),
        sub_answer: hop.sub_answer.clone(),
        kind: reply::commit_kind(kind).into(),
        observation: hop.observation.as_ref().map(without_evidence),
        times: hop.times,
        ..wire::Hop::default()
    }
}

fn without_evidence(found: &wire::Observation) -> wire::Observation {
    wire::Observation {
        answer: found.answer.clone(),
        found: found.found,
        evidence: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use spechop_types::Chance;

    use super::*;

    #[test]
    fn a_k_is_a_number_or_without_bounds() {
        let read = |body: &str| read(body.as_bytes()).map(|(width, ahead)| (width.get(), ahead));
        let k = |k: usize| Some(k.try_into().unwrap());
        assert_eq!(read(r#"{"k": 1}"#).unwrap(), (k(1), None));
        assert_eq!(
            read(r#"{"k": 1024, "plan_ahead": true}"#).unwrap(),
            (k(1024), Some(true))
        );
        assert_eq!(read(r#"{"unbounded": {}}"#).unwrap(), (None, None));
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"k": 0}"#,
            r#"{"k": -1}"#,
            r#"{"k": 1025}"#,
            r#"{"k": 1.5}"#,
            r#"{"k": "two"}"#,
            r#"{"k": 2, "unbounded": {}}"#,
            r#"{"unbounded": true}"#,
            r#"{"auto": {}}"#,
            r#"{"k": 2, "quiet": true}"#,
            r#"{"k": 2, "ahead": true}"#,
        ] {
            assert!(matches!(read(wrong), Err(AskError::Invalid(_))), "{wrong}");
        }
    }

    #[test]
    fn what_is_asked_ahead_astray_is_not_told_as_recorded() {
        let hop = wire::Hop {
            sub_question: "Who wrote Ash?".to_owned(),
            ..wire::Hop::default()
        };
        let answered = wire::AskResponse {
            hops: vec![hop],
            ..wire::AskResponse::default()
        };
        for (right, expected) in [(true, "Who wrote Ash?"), (false, ASTRAY)] {
            let chance = Chance::CERTAIN;
            let Event::AskedAhead(told) = event(&answered, &What::AskedAhead { right, chance }, 1)
            else {
                panic!("another event");
            };
            assert_eq!(told.sub_question, expected);
        }
    }
}
