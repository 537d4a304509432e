//! From the agent to the wire: reports and trace events become protobuf messages.
//!
//! Texts from outside are cut to a length, so that an answer has one: at most 10,000 passages
//! ([`spechop_config::EVIDENCE_MAX`], which a configuration keeps to) of 9 KiB and 1,024 hops of 17 KiB.
//! That is less than [`wire::ANSWER_BYTES_MAX`], which clients take.

mod cost;
pub(crate) mod cut;

use spechop_agent::{
    Confidence, HopReport, Report, Settings, StageTimes, Stopped, TraceEvent, TraceKind,
};
use spechop_config::{InjectedLatency, SpeculatorKind};
use spechop_proto as wire;
use spechop_proto::ask_event::Event;
use spechop_theory::{Choice, Interval};
use spechop_types::{
    AnswerOptions, Chance, CommitKind, Hop, Observation, Passage, ProviderChange, Stage,
    is_refusal, ms,
};
use spechop_verifier::Verdict;

pub(crate) use self::cost::refusals;
use self::cost::{activities, refusal, refused, usage};
use self::cut::cut;

/// The most bytes of a passage's text: all that a language model is ever shown of it.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// The most bytes of a passage's identifier, and of its title.
const NAME_BYTES_MAX: usize = 512;
/// The most bytes of a passage's address.
const URL_BYTES_MAX: usize = 2 << 10;
/// The most bytes of a question, an answer, a guess or a failure's reason: as much as a client may ask.
const WORDS_BYTES_MAX: usize = 4 << 10;

/// An answer of less is withheld.
#[derive(Clone, Copy)]
pub(crate) struct Least {
    pub(crate) chance: Chance,
    pub(crate) of_form: Chance,
}

impl Least {
    /// Whether the question is hardly of a form that the planner was trained on.
    pub(crate) fn is_off_form(self, confidence: Confidence) -> bool {
        below(confidence.of_form, self.of_form)
    }
}

fn below(chance: Option<Chance>, least: Chance) -> bool {
    chance.is_some_and(|chance| chance < least)
}

/// What is said in place of an answer that is too unlikely.
const NOT_IN_THE_SOURCES: &str = "not found in the sources";

/// The answer of a question that was asked with `settings`. It is withheld if it is worth too little.
pub(crate) fn answer(
    report: &Report,
    confidence: Confidence,
    least: Least,
    settings: &Settings,
    speculator: SpeculatorKind,
    injected: Option<InjectedLatency>,
    tuned: Option<wire::Tuned>,
) -> wire::AskResponse {
    // Who was asked because of the form is not disbelieved because of the form, and may say so in its own words.
    let is_own = report.handed_over.is_none();
    // That it does not know is no answer, unless it is found so, or offered: a film is called *Unknown*.
    let withholds = least.chance > Chance::NONE;
    let knows_nothing = withholds && !confidence.supported && is_refusal(&report.answer);
    let withheld = below(confidence.chance, least.chance)
        || (is_own && (least.is_off_form(confidence) || knows_nothing));
    let of_form = report.handed_over.or(confidence.of_form);
    wire::AskResponse {
        answer: match withheld {
            true => NOT_IN_THE_SOURCES.to_owned(),
            false => words(&report.answer),
        },
        confidence: Some(wire::Confidence {
            chance: confidence.chance.map(Chance::share),
            of_form: of_form.map(Chance::share),
            supported: confidence.supported,
            withheld: withheld.then(|| words(&report.answer)),
        }),
        hops: report.hops.iter().map(hop_report).collect(),
        stop_reason: stop_reason(report.stopped).into(),
        elapsed_ms: ms(report.elapsed),
        final_segment_ms: ms(report.final_segment),
        usage: Some(usage(&report.usage)),
        activities: activities(&report.usage),
        applied: Some(wire::Applied {
            options: Some(options(settings, speculator)),
            tuned,
        }),
        injected_latency: injected.map(|latency| wire::InjectedLatency {
            mean_ms: latency.mean_ms,
            sigma_ms: latency.sigma_ms,
            seed: latency.seed,
        }),
        refused: refused(&report.usage),
        first_answer: Some(wire::FirstAnswer {
            at_ms: ms(report.first_answer.at),
            chance: report.first_answer.chance.share(),
            confirmed_ms: ms(report.elapsed),
        }),
        provider_changes: report
            .provider_changes
            .iter()
            .map(|(change, times)| provider_change(change, *times))
            .collect(),
        plans: match report.plans {
            1 => 0,
            plans => plans,
        },
        handed_over: report.handed_over.map(handed_over),
    }
}

