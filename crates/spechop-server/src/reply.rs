//! From the agent to the wire: reports and trace events become protobuf messages.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{
    Calls, HopReport, Report, Settings, StageTimes, Stopped, TraceEvent, TraceKind, Usage,
};
use spechop_proto as wire;
use spechop_proto::ask_event::Event;
use spechop_theory::Reason;
use spechop_types::{Chance, CommitKind, Hop, Observation, Passage, Refusal, Refusals, Stage};
use spechop_verifier::{Mode, Rule, Verdict};

use crate::config::{InjectedLatency, SpeculatorKind};

/// The answer of a question that was asked with `settings`.
pub(crate) fn answer(
    report: &Report,
    settings: &Settings,
    speculator: SpeculatorKind,
    injected: Option<InjectedLatency>,
    tuned: Option<wire::Tuned>,
) -> wire::AskResponse {
    wire::AskResponse {
        answer: report.answer.to_string(),
        hops: report.hops.iter().map(hop_report).collect(),
        stop_reason: stop_reason(report.stopped).into(),
        elapsed_ms: ms(report.elapsed),
        final_segment_ms: ms(report.final_segment),
        usage: Some(usage(&report.usage)),
        applied: Some(wire::Applied {
            k: settings
                .width
                .get()
                .map(|k| u32::try_from(k.get()).unwrap_or(u32::MAX)),
            hop_budget: settings.hops_max,
            not_found_max: settings.not_found_max,
            top_passages: u32::try_from(settings.passages.get()).unwrap_or(u32::MAX),
            verifier: match settings.verifier {
                Mode::Exact => wire::VerifierMode::Exact,
                Mode::Rule => wire::VerifierMode::Rule,
            }
            .into(),
            speculator: speculator.as_str().to_owned(),
            salvage: settings.policy.salvages(),
            plan_ahead: settings.policy.plans_ahead(),
            guesses: u32::try_from(settings.policy.guesses_max.get()).unwrap_or(u32::MAX),
            tuned,
            chance_min: settings.policy.chance_min.share(),
        }),
        injected_latency: injected.map(|latency| wire::InjectedLatency {
            mean_ms: latency.mean_ms,
            sigma_ms: latency.sigma_ms,
            seed: latency.seed,
        }),
        refused: refused(&report.usage),
    }
}

/// Something that happened, as the event of that number.
pub(crate) fn event(sequence: u64, event: &TraceEvent) -> wire::AskEvent {
    wire::AskEvent {
        sequence,
        at_ms: ms(event.at),
        branch: event.branch.0,
        hop: event.hop,
        provisional: event.provisional,
        event: Some(kind(&event.kind)),
    }
}

/// The k that was chosen for a question.
pub(crate) fn tuned(k: NonZeroUsize, reason: &Reason) -> wire::Tuned {
    wire::Tuned {
        k: u32::try_from(k.get()).unwrap_or(u32::MAX),
        reason: reason.to_string(),
    }
}

/// The first event of a question whose k was chosen.
pub(crate) fn tuned_event(sequence: u64, tuned: wire::Tuned) -> wire::AskEvent {
    wire::AskEvent {
        sequence,
        at_ms: 0.0,
        branch: 0,
        hop: 0,
        provisional: false,
        event: Some(Event::Tuned(tuned)),
    }
}

/// The last event.
pub(crate) fn answer_event(sequence: u64, answer: wire::AskResponse) -> wire::AskEvent {
    wire::AskEvent {
        sequence,
        at_ms: answer.elapsed_ms,
        branch: 0,
        hop: 0,
        provisional: false,
        event: Some(Event::Answer(answer)),
    }
}

fn kind(kind: &TraceKind) -> Event {
    match kind {
        TraceKind::Launched { stage: at } => Event::Launched(wire::Launched {
            stage: stage(*at).into(),
        }),
        TraceKind::Planned { sub_question, took } => Event::Planned(wire::Planned {
            sub_question: sub_question.as_str().to_owned(),
            took_ms: ms(*took),
        }),
        TraceKind::Drafted { answer, took } => Event::Drafted(wire::Drafted {
            answer: answer.to_string(),
            took_ms: ms(*took),
        }),
        TraceKind::Guessed { guesses, took } => Event::Guessed(wire::Guessed {
            guess: guesses.first().map(|guess| guess.text.to_string()),
            took_ms: ms(*took),
            others: guesses
                .iter()
                .skip(1)
                .map(|guess| guess.text.to_string())
                .collect(),
            confidence: guesses
                .first()
                .and_then(|guess| guess.confidence.map(Chance::share_f32)),
        }),
        TraceKind::Salvaged { saved } => Event::Salvaged(wire::Salvaged {
            saved_ms: ms(*saved),
        }),
        TraceKind::Observed {
            observation: seen,
            took,
        } => Event::Observed(wire::Observed {
            observation: Some(observation(seen)),
            took_ms: ms(*took),
        }),
        TraceKind::Verified { verdict: result } => Event::Verified(wire::Verified {
            verdict: Some(verdict(result)),
        }),
        TraceKind::Committed {
            hop: done,
            usage: so_far,
        } => Event::Committed(wire::Committed {
            hop: Some(hop(done)),
            usage: Some(usage(so_far)),
        }),
        TraceKind::Promoted => Event::Promoted(wire::Promoted {}),
        TraceKind::RolledBack => Event::RolledBack(wire::RolledBack {}),
        TraceKind::NotSpeculated { stage: at, why } => Event::NotSpeculated(wire::NotSpeculated {
            stage: stage(*at).into(),
            reason: refusal(*why).into(),
        }),
        TraceKind::Failed { stage: at, reason } => Event::Failed(wire::Failed {
            stage: stage(*at).into(),
            reason: reason.clone(),
        }),
    }
}

