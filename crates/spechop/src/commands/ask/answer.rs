//! An answer for people: what was found, on which passages it rests, and what it took.

use std::fmt::{self, Write};

use spechop_proto::{
    AskResponse, Calls, CommitKind, Confidence, Hop, Passage, ProviderChange, StageTimes,
    StopReason,
};
use spechop_types::VerifierMode;

use super::line::HARDLY;
use super::profile;
use crate::commands::clean::clean;

/// What is shown besides the answer, its hops, its citations and its cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// The text of each passage cited.
    pub(super) evidence: bool,
    /// How long each stage of each hop took.
    pub(super) times: bool,
    /// Where the time of the question went.
    pub(super) profile: bool,
}

/// The answer, a line for each hop, a line for each passage cited, and the cost.
pub(super) fn text(answer: &AskResponse, shown: Shown) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, answer, shown);
    out.truncate(out.trim_end().len());
    out
}

fn write(out: &mut String, answer: &AskResponse, shown: Shown) -> fmt::Result {
    writeln!(out, "{}", clean(&answer.answer))?;
    for (number, hop) in (1..).zip(&answer.hops) {
        let (question, answer) = (clean(&hop.sub_question), clean(&hop.sub_answer));
        writeln!(out, "{number}. {question} → {answer}  ({})", how(hop))?;
        if shown.times
            && let Some(times) = &hop.times
        {
            writeln!(out, "   {}", stages(times))?;
        }
    }
    if shown.times {
        writeln!(out, "   answer {}", seconds(answer.final_segment_ms))?;
    }
    for citation in citations(&answer.hops) {
        writeln!(out, "   {citation}")?;
        if shown.evidence {
            writeln!(out, "      {}", clean(&citation.passage.text))?;
        }
    }
    if answer.handed_over.is_some() {
        writeln!(out, "   by the fallback: {HARDLY}")?;
    }
    if answer.plans > 1 {
        writeln!(out, "   the surest of {} plans", answer.plans)?;
    }
    write_cost(out, answer)?;
    if shown.profile {
        profile::write(out, answer)?;
    }
    Ok(())
}

fn stages(times: &StageTimes) -> String {
    let mut stages = format!(
        "sub-question {}, look-up {} (reading {})",
        seconds(times.segment_ms),
        seconds(times.target_ms),
        seconds(times.read_ms)
    );
    if let Some(guess_ms) = times.speculation_ms {
        stages += ", guess ";
        stages += &seconds(guess_ms);
    }
    stages
}

/// How a hop came by its answer.
fn how(hop: &Hop) -> String {
    let rule = hop
        .verdict
        .as_ref()
        .map(|verdict| clean(&verdict.rule))
        .unwrap_or_default();
    let by = hop
        .guess_by
        .as_deref()
        .map(|by| format!(" of {}", clean(by)));
    let by = by.unwrap_or_default();
    let mut how = match hop.kind() {
        CommitKind::Accepted => format!("guess{by} accepted: {rule}"),
        CommitKind::Rejected => {
            let guess = clean(hop.guess.as_deref().unwrap_or_default());
            format!("guess \"{guess}\"{by} rejected: {rule}")
        }
        CommitKind::Observed | CommitKind::Unspecified => "looked up".to_owned(),
    };
    if let Some(observation) = &hop.observation
        && hop.kind() == CommitKind::Accepted
        && observation.answer != hop.sub_answer
    {
        how += "; observed: ";
        how += &clean(&observation.answer);
    }
    if let Some(foreseen) = hop.foreseen_ms {
        how += "; drafted, begun ";
        how += &seconds(foreseen);
        how += " early";
    }
    if hop.salvaged {
        how += "; begun for a branch that was rolled back";
    }
    how
}

/// A passage, and the numbers of the hops that rest on it.
struct Citation<'a> {
    passage: &'a Passage,
    hops: Vec<usize>,
}

/// Each passage that hops rest on once, in the order in which they first name it. Two texts are two
/// passages, even if they have one name: a client may have left them.
fn citations(hops: &[Hop]) -> Vec<Citation<'_>> {
    let mut citations: Vec<Citation<'_>> = Vec::new();
    for (number, hop) in (1..).zip(hops) {
        for passage in hop.cited() {
            let is_same = |known: &Passage| {
                known.passage_id == passage.passage_id && known.text == passage.text
            };
            match citations.iter_mut().find(|c| is_same(c.passage)) {
                Some(citation) if citation.hops.contains(&number) => {}
                Some(citation) => citation.hops.push(number),
                None => citations.push(Citation {
                    passage,
                    hops: vec![number],
                }),
            }
        }
    }
    citations
}

