//! Asking scripted ports, and telling what came of it.

#![allow(dead_code, clippy::unwrap_used, reason = "helpers of several tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use spechop_agent::{Agent, AgentError, Ports, Report, Settings, TraceEvent, TraceKind, Width};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Question;
use spechop_verifier::Mode;

pub(crate) fn agent(ports: &ScriptedPorts) -> Agent {
    let port = Arc::new(ports.clone());
    Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port.clone(),
        speculator: Some(port.clone()),
        drafter: Some(port),
        draft_writer: None,
    })
}

pub(crate) fn settings(k: usize) -> Settings {
    Settings {
        width: NonZeroUsize::new(k).map_or(Width::UNBOUNDED, Width::bounded),
        hops_max: 8,
        verifier: Mode::Exact,
        ..Settings::default()
    }
}

pub(crate) fn question() -> Question {
    Question::new("Who is the mother of the director?").unwrap()
}

pub(crate) async fn ask(ports: &ScriptedPorts, settings: &Settings) -> Result<Report, AgentError> {
    let report = agent(ports)
        .answer(&question(), settings, &mut |_| {})
        .await;
    assert_eq!(ports.live(), 0, "SPEC-9: calls are left");
    report
}

pub(crate) fn millis(report: &Report) -> u128 {
    report.elapsed.as_millis()
}

pub(crate) fn trajectory(report: &Report) -> Vec<(String, String)> {
    let text = |hop: &spechop_agent::HopReport| {
        (
            hop.hop.sub_question.as_str().to_owned(),
            hop.hop.answer.to_string(),
        )
    };
    report.hops.iter().map(text).collect()
}

/// Segment 100 ms, target 1,000 ms, guess 50 ms.
pub(crate) fn steady(right: &[bool]) -> ScriptedPorts {
    ScriptedPorts::new(Script::steady(right, 100, 1000, 50))
}

pub(crate) fn line(event: &TraceEvent) -> String {
    let what = match &event.kind {
        TraceKind::Launched { stage } => format!("launched {stage}"),
        TraceKind::Planned { sub_question, .. } => format!("planned {}", sub_question.as_str()),
        TraceKind::Drafted { answer, .. } => format!("drafted {answer}"),
        TraceKind::Guessed { guesses, .. } => {
            let texts: Vec<_> = guesses.iter().map(|guess| &*guess.text).collect();
            format!("guessed {texts:?}")
        }
        TraceKind::AskedAhead { sub_question, .. } => {
            format!("looked up ahead: {}", sub_question.as_str())
        }
        TraceKind::Foreseen { saved } => format!("foreseen, {} ms", saved.as_millis()),
        TraceKind::Salvaged { saved } => format!("salvaged {} ms", saved.as_millis()),
        TraceKind::Observed { observation, .. } => format!("observed {}", observation.answer),
        TraceKind::Verified { verdict } => format!("verified: {}", verdict.accepted),
        TraceKind::Committed { hop, .. } => format!("committed {}", hop.answer),
        TraceKind::ProviderChanged { change } => format!("provider {}", change.to),
        TraceKind::Promoted => "promoted".into(),
        TraceKind::RolledBack => "rolled back".into(),
        TraceKind::NotSpeculated { stage, why } => format!("no {stage} ahead: {why}"),
        TraceKind::HandedOver { of_form } => format!("handed over: {of_form:?}"),
        TraceKind::Failed { stage, reason } => format!("failed {stage}: {reason}"),
    };
    let mark = if event.provisional { "~" } else { " " };
    format!(
        "{:>5} {} hop {} {mark} {what}",
        event.at.as_millis(),
        event.branch,
        event.hop
    )
}