fn hop_report(report: &HopReport) -> wire::Hop {
    wire::Hop {
        verdict: report.verdict.as_ref().map(verdict),
        times: Some(times(&report.times)),
        salvaged: report.salvaged,
        ..hop(&report.hop)
    }
}

fn hop(hop: &Hop) -> wire::Hop {
    wire::Hop {
        sub_question: hop.sub_question.as_str().to_owned(),
        sub_answer: hop.answer.to_string(),
        kind: match hop.kind {
            CommitKind::Observed => wire::CommitKind::Observed,
            CommitKind::Accepted => wire::CommitKind::Accepted,
            CommitKind::Rejected => wire::CommitKind::Rejected,
        }
        .into(),
        guess: text(hop.guess.as_ref()),
        verdict: None,
        observation: Some(observation(&hop.observation)),
        times: None,
        salvaged: false,
    }
}

fn observation(observation: &Observation) -> wire::Observation {
    wire::Observation {
        answer: observation.answer.to_string(),
        found: observation.found,
        evidence: observation.evidence.iter().map(passage).collect(),
    }
}

fn passage(passage: &Passage) -> wire::Passage {
    wire::Passage {
        passage_id: passage.id.to_string(),
        title: passage.title.to_string(),
        text: passage.text.to_string(),
        score: passage.score,
    }
}

fn verdict(verdict: &Verdict) -> wire::Verdict {
    wire::Verdict {
        accepted: verdict.accepted,
        rule: rule(verdict.rule),
        coverage: verdict.coverage,
        jaccard: verdict.jaccard,
    }
}

/// The rule's stable name, as `spechop verify` writes it.
fn rule(rule: Rule) -> String {
    match serde_json::to_value(rule) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{rule:?}"),
    }
}

fn times(times: &StageTimes) -> wire::StageTimes {
    wire::StageTimes {
        segment_ms: ms(times.segment),
        target_ms: ms(times.target),
        read_ms: ms(times.read),
        speculation_ms: times.speculation.map(ms),
    }
}

fn usage(usage: &Usage) -> wire::Usage {
    wire::Usage {
        segments: Some(calls(&usage.segments)),
        targets: Some(calls(&usage.targets)),
        speculations: Some(calls(&usage.speculations)),
        salvaged: usage.salvaged,
    }
}

fn calls(calls: &Calls) -> wire::Calls {
    wire::Calls {
        started: calls.started,
        wasted: calls.wasted,
        prompt_tokens: calls.cost.tokens.prompt,
        completion_tokens: calls.cost.tokens.completion,
        wasted_prompt_tokens: calls.cost_wasted.tokens.prompt,
        wasted_completion_tokens: calls.cost_wasted.tokens.completion,
        time_ms: ms(calls.cost.time),
        wasted_time_ms: ms(calls.cost_wasted.time),
        money_micros: calls.cost.money.0,
        wasted_money_micros: calls.cost_wasted.money.0,
    }
}

/// The stages and reasons that occurred.
fn refused(usage: &Usage) -> Vec<wire::Refused> {
    let stages = [
        (wire::Stage::Segment, &usage.segments),
        (wire::Stage::Target, &usage.targets),
        (wire::Stage::Speculation, &usage.speculations),
    ];
    let of = |(stage, calls): (wire::Stage, &Calls)| refusals(&calls.refused, stage);
    stages.into_iter().flat_map(of).collect()
}

/// The reasons that occurred, for work of that stage.
pub(crate) fn refusals(refusals: &Refusals, stage: wire::Stage) -> Vec<wire::Refused> {
    let occurred = refusals.iter().filter(|(_, times)| *times > 0);
    let refused = occurred.map(|(why, times)| wire::Refused {
        reason: refusal(why).into(),
        times,
        stage: stage.into(),
    });
    refused.collect()
}

fn refusal(why: Refusal) -> wire::Refusal {
    match why {
        Refusal::Denied => wire::Refusal::Denied,
        Refusal::NoPlace => wire::Refusal::NoPlace,
        Refusal::Preempted => wire::Refusal::Preempted,
        Refusal::PushedBack => wire::Refusal::PushedBack,
        Refusal::Budget => wire::Refusal::Budget,
        Refusal::Unlikely => wire::Refusal::Unlikely,
    }
}

fn stop_reason(stopped: Stopped) -> wire::StopReason {
    match stopped {
        Stopped::Answered => wire::StopReason::Answered,
        Stopped::HopBudget => wire::StopReason::HopBudget,
        Stopped::Repeated => wire::StopReason::Repeated,
        Stopped::NotFound => wire::StopReason::NotFound,
        Stopped::Budget => wire::StopReason::Budget,
    }
}

fn stage(stage: Stage) -> wire::Stage {
    match stage {
        Stage::Segment => wire::Stage::Segment,
        Stage::Target => wire::Stage::Target,
        Stage::Speculation => wire::Stage::Speculation,
    }
}

fn text(text: Option<&Arc<str>>) -> Option<String> {
    text.map(ToString::to_string)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