impl fmt::Display for Citation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, title) = (clean(&self.passage.passage_id), clean(&self.passage.title));
        let hops: Vec<_> = self.hops.iter().map(usize::to_string).collect();
        let noun = if hops.len() == 1 { "hop" } else { "hops" };
        write!(f, "[{id}] {title} ({noun} {})", hops.join(", "))?;
        match &self.passage.url {
            Some(url) => write!(f, " {}", clean(url)),
            None => Ok(()),
        }
    }
}

/// How far to trust the answer, as far as anybody can tell.
fn worth(confidence: &Confidence) -> String {
    let mut worth = match confidence.chance {
        Some(chance) if chance < 0.005 => "right with chance below 0.01".to_owned(),
        Some(chance) => format!("right with chance {chance:.2}"),
        None => String::new(),
    };
    if !confidence.supported {
        let separator = if worth.is_empty() { "" } else { "; " };
        worth += separator;
        worth += "no evidence holds this answer";
    }
    if let Some(withheld) = &confidence.withheld {
        worth += &format!("; withheld: {}", clean(withheld));
        if confidence.of_form.is_some_and(|sure| sure < 0.5) {
            worth += "; ";
            worth += HARDLY;
        }
    }
    worth
}

fn write_cost(out: &mut String, answer: &AskResponse) -> fmt::Result {
    writeln!(out, "{}", summary(answer))?;
    if let Some(worth) = answer
        .confidence
        .as_ref()
        .map(worth)
        .filter(|worth| !worth.is_empty())
    {
        writeln!(out, "{worth}")?;
    }
    if let Some(first) = answer.first_answer.filter(|first| first.chance < 1.0) {
        writeln!(
            out,
            "first seen after {} with chance {:.2}, confirmed after {}",
            seconds(first.at_ms),
            first.chance,
            seconds(first.confirmed_ms)
        )?;
    }
    if let Some(usage) = &answer.usage {
        let calls = |calls: Option<Calls>, one: &str, many: &str| {
            let calls = calls.unwrap_or_default();
            let noun = if calls.started == 1 { one } else { many };
            format!("{} {noun} ({} wasted)", calls.started, calls.wasted)
        };
        let stages = [
            usage.segments,
            usage.targets,
            usage.speculations,
            usage.drafts,
        ];
        let tokens: u64 = stages
            .into_iter()
            .flatten()
            .map(|calls| calls.prompt_tokens.saturating_add(calls.completion_tokens))
            .sum();
        let drafts = match usage.drafts {
            Some(drafts) if drafts.started > 0 => {
                format!(", {}", calls(Some(drafts), "draft", "drafts"))
            }
            _ => String::new(),
        };
        writeln!(
            out,
            "calls: {}, {}, {}{drafts}; {tokens} tokens",
            calls(usage.segments, "segment", "segments"),
            calls(usage.targets, "look-up", "look-ups"),
            calls(usage.speculations, "guess", "guesses")
        )?;
    }
    for change in &answer.provider_changes {
        writeln!(out, "provider: {}", changed(change))?;
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
    Ok(())
}

/// A change of provider, and how many calls made it.
pub(super) fn changed(change: &ProviderChange) -> String {
    let (from, to, why) = (clean(&change.from), clean(&change.to), clean(&change.why));
    match change.times {
        0 | 1 => format!("{from} → {to}: {why}"),
        times => format!("{from} → {to}: {why} ({times} times)"),
    }
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
        StopReason::Budget => "the budget was used up, or the answer was wanted at once",
        StopReason::Unspecified => "no reason given",
    };
    let mut line = format!("{hops} in {}; {why}", seconds(answer.elapsed_ms));
    let applied = answer.applied.as_ref();
    if let Some(options) = applied.and_then(|applied| applied.options.as_ref()) {
        let (options, _) = options.read();
        let k = options.k.map_or("?".to_owned(), |k| k.to_string());
        let verifier = options.verifier.map_or("?", VerifierMode::as_str);
        let speculator = clean(options.speculator.as_deref().unwrap_or("?"));
        let _ = write!(
            line,
            "; k = {k}, speculator {speculator}, verifier {verifier}"
        );
    }
    line
}

fn seconds(ms: f64) -> String {
    format!("{:.2} s", ms / 1000.0)
}

#[cfg(test)]
mod tests {
    use spechop_proto::{Applied, FirstAnswer, InjectedLatency, Observation, Usage, Verdict};
    use spechop_types::{AnswerOptions, K};

    use super::*;