/// How a question was answered.
fn options(settings: &Settings, speculator: SpeculatorKind) -> wire::Options {
    let options = AnswerOptions {
        speculator: Some(speculator.as_str().to_owned()),
        ..settings.options()
    };
    options.into()
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

/// The k that was chosen, why, and what was known of the speculator by then.
pub(crate) fn tuned(choice: &Choice) -> wire::Tuned {
    let value = |of: Option<Interval>| of.map(|estimate| estimate.value);
    wire::Tuned {
        k: u32::try_from(choice.k.get()).unwrap_or(u32::MAX),
        reason: choice.reason.to_string(),
        p: value(choice.p),
        alpha: value(choice.alpha),
        beta: value(choice.beta),
    }
}

/// The first event of a question whose k was chosen.
pub(crate) fn tuned_event(sequence: u64, tuned: wire::Tuned) -> wire::AskEvent {
    wire::AskEvent {
        sequence,
        event: Some(Event::Tuned(tuned)),
        ..wire::AskEvent::default()
    }
}

/// The last event.
pub(crate) fn answer_event(sequence: u64, answer: wire::AskResponse) -> wire::AskEvent {
    wire::AskEvent {
        sequence,
        at_ms: answer.elapsed_ms,
        event: Some(Event::Answer(answer)),
        ..wire::AskEvent::default()
    }
}

fn kind(kind: &TraceKind) -> Event {
    match kind {
        TraceKind::Launched { stage: at } => Event::Launched(wire::Launched {
            stage: stage(*at).into(),
        }),
        TraceKind::Planned { sub_question, took } => Event::Planned(wire::Planned {
            sub_question: words(sub_question.as_str()),
            took_ms: ms(*took),
        }),
        TraceKind::Drafted {
            answer,
            chance,
            took,
        } => Event::Drafted(wire::Drafted {
            answer: words(answer),
            chance: chance.share(),
            took_ms: ms(*took),
        }),
        TraceKind::Guessed { guesses, took } => Event::Guessed(wire::Guessed {
            guess: guesses.first().map(|guess| words(&guess.text)),
            took_ms: ms(*took),
            others: guesses
                .iter()
                .skip(1)
                .map(|guess| words(&guess.text))
                .collect(),
            confidence: guesses
                .first()
                .and_then(|guess| guess.confidence.map(Chance::share_f32)),
            by: guesses
                .first()
                .and_then(|guess| guess.by.map(str::to_owned)),
        }),
        TraceKind::AskedAhead {
            sub_question,
            chance,
        } => Event::AskedAhead(wire::AskedAhead {
            sub_question: words(sub_question.as_str()),
            chance: chance.share(),
        }),
        TraceKind::Foreseen { saved } => Event::Foreseen(wire::Foreseen {
            saved_ms: ms(*saved),
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
        TraceKind::ProviderChanged { change } => Event::ProviderChanged(provider_change(change, 0)),
        TraceKind::HandedOver { of_form } => Event::HandedOver(handed_over(*of_form)),
        TraceKind::Promoted => Event::Promoted(wire::Promoted {}),
        TraceKind::RolledBack => Event::RolledBack(wire::RolledBack {}),
        TraceKind::NotSpeculated { stage: at, why } => Event::NotSpeculated(wire::NotSpeculated {
            stage: stage(*at).into(),
            reason: refusal(*why).into(),
        }),
        TraceKind::Failed { stage: at, reason } => Event::Failed(wire::Failed {
            stage: stage(*at).into(),
            reason: words(reason),
        }),
    }
}

fn handed_over(of_form: Chance) -> wire::HandedOver {
    wire::HandedOver {
        of_form: of_form.share(),
    }
}

fn provider_change(change: &ProviderChange, times: u32) -> wire::ProviderChange {
    wire::ProviderChange {
        from: cut(&change.from, NAME_BYTES_MAX),
        to: cut(&change.to, NAME_BYTES_MAX),
        why: cut(&change.why, NAME_BYTES_MAX),
        times,
    }
}

fn hop_report(report: &HopReport) -> wire::Hop {
    wire::Hop {
        verdict: report.verdict.as_ref().map(verdict),
        times: Some(times(&report.times)),
        salvaged: report.salvaged,
        foreseen_ms: (report.draft_held == Some(true)).then(|| ms(report.foreseen)),
        guess_by: report.guess_by.map(str::to_owned),
        stall_ms: Some(ms(report.stall)),
        right_guess: report.right_guess,
        ..hop(&report.hop)
    }
}

fn hop(hop: &Hop) -> wire::Hop {
    wire::Hop {
        sub_question: words(hop.sub_question.as_str()),
        sub_answer: words(&hop.answer),
        kind: commit_kind(hop.kind).into(),
        guess: hop.guess.as_ref().map(|guess| words(guess)),
        verdict: None,
        observation: Some(observation(&hop.observation)),
        times: None,
        salvaged: false,
        foreseen_ms: None,
        guess_by: None,
        stall_ms: None,
        right_guess: None,
    }
}

fn observation(observation: &Observation) -> wire::Observation {
    wire::Observation {
        answer: words(&observation.answer),
        found: observation.found,
        evidence: observation.evidence.iter().map(passage).collect(),
    }
}

/// A passage, cut to a length.
pub(crate) fn passage(passage: &Passage) -> wire::Passage {
    wire::Passage {
        passage_id: cut(&passage.id, NAME_BYTES_MAX),
        title: cut(&passage.title, NAME_BYTES_MAX),
        text: cut(&passage.text, TEXT_BYTES_MAX),
        score: passage.score,
        cut: passage.text.len() > TEXT_BYTES_MAX,
        // A part of an address is none.
        url: passage
            .url
            .as_deref()
            .filter(|url| url.len() <= URL_BYTES_MAX)
            .map(str::to_owned),
    }
}

fn verdict(verdict: &Verdict) -> wire::Verdict {
    wire::Verdict {
        accepted: verdict.accepted,
        rule: verdict.rule.as_str().to_owned(),
        coverage: verdict.coverage,
        jaccard: verdict.jaccard,
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

fn stop_reason(stopped: Stopped) -> wire::StopReason {
    match stopped {
        Stopped::Answered => wire::StopReason::Answered,
        Stopped::HopBudget => wire::StopReason::HopBudget,
        Stopped::Repeated => wire::StopReason::Repeated,
        Stopped::NotFound => wire::StopReason::NotFound,
        Stopped::Budget => wire::StopReason::Budget,
    }
}

/// Where a sub-answer comes from.
pub(crate) fn commit_kind(kind: CommitKind) -> wire::CommitKind {
    match kind {
        CommitKind::Observed => wire::CommitKind::Observed,
        CommitKind::Accepted => wire::CommitKind::Accepted,
        CommitKind::Rejected => wire::CommitKind::Rejected,
    }
}

/// A kind of work.
pub(crate) fn stage(stage: Stage) -> wire::Stage {
    match stage {
        Stage::Segment => wire::Stage::Segment,
        Stage::Target => wire::Stage::Target,
        Stage::Speculation => wire::Stage::Speculation,
        Stage::Draft => wire::Stage::Draft,
    }
}

/// A question, an answer, a guess, or why something failed.
pub(crate) fn words(text: &str) -> String {
    cut(text, WORDS_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use prost::Message;
    use spechop_config::EVIDENCE_MAX;
    use spechop_types::SubQuestion;

    use super::*;

    /// A hop whose texts are all longer than anything a reply may hold.
    fn endless(passages: usize) -> wire::Hop {
        let text: Arc<str> = "é".repeat(1 << 20).into();
        let passage = Passage {
            id: Arc::clone(&text),
            title: Arc::clone(&text),
            text: Arc::clone(&text),
            url: Some(text[..URL_BYTES_MAX].into()),
            score: 0.1,
        };
        let observation = Observation {
            answer: Arc::clone(&text),
            found: true,
            confidence: None,
            evidence: vec![passage; passages].into(),
        };
        let took = Duration::from_secs_f64(0.1);
        let times = StageTimes {
            segment: took,
            target: took,
            read: took,
            speculation: Some(took),
        };
        let hop = hop(&Hop {
            sub_question: SubQuestion::new(&text),
            answer: Arc::clone(&text),
            kind: CommitKind::Rejected,
            guess: Some(Arc::clone(&text)),
            observation: Arc::new(observation),
        });
        wire::Hop {
            times: Some(self::times(&times)),
            verdict: Some(wire::Verdict {
                accepted: true,
                rule: "r".repeat(64),
                coverage: 0.1,
                jaccard: 0.1,
            }),
            salvaged: true,
            foreseen_ms: Some(0.1),
            stall_ms: Some(0.1),
            right_guess: Some(u32::MAX),
            ..hop
        }
    }

    #[test]
    fn the_reason_of_a_failure_is_cut() {
        let failed = kind(&TraceKind::Failed {
            stage: Stage::Target,
            reason: "é".repeat(1 << 20),
        });
        let Event::Failed(failed) = failed else {
            panic!("{failed:?}");
        };
        assert!(failed.reason.len() <= WORDS_BYTES_MAX);
        assert!(failed.reason.ends_with(cut::MARK));
    }

    #[test]
    fn the_largest_answer_is_no_longer_than_clients_take() {
        // What a message takes inside another one, beside its own length.
        const FRAME: usize = 8;
        const HOPS_MAX: usize = 1024;
        const REST: usize = 64 << 10;
        let bare = endless(0).encoded_len();
        let passage = endless(1).encoded_len() - bare;
        let all = EVIDENCE_MAX * (passage + FRAME) + HOPS_MAX * (bare + FRAME) + REST;
        assert!(all <= wire::ANSWER_BYTES_MAX, "{all}");
        // It is not far from it, either: the sum is not of empty texts.
        assert!(passage > TEXT_BYTES_MAX + 2 * NAME_BYTES_MAX);
        assert!(bare > 4 * (WORDS_BYTES_MAX - cut::MARK.len()));
    }
}
