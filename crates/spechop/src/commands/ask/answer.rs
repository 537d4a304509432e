//! An answer for people: what was found, on which passages it rests, and what it took.

use std::fmt::{self, Write};

use spechop_proto::{AskResponse, Calls, CommitKind, Hop, Passage, StopReason, VerifierMode};

use super::board::clean;

/// Most characters shown of a passage.
const EXCERPT_CHARS_MAX: usize = 160;

/// The answer, its hops with citations, and its cost.
pub(super) fn text(answer: &AskResponse) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, answer);
    out
}

fn write(out: &mut String, answer: &AskResponse) -> fmt::Result {
    writeln!(out, "{}", clean(&answer.answer))?;
    for (number, hop) in (1..).zip(&answer.hops) {
        writeln!(out)?;
        write_hop(out, number, hop)?;
    }
    writeln!(out, "\n{}", summary(answer))?;
    for (number, hop) in (1..).zip(&answer.hops) {
        if let Some(times) = &hop.times {
            write!(
                out,
                "hop {number}: sub-question {}, look-up {} (reading {})",
                seconds(times.segment_ms),
                seconds(times.target_ms),
                seconds(times.read_ms)
            )?;
            match times.speculation_ms {
                Some(guess_ms) => writeln!(out, ", guess {}", seconds(guess_ms))?,
                None => writeln!(out)?,
            }
        }
    }
    writeln!(out, "answer: {}", seconds(answer.final_segment_ms))?;
    if let Some(usage) = &answer.usage {
        let calls = |calls: Option<Calls>, one: &str, many: &str| {
            let calls = calls.unwrap_or_default();
            let noun = if calls.started == 1 { one } else { many };
            format!("{} {noun} ({} wasted)", calls.started, calls.wasted)
        };
        let tokens: u64 = [usage.segments, usage.targets, usage.speculations]
            .into_iter()
            .flatten()
            .map(|calls| calls.prompt_tokens + calls.completion_tokens)
            .sum();
        writeln!(
            out,
            "calls: {}, {}, {}; {tokens} tokens",
            calls(usage.segments, "segment", "segments"),
            calls(usage.targets, "look-up", "look-ups"),
            calls(usage.speculations, "guess", "guesses")
        )?;
    }
    if let Some(tuned) = answer.applied.as_ref().and_then(|a| a.tuned.as_ref()) {
        writeln!(out, "k = {}: {}", tuned.k, clean(&tuned.reason))?;
    }
    if let Some(injected) = &answer.injected_latency {
        writeln!(
            out,
            "INJECTED LATENCY: every look-up waited on purpose, mean {}, sigma {}, seed {}",
            seconds(injected.mean_ms),
            seconds(injected.sigma_ms),
            injected.seed
        )?;
    }
    out.truncate(out.trim_end().len());
    Ok(())
}

fn write_hop(out: &mut String, number: u32, hop: &Hop) -> fmt::Result {
    writeln!(out, "{number}. {}", clean(&hop.sub_question))?;
    let rule = hop
        .verdict
        .as_ref()
        .map(|verdict| clean(&verdict.rule))
        .unwrap_or_default();
    let guess = clean(hop.guess.as_deref().unwrap_or_default());
    let how = match hop.kind() {
        CommitKind::Accepted => format!("guess accepted: {rule}"),
        CommitKind::Rejected => format!("guess \"{guess}\" rejected: {rule}"),
        CommitKind::Observed | CommitKind::Unspecified => "waited for".to_owned(),
    };
    let how = if hop.salvaged {
        how + "; looked up before"
    } else {
        how
    };
    writeln!(out, "   {}  ({how})", clean(&hop.sub_answer))?;
    let Some(observation) = &hop.observation else {
        return Ok(());
    };
    if hop.kind() == CommitKind::Accepted && observation.answer != hop.sub_answer {
        writeln!(out, "   observed: {}", clean(&observation.answer))?;
    }
    observation
        .evidence
        .iter()
        .try_for_each(|passage| writeln!(out, "   {}", citation(passage)))
}

fn citation(passage: &Passage) -> String {
    let text = clean(&passage.text);
    let excerpt: String = text.chars().take(EXCERPT_CHARS_MAX).collect();
    let cut = if excerpt.len() < text.len() {
        "…"
    } else {
        ""
    };
    format!(
        "[{}] {}: {excerpt}{cut}",
        clean(&passage.passage_id),
        clean(&passage.title)
    )
}