    /// Three hops, one of each kind, that share two passages.
    fn answer() -> AskResponse {
        let passage = |id: &str, title: &str, text: &str| Passage {
            passage_id: id.into(),
            title: title.into(),
            text: text.into(),
            score: 0.8,
            cut: false,
            url: (id == "2w-00018").then(|| "https://pl.example/Żuławski\u{7}".into()),
        };
        let hop =
            |sub_question: &str, sub_answer: &str, kind: CommitKind, guess: Option<&str>| Hop {
                sub_question: sub_question.into(),
                sub_answer: sub_answer.into(),
                kind: kind.into(),
                guess: guess.map(Into::into),
                salvaged: false,
                foreseen_ms: None,
                stall_ms: None,
                right_guess: None,
                guess_by: guess
                    .filter(|_| kind == CommitKind::Rejected)
                    .map(|_| "llm".into()),
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
                            &("It is a film. ".repeat(20) + "Director Xawery Żuławski made it."),
                        ),
                        passage("2w-00019", "Another Film", "He did not direct it."),
                        passage(
                            "2w-00018",
                            "Xawery\u{7} Żuławski",
                            "Director Xawery Żuławski.",
                        ),
                    ],
                }),
                times: Some(StageTimes {
                    segment_ms: 330.0,
                    target_ms: 4150.0,
                    read_ms: 420.0,
                    speculation_ms: guess.map(|_| 180.0),
                }),
            };
        let applied = AnswerOptions {
            k: K::of(3),
            verifier: Some(VerifierMode::Rule),
            speculator: Some("hot".into()),
            ..AnswerOptions::default()
        };
        AskResponse {
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
            plans: 5,
            handed_over: None,
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
                ..Usage::default()
            }),
            applied: Some(Applied {
                options: Some(applied.into()),
                tuned: None,
            }),
            refused: Vec::new(),
            first_answer: Some(FirstAnswer {
                at_ms: 3_100.0,
                chance: 0.62,
                confirmed_ms: 5_021.0,
            }),
            confidence: Some(Confidence {
                chance: Some(0.715),
                supported: true,
                withheld: None,
                of_form: None,
            }),
            activities: Vec::new(),
            provider_changes: vec![ProviderChange {
                from: "duckduckgo".into(),
                to: "brave".into(),
                why: "a challenge\npage".into(),
                times: 2,
            }],
            injected_latency: Some(InjectedLatency {
                mean_ms: 4150.0,
                sigma_ms: 1680.0,
                seed: 7,
            }),
        }
    }

    #[test]
    fn shows_hops_citations_and_cost() {
        insta::assert_snapshot!(text(&answer(), Shown::default()));
    }

    #[test]
    fn shows_texts_and_times_where_they_are_asked_for() {
        let shown = Shown {
            evidence: true,
            times: true,
            ..Shown::default()
        };
        insta::assert_snapshot!(text(&answer(), shown));
    }

    #[test]
    fn two_texts_of_one_name_are_two_citations() {
        let mut answer = answer();
        for (at, hop) in answer.hops.iter_mut().take(2).enumerate() {
            let seen = hop.observation.as_mut().unwrap();
            seen.evidence.truncate(1);
            seen.evidence[0].passage_id = "1".into();
            seen.evidence[0].text = format!("Text {at}.");
        }
        answer.hops.truncate(2);
        let shown = Shown {
            evidence: true,
            ..Shown::default()
        };
        let text = text(&answer, shown);
        for (at, hop) in [(0, 1), (1, 2)] {
            let cited = format!("[1] Polish-Russian War (hop {hop})\n      Text {at}.\n");
            assert!(text.contains(&cited), "{text}");
        }
    }

    #[test]
    fn adds_a_line_for_each_thing_asked_for() {
        // The answer, three hops, two citations, the number of plans, the summary, what it is worth, when it was
        // first seen, the calls, the provider, the injected latency.
        let plain = 1 + 3 + 2 + 1 + 1 + 1 + 1 + 1 + 1 + 1;
        for (evidence, times, lines) in [
            (false, false, plain),
            (true, false, plain + 2),
            (false, true, plain + 3 + 1),
            (true, true, plain + 2 + 3 + 1),
        ] {
            let shown = Shown {
                evidence,
                times,
                profile: false,
            };
            let text = text(&answer(), shown);
            assert_eq!(text.lines().count(), lines, "{shown:?}\n{text}");
            let passage = "It is a film. ".repeat(20);
            assert_eq!(text.contains(passage.trim_end()), evidence, "{shown:?}");
            assert_eq!(text.matches("[2w-00017]").count(), 1, "each passage once");
        }
    }
}