fn summary(answer: &AskResponse) -> String {
    let hops = match answer.hops.len() {
        1 => "1 hop".to_owned(),
        count => format!("{count} hops"),
    };
    let why = match answer.stop_reason() {
        StopReason::Answered => "the planner knew enough",
        StopReason::HopBudget => "the hop budget was used up",
        StopReason::Repeated => "the same sub-question came twice",
        StopReason::NotFound => "too many look-ups found nothing",
        StopReason::Budget => "the budget was used up",
        StopReason::Unspecified => "no reason given",
    };
    let mut line = format!("{hops} in {}; {why}", seconds(answer.elapsed_ms));
    if let Some(applied) = &answer.applied {
        let k = applied.k.map_or("inf".to_owned(), |k| k.to_string());
        let verifier = match applied.verifier() {
            VerifierMode::Exact => "exact",
            VerifierMode::Rule => "rule",
            VerifierMode::Unspecified => "?",
        };
        let _ = write!(
            line,
            "; k = {k}, speculator {}, verifier {verifier}",
            clean(&applied.speculator)
        );
    }
    line
}

fn seconds(ms: f64) -> String {
    format!("{:.2} s", ms / 1000.0)
}

#[cfg(test)]
mod tests {
    use spechop_proto::{Applied, InjectedLatency, Observation, StageTimes, Usage, Verdict};

    use super::*;

    #[test]
    fn shows_hops_citations_and_cost() {
        let passage = |id: &str, title: &str, text: &str| Passage {
            passage_id: id.into(),
            title: title.into(),
            text: text.into(),
            score: 0.8,
        };
        let hop =
            |sub_question: &str, sub_answer: &str, kind: CommitKind, guess: Option<&str>| Hop {
                sub_question: sub_question.into(),
                sub_answer: sub_answer.into(),
                kind: kind.into(),
                guess: guess.map(Into::into),
                salvaged: false,
                verdict: guess.map(|_| Verdict {
                    accepted: kind == CommitKind::Accepted,
                    rule: if kind == CommitKind::Accepted {
                        "containment"
                    } else {
                        "different"
                    }
                    .into(),
                    coverage: 1.0,
                    jaccard: 0.5,
                }),
                observation: Some(Observation {
                    answer: "Director Xawery Żuławski".into(),
                    found: true,
                    evidence: vec![
                        passage(
                            "2w-00017",
                            "Polish-Russian War",
                            &"It is a film. ".repeat(20),
                        ),
                        passage("2w-00018", "Xawery\u{7} Żuławski", "A director."),
                    ],
                }),
                times: Some(StageTimes {
                    segment_ms: 330.0,
                    target_ms: 4150.0,
                    read_ms: 420.0,
                    speculation_ms: guess.map(|_| 180.0),
                }),
            };
        let answer = AskResponse {
            answer: "Małgorzata\nBraunek".into(),
            hops: vec![
                hop(
                    "Who directed it?",
                    "Xawery Żuławski",
                    CommitKind::Accepted,
                    Some("Xawery Żuławski"),
                ),
                hop(
                    "Who is his mother?",
                    "Małgorzata Braunek",
                    CommitKind::Rejected,
                    Some("unknown actress"),
                ),
                hop("When was she born?", "1947", CommitKind::Observed, None),
            ],
            stop_reason: StopReason::Answered.into(),
            elapsed_ms: 5_021.0,
            final_segment_ms: 300.0,
            usage: Some(Usage {
                segments: Some(Calls {
                    started: 4,
                    wasted: 1,
                    prompt_tokens: 900,
                    completion_tokens: 80,
                    ..Calls::default()
                }),
                targets: Some(Calls {
                    started: 3,
                    wasted: 1,
                    ..Calls::default()
                }),
                speculations: Some(Calls {
                    started: 1,
                    wasted: 0,
                    ..Calls::default()
                }),
                salvaged: 0,
            }),
            applied: Some(Applied {
                k: Some(3),
                hop_budget: 6,
                not_found_max: 1,
                top_passages: 5,
                verifier: VerifierMode::Rule.into(),
                speculator: "hot".into(),
                ..Applied::default()
            }),
            refused: Vec::new(),
            injected_latency: Some(InjectedLatency {
                mean_ms: 4150.0,
                sigma_ms: 1680.0,
                seed: 7,
            }),
        };
        insta::assert_snapshot!(text(&answer));
    }
}
